"""Images through every command: calibration, golden, exports, the stream, the simulated Verilog."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from golden import encoder, store
from golden.embedding import embed
from quant import ablation, calibrate, classify, evaluate, inspect, reader, report
from quant import embed as embedding
from quant.classify import Classifier
from quant.export.__main__ import main as export
from quant.foreign.checkpoint import load
from quant.images import data
from quant.model import float_model
from quant.quantize.encoder import Quantized, with_tokens
from quant.quantize.options import Options
from quant.quantize.trials import UNFINISHED, Trials
from quant.texts.rows import TextError
from rtl.compile import __main__ as compiler
from rtl.compile.image import read_image
from sim import regress, run, vectors
from sim.cycles import __main__ as cycles
from tests.quant.test_images import drawn, processed, saved

NAMES = ("cat", "dog", "elk")
COUNT = 12


def images(seed: int, count: int = COUNT) -> list[np.ndarray]:
    return [drawn(seed + place, 9, 11, 3) for place in range(count)]


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
    """A folder of classes, and tables beside them that name the files by class and by index."""
    out, rows = tmp_path_factory.mktemp("images"), []
    for place, image in enumerate(images(0)):
        file = out / "all" / NAMES[place % 3] / f"{place:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
        rows.append((str(file.relative_to(out)), NAMES[place % 3]))
    (out / "all" / NAMES[0] / "notes.txt").write_text("not an image")
    named = [f"{file},{name}" for file, name in rows]
    (out / "names.csv").write_text("\n".join(["file,label", *named]) + "\n")
    keyed = [json.dumps({"image": file, "label": NAMES.index(name)}) for file, name in rows]
    (out / "indices.jsonl").write_text("\n".join(keyed) + "\n")
    return out


@pytest.fixture(scope="module")
def quantized(folder: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("quantized") / "vit"
    arguments = ["--model", str(folder), "--data", str(source / "all"), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", "centre,split"]) == 0
    return out


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "picture.png"
    Image.fromarray(drawn(77, 30, 20, 3)).save(file)
    return file


def golden_of(quantized: Path, file: Path) -> list[int]:
    """By itself, with a table that has its rows alone."""
    classifier = Classifier.load(quantized, None, floats=False)
    its, (tokens,) = classifier.placed([classifier.tokens(str(file))])
    return encoder.run(its.model, tokens.ids, tokens.types).tolist()


def test_what_is_stored_has_no_rows_but_its_front_end(folder: Path, quantized: Path) -> None:
    model, info = store.load(quantized)
    assert not model.embedding.token.any()
    assert not model.embedding.position.any()
    assert (model.shape.vocabulary, model.shape.positions) == (5, 5)
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


def test_errors_of_other_images_are_tried_again(folder: Path, tmp_path: Path) -> None:
    """What an interrupted calibration found of images with the same ids says nothing."""
    checkpoint = load(folder)
    its = reader.of_checkpoint(checkpoint)
    first, second = ([its.encode(image, limit=9) for image in images(seed, 2)] for seed in (0, 50))
    Trials(tmp_path / UNFINISHED, checkpoint, first, Options()).add((), 1.0)
    assert Trials(tmp_path / UNFINISHED, checkpoint, first, Options()).errors == {(): 1.0}
    assert Trials(tmp_path / UNFINISHED, checkpoint, second, Options()).errors == {}


def test_sources_of_images_give_the_same_answers(
    quantized: Path, folder: Path, source: Path, tmp_path: Path
) -> None:
    """Names of folders, of a column, and indices are one label."""
    found, figures = [], tmp_path / "found.json"
    common = ["--quantized", str(quantized), "--model", str(folder), "--json", str(figures)]
    for name in ("all", "names.csv", "indices.jsonl"):
        assert evaluate.main([*common, "--data", str(source / name)]) == 0
        found.append(json.loads(figures.read_text()))
    for one in found:
        assert one["labelled_texts"] == COUNT
        assert [sum(row) for row in one["float"]["confusion"]] == [COUNT // 3] * 3
        for model in ("float", "golden"):
            assert one[model]["confusion"] == found[0][model]["confusion"]


@pytest.mark.parametrize(
    ("inputs", "place", "message"),
    [
        ("images", "", "holds no file of .png"),
        ("images", "bird/1.png", "its name is 'bird', not one of cat"),
        ("images", "../none.csv", "cannot read .*none.csv"),
        ("images", "../none", "no images at .*: give digits, a folder with a folder of images"),
        ("files", "1.png", "holds no file of .npy"),
        ("files", "bird/1.npy", "its name is 'bird', not one of cat"),
        ("files", "../none", "no files at .*: give a folder with a folder of files"),
    ],
)
def test_bad_sources_are_refused(inputs: str, place: str, message: str, tmp_path: Path) -> None:
    out = tmp_path / "data"
    (out / place).parent.mkdir(parents=True, exist_ok=True)
    if ".." in place:
        out = out / place
    elif place:
        (out / place).write_bytes(b"")
    else:
        out.mkdir()
    with pytest.raises(TextError, match=message):
        list(data.stream(out, inputs=inputs, names=NAMES))


def test_a_picture_is_classified(
    quantized: Path, picture: Path, source: Path, tmp_path: Path, capsys
) -> None:
    """By itself, from a list of names, from a folder without classes; cold without a checkpoint."""
    out, lines = tmp_path / "one.json", tmp_path / "lines.jsonl"
    option = ["--quantized", str(quantized)]
    assert classify.main([str(picture), *option, "--json", str(out)]) == 0
    right, answer = golden_of(quantized, picture), json.loads(out.read_text())
    assert list(answer["golden"]["integer_logits"].values()) == right
    assert answer["golden"]["class"] == NAMES[int(np.argmax(right))]
    assert answer["tokens"] == 5
    (tmp_path / "names.txt").write_text("picture.png\n" * 3)
    (tmp_path / "folder").mkdir()
    picture.rename(tmp_path / "folder" / "one.png")
    (tmp_path / "picture.png").symlink_to(tmp_path / "folder" / "one.png")
    for given, count in ((tmp_path / "names.txt", 3), (tmp_path / "folder", 1)):
        assert classify.main(["--batch", str(given), "-o", str(lines), *option]) == 0
        found = [json.loads(line) for line in lines.read_text().splitlines()]
        assert [list(one["integer_logits"].values()) for one in found] == [right] * count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{picture}", "--pair", "x"], "a model of images reads one image"),
        (["{picture}", "--tokens", "4"], "an image has 5 tokens, of which none can be cut"),
        (["missing.png"], "missing.png does not exist: it must be a PNG"),
        (["{folder}"], "is no file: it must be a PNG"),
        ([" "], "the path of the image is empty"),
    ],
)
def test_what_no_image_model_takes_is_refused(
    arguments: Sequence[str], message: str, quantized: Path, picture: Path, folder: Path, capsys
) -> None:
    given = [one.format(picture=picture, folder=folder) for one in arguments]
    assert classify.main([*given, "--quantized", str(quantized)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_model_is_inspected_reported_and_ablated(
    quantized: Path, folder: Path, source: Path, picture: Path, tmp_path: Path, capsys
) -> None:
    out, page = tmp_path / "found.json", tmp_path / "report.html"
    common = ["--data", str(source / "all")]
    assert inspect.main([str(folder), *common, "--json", str(out)]) == 0
    assert "images of 8 x 8 RGB pixels: [CLS] and 2 x 2 patches of 4 x 4" in capsys.readouterr().out
    assert json.loads(out.read_text())["front"]["height"] == 8
    common += ["--model", str(folder)]
    arguments = ["--quantized", str(quantized), "--sentence", str(picture), "--out", str(page)]
    assert report.main([*common, *arguments]) == 0
    assert "1,1" in page.read_text()
    arguments = ["--calibration", str(source / "names.csv"), "--part", "remedies"]
    assert ablation.main([*common, *arguments, "--json", str(out)]) == 0
    assert json.loads(out.read_text())["texts"] == COUNT


def test_an_encoder_embeds_images(source: Path, tmp_path: Path, capsys) -> None:
    model, out = tmp_path / "encoder", tmp_path / "quantized"
    saved(model, "clip_vision_model", "VisionModel", image_size=8)
    processed(model, "CLIPImageProcessor", size={"shortest_edge": 8}, crop_size=8)
    arguments = ["--model", str(model), "--data", str(source / "all"), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", "none"]) == 0
    figures, npy = tmp_path / "figures.json", tmp_path / "vectors.npy"
    arguments = ["--quantized", str(out), "-o", str(npy), "--json", str(figures)]
    assert embedding.main([str(source / "all"), *arguments]) == 0
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
    out, program = tmp_path / "c", tmp_path / "infer"
    assert export(["c", "--quantized", str(quantized), "-o", str(out)]) == 0
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
    full = read_image(out.read_bytes())
    assert (len(full.rows), full.row_bytes) == (len(empty.rows), empty.row_bytes)
    assert any(full.rows[: 5 * full.row_bytes])
    assert not any(full.rows[5 * full.row_bytes :])
    arguments = ["--quantized", str(quantized), "--out", str(tmp_path / "vectors")]
    assert vectors.main([*arguments, "--text", str(picture), "--unit", "layernorm"]) == 0
    (tmp_path / "ids").write_text("0 1 2\n")
    assert vectors.main([*arguments, "--ids", str(tmp_path / "ids")]) == 2
    assert "whose ids are the numbers of their rows" in capsys.readouterr().err
    assert cycles.main(["--quantized", str(quantized), "--lanes", "4", "--tokens", "5"]) == 0


@pytest.mark.slow
def test_the_simulated_verilog_classifies_images(
    quantized: Path, source: Path, picture: Path, tmp_path: Path, capsys
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "run.json"
    common = ["--quantized", str(quantized), "--lanes", "4", "--json", str(figures)]
    assert run.main([*common, "--text", str(picture), "--html", str(page)]) == 0
    assert "Every bit equal to the golden model" in capsys.readouterr().out
    verdicts = {one["model"]: one for one in json.loads(figures.read_text())["verdicts"]}
    assert list(verdicts["RTL"]["logits"].values()) == golden_of(quantized, picture)
    assert page.read_text().count('class="seen"') == 1 + 6  # the image, and a head each
    assert regress.main([*common, "--data", str(source / "all"), "--texts", "6"]) == 0
    found = json.loads(figures.read_text())
    assert (found["texts"], found["mismatches"], found["problems"]) == (6, 0, [])
