"""Registers and interrupt of a Linux UIO device; no kernel module of its own.

    descriptor = os.open("/dev/uio0", os.O_RDWR | os.O_SYNC)
    device = DmaAccelerator(Registers(descriptor))
    device.infer(ids, interrupt=Interrupts(descriptor).wait)

The device tree names the registers and the interrupt, with `compatible = "generic-uio"`, and the
kernel's command line has `uio_pdrv_genirq.of_id=generic-uio`.
"""

from __future__ import annotations

import mmap
import os
import select
import sys


class Registers:
    """The first mapping of a UIO device; 32-bit accesses.

    Raises
    ------
    OSError, ValueError
        It cannot be mapped.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, mmap.PAGESIZE)
        self._words = memoryview(self._map).cast("I")

    def read(self, offset: int) -> int:
        return self._words[offset // 4]

    def write(self, offset: int, value: int) -> None:
        self._words[offset // 4] = value

    def close(self) -> None:
        self._words.release()
        self._map.close()


class Interrupts:
    """The interrupt of a UIO device: the kernel masks it when it comes, and counts it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Unmask it, then wait for it, `seconds` at most; return whether it came."""
        os.write(self._descriptor, (1).to_bytes(4, sys.byteorder))
        ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0))
        if ready:
            os.read(self._descriptor, 4)
        return bool(ready)
