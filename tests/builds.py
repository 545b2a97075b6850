"""`python -m tests.builds`: what quick tests simulate together, built before the first of them."""

from __future__ import annotations

from cli.workers import each

from quant.calibrate import ensure
from sim.machine.board import design_of
from sim.machine.machine import accelerator, library
from tests.configs import CONFIGS
from tests.sim.dma_subjects import BUS, limits
from tests.verify.test_fuzz import EVERY
from verify.fuzz.play import program
from verify.fuzz.subject import config

BUILDS = {
    "calibration": ensure,
    "machine": lambda: accelerator(CONFIGS["4"]),
    "fuzzer": lambda: program(config(4, **EVERY)),
    "DMA": lambda: library(design_of(limits(4), BUS)),
}


def build(_: None, name: str) -> None:
    BUILDS[name]()


if __name__ == "__main__":
    for _ in each(build, None, {name: name for name in BUILDS}, jobs=2):
        pass
