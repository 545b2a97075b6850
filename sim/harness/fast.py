"""Many inferences of the accelerator in C++ processes, at the full speed of Verilator.

    results = fast.simulate(Config(lanes=16), [fast.Job(program, table, ids)])

sim/harness drives the streams; this side builds it (cached), writes the job files and reads the
results. What the harness does in which cycle, so that a cycle model can mirror it:

Cycle 0 is the first cycle of the register `cycles`, two cycles after the write of `start` was
taken. All sources stand ready before it.

- model: from the first word that is taken on, one comes every `ceil(N / stream_bytes)` cycles into
  a buffer of `stream_ahead` words, and none while that is full.
- tokens: a word a cycle.
- rows: the row that was asked for in cycle t is there from cycle t + row_latency on; its words come
  one a cycle, after those of the rows asked for before it. As a real memory, it lives on when an
  inference ends, however that happens.
- request and logits: always ready.

An offered word stays until it is taken. With a seed every stream rests at random in between.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cli.command import Different

import numpy as np

from rtl.compile.program import Program
from rtl.interface.config import Config, ceil_div
from sim.builds import FASTER, OPTIMISATION, build_harness
from sim.design import Design, generated
from sim.harness.inference import Job, Operation, Result, job_file, read_result
from sim.harness.names import HEADER, header
from tb.compare import Comparison
from tb.expected import Writes, expected_writes

__all__ = ["HarnessError", "Job", "Operation", "Result", "compare", "simulate", "simulate_each"]

HARNESS = Path(__file__).parent
PATIENCE = 100_000
#: Lanes from which a build that takes twice as long is worth a fifth more cycles a second.
MANY_LANES = 16
ROW_LATENCY = 20


class HarnessError(Different):
    """The accelerator hung or broke a rule of its interfaces; the message says when and how."""


def simulate(config: Config, jobs: Sequence[Job], **options: Any) -> list[Result]:
    """The results of all jobs, in their order; parameters and errors as for `simulate_each`."""
    return sorted(simulate_each(config, jobs, **options), key=lambda result: result.index)


def simulate_each(
    config: Config,
    jobs: Sequence[Job],
    *,
    stream_bytes: int | None = None,
    stream_ahead: int = 1,
    row_latency: int = ROW_LATENCY,
    trace: bool = False,
    seed: int | None = None,
    processes: int = 1,
    patience: int = PATIENCE,
    longest: int = 0,
    design: Design | None = None,
    variant: str = "",
    flags: Sequence[str] = (),
    mutant: int = 0,
) -> Generator[Result, None, None]:
    """Run the jobs and give each result as it comes.

    The jobs of a process run back to back on one accelerator, in their order. Leaving the
    iteration early ends the processes.

    Parameters
    ----------
    stream_bytes
        Bytes of the command stream a cycle; None: N, a word a cycle.
    stream_ahead
        Words of it that a buffer in front of the accelerator holds.
    row_latency
        Cycles from a request for an embedding row to its first word, 1 or more.
    trace
        Record the writes of all jobs.
    seed
        Rest at random on every stream; None: never.
    processes
        How many run at once; the jobs are shared out by their lengths.
    patience
        Cycles without any progress that count as a hang.
    longest
        Cycles of an inference that count as one, with progress; 0: any number is right.
    design, variant
        A design in place of the accelerator of `config`, and a name to keep its build apart.
    flags
        Further ones of Verilator.
    mutant
        Which one of a design that holds several; 0: the sound one.

    Raises
    ------
    HarnessError
        An inference hung, or the accelerator broke a rule.
    SimulatorError
        Verilator is missing or refuses the design.
    ValueError
        A parameter is out of its range.
    """
    for name, value in (
        ("stream_bytes", config.lanes if stream_bytes is None else stream_bytes),
        ("stream_ahead", stream_ahead),
        ("row_latency", row_latency),
        ("processes", processes),
        ("patience", patience),
    ):
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be 1 or more")
    if longest < 0:
        raise ValueError(f"longest is {longest}: it must be 0 or more")
    if seed is not None and not 0 <= seed < 1 << 64:
        raise ValueError(f"seed is {seed}: it must lie in 0..2^64-1")
    if not jobs:
        return
    interval = ceil_div(config.lanes, stream_bytes or config.lanes)
    streams = (config.lanes, interval, stream_ahead, row_latency)
    settings = (*streams, patience, longest, seed is not None)
    program = built(design or generated("accelerator", config), variant, flags)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bert2rtl-")))
        selector = stack.enter_context(selectors.DefaultSelector())
        waiting: dict[int, set[int]] = {}
        for number, share in enumerate(_shares(jobs, processes)):
            path = folder / f"jobs-{number}"
            path.write_bytes(job_file(jobs, share, settings, seed or 0, trace))
            # A session of its own: Ctrl-C reaches this process alone, which then ends the others.
            child = subprocess.Popen(
                [program, path, str(os.getpid()), folder],
                stdout=subprocess.PIPE,
                env=os.environ | {"BERT2RTL_MUTANT": str(mutant)},
                start_new_session=True,
            )
            stack.callback(_end, child)
            waiting[number] = set(share)
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ, (number, child))
        while selector.get_map():
            for key, _ in selector.select():
                number, child = key.data
                line = child.stdout.readline()
                if not line:
                    selector.unregister(key.fileobj)
                    if waiting[number]:
                        raise HarnessError(
                            f"the simulation ended with code {child.wait()} before inference "
                            f"{min(waiting[number])}"
                        )
                    continue
                facts = json.loads(line)
                if "failure" in facts:
                    raise HarnessError(_failed(jobs, facts))
                waiting[number].discard(facts["index"])
                yield read_result(facts, folder, config.lanes)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _failed(jobs: Sequence[Job], facts: dict[str, Any]) -> str:
    if facts["index"] < 0:
        return str(facts["failure"])
    return (
        f"inference {facts['index']} ({len(jobs[facts['index']].ids)} tokens): {facts['failure']}"
    )


def built(design: Design, variant: str = "", flags: Sequence[str] = ()) -> Path:
    """The program of a design; arguments and errors as for `simulate_each`."""
    lanes = design.ports["s_axis_model_tdata"].width // 8
    return build_harness(
        design,
        [HARNESS / "main.cpp"],
        headers={HEADER: header()},
        variant=variant,
        flags=flags,
        optimisation=FASTER if lanes >= MANY_LANES else OPTIMISATION,
    )


def _shares(jobs: Sequence[Job], processes: int) -> list[list[int]]:
    """Indices of the jobs of each process: the longest first, each to the least loaded."""
    shares: list[list[int]] = [[] for _ in range(min(processes, len(jobs)))]
    load = [0] * len(shares)
    for index in sorted(range(len(jobs)), key=lambda i: -len(jobs[i].ids)):
        lightest = load.index(min(load))
        shares[lightest].append(index)
        load[lightest] += len(jobs[index].ids)
    return [sorted(share) for share in shares]


def compare(
    program: Program,
    trace: Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]],
    tokens: int | Sequence[int],
    result: Result,
    attend: np.ndarray | None = None,
) -> Comparison:
    """Every write of a traced inference beside golden's trace of the same sequence, or batch.

    attend
        The attend bits, which mean pooling shows; all tokens attend where it is None.

    A write that is missing or too many is in `problem`, the earliest difference in `first`.
    """
    expected: dict[str, list[Writes]] = {}
    for writes in expected_writes(program, trace, tokens, attend):
        expected.setdefault(writes.port, []).append(writes)
    comparison = Comparison()
    for port, actual in result.writes.items():
        comparison.writes(
            port,
            expected.get(port, []),
            actual,
            whole=True,
            addressed=port not in ("max", "sum"),
        )
    return comparison
