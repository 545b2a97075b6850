"""The host programs against a board at a pseudo-terminal."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boards.host.classify
import boards.host.info
import boards.host.load
from boards.protocol import Kind
from golden.encoder import run
from golden.identity import identity_of
from golden.model import Model
from golden.random import random_model
from golden.store import hash_of, save
from quant.classify import Classifier
from quant.foreign.tokenizer import TextTokenizer
from quant.images.front import Front, Steps
from rtl.compile.image import read_image
from rtl.compile.program import embedding_table
from tests.boards.host.conftest import (
    LABELS,
    SCALE,
    SHAPE,
    SPEC,
    Sample,
    image_for,
    info_of,
    text,
)
from tests.boards.host.pretended import LANES, Line
from tests.damage import any_damage, sections
from tests.ending import exit_code, refusal

Make = Callable[..., Any]
TEXT = "The film was not good!"


def test_info_load_and_a_text(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    make_board()
    code, shown, _ = command(boards.host.info)
    assert code == 0
    assert "4 lanes, up to 16 tokens, hidden 64, ffn 128, 8 labels, stream version 4" in shown
    assert "image: none to use, none was loaded, or not to its end" in shown
    code, shown, _ = command(
        boards.host.load, str(sample.image), "--json", str(tmp_path / "load.json")
    )
    assert code == 0
    digest = sample.image.read_bytes()[96:128].hex()
    model = identity_of(sample.model).hex()
    assert f"image: model {model}, SHA-256 {digest}" in shown
    code, shown, _ = command(boards.host.info, "--json", str(tmp_path / "info.json"))
    assert f"image: model {model}, SHA-256 {digest}" in shown
    for name in ("load.json", "info.json"):
        figures = json.loads((tmp_path / name).read_text())
        assert (figures["model"], figures["digest"]) == (model, digest)
    answer = tmp_path / "answer.json"
    options = ["--quantized", str(sample.quantized), "--json", str(answer)]
    code, shown, _ = command(boards.host.classify, TEXT, *options)
    assert code == 0
    logits = sample.right(TEXT)
    figures = json.loads(answer.read_text())
    assert list(figures["integer_logits"].values()) == logits
    assert figures["class"] == LABELS[int(np.argmax(logits))]
    assert shown.startswith(f"{figures['class']}   from {figures['tokens']} tokens\n")
    assert figures["logits"] == {label: SCALE * x for label, x in zip(LABELS, logits)}
    # 80 MHz, 1,000 cycles a token.
    assert figures["board_milliseconds"] == pytest.approx(figures["tokens"] / 80)


def test_a_file_of_texts(make_board: Make, classify: Make, sample: Sample, tmp_path: Path) -> None:
    make_board()
    rng = random.Random(4)
    texts = [text(rng) for _ in range(20)]
    best = [int(np.argmax(sample.right(t))) for t in texts]
    data = tmp_path / "texts.csv"
    wrong = [(b + (i % 4 == 0)) % 3 for i, b in enumerate(best)]
    data.write_text("text,label\n" + "".join(f"{t},{b}\n" for t, b in zip(texts, wrong)))
    code, shown, _ = classify("--data", str(data), "--json", str(tmp_path / "answers.json"))
    assert code == 0
    assert shown.endswith("15 of 20 as their labels say\n")
    answers = json.loads((tmp_path / "answers.json").read_text())["answers"]
    assert [list(a["integer_logits"].values()) for a in answers] == [sample.right(t) for t in texts]


def test_the_image_is_loaded_once(make_board: Make, classify: Make) -> None:
    board = make_board()
    for _ in range(2):
        assert classify(TEXT)[0] == 0
        assert board.heard.count(Kind.USE) == 1


@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_a_line_that_is_unplugged_while_loading(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path, after: int
) -> None:
    board = make_board(Line(unplug=(after,)))
    figures = tmp_path / "load.json"
    code, shown, _ = command(boards.host.load, str(sample.image), "--json", str(figures))
    assert code == 0
    assert "checked by the board" in shown
    assert json.loads(figures.read_text())["reconnections"] == 1
    assert sample.is_in(board)


def test_a_line_that_is_unplugged_while_classifying(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    board = make_board(Line(away=0.5))
    options = ["--quantized", str(sample.quantized), "--json", str(tmp_path / "answer.json")]
    assert command(boards.host.load, str(sample.image))[0] == 0
    board.line.unplug = (len(board.heard) + 2,)  # INFO twice, then RUN
    code, _, error = command(boards.host.classify, TEXT, *options)
    assert (code, error[-7:]) == (0, "is back")
    figures = json.loads((tmp_path / "answer.json").read_text())
    assert list(figures["integer_logits"].values()) == sample.right(TEXT)


def test_a_line_that_does_not_come_back(make_board: Make, command: Make, sample: Sample) -> None:
    make_board(Line(unplug=(2,), away=60))
    code, shown, error = command(boards.host.load, str(sample.image), "--patience", "1")
    assert code == 3
    assert shown == ""
    assert "has gone and did not come back in 1 s: connect the board" in error


@pytest.mark.parametrize("after", [1, 2, 3, 6])
def test_a_board_that_is_reset_while_loading_is_loaded_again(
    make_board: Make, command: Make, sample: Sample, after: int
) -> None:
    board = make_board(Line(reset=(after,)))
    code, shown, _ = command(boards.host.load, str(sample.image), "--timeout", "1")
    assert code == 0
    assert sample.is_in(board)
    # Two INFO come first; a reset that takes the first WRITE with it loses nothing else.
    assert ("sent 2 times: the board had lost a part of it" in shown) == (after > 2)


def test_a_board_that_was_reset_has_no_image(
    make_board: Make, command: Make, sample: Sample
) -> None:
    board = make_board()
    assert command(boards.host.load, str(sample.image))[0] == 0
    board.line.reset = (len(board.heard),)
    code, _, error = command(
        boards.host.classify, TEXT, "--quantized", str(sample.quantized), "--timeout", "1"
    )
    assert code == 2
    assert error == (
        "error: the board has no image to use: none was loaded, or not to its end; "
        "`python -m boards.host.load IMAGE` loads one"
    )


def test_an_image_that_came_in_part_is_not_used(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    """Nor is the one before, over which it came."""
    board = make_board(Line(away=0.3))
    assert command(boards.host.load, str(sample.image))[0] == 0
    board.line.unplug = (len(board.heard) + 4,)  # INFO twice, then WRITEs
    assert command(boards.host.load, str(sample.image), "--patience", "0")[0] == 3
    while not (tmp_path / "ttyUSB0").exists():
        time.sleep(0.05)
    code, _, error = command(boards.host.classify, TEXT, "--quantized", str(sample.quantized))
    assert (code, error[:68]) == (
        2,
        "error: the board has no image to use: none was loaded, or not to its",
    )


def test_memory_that_forgets_is_named(make_board: Make, command: Make, sample: Sample) -> None:
    def damage(memory: bytearray) -> None:
        memory[200] ^= 1

    board = make_board(damage=damage)
    code, _, error = command(boards.host.load, str(sample.image))
    assert code == 2
    assert "the board has no image to use: its command stream is damaged" in error
    assert board.heard.count(Kind.USE) == 3


@pytest.mark.parametrize("module", [boards.host.info, boards.host.load, boards.host.classify])
def test_a_board_that_is_silent(
    make_board: Make, command: Make, sample: Sample, module: Any
) -> None:
    make_board(Line(silent=1.0))
    arguments = {
        boards.host.info: [],
        boards.host.load: [str(sample.image)],
        boards.host.classify: [TEXT, "--quantized", str(sample.quantized)],
    }[module]
    code, shown, error = command(module, *arguments, "--timeout", "1", "--tries", "1")
    assert (code, shown) == (3, "")
    assert "in 1 tries of 1 s: is the board on, its bitstream loaded, and the line at" in error


REFUSED = [
    (lambda s: image_for(s.model, 8), {}, "is for 8 lanes, the board has 4"),
    (lambda s: s.image.read_bytes(), {"memory_bytes": 512}, "the board's memory 512: take a"),
    (lambda s: s.image.read_bytes(), {"version": 1}, "the board speaks version 1 of the protocol"),
    (lambda s: s.image.read_bytes()[:-1], {}, "it is cut"),
    (lambda s: b"", {}, "before its header of 128: it is cut"),
]


@pytest.mark.parametrize(("data", "fields", "message"), REFUSED)
def test_an_image_that_is_not_for_this_board(
    make_board: Make,
    command: Make,
    sample: Sample,
    tmp_path: Path,
    data: Callable[[Sample], bytes],
    fields: dict[str, Any],
    message: str,
) -> None:
    board = make_board(**fields)
    file = tmp_path / "other.img"
    file.write_bytes(data(sample))
    code, shown, error = command(boards.host.load, str(file))
    assert (code, shown) == (2, "")
    assert error.startswith("error: ")
    assert message in error
    assert Kind.WRITE not in board.heard


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (2, "error 2: the stream in memory is damaged"),
        (7, "error 7: a token's id or type is beyond its table"),
        (11, "error 11: a row of the embedding table ended early or late"),
        (99, "error 99: a code that is unknown"),
    ],
)
def test_what_the_accelerator_refuses(
    make_board: Make, classify: Make, code: int, message: str
) -> None:
    make_board(runs=lambda words: code)
    ended, shown, error = classify(TEXT)
    assert (ended, shown) == (2, "")
    assert error == f"error: the accelerator ended with {message}"


def other_models(model: Model) -> dict[str, Model]:
    """Of one shape: other weights, and the same weights in another calibration."""
    layer = model.layers[0]
    assert model.head[0].m is not None
    scaled = replace(model.head[0], m=model.head[0].m ^ 1)
    scored = replace(layer.attention, score_m=layer.attention.score_m ^ 1)
    token = model.embedding.token.copy()
    token[-1, -1] ^= 1
    return {
        "weights": random_model(SHAPE, seed=6),
        "a weight": replace(model, embedding=replace(model.embedding, token=token)),
        "a channel": replace(model, head=(scaled, *model.head[1:])),
        "a scale": replace(model, layers=(replace(layer, attention=scored),)),
    }


@pytest.mark.parametrize("name", ["weights", "a weight", "a channel", "a scale"])
def test_an_image_of_another_model_is_not_asked(
    name: str, make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    """On the board already, or by --load: both models are named, no text is sent."""
    board = make_board()
    other, file = other_models(sample.model)[name], tmp_path / "other.img"
    file.write_bytes(image_for(other))
    asked = ["--quantized", str(sample.quantized)]
    names = f"model {identity_of(other).hex()}, --quantized {sample.quantized} is model "
    names += f"{identity_of(sample.model).hex()}: "
    code, shown, error = command(boards.host.classify, TEXT, *asked, "--load", str(file))
    assert (code, shown) == (2, "")
    assert error.startswith(f"error: --load {file} holds {names}write its image with `python -m ")
    assert board.heard == []
    assert command(boards.host.load, str(file))[0] == 0
    code, shown, error = command(boards.host.classify, TEXT, *asked)
    assert (code, shown) == (2, "")
    assert error.startswith(f"error: the board has the image of {names}load the image of this one")
    assert Kind.RUN not in board.heard
    assert command(boards.host.classify, TEXT, *asked, "--load", str(sample.image))[0] == 0


def test_a_board_that_takes_another_image_meanwhile(
    make_board: Make, classify: Make, sample: Sample
) -> None:
    """A reset in the middle, after which the flash's image is in use: its logits are not shown."""

    def runs(words: list[tuple[int, int, int]]) -> list[int] | int:
        board.model = b"another!"
        return sample.runs(words)

    board = make_board(runs=runs)
    code, shown, error = classify(TEXT)
    assert (code, shown) == (2, "")
    assert f"has the image of model {b'another!'.hex()}, --quantized " in error


def test_no_damage_of_an_image_reaches_the_board(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    board, file = make_board(), tmp_path / "damaged.img"
    data = sample.image.read_bytes()
    for number, damaged in enumerate(any_damage(data, 21, 40, sections(read_image(data)))):
        file.write_bytes(damaged)
        load = (boards.host.load, str(file))
        ask = (
            boards.host.classify,
            TEXT,
            "--quantized",
            str(sample.quantized),
            "--load",
            str(file),
        )
        code, shown, error = command(*(ask if number % 2 else load))
        assert (code, shown) == (2, "")
        assert "the image" in error
    assert not {Kind.WRITE, Kind.RUN} & set(board.heard)


def test_a_board_whose_logits_are_too_few(make_board: Make, command: Make, sample: Sample) -> None:
    make_board(runs=lambda words: [1, 2])
    options = ["--load", str(sample.image), "--quantized", str(sample.quantized)]
    code, _, error = command(boards.host.classify, TEXT, *options)
    assert code == 2
    assert "answers with 2 logits to a batch of 1, this model has 3 classes: load its" in error


def test_a_text_that_is_too_long_is_cut(make_board: Make, classify: Make) -> None:
    make_board()
    code, shown, _ = classify("film " * 30)
    assert code == 0
    assert "from 14 tokens (18 more cut)" in shown


def test_an_image_that_cannot_be_read(command: Make, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for path, why in [
        (tmp_path / "missing.img", "does not exist"),
        (tmp_path, "is a folder: give a file"),
        (tmp_path / "pipe", "is a pipe: give a regular file"),
        (tmp_path / "broken", "which does not exist"),
        (Path("/dev/full"), "is a device: give a regular file"),
    ]:
        code, shown, error = command(boards.host.load, str(path))
        assert (code, shown) == (2, "")
        assert error.startswith(f"error: argument IMAGE: {path} ")
        assert why in error


def test_an_image_to_load_that_is_none(
    make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    make_board()
    (tmp_path / "none.img").write_bytes(random.Random(1).randbytes(500))
    options = ["--load", str(tmp_path / "none.img"), "--quantized", str(sample.quantized)]
    code, shown, error = command(boards.host.classify, TEXT, *options)
    assert (code, shown) == (2, "")
    assert error.startswith(f"error: {tmp_path / 'none.img'}: the image begins with ")


def test_neither_a_text_nor_a_file(command: Make) -> None:
    assert command(boards.host.classify)[2] == (
        "error: give a text, or a file of texts with --data: one of the two"
    )


def test_ports_that_are_none(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "plain").write_text("plain")
    for port, message in [
        (tmp_path / "missing", "there is no port "),
        (tmp_path / "plain", "cannot be used as a serial port"),
        (tmp_path, "cannot be used as a serial port"),
    ]:
        assert message in refusal(boards.host.info.main, ["--port", str(port)], capsys, 3)


def test_a_port_that_another_program_uses(make_board: Make, command: Make, link: Make) -> None:
    make_board()
    link()
    code, _, error = command(boards.host.info)
    assert code == 3
    assert "is used by another program: end that first" in error


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            [],
            "error: there is no serial port on USB: connect the board, or name a port with "
            "--port\n",
        ),
        (["a", "b"], "error: there are several serial ports on USB, a, b: name one with --port\n"),
    ],
)
def test_a_port_has_to_be_named(
    found: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    class Port:
        vid = 0x0403

        def __init__(self, device: str) -> None:
            self.device = device

    monkeypatch.setattr(
        "boards.host.link.list_ports.comports", lambda: [Port(name) for name in found]
    )
    assert exit_code(boards.host.info.main, []) == 2
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("task", ["multi-label", "regression"])
def test_other_heads(
    task: str, make_board: Make, command: Make, sample: Sample, tmp_path: Path
) -> None:
    """Several labels at once and numbers, of a text and of a file, with what is right of each."""
    make_board()
    folder = shutil.copytree(sample.quantized, tmp_path / "model")
    file = folder / "quantized.json"
    description = json.loads(file.read_text())
    factors = [1.0, 0.5, 0.25]
    description["info"]["spec"]["task"] = task
    description["info"]["tensors"]["logits"]["factors"] = factors
    description["description_sha256"] = hash_of(description)
    file.write_text(json.dumps(description))
    texts = ["the film was good", "not a bad film !", "bad bad bad"]
    integers = [sample.right(words) for words in texts]
    held = [[n for n, x in zip(LABELS, row) if x > 0] for row in integers]
    values = [[SCALE * f * x for f, x in zip(factors, row)] for row in integers]
    right = [*held[:2], ["undecided"]] if task == "multi-label" else [[0.5, 1, 2]] * 3
    data, out = tmp_path / "texts.jsonl", tmp_path / "answers.json"
    lines = [json.dumps({"text": t, "label": x}) for t, x in zip(texts, right)]
    data.write_text("\n".join(lines))
    options = ["--quantized", str(folder), "--json", str(out)]
    assert command(boards.host.load, str(sample.image))[0] == 0
    code, shown, _ = command(boards.host.classify, "--data", str(data), *options)
    assert code == 0
    answers = json.loads(out.read_text())["answers"]
    assert [list(a["integer_logits"].values()) for a in answers] == integers
    if task == "multi-label":
        assert [a["labels"] for a in answers] == held
        same = sum(row == label for row, label in zip(held, right))
        assert shown.endswith(f"\n{same} of 3 as their labels say\n")
    else:
        for answer, expected in zip(answers, values):
            np.testing.assert_allclose(list(answer["values"].values()), expected, rtol=1e-6)
        error = np.square(np.array(values) - [0.5, 1, 2]).mean(axis=0)
        for name, square in zip(LABELS, error):
            assert f"{name}: mean squared error {square:.4f} of 3" in shown
    code, shown, _ = command(boards.host.classify, texts[0], *options)
    assert code == 0
    first = json.loads(out.read_text())
    assert first["integer_logits"] == dict(zip(LABELS, integers[0]))
    head = shown.splitlines()[0]
    said = (
        held[0] or ["no label"]
        if task == "multi-label"
        else [f"{name} {value:.4f}" for name, value in zip(LABELS, values[0])]
    )
    assert head == f"{', '.join(said)}   from {first['tokens']} tokens"


def without_table(folder: Path, info: dict[str, Any], **fields: Any) -> None:
    """A quantized model of 5 tokens whose rows are given, with a spec of these fields."""
    spec = replace(SPEC, given=True, vocabulary=5, positions=5, types=0, **fields)
    shape = replace(SHAPE, vocabulary=5, positions=5, types=0)
    model = random_model(shape, seed=6)
    blank = {name: np.zeros((5, 10), np.int8) for name in ("token", "token_low")}
    blank |= {name: np.zeros((1, 5, 10), np.int8) for name in ("position", "position_low")}
    factors = {"token_factor": 255, "position_factor": 1}
    model = replace(model, embedding=replace(model.embedding, **blank, **factors))
    formats = {"logits": {"scale": SCALE}, "embedding.token": {"scale": 0.001}}
    save(model, folder, info | {"spec": spec.to_json(), "tensors": formats})


def test_images_bring_their_rows(make_board: Make, command: Make, tmp_path: Path) -> None:
    """They are loaded with the model, all at once; the board says of them what golden does."""
    folder, out, file = tmp_path / "model", tmp_path / "answers.json", tmp_path / "images.npz"
    rng = np.random.default_rng(4)
    pixels = rng.integers(0, 256, (3, 4, 4), np.uint8)
    np.savez(file, images=pixels, labels=np.array(LABELS))
    weights = {
        name: rng.normal(size=size).astype(np.float32)
        for name, size in (("projection", (10, 1, 2, 2)), ("offsets", (4, 10)), ("before", (1, 10)))
    }
    front = Front(steps=Steps(scale=1 / 255), height=4, width=4, names=("[CLS]",), **weights)
    front.save(folder)
    without_table(folder, {"front": front.facts})

    classifier = Classifier.load(folder, None, floats=False)
    its, texts = classifier.placed([classifier.tokens(image) for image in pixels])
    right = [run(its.model, one.ids).tolist() for one in texts]
    assert len({tuple(logits) for logits in right}) == 3
    board = make_board(runs=lambda words: run(its.model, [one[0] for one in words]).tolist())
    options = ["--quantized", str(folder), "--json", str(out)]
    code, _, error = command(boards.host.classify, "--data", str(file), *options)
    assert (code, error) == (0, "classifying: 3 texts")
    answers = json.loads(out.read_text())["answers"]
    assert [list(one["integer_logits"].values()) for one in answers] == right
    memory = bytes(board.memory)
    read = read_image(memory[: int.from_bytes(memory[16:24], "little")])
    assert read.rows == embedding_table(its.model, LANES).tobytes()
    code, _, error = command(boards.host.classify, "a.png", "--load", str(file), *options)
    assert code == 2
    assert error.endswith("leave --load away")


def test_files_bring_their_rows(make_board: Make, command: Make, tmp_path: Path) -> None:
    """Of lengths of their own, with the class that the folder says."""
    folder, out, source = tmp_path / "model", tmp_path / "answers.json", tmp_path / "rows"
    files = [source / label / "1.npy" for label in LABELS]
    for length, file in enumerate(files, 2):
        file.parent.mkdir(parents=True)
        np.save(file, np.random.default_rng(length).normal(size=(length, 10)))
    without_table(folder, {}, rows=True)
    classifier = Classifier.load(folder, None, floats=False)
    texts = [classifier.tokens(str(file)) for file in sorted(files)]
    its, numbered = classifier.placed(texts)
    right = [run(its.model, one.ids).tolist() for one in numbered]
    assert len({tuple(logits) for logits in right}) == len(LABELS)
    make_board(runs=lambda words: run(its.model, [one[0] for one in words]).tolist())
    options = ["--quantized", str(folder), "--json", str(out)]
    code, _, error = command(boards.host.classify, "--data", str(source), *options)
    assert (code, error) == (0, f"classifying: {len(LABELS)} texts")
    found = json.loads(out.read_text())["answers"]
    assert [one["tokens"] for one in found] == [len(text.ids) for text in texts]
    assert [list(one["integer_logits"].values()) for one in found] == right


def test_a_class_for_every_token(make_board: Make, command: Make, tmp_path: Path) -> None:
    """Words with their labels, of a text and of a file with tags; texts share inferences."""
    model = random_model(replace(SHAPE, pooling="none"), seed=6)
    spec = replace(SPEC, pooling="none", task="token-classification")
    folder, image, data = (tmp_path / name for name in ("model", "model.img", "texts.jsonl"))
    save(model, folder, info_of(spec, folder))
    image.write_bytes(image_for(model))

    def runs(words: list[tuple[int, int, int]]) -> list[int]:
        ids, types = (np.array([word[place] for word in words]) for place in (0, 1))
        return [int(x) for x in run(model, ids, types).reshape(-1)]

    make_board(runs=runs)
    texts, out = [["the", "film", "was", "good"], ["bad"], ["not", "a"]], tmp_path / "answers.json"
    rows = []
    for words in texts:
        tokens = TextTokenizer(folder).encode(words, limit=14, words=True)
        rows.append(run(model, tokens.ids, tokens.types)[tokens.first])
    right = [[LABELS[row.argmax()] for row in part] for part in rows]
    wrong = next(name for name in LABELS if name != right[1][0])
    tags = [[*right[0][:3], None], [wrong], right[2]]
    lines = [json.dumps({"tokens": w, "tags": t}) for w, t in zip(texts, tags)]
    data.write_text("\n".join(lines))
    options = ["--quantized", str(folder), "--json", str(out)]
    assert command(boards.host.load, str(image))[0] == 0
    code, shown, error = command(boards.host.classify, "--data", str(data), *options)
    assert (code, error.startswith("error")) == (0, False), error
    found = json.loads(out.read_text())
    assert [a["integer_logits"] for a in found["answers"]] == [part.tolist() for part in rows]
    assert [a["labels"] for a in found["answers"]] == right
    assert [a["words"] for a in found["answers"]] == texts
    assert found["total"]["batches"] == 2  # 8 tokens have room for their logits
    assert shown.endswith("\n5 of 6 words as their tags say\n")
    code, shown, _ = command(boards.host.classify, " ".join(texts[0]), *options)
    said = [w if label == "O" else f"{w}/{label}" for w, label in zip(texts[0], right[0])]
    assert (code, shown.splitlines()[0]) == (0, f"{' '.join(said)}   from 6 tokens")
    other = command(boards.host.classify, "good", "--pair", "bad", *options)
    assert other[0] == 2
    assert "reads one text: give no pair" in other[2]
