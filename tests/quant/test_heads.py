"""Several labels at once and regressions, from the checkpoint to what every command says."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import encoder, store
from quant import calibrate, classify, evaluate
from quant.calibrate import Made, Observed, distance, observe, quantize
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import Tokens
from quant.measure.tasks import judge, likeness, task_of
from quant.model import float_model
from quant.model.spec import MULTI_LABEL, REGRESSION, CheckpointError
from quant.quantize import quantizers
from quant.quantize.options import Options
from tests.quant import tiny

ROWS: list[tuple[str, list[str]]] = [
    ("good film", ["good"]),
    ("a bad film", ["bad"]),
    ("the film", []),
    ("bad good !", ["bad", "good"]),
]
MULTI: dict[str, Any] = {"problem_type": "multi_label_classification"}
ONE: dict[str, Any] = {"id2label": {"0": "stars"}}
SCORE: dict[str, Any] = ONE | {"sentence_transformers": {"version": "6"}}
SEVERAL: dict[str, Any] = {"problem_type": "regression"}

Command = Callable[[list[str]], int]


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


def made(folder: Path, config: dict[str, Any], labels: int) -> tuple[list[str], Path, Path]:
    """The options of a command on a calibrated tiny model, its data, and what it writes."""
    arrays = tiny.tensors(labels=labels)
    # Outputs of very different reach: each needs a scale of its own.
    arrays["classifier.weight"] *= (np.float32(300) ** -np.arange(labels))[:, None]
    arrays["classifier.bias"] *= np.float32(300) ** -np.arange(labels)
    model, out = tiny.write(folder / "tiny", config, arrays), folder / "out"
    data = folder / "texts.jsonl"
    if "problem_type" in config and labels == 3 and config is MULTI:
        rows = [{"text": text, "label": label} for text, label in ROWS]
    else:
        targets: list[Any] = [[i + 0.5] * labels for i in range(len(ROWS))]
        rows = [{"text": text, "label": t} for (text, _), t in zip(ROWS, targets)]
    data.write_text("\n".join(map(json.dumps, rows)))
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate.main([*options, "--out", str(out), "--remedies", "none"]) == 0
    return [*options, "--quantized", str(out)], data, folder / "figures.json"


def test_several_labels_in_every_command(tmp_path: Path) -> None:
    options, data, figures = made(tmp_path, MULTI, 3)
    model, info = store.load(Path(options[-1]))
    factors = np.array(info["tensors"]["logits"]["factors"])
    scales = info["tensors"]["logits"]["scale"] * factors
    assert scales.max() > 1000 * scales.min()
    assert np.abs(model.head[-1].weight).max(axis=1).tolist() == [127] * 3
    assert evaluate.main([*options, "--json", str(figures)]) == 0
    values = json.loads(figures.read_text())
    checkpoint, tokenizer = load(Path(options[1])), tiny.tokenizer(Path(options[1]))
    right = agree = 0
    for text, labels in ROWS:
        tokens = tokenizer.encode(text, limit=16)
        integers = encoder.run(model, tokens.ids, tokens.types)
        floats = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
        np.testing.assert_allclose(integers * scales, floats, atol=0.2 * np.abs(floats).max())
        names = [n for n, x in zip(("bad", "good", "mixed"), integers.tolist()) if x > 0]
        right += set(names) == set(labels)
        agree += int(((integers > 0) == (floats > 0)).sum())
        assert classify.main([text, *options[:2], *options[4:], "--json", str(figures)]) == 0
        said = json.loads(figures.read_text())["golden"]
        assert said["labels"] == names
        probability = 1 / (1 + np.exp(-np.array(list(said["logits"].values()))))
        np.testing.assert_allclose(list(said["probabilities"].values()), probability, rtol=1e-5)
        assert said["integer_logits"] == dict(zip(("bad", "good", "mixed"), integers.tolist()))
    assert values["golden"]["exact"] == right / len(ROWS)
    assert values["agreement"] == agree / (3 * len(ROWS))
    batch = [*options[:2], *options[4:], "--batch", str(data), "-o", str(tmp_path / "out.jsonl")]
    assert classify.main([*batch, "--json", str(figures)]) == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == [labels for _, labels in ROWS]
    counts = json.loads(figures.read_text())
    assert counts["accuracy"] == right / len(ROWS)
    assert counts["classes"].get("bad", 0) == sum("bad" in line["labels"] for line in lines)


@pytest.mark.parametrize(("config", "labels"), [(ONE, 1), (SEVERAL, 3)])
def test_numbers_in_every_command(config: dict, labels: int, tmp_path: Path) -> None:
    options, data, figures = made(tmp_path, config, labels)
    model, info = store.load(Path(options[-1]))
    format = info["tensors"]["logits"]
    assert ("factors" in format) == (labels > 1)
    scales = format["scale"] * np.array(format.get("factors", [1.0]))
    assert evaluate.main([*options, "--json", str(figures)]) == 0
    values = json.loads(figures.read_text())
    checkpoint, tokenizer = load(Path(options[1])), tiny.tokenizer(Path(options[1]))
    found = []
    for text, _ in ROWS:
        tokens = tokenizer.encode(text, limit=16)
        found.append(encoder.run(model, tokens.ids, tokens.types) * scales)
        assert classify.main([text, *options[:2], *options[4:], "--json", str(figures)]) == 0
        said = json.loads(figures.read_text())["golden"]
        np.testing.assert_allclose(list(said["values"].values()), found[-1], rtol=1e-5)
    for i, name in enumerate(checkpoint.spec.labels):
        squares = [(row[i] - (k + 0.5)) ** 2 for k, row in enumerate(found)]
        assert values["golden"][name]["mse"] == pytest.approx(np.mean(squares))
        assert values["golden_by_float"][name]["r2"] > 0.9
    batch = [*options[:2], *options[4:], "--batch", str(data), "-o", str(tmp_path / "out.jsonl")]
    assert classify.main([*batch, "--json", str(figures)]) == 0
    counts = json.loads(figures.read_text())
    for i, name in enumerate(checkpoint.spec.labels):
        assert counts["means"][name] == pytest.approx(np.mean([row[i] for row in found]))
        mse = values["golden"][name]["mse"]
        assert counts["mean_squared_errors"][name] == pytest.approx(mse)


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


def test_the_verdict_knows_what_the_outputs_are() -> None:
    (labels,) = judge({}, 0.9688, 128, MULTI_LABEL)["findings"]
    assert labels == "golden and float agree on 96.88% of 128 texts' labels: below 97%"
    (numbers,) = judge({}, 0.98, 128, REGRESSION)["findings"]
    assert numbers == (
        "golden's numbers explain 0.9800 of the variance of float's on 128 texts: below 0.99"
    )
    assert judge({}, 0.97, 128, MULTI_LABEL)["good"]
    assert judge({}, 0.99, 128, REGRESSION)["good"]
