"""Throughput of an accelerator at the clock that it was routed for."""

from __future__ import annotations

from dataclasses import dataclass

from rtl.interface.config import Config
from sim.estimate.performance import example, performance

LAYERS = 2


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """One inference after the other of an encoder as large as the limits, with `LAYERS` layers.

    ``clock_mhz`` is the median of the placements. An operation is half a MAC, without padding.
    """

    clock_mhz: float
    tokens: int
    cycles: int
    milliseconds: float
    a_second: float
    gops: float
    gops_a_dsp: float


def throughput(config: Config, clock_mhz: float, dsps: int) -> Throughput:
    """Of an accelerator of `config` that takes `dsps` DSPs."""
    told = performance(config, example(config, LAYERS), clock_mhz)
    gops = 2 * told.utilisation * config.macs * clock_mhz / 1e3
    kept = ("tokens", "cycles", "milliseconds", "a_second")
    same = {name: getattr(told, name) for name in kept}
    return Throughput(clock_mhz=clock_mhz, gops=gops, gops_a_dsp=gops / dsps, **same)
