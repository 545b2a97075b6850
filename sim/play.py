"""A text on the cocotb bench of a unit, compared with golden here as well."""

from __future__ import annotations

import argparse
import hashlib
import json
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

from rtl.compile.program import Program, compile_model
from rtl.interface.config import Config, ceil_div
from sim.bench import PassedTest, run_bench
from sim.builds import BUILDS
from sim.reference import Reference
from sim.vectors import sequence_of
from tb import activity, vectors
from tb.activity import Record
from tb.case import Case, accelerator_inference, write_case

WHOLE = "accelerator"
RUNS = BUILDS / "runs"


@dataclass(frozen=True)
class Surroundings:
    """The options of `sim.run`, the configuration, and a folder of this run alone."""

    options: argparse.Namespace
    config: Config
    folder: Path

    def run(self, unit: str, test: str, files: dict[str, Path]) -> list[PassedTest]:
        """A test of the unit's bench, which gets these files."""
        given = self.options
        waves = self.folder / f"{given.unit}.fst" if given.waves else None
        env = {name: str(file.resolve()) for name, file in files.items()}
        return run_bench(unit, given.simulator, self.config, testcases=[test], env=env, waves=waves)


@dataclass(frozen=True)
class Verified:
    """One inference that was played and found equal to golden.

    ``facts`` is the bench's report of it: cycles, active, stalls, operations, compared, mismatches,
    result. ``seconds`` are wall clock, the build included; ``result`` is the logits, int64, of the
    whole model in golden's shape; ``activity`` what the units did in each cycle.
    """

    program: Program
    facts: dict[str, Any]
    seconds: float
    result: np.ndarray
    activity: Record


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of this run alone; it stays where the run found a difference, to be looked at."""
    RUNS.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-", dir=RUNS))
    try:
        yield folder
    except Different:
        stage(f"the case and the bench's report stay in {folder}")
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def play_accelerator(reference: Reference, around: Surroundings) -> Verified:
    """The whole model on the text.

    Different where a bit differs, the inference failed, nothing was compared, the report is not of
    this case, or the logits are not those of `reference`.
    """
    model, tokens, options = reference.quantized.model, reference.tokens, around.options
    program = compile_model(model, around.config, whole_last_layer=options.whole_last_layer)
    inference = accelerator_inference(program, model, tokens.ids, tokens.types, name="text")
    width = program.config.stream_width
    interval = ceil_div(width, min(options.stream_bytes or width, width))
    case = Case(inferences=(inference,), interval=interval, row_latency=options.row_latency)
    path, report, record = (
        around.folder / f"text.{end}" for end in ("npz", "json", "activity.npz")
    )
    write_case(path, case)
    begin = time.perf_counter()
    around.run(WHOLE, "case", {"CASE": path, "REPORT": report, "ACTIVITY": record})
    seconds = time.perf_counter() - begin
    try:
        told = json.loads(report.read_bytes())
        digest, (facts,) = told["case"], told["inferences"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Different(f"the bench left no report of one inference in {report}: {error}") from None
    if digest != hashlib.sha256(path.read_bytes()).hexdigest():
        raise Different(f"{report} answers another case than {path}: nothing is proven")
    found = _activity(record, digest, facts)
    if not facts["compared"] or not all(facts["compared"].values()):
        raise Different("nothing was compared")
    wrong = sum(facts["mismatches"].values())
    if wrong or facts["first_difference"]:
        raise Different(f"{wrong} values differ; first {facts['first_difference']}")
    golden, logits = reference.golden["logits"], np.array(facts["result"], np.int64).reshape(-1)
    if not np.array_equal(logits, golden.reshape(-1)):
        said = f"RTL gave {logits[:8]}, the golden model says {golden.reshape(-1)[:8]}"
        raise Different(f"the logits: {said}")
    return Verified(program, facts, seconds, logits.reshape(golden.shape), found)


def _activity(path: Path, case: str, facts: dict[str, Any]) -> Record:
    """The record of an inference whose report is `facts`; Different where it is not of it."""
    try:
        record = activity.read(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Different(f"the bench left no activity in {path}: {error}") from None
    if record.case != case or record.cycles != facts["cycles"]:
        raise Different(f"{path} is the activity of another case or inference")
    return record


def play_vectors(reference: Reference, around: Surroundings) -> dict[str, Any]:
    """The figures of a unit's bench on its vectors of the text.

    Different where a value differs, or there is none; ValueError where no vectors of that unit can
    be cut.
    """
    begin = time.perf_counter()
    unit, config, folder = around.options.unit, around.config, around.folder / "vectors"
    sequence = sequence_of(reference.tokens, reference.text)
    counts = vectors.write(folder, reference.quantized.model, [sequence], [unit], vectors.LIMIT, {})
    if not counts[unit]["output"]:
        raise Different("nothing was compared")
    tests = around.run(unit, "real_reviews", {"VECTORS": folder})
    return {
        "unit": unit,
        "simulator": around.options.simulator,
        "lanes": config.lanes,
        "columns": config.tile_columns,
        "tokens": len(sequence.ids),
        "cycles": sum(round(test.simulated_ns / 10) for test in tests),
        "values compared": counts[unit]["output"],
        "mismatches": 0,
        "seconds": round(time.perf_counter() - begin, 1),
    }
