"""Many inferences of the accelerator in C++ processes, at the full speed of Verilator.

    results = simulate(Config(lanes=16), [Job(program, table, ids)])

What the machine does in which cycle, so that a cycle model can mirror it:

Cycle 0 is the first cycle of the register `cycles`, two cycles after the write of `start` was
taken. All sources stand ready before it.

- model: from the first word that is taken on, one comes every `ceil(M / stream_bytes)` cycles into
  a buffer of `stream_ahead` words, and none while that is full.
- tokens: a word a cycle.
- rows: the row that was asked for in cycle t is there from cycle t + row_latency on; its words come
  one a cycle, after those of the rows asked for before it. As a real memory, it lives on when an
  inference ends, however that happens.
- request and logits: always ready.

An offered word stays until it is taken. With a seed every stream rests at random in between.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from cli.errors import Different, UserError

import numpy as np

from rtl.compile.program import Program
from rtl.control.axi import ADDRESS
from rtl.interface.config import Config, ceil_div
from sim.design import Design, generated
from sim.machine.job import Event, Packets, Run, Settings, job_file
from sim.machine.play import Share, play, program
from sim.machine.result import Operation, Played, Result
from tb.compare import Comparison
from tb.expected import Writes, expected_writes
from tb.packing import lengths_of, token_words
from tb.trace import CAUSES

__all__ = ["Job", "MachineError", "Operation", "Result", "compare", "simulate", "simulate_each"]

PATIENCE = 100_000
ROW_LATENCY = 20
ABORT = 2
START_TO_ABORT = 1
"""From the first cycle of an inference to the first in which a write can be offered."""
SEEDS = 0x9E3779B97F4A7C15
"""Between those of two jobs."""


class MachineError(Different):
    """The accelerator hung or broke a rule of its interfaces; the message says when and how."""


@dataclass(frozen=True, eq=False)
class Job:
    """One inference.

    Attributes
    ----------
    program
        The compiled model, or the bytes of a command stream, good or bad.
    table
        `rtl.compile.program.embedding_table` of the model; beside bytes any table. Jobs with the
        same program and table objects share one copy.
    ids, types, attend
        The sequence, one entry a token; types are 0 and all tokens attend when left out.
    lengths
        Tokens of each sequence, where ids, types and attend hold a batch.
    trace
        Record every write of a named intermediate.
    abort
        Write `abort` so many cycles after the start, 1 or more.
    """

    program: Program | bytes
    table: np.ndarray
    ids: Sequence[int] | np.ndarray
    types: Sequence[int] | np.ndarray | None = None
    attend: Sequence[int] | np.ndarray | None = None
    trace: bool = False
    abort: int | None = None
    lengths: Sequence[int] | None = None

    def words(self) -> np.ndarray:
        """The words of the tokens stream, uint32."""
        return token_words(self.ids, self.types, self.attend, self.lengths)


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
        Bytes of the command stream a cycle; None: M, a word a cycle.
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
    MachineError
        An inference hung, or the accelerator broke a rule.
    SimulatorError
        Verilator is missing or refuses the design.
    ValueError
        A parameter is out of its range.
    """
    width = config.stream_width
    for name, value in (
        ("stream_bytes", width if stream_bytes is None else stream_bytes),
        ("stream_ahead", stream_ahead),
        ("row_latency", row_latency),
        ("processes", processes),
        ("patience", patience),
    ):
        if value < 1:
            raise UserError(f"{name} is {value}: it must be 1 or more")
    if longest < 0:
        raise UserError(f"longest is {longest}: it must be 0 or more")
    if seed is not None and not 0 <= seed < 1 << 64:
        raise UserError(f"seed is {seed}: it must lie in 0..2^64-1")
    if not jobs:
        return
    settings = Settings(
        lanes=config.lanes,
        mutant=mutant,
        patience=patience,
        longest=longest,
        interval=ceil_div(width, stream_bytes or width),
        ahead=stream_ahead,
    )
    built = program(design or generated("accelerator", config), variant, flags)
    shares: list[Share] = []
    planned: dict[int, list[Run]] = {}
    for numbers in _shares(jobs, processes):
        tables, models = _tables(jobs, numbers, config.lanes), _models(jobs, numbers, width)
        runs = {
            number: [
                _run(jobs[number], number, config.lanes, models, tables, row_latency, trace, seed)
            ]
            for number in numbers
        }
        planned |= runs
        shared = [table for table, _ in tables.values()]
        shares.append(Share(job_file(settings, config, shared, runs), numbers))
    with closing(play(built, config, shares)) as cases:
        for case in cases:
            (run,) = planned[case.number]
            problem = _problem(run, case, settings, len(jobs[case.number].table))
            if problem:
                tokens = len(run.tokens.last)
                raise MachineError(f"inference {case.number} ({tokens} tokens): {problem}")
            yield case.runs[0]


def _models(jobs: Sequence[Job], numbers: Sequence[int], width: int) -> dict[int, Packets]:
    """The command stream of each program, by its id."""
    found: dict[int, Packets] = {}
    for job in (jobs[number] for number in numbers):
        if id(job.program) not in found:
            stream = job.program if isinstance(job.program, bytes) else job.program.stream()
            if len(stream) % width:
                raise UserError(f"a stream of {len(stream)} bytes is no whole words of {width}")
            found[id(job.program)] = Packets.whole(stream, width)
    return found


def _tables(
    jobs: Sequence[Job], numbers: Sequence[int], lanes: int
) -> dict[int, tuple[np.ndarray, int]]:
    """The tables with their CRCs, by their ids."""
    found: dict[int, tuple[np.ndarray, int]] = {}
    for job in (jobs[number] for number in numbers):
        table = job.table
        if id(table) not in found:
            if table.dtype != np.int8 or table.ndim != 2 or table.shape[1] % lanes:
                raise UserError(
                    f"the table is {table.dtype}{list(table.shape)}: it must be what "
                    f"embedding_table(model, {lanes}) gives"
                )
            found[id(table)] = table, zlib.crc32(table.tobytes())
        if isinstance(job.program, Program) and found[id(table)][1] != job.program.rows_crc:
            raise UserError(
                "the table is damaged or another model's than the program: give embedding_table of "
                "the model that was compiled"
            )
    return found


def _run(
    job: Job,
    number: int,
    lanes: int,
    models: Mapping[int, Packets],
    tables: Mapping[int, object],
    row_latency: int,
    trace: bool,
    seed: int | None,
) -> Run:
    """What the machine plays of a job."""
    events: tuple[Event, ...] = ()
    if job.abort is not None:
        if job.abort < START_TO_ABORT:
            raise UserError(f"abort is {job.abort}: it must be {START_TO_ABORT} or more")
        events = (Event(job.abort - START_TO_ABORT, address=ADDRESS["control"], data=ABORT),)
    return Run(
        model=models[id(job.program)],
        tokens=Packets.whole(job.words().astype("<u4").tobytes(), 4),
        table=list(tables).index(id(job.table)),
        row_words=job.table.shape[1] // lanes,
        row_latency=row_latency,
        seed=None if seed is None else (seed + SEEDS * number) % (1 << 64),
        trace=trace or job.trace,
        events=events,
    )


def _problem(run: Run, case: Played, settings: Settings, rows: int) -> str:
    """What no accelerator may do; "" for nothing."""
    seen, words, tokens = case.runs[0], len(run.model.last), len(run.tokens.last)
    streams = (
        f"command stream word {seen.model_taken} of {words}, token {seen.tokens_taken} of {tokens}"
    )
    if case.wrong:
        return case.wrong[0]
    if seen.beyond >= 0:
        return f"row {seen.beyond} was asked for, the table has {rows}"
    if seen.end == "too long":
        return f"still at it after {settings.longest} cycles"
    if seen.end == "hang":
        return (
            f"no progress for {settings.patience} cycles since cycle {seen.progress}: the array "
            f"says {('none', *CAUSES)[seen.stall]}; {streams}, {seen.rows_pending} rows asked for "
            f"and not taken, {seen.logits.size} logits"
        )
    if seen.end != "done":
        return f"{seen.end} after {seen.took} cycles"
    if seen.rows_pending:
        return f"ended with {seen.rows_pending} rows still to come"
    if seen.code:
        return f"failed, but gave {seen.logits.size} logits" if seen.logits.size else ""
    sequences = len(lengths_of(np.frombuffer(run.tokens.data, "<u4")))
    if (seen.model_taken, seen.tokens_taken, len(seen.lasts)) != (words, tokens, sequences):
        return f"ended well with words left: {streams}, {len(seen.lasts)} logits with `last`"
    return ""


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
