"""Several labels at once and regressions, from the checkpoint to what every command says."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from golden import encoder, store
from quant import calibrate, classify, evaluate
from quant.calibrate import Made, Observed, distance, observe, quantize
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import Tokens
from quant.measure.tasks import likeness, task_of
from quant.model.spec import CheckpointError
from quant.quantize import quantizers
from quant.quantize.options import Options
from tests.ending import figures
from tests.quant import tiny

ROWS: list[tuple[str, list[str]]] = [
    ("good film", ["good"]),
    ("a bad film", ["bad"]),
    ("the film", []),
    ("bad good !", ["bad", "good"]),
]
MULTI: dict[str, Any] = {"problem_type": "multi_label_classification"}
ONE: dict[str, Any] = {"id2label": {"0": "stars"}}
SEVERAL: dict[str, Any] = {"problem_type": "regression"}


@pytest.mark.parametrize(
    ("config", "labels", "task"),
    [
        (MULTI, 3, "multi-label"),
        (MULTI | ONE, 1, "multi-label"),
        (SEVERAL, 3, "regression"),
        (SEVERAL | ONE, 1, "regression"),
        (ONE, 1, "regression"),
        ({}, 3, "classification"),
        ({"problem_type": "single_label_classification"}, 3, "classification"),
    ],
)
def test_what_the_outputs_mean(config: dict, labels: int, task: str, tmp_path: Path) -> None:
    bert = load(tiny.write(tmp_path / "bert", config, tiny.tensors(labels=labels)))
    assert (bert.spec.task, bert.spec.outputs) == (task, labels)
    transformer = tiny.transformer_tensors(tiny.tensors(labels=labels))
    plain = load(tiny.write(tmp_path / "plain", tiny.TRANSFORMER | config, transformer))
    assert (plain.spec.task, plain.spec.labels) == (task, bert.spec.labels)


@pytest.mark.parametrize("problem", ["ranking", ["regression"]])
def test_refusals(problem: Any, tmp_path: Path) -> None:
    config = ONE | {"problem_type": problem}
    with pytest.raises(CheckpointError, match=re.escape(f"problem_type is {problem!r}: it must")):
        load(tiny.write(tmp_path, config, tiny.tensors(labels=1)))


def in_every_command(folder: Path, config: dict[str, Any], labels: int) -> SimpleNamespace:
    """What a calibrated tiny model and its commands say of ROWS, with the outputs of both models.

    said: of one text each; lines and counted: of a batch.
    """
    arrays = tiny.tensors(labels=labels)
    # Outputs of very different reach: each needs a scale of its own.
    arrays["classifier.weight"] *= (np.float32(300) ** -np.arange(labels))[:, None]
    arrays["classifier.bias"] *= np.float32(300) ** -np.arange(labels)
    model, out = tiny.write(folder / "tiny", config, arrays), folder / "out"
    data, file, batch = folder / "texts.jsonl", folder / "figures.json", folder / "out.jsonl"
    rows = [{"text": text, "label": names if config is MULTI else [i + 0.5] * labels}
            for i, (text, names) in enumerate(ROWS)]  # fmt: skip
    data.write_text("\n".join(map(json.dumps, rows)))
    common = ["--model", str(model), "--data", str(data)]
    assert calibrate.main([*common, "--out", str(out), "--remedies", "none"]) == 0
    integers, info = store.load(out)
    _, golden, floats = tiny.one_by_one(model, out, [text for text, _ in ROWS])
    both = ["--model", model, "--quantized", out]
    return SimpleNamespace(
        evaluated=figures(evaluate.main, [*common, "--quantized", out], file),
        said=[figures(classify.main, [t, *both], file)["golden"] for t, _ in ROWS],
        counted=figures(classify.main, ["--batch", data, "-o", batch, *both], file),
        lines=[json.loads(line) for line in batch.read_text().splitlines()],
        integers=np.array(golden),
        floats=np.array(floats),
        head=integers.head[-1],
        format=info["tensors"]["logits"],
        names=info["spec"]["labels"],
    )


def test_several_labels_in_every_command(tmp_path: Path) -> None:
    found = in_every_command(tmp_path, MULTI, 3)
    scales = found.format["scale"] * np.array(found.format["factors"])
    assert scales.max() > 1000 * scales.min()
    assert np.abs(found.head.weight).max(axis=1).tolist() == [127] * 3
    limits = 0.2 * np.abs(found.floats).max(axis=1, keepdims=True)
    assert (np.abs(found.integers * scales - found.floats) <= limits).all()
    right = 0
    for (_, labels), said, integers in zip(ROWS, found.said, found.integers.tolist(), strict=True):
        names = [n for n, x in zip(found.names, integers) if x > 0]
        right += set(names) == set(labels)
        assert said["labels"] == names
        probability = 1 / (1 + np.exp(-np.array(list(said["logits"].values()))))
        np.testing.assert_allclose(list(said["probabilities"].values()), probability, rtol=1e-5)
        assert said["integer_logits"] == dict(zip(found.names, integers))
    assert found.evaluated["golden"]["exact"] == found.counted["accuracy"] == right / len(ROWS)
    assert found.evaluated["agreement"] == ((found.integers > 0) == (found.floats > 0)).mean()
    assert [line["label"] for line in found.lines] == [labels for _, labels in ROWS]
    bad = sum("bad" in line["labels"] for line in found.lines)
    assert found.counted["classes"].get("bad", 0) == bad


@pytest.mark.parametrize(("config", "labels"), [(ONE, 1), (SEVERAL, 3)])
def test_numbers_in_every_command(config: dict, labels: int, tmp_path: Path) -> None:
    found = in_every_command(tmp_path, config, labels)
    assert ("factors" in found.format) == (labels > 1)
    numbers = found.integers * found.format["scale"] * np.array(found.format.get("factors", [1.0]))
    for said, row in zip(found.said, numbers, strict=True):
        np.testing.assert_allclose(list(said["values"].values()), row, rtol=1e-5)
    for i, name in enumerate(found.names):
        mse = pytest.approx(np.mean((numbers[:, i] - (np.arange(len(ROWS)) + 0.5)) ** 2))
        assert found.evaluated["golden"][name]["mse"] == mse
        assert found.counted["mean_squared_errors"][name] == mse
        assert found.evaluated["golden_by_float"][name]["r2"] > 0.9
        assert found.counted["means"][name] == pytest.approx(numbers[:, i].mean())


def test_a_probability_of_one_half_does_not_hold(tmp_path: Path) -> None:
    spec = load(tiny.write(tmp_path, MULTI)).spec
    tokens = Tokens(np.array([2, 3], np.int32), np.zeros(2, np.int32), ())
    logits = np.array([0.0, 1e-9, -800.0])
    said = task_of(spec).answer(spec, tokens, logits, logits)
    assert said["labels"] == ["good"]
    assert list(said["probabilities"].values()) == pytest.approx([0.5, 0.5, 0])


def calibrated(folder: Path, config: dict[str, Any]) -> tuple[Observed, Made, np.ndarray]:
    """On the texts of ROWS, with its integer model and the numbers that this gives."""
    arrays = tiny.tensors()
    arrays["classifier.weight"] *= np.array([[1], [100], [0]], np.float32)
    checkpoint = load(tiny.write(folder, config, arrays))
    tokenizer = tiny.tokenizer(folder)
    texts = [tokenizer.encode(text, limit=16) for text, _ in ROWS]
    found, _ = observe(checkpoint, texts)
    made = quantize(found, Options(remedies=()))
    integers = np.stack([encoder.run(made[0].model, t.ids, t.types) for t in found.texts])
    return found, made, integers * quantizers.scale(made[0].info["tensors"]["logits"])


def likeness_of(found: Observed, made: Made) -> float:
    scale = quantizers.scale(made[0].info["tensors"]["logits"])
    return likeness(found.checkpoint.spec, found.texts, made[1], scale, found.exact)


def test_calibration_measures_numbers_in_their_deviations(tmp_path: Path) -> None:
    """One number is a hundred times another, the third does not vary."""
    found, made, numbers = calibrated(tmp_path, SEVERAL)
    deviation = found.exact.std(axis=0)
    assert deviation[1] > 10 * deviation[0] > 0 == deviation[2]
    error = np.abs(numbers - found.exact) / [deviation[0], deviation[1], 1]
    assert distance(found, made) == pytest.approx(error.mean())
    square = np.square(numbers - found.exact).mean(axis=0)[:2] / deviation[:2] ** 2
    assert likeness_of(found, made) == pytest.approx(1 - square.max())


def test_calibration_counts_labels_that_are_the_same(tmp_path: Path) -> None:
    found, made, numbers = calibrated(tmp_path, MULTI)
    assert distance(found, made) == pytest.approx(np.abs(numbers - found.exact).mean())
    assert likeness_of(found, made) == 1
    found = replace(found, exact=np.where(np.eye(4, 3, dtype=bool), -found.exact, found.exact))
    assert likeness_of(found, made) == 9 / 12
