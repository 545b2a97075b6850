"""Images, and files of rows, through every command: integers by every way are those of golden."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from golden import encoder, store
from golden.embedding import embed
from quant import calibrate, classify, evaluate, inspect, report, which
from quant import embed as embedding
from quant.export.__main__ import main as export
from quant.foreign.checkpoint import load
from quant.images import data
from quant.model import float_model
from quant.model.spec import FILES, IMAGES
from quant.quantize.encoder import Quantized, with_tokens
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import TextError
from rtl.compile import __main__ as compiler
from rtl.compile.image import read_image
from sim import regress, run, vectors
from sim.cycles import __main__ as cycles
from tests.ending import figures
from tests.quant import zoo
from tests.quant.test_images import drawn, processed, saved
from tests.quant.test_rows_given import NAMES, checkpoint, written

COUNT = 12
NONE_AT_HAND = "and none are at hand: name .npy files of rows"


def image(file: Path, seed: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(drawn(seed, 9, 11, 3)).save(file)
    return file


@dataclass
class Made:
    """A checkpoint, 12 inputs of three classes, and its integer model; one more of 5 tokens."""

    inputs: str
    folder: Path
    source: Path
    quantized: Path
    file: Path

    @property
    def common(self) -> list[str]:
        return ["--quantized", str(self.quantized)]

    @property
    def golden(self) -> list[int]:
        """Of the file by itself, with a table that has its rows alone."""
        classifier = QuantizedModel.load(self.quantized, None, floats=False)
        its, (tokens,) = classifier.placed([classifier.tokens(str(self.file))])
        assert len(its.model.embedding.token) == 5
        return encoder.run(its.model, tokens.ids, tokens.types).tolist()


@pytest.fixture(scope="module", params=[IMAGES, FILES])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A random ViT of four patches and a class token, or an encoder of up to 9 rows."""
    of_images, out = request.param == IMAGES, tmp_path_factory.mktemp("made")
    folder, source = out / "checkpoint", out / "source"
    if of_images:
        saved(
            folder, "vit", "ForImageClassification", image_size=8, num_labels=3,
            id2label=dict(enumerate(NAMES)), label2id={n: i for i, n in enumerate(NAMES)},
        )  # fmt: skip
        processed(folder, size=8)
    else:
        checkpoint(folder)
    suffix, table = ".png" if of_images else ".npy", ["file,label"]
    for place in range(COUNT):
        file = source / NAMES[place % 3] / f"{place:02}{suffix}"
        _ = image(file, place) if of_images else written(file, 1 + place % 9, place)
        table.append(f"source/{file.relative_to(source)},{place % 3}")
    (source / NAMES[0] / f"other{'.npy' if of_images else '.png'}").write_bytes(b"")
    (out / "table.csv").write_text("\n".join(table) + "\n")
    one = out / f"one{suffix}"
    _ = image(one, 99) if of_images else written(one, 5, 99)
    options = ["--model", str(folder), "--data", str(source), "--remedies", "centre,split"]
    assert calibrate.main([*options, "--out", str(out / "quantized")]) == 0
    return Made(request.param, folder, source, out / "quantized", one)


def answers(arguments: list[str], out: Path) -> list[list[int]]:
    assert classify.main([*arguments, "-o", str(out)]) == 0
    found = map(json.loads, out.read_text().splitlines())
    return [list(one["integer_logits"].values()) for one in found]


def test_what_is_stored_has_no_rows_but_its_reader(made: Made) -> None:
    model, info = store.load(made.quantized)
    assert not model.embedding.token.any()
    assert not model.embedding.position.any()
    assert info["spec"]["given"] is True
    assert info["spec"]["rows"] is (made.inputs == FILES)
    front = load(made.folder).front
    assert info.get("front") == (front.facts if front else None)
    assert "tokenizer" not in info
    assert which.is_made(made.quantized, made.folder)


def test_a_file_is_classified(made: Made, tmp_path: Path) -> None:
    """By itself, from a list of names, from a folder without classes."""
    found = figures(classify.main, [made.file, *made.common], tmp_path / "one.json")
    right = made.golden
    assert list(found["golden"]["integer_logits"].values()) == right
    floats = load(made.folder)
    rows = QuantizedModel.load(made.quantized, made.folder).tokens(str(made.file)).rows
    table = floats.arrays | {"embedding.token": rows}
    logits = float_model.run(floats.spec, table, np.arange(5, dtype=np.int32))
    assert list(found["float"]["logits"].values()) == pytest.approx(logits.tolist(), abs=1e-5)
    (tmp_path / "names.txt").write_text(f"{made.file}\n" * 3)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / made.file.name).write_bytes(made.file.read_bytes())
    for place, count in (("names.txt", 3), ("folder", 1)):
        batch = ["--batch", str(tmp_path / place), *made.common]
        assert answers(batch, tmp_path / "lines.jsonl") == [right] * count


def test_sources_give_the_same_answers(made: Made, tmp_path: Path) -> None:
    """Names of folders, and indices of a column, are one label."""
    found = [
        figures(evaluate.main, [*made.common, "--data", source], tmp_path / "found.json")
        for source in (made.source, made.source.parent / "table.csv")
    ]
    assert found[0]["labelled_texts"] == found[1]["labelled_texts"] == COUNT
    for model in ("float", "golden"):
        assert [sum(row) for row in found[0][model]["confusion"]] == [COUNT // 3] * 3
        assert found[0][model]["confusion"] == found[1][model]["confusion"]


@pytest.mark.parametrize(
    ("inputs", "place", "message"),
    [
        (IMAGES, "notes.txt", "holds no images .png"),
        (IMAGES, "bird/1.png", "its name 'bird' is not one of no"),
        (IMAGES, "", "no data set or file named .*: give digits, .* a folder or file of .png"),
        (FILES, "1.png", "holds no files .npy"),
        (FILES, "bird/1.npy", "its name 'bird' is not one of no"),
        (FILES, "", "no data set or file named .*: give a .csv, .* a folder or file of .npy"),
    ],
)
def test_bad_sources_are_refused(inputs: str, place: str, message: str, tmp_path: Path) -> None:
    if place:
        (tmp_path / "data" / place).parent.mkdir(parents=True)
        (tmp_path / "data" / place).write_bytes(b"")
    with pytest.raises(TextError, match=message):
        data.load(inputs, tmp_path / "data", names=NAMES)


def test_rows_have_sixteen_bits_and_are_limited(made: Made) -> None:
    """Half a step away at most; what no input of calibration reached is cut off at 32,512."""
    classifier = QuantizedModel.load(made.quantized, made.folder)
    scale = classifier.info["tensors"]["embedding.token"]["scale"]
    tokens = classifier.tokens(str(made.file))
    assert tokens.rows is not None
    for far in (1.0, 50.0):
        rows = (tokens.rows * far).astype(np.float32)
        model = with_tokens(Quantized(classifier.model, classifier.info), rows).model
        found = embed(tokens.ids, tokens.types, model.embedding)
        right = np.clip(np.rint(rows / np.float64(scale)), -32512, 32512)
        assert (found == right).all()
    assert (np.abs(right) == 32512).any()


def test_inputs_together_are_inputs_alone(made: Made) -> None:
    """A table for all of them, in any order, floats and integers."""
    classifier = QuantizedModel.load(made.quantized, made.folder)
    files = sorted(made.source.rglob(f"*{made.file.suffix}"))[:4]
    encoded = [classifier.tokens(str(file)) for file in files if file.stat().st_size]
    its, numbered = classifier.placed(encoded[::-1])
    ids = np.concatenate([one.ids for one in numbered])
    assert ids.tolist() == list(range(len(its.model.embedding.token)))
    again, same = its.placed(numbered)
    assert again is its
    assert same == numbered
    floats = its.require_checkpoint()
    for tokens, one in zip(encoded[::-1], numbered, strict=True):
        (codes,), (exact,) = classifier.run([tokens])
        assert encoder.run(its.model, one.ids).tolist() == codes.tolist()
        together = float_model.run(floats.spec, floats.arrays, one.ids)
        assert np.array_equal(together, exact)


def test_other_commands_take_files(made: Made, tmp_path: Path, capsys: Any) -> None:
    """Embeddings without the head, inspection, a report, the stream, vectors, cycles."""
    out, npy = tmp_path / "embeds", tmp_path / "vectors.npy"
    given = ["--data", str(made.source), "--model", str(made.folder)]
    task = ["--task", "embedding", "--remedies", "none", "--out", str(out)]
    assert calibrate.main([*given, *task]) == 0
    assert embedding.main([str(made.source), "--quantized", str(out), "-o", str(npy)]) == 0
    assert np.load(npy).shape == (COUNT, store.load(out)[1]["spec"]["hidden"])
    assert inspect.main([str(made.folder)]) == 0
    shown = ("files of rows, .npy with float32 [L, 12]", "[CLS] and 2 x 2 patches of 4 x 4")
    assert shown[made.inputs == IMAGES] in capsys.readouterr().out
    page = ["--out", str(tmp_path / "page.html")]
    assert report.main([*given, *made.common, *page]) == 0
    stream = [*made.common, "--lanes", "4", "--image", str(tmp_path / "model.img")]
    assert compiler.main(stream) == 0
    full = read_image((tmp_path / "model.img").read_bytes())
    assert not any(full.rows[4 * full.row_bytes :])
    cut = [*made.common, "--text", str(made.file), "--unit", "layernorm"]
    assert vectors.main([*cut, "--out", str(tmp_path / "cut")]) == 0
    assert cycles.main(["texts", *made.common, "--batch", "20", "--data", str(made.source)]) == 0


def test_rows_become_a_class_each(made: Made, tmp_path: Path) -> None:
    """Without pooling."""
    if made.inputs == IMAGES:
        return
    model, out = checkpoint(tmp_path / "model"), tmp_path / "out"
    zoo.change(model, pooling="none")
    options = ["--model", str(model), "--data", str(made.source), "--remedies", "none"]
    assert calibrate.main([*options, "--out", str(out)]) == 0
    line = [made.file, "--quantized", out]
    found = figures(classify.main, line, tmp_path / "one.json")["golden"]
    assert found["words"] == [*"01234"]
    assert np.shape(found["integer_logits"]) == (5, len(NAMES))


def test_the_export_computes_golden_s_logits(made: Made, tmp_path: Path) -> None:
    if made.inputs == FILES:  # whose C takes files of one length alone
        return
    classifier = QuantizedModel.load(made.quantized, None, floats=False)
    its, (one,) = classifier.placed([classifier.tokens(str(made.file))])
    rows = embed(one.ids, one.types, its.model.embedding)
    out, program = tmp_path / "c", tmp_path / "infer"
    assert export(["c", *made.common, "-o", str(out)]) == 0
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *flags, "-o", program, *out.glob("*.c")], check=True)
    text, right = " ".join(map(str, rows.reshape(-1))), " ".join(map(str, made.golden))
    for numbers, message in ((text, right), ("1 2", "number 3 is"), ("1 40000", "number 2 is")):
        ended = subprocess.run([program], input=numbers, capture_output=True, text=True)
        assert ended.returncode == (message != right)
        assert message in ended.stdout + ended.stderr


def test_what_is_not_taken_is_refused(made: Made, capsys: Any) -> None:
    def refused(main: Callable[[list[str]], int], arguments: list[str], message: str) -> None:
        assert main(arguments) == 2
        assert re.search(message, capsys.readouterr().err.splitlines()[-1])

    file, common = str(made.file), made.common
    refused(classify.main, [file, "--pair", "x", *common], "reads one .*: give no pair")
    refused(classify.main, [file, "--tokens", "4", *common], "limit is 4: give --tokens 5")
    refused(classify.main, ["missing", *common], "missing cannot be read .it does not exist")
    if made.inputs == IMAGES:  # which the digits are at hand for
        return
    model = ["--model", str(made.folder)]
    refused(classify.main, [file, *model], NONE_AT_HAND)
    for main in (calibrate.main, evaluate.main):
        refused(main, model, NONE_AT_HAND)
    for main in (evaluate.main, run.main, regress.main, vectors.main):
        refused(main, common, NONE_AT_HAND)
    refused(embedding.main, common, "is a model of classification")
    refused(cycles.main, ["texts", *common, "--batch", "20"], NONE_AT_HAND)


@pytest.mark.slow
def test_the_simulated_verilog_takes_files(made: Made, tmp_path: Path, capsys: Any) -> None:
    page, file = tmp_path / "page.html", tmp_path / "run.json"
    common = [*made.common, "--lanes", "4"]
    found = figures(run.main, [*common, "--text", made.file, "--html", page], file)
    assert "Every bit equal to the golden model" in capsys.readouterr().out
    verdicts = {one["model"]: one for one in found["verdicts"]}
    assert list(verdicts["RTL"]["logits"].values()) == made.golden
    seen = page.read_text().count('class="seen"')
    assert seen == (1 + 6 if made.inputs == IMAGES else 0)  # the image, and a head each
    found = figures(regress.main, [*common, "--data", made.source, "--texts", "6"], file)
    assert (found["texts"], found["mismatches"], found["problems"]) == (6, 0, [])
