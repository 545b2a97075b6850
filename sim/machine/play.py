"""Jobs on the machine: its program for a design, and the processes that run it."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rtl.interface.config import Config
from sim.builds import FASTER, OPTIMISATION, build_harness
from sim.design import Design
from sim.machine.names import HEADER, header
from sim.machine.result import Played, read
from sim.simulators import SimulatorError

HERE = Path(__file__).parent
#: Lanes from which a build that takes twice as long is worth a fifth more cycles a second.
MANY_LANES = 16
COVERAGE = "coverage"


def program(design: Design, variant: str = "", flags: Sequence[str] = ()) -> Path:
    """The machine of an accelerator, built where it is missing.

    variant
        A name to keep its build apart.
    flags
        Further ones of Verilator.

    Raises
    ------
    SimulatorError
        Verilator is missing or refuses the design.
    """
    lanes = design.ports["s_axis_model_tdata"].width // 8
    return build_harness(
        design,
        [HERE / "play.cpp"],
        headers={HEADER: header()},
        variant=variant,
        flags=flags,
        optimisation=FASTER if lanes >= MANY_LANES else OPTIMISATION,
    )


@dataclass(frozen=True)
class Share:
    """What one process plays: a job file, and the numbers of its cases in their order."""

    job: bytes
    numbers: Sequence[int]


def play(
    program: Path, config: Config, shares: Sequence[Share], coverage: Path | None = None
) -> Generator[Played, None, None]:
    """What the cases show, as it comes; those of a share in their order.

    Each share has a process. Leaving the iteration early ends them.

    coverage
        Where a program that was built with coverage leaves what a share has covered.

    Raises
    ------
    SimulatorError
        A process died.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bert2rtl-")))
        selector = stack.enter_context(selectors.DefaultSelector())
        for place, share in enumerate(shares):
            own = folder / str(place)
            own.mkdir()
            (own / "job").write_bytes(share.job)
            with (own / "errors").open("wb") as errors:
                # A session of its own: Ctrl-C reaches this process alone, which then ends others.
                child = subprocess.Popen(
                    [program, own / "job", str(os.getpid()), own],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            stack.callback(_end, child)
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ, (child, own, list(share.numbers)))
        while selector.get_map():
            for key, _ in selector.select():
                child, own, waiting = key.data
                line = child.stdout.readline()
                if line:
                    waiting.pop(0)
                    yield read(line, own, config)
                    continue
                selector.unregister(key.fileobj)
                code = child.wait()
                if waiting or code:
                    where = f" in case {waiting[0]}" if waiting else ""
                    said = (own / "errors").read_text(errors="replace").strip()
                    raise SimulatorError(
                        f"the simulation ended with code {code}{where}" + f": {said}" * bool(said)
                    )
                if coverage is not None:
                    (own / COVERAGE).replace(coverage)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
