"""A text on the cocotb bench of a unit, compared with golden here as well."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cli.errors import Different
from cli.progress import stage

import numpy as np

from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim import accelerator
from sim.activity import Record
from sim.bench import run_bench
from sim.builds import BUILDS
from sim.cycles.model import predict
from sim.machine.inference import Loaded
from sim.machine.result import Result
from sim.reference import Reference
from sim.vectors import sequence_of
from sim.verdict import Verdict, verdict
from tb import vectors

WHOLE = "accelerator"
RUNS = BUILDS / "runs"


@dataclass(frozen=True)
class Setting:
    """The options of `sim.run`, the configuration, and a folder of this run alone."""

    options: argparse.Namespace
    config: Config
    folder: Path

    @property
    def waves(self) -> Path | None:
        """The file that every signal is recorded in."""
        return self.folder / f"{self.options.unit}.fst" if self.options.waves else None


@dataclass(frozen=True)
class Verified:
    """One inference that was played and found equal to golden.

    ``seconds`` are wall clock, the build included; ``logits`` int64 in golden's shape; ``activity``
    what the units did in each cycle.
    """

    program: Program
    result: Result
    verdict: Verdict
    seconds: float
    logits: np.ndarray
    activity: Record

    @property
    def facts(self) -> dict[str, Any]:
        """Cycles, active cycles, stalls, operations, compared values and mismatches."""
        result, said = self.result, self.verdict
        return {
            "cycles": result.cycles,
            "active": result.active,
            "stalls": result.stalls,
            "operations": [
                {"number": n, "name": self.program.steps[n].name, "first": first, "last": last,
                 "active": active}
                for n, first, last, active, _ in result.operations
            ],
            "compared": dict(said.compared),
            "mismatches": dict(said.mismatches),
        }  # fmt: skip


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of this run alone; it stays where the run found a difference, to be looked at."""
    RUNS.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-", dir=RUNS))
    try:
        yield folder
    except Different:
        stage(f"the case and what the bench saw stay in {folder}")
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def play_accelerator(reference: Reference, around: Setting) -> Verified:
    """The whole model on the text.

    Different where a bit or a cycle differs, or the bench gave nothing that can be judged.
    """
    quantized, tokens, options = reference.quantized, reference.tokens, around.options
    model, config = quantized.model, around.config
    program = compile_model(model, config, whole_last_layer=options.whole_last_layer)
    streams = {"stream_bytes": options.stream_bytes, "row_latency": options.row_latency}
    due = predict(program, len(tokens.ids), **streams)
    inference = Loaded(program, embedding_table(model, config.lanes)).inference(
        tokens.ids,
        tokens.types,
        trace=True,
        longest=2 * due.cycles + 10_000,
        **streams,
    )
    begin, golden = time.perf_counter(), reference.golden["logits"]
    (played,) = accelerator.play(
        WHOLE, options.simulator, config, [inference], around.folder, waves=around.waves
    )
    seconds = time.perf_counter() - begin
    found = verdict(played.result, program, model, golden)
    if found:
        raise Different("; ".join(found.problems))
    assert played.activity is not None
    return Verified(program, played.result, found, seconds, golden, played.activity)


def play_vectors(reference: Reference, around: Setting) -> dict[str, Any]:
    """The figures of a unit's bench on its vectors of the text.

    Different where a value differs; ValueError where no vectors of that unit can be cut.
    """
    begin = time.perf_counter()
    unit, config, folder = around.options.unit, around.config, around.folder / "vectors"
    sequence = sequence_of(reference.tokens, reference.text)
    counts = vectors.write(folder, reference.quantized.model, [sequence], [unit], vectors.LIMIT, {})
    env, tests = {"VECTORS": str(folder.resolve())}, ["real_reviews"]
    passed = run_bench(
        unit, around.options.simulator, config, testcases=tests, env=env, waves=around.waves
    )
    return {
        "unit": unit,
        "simulator": around.options.simulator,
        "lanes": config.lanes,
        "columns": config.tile_columns,
        "tokens": len(sequence.ids),
        "cycles": sum(round(test.simulated_ns / 10) for test in passed),
        "values compared": counts[unit]["output"],
        "mismatches": 0,
        "seconds": round(time.perf_counter() - begin, 1),
    }
