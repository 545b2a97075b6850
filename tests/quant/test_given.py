"""Images through every command: calibration, golden, exports, the stream, the simulated Verilog."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from golden import encoder, store
from golden.embedding import embed
from quant import calibrate, classify, evaluate, inspect, report
from quant import embed as embedding
from quant.classify import Classifier
from quant.export.__main__ import main as export
from quant.foreign.checkpoint import load
from quant.images import data
from quant.model import float_model
from quant.model.spec import MULTI_LABEL, REGRESSION
from quant.quantize.encoder import Quantized, with_tokens
from quant.texts.data_file import TextError
from rtl.compile import __main__ as compiler
from rtl.compile.image import read_image
from sim import regress, run, vectors
from sim.cycles import __main__ as cycles
from tests.quant.test_images import drawn, processed, saved

NAMES = ("cat", "dog", "elk")
COUNT = 12


def images(seed: int, count: int = COUNT) -> np.ndarray:
    return np.stack([drawn(seed + place, 9, 11, 3) for place in range(count)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random ViT of two layers, four patches and a class token."""
    made = tmp_path_factory.mktemp("vit")
    saved(
        made, "vit", "ForImageClassification", image_size=8, num_labels=3,
        id2label=dict(enumerate(NAMES)), label2id={name: i for i, name in enumerate(NAMES)},
    )  # fmt: skip
    processed(made, size={"height": 8, "width": 8})
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("images") / "images.npz"
    np.savez(file, images=images(0), labels=np.array([*NAMES] * (COUNT // 3)))
    return file


@pytest.fixture(scope="module")
def quantized(folder: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("quantized") / "vit"
    arguments = ["--model", str(folder), "--data", str(source), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", "centre,split"]) == 0
    return out


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "picture.png"
    Image.fromarray(drawn(77, 30, 20, 3)).save(file)
    return file


def golden_of(quantized: Path, *files: Path) -> list[list[int]]:
    """Each by itself, with a table that has its rows alone."""
    classifier = Classifier.load(quantized, None, floats=False)
    found = []
    for file in files:
        its, (tokens,) = classifier.placed([classifier.tokens(str(file))])
        found.append(encoder.run(its.model, tokens.ids, tokens.types).tolist())
    return found


def test_what_is_stored_has_no_rows_but_its_front_end(folder: Path, quantized: Path) -> None:
    model, info = store.load(quantized)
    assert not model.embedding.token.any()
    assert not model.embedding.position.any()
    assert (model.shape.vocabulary, model.shape.positions) == (5, 5)
    assert (model.embedding.token_factor, model.embedding.position_factor) == (255, 1)
    assert info["spec"]["given"] is True
    assert info["front"] == load(folder).front.facts
    assert "tokenizer" not in info


def test_rows_have_sixteen_bits_and_are_limited(quantized: Path, folder: Path) -> None:
    """Half a step away at most; what no calibration image reached is cut off at 32,512."""
    classifier = Classifier.load(quantized, folder)
    scale = classifier.info["tensors"]["embedding.token"]["scale"]
    tokens = classifier.tokens(drawn(3, 8, 8, 3))
    assert tokens.rows is not None
    for far in (1.0, 50.0):
        rows = (tokens.rows * far).astype(np.float32)
        model = with_tokens(Quantized(classifier.model, classifier.info), rows).model
        found = embed(tokens.ids, tokens.types, model.embedding)
        right = np.clip(np.rint(rows / np.float64(scale)), -32512, 32512)
        assert (found == right).all()
    assert (np.abs(right) == 32512).any()


def test_images_together_are_images_alone(quantized: Path, folder: Path) -> None:
    """A table for all of them, in any order, floats and integers."""
    classifier = Classifier.load(quantized, folder)
    encoded = [classifier.tokens(image) for image in images(40, 4)]
    its, numbered = classifier.placed(encoded[::-1])
    assert [one.ids.tolist() for one in numbered] == np.arange(20).reshape(4, 5).tolist()
    again, same = its.placed(numbered)
    assert again is its
    assert same == numbered
    checkpoint = its.require_checkpoint()
    for tokens, one in zip(encoded[::-1], numbered, strict=True):
        alone = classifier.classify(tokens)
        assert encoder.run(its.model, one.ids).tolist() == alone.integer_logits.tolist()
        floats = float_model.run(checkpoint.spec, checkpoint.arrays, one.ids)
        assert np.array_equal(floats, alone.float_logits)


def _folder(out: Path) -> None:
    for place, image in enumerate(images(0)):
        inside = out / NAMES[place % 3]
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(inside / f"{place:02}.png")


def _table(out: Path, suffix: str) -> None:
    out.mkdir()
    lines = ["file,label" if suffix == ".csv" else ""]
    for place, image in enumerate(images(0)):
        Image.fromarray(image).save(out / f"{place:02}.png")
        row = {"file": f"{place:02}.png", "label": NAMES[place % 3]}
        lines.append(",".join(row.values()) if suffix == ".csv" else json.dumps(row))
    (out / f"all{suffix}").write_text("\n".join(filter(None, lines)) + "\n")


def _arrays(out: Path) -> None:
    out.mkdir()
    np.savez(out / "all.npz", images=images(0), labels=np.arange(COUNT) % 3)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "folder": (_folder, ""),
    ".csv": (lambda out: _table(out, ".csv"), "all.csv"),
    ".jsonl": (lambda out: _table(out, ".jsonl"), "all.jsonl"),
    ".npz": (_arrays, "all.npz"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sources_of_images_give_the_same_answers(
    kind: str, quantized: Path, folder: Path, source: Path, tmp_path: Path
) -> None:
    """Names of folders, of a column, and indices are one label; the order of files counts."""
    make, name = KINDS[kind]
    make(tmp_path / "data")
    figures, right = tmp_path / "found.json", tmp_path / "right.json"
    common = ["--quantized", str(quantized), "--model", str(folder)]
    for data_, out in ((tmp_path / "data" / name, figures), (source, right)):
        assert evaluate.main([*common, "--data", str(data_), "--json", str(out)]) == 0
    found, expected = (json.loads(file.read_text()) for file in (figures, right))
    assert found["labelled_texts"] == expected["labelled_texts"] == COUNT
    for model in ("float", "golden"):
        assert found[model]["confusion"] == expected[model]["confusion"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda out: out.mkdir(), "holds no image"),
        (lambda out: (out / "bird").mkdir(parents=True), "its name is 'bird', not one of cat"),
        (lambda out: out.with_suffix(".npz"), "no images at"),
    ],
)
def test_bad_sources_are_refused(make: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    out = tmp_path / "data"
    make(out)
    with pytest.raises(TextError, match=message):
        list(data.stream(out, names=NAMES))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": [0]}, "has no array `images`"),
        ({"images": np.zeros((2, 3, 3), np.float32)}, "`images` is float32"),
        ({"images": np.zeros((0, 3, 3), np.uint8)}, "n 1 or more"),
        ({"images": np.zeros((2, 3, 3), np.uint8), "labels": [1]}, "not one each for the 2 images"),
        ({"images": np.zeros((1, 3, 3), np.uint8), "labels": ["cow"]}, "label 0 is 'cow', not"),
        ({"images": np.zeros((1, 3, 3), np.uint8), "labels": [3]}, "label 0 is '3'"),
    ],
)
def test_bad_arrays_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "images.npz"
    np.savez(file, **arrays)
    with pytest.raises(TextError, match=message):
        list(data.stream(file, names=NAMES))


@pytest.mark.parametrize("task", [MULTI_LABEL, REGRESSION])
def test_outputs_that_are_no_class_have_a_number_each(task: str, tmp_path: Path) -> None:
    file, right = tmp_path / "images.npz", np.random.default_rng(0).integers(0, 2, (COUNT, 3))
    np.savez(file, images=images(0), labels=right)
    found = list(data.stream(file, names=NAMES, task=task))
    assert [one.targets for one in found] == [tuple(map(float, row)) for row in right]
    assert [one.targets for one in data.stream(file, names=(), task=task)] == [None] * COUNT
    for bad, message in ((right[:, :2], "the model has 3 outputs"), (right * 2, "other numbers")):
        np.savez(file, images=images(0), labels=bad)
        if task == MULTI_LABEL or bad.shape[1] == 2:
            with pytest.raises(TextError, match=message):
                list(data.stream(file, names=NAMES, task=task))


def test_a_picture_is_classified(
    quantized: Path, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, lines = tmp_path / "one.json", tmp_path / "lines.jsonl"
    option = ["--quantized", str(quantized)]
    assert classify.main([str(picture), *option, "--json", str(out)]) == 0
    (right,) = golden_of(quantized, picture)
    answer = json.loads(out.read_text())
    assert list(answer["golden"]["integer_logits"].values()) == right
    assert answer["golden"]["class"] == NAMES[int(np.argmax(right))]
    assert answer["tokens"] == 5
    (tmp_path / "names.txt").write_text("picture.png\n" * 3)
    assert classify.main(["--batch", str(tmp_path / "names.txt"), "-o", str(lines), *option]) == 0
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.png").write_bytes(picture.read_bytes())
    assert classify.main(["--batch", str(tmp_path / "folder"), *option]) == 0
    (line,) = capsys.readouterr().out.splitlines()[-1:]
    assert list(json.loads(line)["integer_logits"].values()) == right
    assert [list(one["integer_logits"].values()) for one in found] == [right] * 3
    assert found[0]["text"] == str(picture)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{picture}", "--pair", "x"], "a model of images reads one image"),
        (["{picture}", "--tokens", "4"], "an image has 5 tokens, of which none can be cut"),
        (["missing.png"], "cannot read missing.png"),
        (["{folder}"], "is a folder: give an image in it"),
        ([" "], "the path of the image is empty"),
    ],
)
def test_what_no_image_model_takes_is_refused(
    arguments: Sequence[str], message: str, quantized: Path, picture: Path, folder: Path, capsys
) -> None:
    given_ = [one.format(picture=picture, folder=folder) for one in arguments]
    assert classify.main([*given_, "--quantized", str(quantized)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_model_is_inspected_and_reported(
    quantized: Path, folder: Path, source: Path, tmp_path: Path, capsys
) -> None:
    out, page = tmp_path / "found.json", tmp_path / "report.html"
    assert inspect.main([str(folder), "--data", str(source), "--json", str(out)]) == 0
    said = capsys.readouterr().out
    assert "5 tokens an image, whose rows the host computes" in said
    assert "images of 8 x 8 RGB pixels: [CLS] and 2 x 2 patches of 4 x 4" in said
    assert json.loads(out.read_text())["front"]["patch"] == [4, 4]
    common = ["--model", str(folder), "--data", str(source)]
    assert report.main([*common, "--quantized", str(quantized), "--out", str(page)]) == 0
    assert "Confusion matrix of the integer model" in page.read_text()


def test_an_encoder_embeds_images(source: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "encoder", tmp_path / "quantized"
    saved(model, "clip_vision_model", "VisionModel", image_size=8)
    processed(
        model, "CLIPImageProcessor", size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}
    )
    arguments = ["--model", str(model), "--data", str(source), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", "none"]) == 0
    said = capsys.readouterr()
    assert f"calibrating on {COUNT} images, " in said.err
    assert f"on {COUNT} images; the worst tensor" in said.out
    figures = tmp_path / "figures.json"
    npy = tmp_path / "vectors.npy"
    arguments = [str(source), "--quantized", str(out), "-o", str(npy), "--json", str(figures)]
    assert embedding.main(arguments) == 0
    assert np.load(npy).shape == (COUNT, 24)
    assert json.loads(figures.read_text())["mean_cosine"] > 0.99
    assert f"{COUNT} images, " in capsys.readouterr().out


def test_the_export_computes_golden_s_logits(
    quantized: Path, picture: Path, tmp_path: Path
) -> None:
    classifier = Classifier.load(quantized, None, floats=False)
    its, texts = classifier.placed([classifier.tokens(x) for x in (str(picture), *images(60, 3))])
    rows = [embed(one.ids, one.types, its.model.embedding) for one in texts]
    right = [encoder.run(its.model, one.ids).tolist() for one in texts]
    out = tmp_path / "c"
    assert export(["c", "--quantized", str(quantized), "-o", str(out)]) == 0
    program = tmp_path / "infer"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *flags, "-o", program, *out.glob("*.c")], check=True)

    def ran(numbers: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program], input=numbers, capture_output=True, text=True)

    text = " ".join(str(number) for one in rows for number in one.reshape(-1))
    assert ran(text).stdout.splitlines() == [" ".join(map(str, one)) for one in right]
    for bad, message in (("1 2", "number 3 is missing"), ("1 40000", "number 2 is none from")):
        ended = ran(bad)
        assert ended.returncode == 1
        assert message in ended.stderr


def test_a_stream_has_the_rows_of_its_image(
    quantized: Path, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.img"
    common = ["--quantized", str(quantized), "--lanes", "4", "--image", str(out)]
    assert compiler.main(common) == 0
    assert "note: rows come with each image" in capsys.readouterr().err
    empty = read_image(out.read_bytes())
    assert not any(empty.rows)
    assert compiler.main([*common, "--text", str(picture)]) == 0
    said = capsys.readouterr()
    assert "tokens: 5; a packet" in said.out
    assert "note" not in said.err
    full = read_image(out.read_bytes())
    assert (len(full.rows), full.row_bytes) == (len(empty.rows), empty.row_bytes)
    assert any(full.rows[: 5 * full.row_bytes])
    assert not any(full.rows[5 * full.row_bytes :])
    vectors_ = tmp_path / "vectors"
    arguments = ["--quantized", str(quantized), "--text", str(picture), "--out", str(vectors_)]
    assert vectors.main([*arguments, "--unit", "layernorm"]) == 0
    (tmp_path / "ids").write_text("0 1 2\n")
    assert vectors.main([*arguments[:2], "--ids", str(tmp_path / "ids")]) == 2
    assert "whose ids are the numbers of their rows" in capsys.readouterr().err
    assert cycles.main(["--quantized", str(quantized), "--lanes", "4", "--tokens", "5"]) == 0


@pytest.mark.slow
def test_the_simulated_verilog_classifies_images(
    quantized: Path, folder: Path, source: Path, picture: Path, tmp_path: Path, capsys
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "run.json"
    common = ["--quantized", str(quantized), "--lanes", "4"]
    arguments = [*common, "--text", str(picture), "--html", str(page), "--json", str(figures)]
    assert run.main(arguments) == 0
    said = capsys.readouterr().out
    assert "Every bit equal to the golden model" in said
    assert " images a second." in said
    (right,) = golden_of(quantized, picture)
    verdicts = {one["model"]: one for one in json.loads(figures.read_text())["verdicts"]}
    assert list(verdicts["RTL"]["logits"].values()) == right
    drawn_page = page.read_text()
    assert drawn_page.count('class="seen"') == 1 + 6  # the image, and a head each
    assert "One image through simulated Verilog" in drawn_page
    arguments = [*common, "--data", str(source), "--texts", "6", "--json", str(figures)]
    assert regress.main(arguments) == 0
    found = json.loads(figures.read_text())
    assert (found["texts"], found["mismatches"], found["problems"]) == (6, 0, [])
    assert "images compared" in capsys.readouterr().out
