"""A text on the cocotb bench of a unit, compared with golden here as well."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cli.errors import Different
from cli.progress import stage

import numpy as np

from rtl.compile.program import Program, compile_model
from rtl.interface.config import Config
from sim.bench import PassedTest, run_bench
from sim.builds import BUILDS
from sim.reference import Reference
from tb import activity, vectors
from tb.activity import Record
from tb.case import Case, Inference, accelerator_inference, write_case
from tb.cut import Sequence

WHOLE, ATTENTION = "accelerator", "attention"
RUNS = BUILDS / "runs"


@dataclass(frozen=True)
class Surroundings:
    """The simulator and what is around the unit.

    Attributes
    ----------
    folder
        Of this run alone.
    waves
        Where to record every signal, if anywhere. A further run replaces it.
    """

    simulator: str
    folder: Path
    waves: Path | None = None
    stream_bytes: int | None = None
    row_latency: int = 20
    whole_last_layer: bool = False


@dataclass(frozen=True)
class Verified:
    """One inference that was played and found equal to golden.

    Attributes
    ----------
    facts
        The bench's report of it: cycles, active, stalls, operations, compared, mismatches, result.
    seconds
        Wall clock, the build included.
    activity
        What the units of an accelerator did in each cycle.
    """

    program: Program
    facts: dict[str, Any]
    seconds: float
    result: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    activity: Record | None = None


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of this run alone; it stays where the run found a difference, to be looked at."""
    RUNS.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f"{time.strftime('%Y%m%d-%H%M%S')}-", dir=RUNS))
    keep = False
    try:
        yield folder
    except Different:
        keep = True
        stage(f"the case and the bench's report stay in {folder}")
        raise
    finally:
        if not keep:
            shutil.rmtree(folder)


def _play(program: Program, inference: Inference, around: Surroundings) -> Verified:
    """Play one inference on the accelerator.

    Raises
    ------
    Different
        A bit differs, the inference failed, nothing was compared, or the report is not of this
        case.
    """
    config = program.config
    width = config.stream_width
    interval = -(-width // min(around.stream_bytes or width, width))
    case = Case(inferences=(inference,), interval=interval, row_latency=around.row_latency)
    path, report = around.folder / f"{inference.name}.npz", around.folder / f"{inference.name}.json"
    record = around.folder / f"{inference.name}.activity.npz"
    write_case(path, case)
    files = {"CASE": path, "REPORT": report, "ACTIVITY": record}
    begin = time.perf_counter()
    run_bench(
        WHOLE,
        around.simulator,
        config,
        testcases=["case"],
        env={name: str(file.resolve()) for name, file in files.items()},
        waves=around.waves,
    )
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
    return Verified(program, facts, seconds, np.array(facts["result"], np.int64), found)


def _activity(path: Path, case: str, facts: dict[str, Any]) -> Record:
    """The record of an inference whose report is `facts`; it must be of the same case.

    Raises
    ------
    Different
        It is missing, of another case, or contradicts the accelerator's own counters.
    """
    try:
        record = activity.read(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Different(f"the bench left no activity in {path}: {error}") from None
    if record.case != case or record.cycles != facts["cycles"]:
        raise Different(f"{path} is the activity of another case or inference")
    return record


def play_accelerator(reference: Reference, config: Config, around: Surroundings) -> Verified:
    """The whole model on the text; its `result` is the logits, int64, in golden's shape.

    Raises
    ------
    Different
        As stated for `Verified`, and where the logits are not those of `reference`.
    """
    model, tokens = reference.quantized.model, reference.tokens
    program = compile_model(model, config, whole_last_layer=around.whole_last_layer)
    inference = accelerator_inference(program, model, tokens.ids, tokens.types, name="text")
    played = _play(program, inference, around)
    found, golden = played.result.reshape(-1), reference.golden["logits"]
    _equal("the logits", found, golden.reshape(-1))
    logits = found.reshape(golden.shape)
    return Verified(program, played.facts, played.seconds, logits, played.activity)


def play_attention(reference: Reference, config: Config, around: Surroundings) -> Verified:
    """The model cut after its first layer, all of whose row tiles are computed.

    Raises
    ------
    Different
        As stated for `Verified`.
    """
    model, tokens = reference.quantized.model, reference.tokens
    first = replace(model, layers=model.layers[:1], shape=replace(model.shape, layers=1))
    program = compile_model(first, config, whole_last_layer=True)
    inference = accelerator_inference(program, first, tokens.ids, tokens.types, name="layer.0")
    return _play(program, inference, around)


def play_vectors(
    reference: Reference, unit: str, config: Config, around: Surroundings
) -> tuple[list[PassedTest], int]:
    """A unit's bench on its vectors of the text: its tests, and how many values it compared.

    Raises
    ------
    Different
        A value differs, or there is none.
    ValueError
        No vectors of that unit can be cut.
    """
    tokens = reference.tokens
    types, attend = tuple(map(int, tokens.types)), (1,) * len(tokens.ids)
    sequence = Sequence(tuple(map(int, tokens.ids)), types, attend, reference.text[:60])
    folder = around.folder / "vectors"
    model = reference.quantized.model
    vectors.write(folder, model, [sequence], [unit], vectors.LIMIT, {})
    values = sum(
        tensor.values.size
        for vector in vectors.read(folder, unit)
        for tensor in vector.outputs.values()
    )
    if not values:
        raise Different("nothing was compared")
    tests = run_bench(
        unit,
        around.simulator,
        config,
        testcases=["real_reviews"],
        env={"VECTORS": str(folder.resolve())},
        waves=around.waves,
    )
    return tests, values


def _equal(what: str, actual: np.ndarray, golden: np.ndarray) -> None:
    if actual.shape != golden.shape or (actual != golden).any():
        raise Different(f"{what}: RTL gave {_few(actual)}, the golden model says {_few(golden)}")


def _few(values: np.ndarray) -> str:
    shown = " ".join(map(str, values.reshape(-1)[:8]))
    return f"{shown} ..." if values.size > 8 else shown
