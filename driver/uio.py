"""The accelerator under Linux by UIO, without a kernel module of its own.

    python3 -m driver.uio                                   what /dev/uio0 is
    python3 -m driver.uio --device /dev/uio1 --model model.bin
    python3 -m driver.uio --start --seconds 2               start, wait for the interrupt

The device tree names the registers and the interrupt, with `compatible = "generic-uio"`, and the
kernel's command line has `uio_pdrv_genirq.of_id=generic-uio`. Whoever moves the streams (a DMA, a
FIFO) has them ready.
"""

from __future__ import annotations

import argparse
import mmap
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from driver import streams
from driver.accelerator import SPAN, Accelerator, DeviceError, InferenceError


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
        """Unmask it, then wait for it, `seconds` at most; whether it came."""
        os.write(self._descriptor, (1).to_bytes(4, sys.byteorder))
        ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0))
        if ready:
            os.read(self._descriptor, 4)
        return bool(ready)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; --help shows what is allowed\n")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give seconds above 0, up to 86400")
    return value


def run(device: Accelerator, options: argparse.Namespace, interrupts: Interrupts) -> None:
    """What the command does with an open device."""
    print(", ".join(f"{name} {value}" for name, value in device.limits.items()))
    if options.model is not None:
        stream = options.model.read_bytes()
        longest = device.check(stream)
        print(f"{options.model}: model {streams.model(stream)}, takes up to {longest} tokens")
    if options.start:
        device.enable_interrupt(True)
        device.start()
        device.wait(options.seconds, interrupts.wait)
        for name, value in device.counters().items():
            print(f"{name:14} {value:>12,}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _Parser(
        prog="python3 -m driver.uio",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", type=Path, default=Path("/dev/uio0"), metavar="FILE")
    parser.add_argument("--model", type=Path, metavar="FILE", help="can it run this model.bin")
    parser.add_argument("--start", action="store_true", help="run an inference")
    parser.add_argument("--seconds", type=_seconds, default=1.0, metavar="S", help="its bound, 1")
    options = parser.parse_args(arguments)
    try:
        descriptor = os.open(options.device, os.O_RDWR | os.O_SYNC)
        try:
            registers = Registers(descriptor)
            try:
                run(Accelerator(registers), options, Interrupts(descriptor))
            finally:
                registers.close()
        finally:
            os.close(descriptor)
    except InferenceError as error:
        print(f"error: the inference has failed: {error}", file=sys.stderr)
        return 1
    except DeviceError as error:
        print(f"error: {options.device}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        name = error.filename or options.device
        print(f"error: {name}: {error.strerror or error}", file=sys.stderr)
        return 2
    except ValueError as error:  # of mmap
        print(f"error: {options.device} is no UIO device: {error}", file=sys.stderr)
        return 2
    return 0


assert mmap.PAGESIZE >= SPAN

if __name__ == "__main__":
    sys.exit(main())
