"""A vision transformer as train.images trains it, and the one that is shipped."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from quant.foreign.checkpoint import load
from quant.images import corpora, files
from quant.model import float_model
from tests.ending import refusal
from train import digits, images

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "models" / "vit-tiny-digits"
TINY = ["--hidden", "16", "--layers", "1", "--heads", "2", "--ffn", "16", "--patch", "4"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Twelve of each digit to train on, six to measure."""
    bounds = {"train": (0, 12), "validation": (12, 18), "test": (12, 18)}
    monkeypatch.setattr(corpora, "_SPLITS", bounds)


def command(folder, name, *more):
    places = ["--out", str(folder / name), "--work", str(folder / f"work-{name}")]
    return [*TINY, "--epochs", "8", "--batch", "24", "--mix", "0", *places, *more]


def test_from_the_digits_to_a_checkpoint(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    assert images.main(command(tmp_path, "out", "--json", str(figures))) == 0
    assert "test: accuracy" in capsys.readouterr().out
    report = json.loads(figures.read_text())
    assert [row["step"] for row in report["history"]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert report["history"][-1]["train_loss"] < report["history"][0]["train_loss"]
    checkpoint = load(tmp_path / "out")
    assert checkpoint.spec.labels == tuple("0123456789")
    assert checkpoint.front.grid == (2, 2)
    found, labels = right(checkpoint, "test")
    measured = report["metrics"]["test"]
    assert measured["images"] == len(labels) == 60
    assert 100 * np.mean(found == labels) == pytest.approx(measured["accuracy"])
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"| test | 60 | 8 x 8 | {measured['accuracy']:.2f} %" in card
    assert not (tmp_path / "work-out").exists()
    assert images.main(command(tmp_path, "again")) == 0
    for name in ("model.safetensors", "config.json", "preprocessor_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def right(checkpoint, split):
    """The classes that the float model gives the images of a split, and their labels."""
    found, (every, labels) = [], corpora.digits(split)
    for image in every:
        rows = checkpoint.front.rows(checkpoint.front.pixels(image))
        arrays = checkpoint.arrays | {"embedding.token": rows}
        logits = float_model.run(checkpoint.spec, arrays, np.arange(len(rows), dtype=np.int32))
        found.append(int(logits.argmax()))
    return np.array(found), labels


def test_the_pixels_are_those_of_the_image_processor(tmp_path):
    checkpoint, (every, _) = load(SHIPPED), corpora.digits("test")
    wanted = digits.pixels(every[:5]).numpy()
    for image, values in zip(every, wanted):
        assert np.abs(checkpoint.front.pixels(image) - values).max() < 1e-6


def test_training_images_are_moved_and_stay_digits():
    torch.manual_seed(0)
    every = digits.pixels(corpora.digits("train")[0])
    moved = digits.moved(every)
    assert moved.shape == every.shape
    assert -1.001 <= float(moved.min()) <= float(moved.max()) <= 1.001
    differences = (moved - every).abs().mean((1, 2, 3))
    assert float(differences.min()) > 0
    assert float(differences.max()) < 0.8
    ink, before = (moved + 1).sum((1, 2, 3)), (every + 1).sum((1, 2, 3))
    assert float((ink / before).min()) > 0.5


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--patch", "3"], "--patch 3: it must divide the 8 pixels of an image"),
        (["--patch", "16"], "--patch 16: it must divide the 8 pixels of an image"),
        (["--heads", "3"], "--hidden 16 is no multiple of --heads 3"),
        (["--batch", "500"], "--batch 500: there are 120 images to train on"),
        (["--mix", "1"], "1.0 is not from 0 to below 1"),
    ],
)
def test_bad_options_are_refused(more, message, tmp_path, capsys):
    said = refusal(images.main, [*command(tmp_path, "out"), *more], capsys)
    assert message in said
    assert not list(tmp_path.iterdir())


def test_the_shipped_model_is_the_one_of_its_card(monkeypatch):
    monkeypatch.undo()
    card = (SHIPPED / "README.md").read_text()
    checkpoint = load(SHIPPED)
    for split, count in (("validation", 180), ("test", 360)):
        found, labels = right(checkpoint, split)
        stated = re.search(rf"\| {split} \| {count} \| 8 x 8 \| ([\d.]+) % ", card)
        assert stated is not None
        assert f"{100 * np.mean(found == labels):.2f}" == stated[1]
    assert float(stated[1]) >= 97


@pytest.mark.parametrize("label", digits._SHOWN)
def test_the_shown_images_are_what_they_are_called(label, monkeypatch):
    monkeypatch.undo()
    every, labels = corpora.digits("test")
    path = SHIPPED / f"digit-{label}.png"
    image = files.read(path)
    assert np.array_equal(image, every[labels == label][0])
    with Image.open(path) as opened:
        assert opened.mode == "L"
