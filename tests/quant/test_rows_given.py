"""Files of rows that a user's own front end made, as models/export_sound.py has it for sound."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from golden import encoder, store
from quant import calibrate, classify, evaluate, inspect, which
from quant import embed as embedding
from quant.classify import Classifier
from quant.foreign import config as options
from quant.foreign.checkpoint import load
from quant.images import data
from quant.model import float_model
from quant.model.spec import EMBEDDING, FILES, CheckpointError, EncoderSpec
from quant.texts.data_file import TextError
from rtl.compile import __main__ as compiler
from rtl.compile.image import read_image
from sim import regress, run, vectors
from sim.cycles import __main__ as cycles
from tb.generate import __main__ as benches
from tests.quant import tiny

ROOT = Path(__file__).resolve().parents[2]
HIDDEN, MOST = 12, 9
NAMES = ("no", "stop", "yes")
COUNT = 12


def lively(model: Any) -> Any:
    """Random weights under which every layer counts."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    for name, parameter in model.named_parameters():
        one = "norm" in name and name.endswith("weight")
        torch.nn.init.normal_(parameter, 1.0 if one else 0.0, 0.3)
    return model.eval()


WAV2VEC2_SIZES: dict[str, Any] = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
    "conv_dim": (8, 8), "conv_kernel": (5, 3), "conv_stride": (3, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 6,
    "num_labels": 3, "layer_norm_eps": 1e-4, "vocab_size": 8,
}  # fmt: skip


def whisper() -> tuple[Any, Any, Any, tuple[Any, ...]]:
    """The classifier of sounds, its encoder, one sound, and what `export` takes."""
    torch = pytest.importorskip("torch")
    from transformers import WhisperConfig, WhisperForAudioClassification

    config = WhisperConfig(
        d_model=24, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=40,
        num_mel_bins=5, max_source_positions=7, classifier_proj_size=6, num_labels=3,
        decoder_layers=1, decoder_attention_heads=3, decoder_ffn_dim=8, vocab_size=8,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = lively(WhisperForAudioClassification(config))
    sound = torch.randn(1, 5, 14)
    return model, model.encoder, sound, (config.max_source_positions, True, "gelu")


def wav2vec2(kind: str, stable: bool) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    torch = pytest.importorskip("torch")
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        **WAV2VEC2_SIZES, do_stable_layer_norm=stable, hidden_act="relu" if stable else "gelu"
    )
    model = lively(getattr(transformers, f"{kind}ForSequenceClassification")(config))
    encoder = getattr(model, kind.lower())
    return model, encoder, torch.randn(1, 61), (16, stable, config.hidden_act)


SOUNDS: dict[str, Callable[[], tuple[Any, Any, Any, tuple[Any, ...]]]] = {
    "Whisper": whisper,
    "Wav2Vec2 post-norm": lambda: wav2vec2("Wav2Vec2", False),
    "Wav2Vec2 stable": lambda: wav2vec2("Wav2Vec2", True),
    "Hubert": lambda: wav2vec2("Hubert", False),
}


def every_row(folder: Path) -> None:
    """The checkpoint with the encoder's own channels as the outputs of each row."""
    file = folder / "model.safetensors"
    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    head = {"classifier.weight": np.eye(hidden), "classifier.bias": np.zeros(hidden)}
    save_file(load_file(file) | {n: x.astype(np.float32) for n, x in head.items()}, file)
    labels = {str(i): f"channel {i}" for i in range(hidden)}
    change(folder, pooling="none", id2label=labels)


def change(folder: Path, **fields: Any) -> None:
    """A field of None is taken out."""
    config = json.loads((folder / "config.json").read_text()) | fields
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("kind", SOUNDS)
def test_encoders_of_sound_equal_transformers(kind: str, tmp_path: Path) -> None:
    """Every row of the encoder, its classifier, and the mean as an embedding."""
    torch = pytest.importorskip("torch")
    ours = runpy.run_path(str(ROOT / "models" / "export_sound.py"))
    model, its, sound, choices = SOUNDS[kind]()
    layers, names = (its, "WHISPER") if kind == "Whisper" else (its.encoder, "WAV2VEC2")
    rows = ours["whisper_rows" if kind == "Whisper" else "wav2vec2_rows"](its, sound)
    with torch.no_grad():
        wanted, logits = its(sound)[0][0].numpy(), model(sound).logits[0].numpy()
    assert wanted.std() > 0.1

    def answer(folder: Path, task: str | None = None) -> np.ndarray:
        checkpoint = load(folder, task)
        table = checkpoint.arrays | {"embedding.token": rows}
        return float_model.run(checkpoint.spec, table, np.arange(len(rows), dtype=np.int32))

    for place, head in (("bare", None), ("head", model)):
        ours["export"](tmp_path / place, layers, ours[names], *choices, head)
    np.testing.assert_allclose(answer(tmp_path / "head"), logits, rtol=0, atol=1e-5)
    for place in ("head", "bare"):
        found = answer(tmp_path / place, EMBEDDING)
        np.testing.assert_allclose(found, wanted.mean(axis=0), rtol=0, atol=1e-5)
    with pytest.raises(CheckpointError, match=r"classifier.weight is missing"):
        load(tmp_path / "bare")
    model.config.use_weighted_layer_sum = True
    with pytest.raises(ValueError, match=r"use_weighted_layer_sum"):
        ours["export"](tmp_path / "sum", layers, ours[names], *choices, model)
    every_row(tmp_path / "bare")
    np.testing.assert_allclose(answer(tmp_path / "bare"), wanted, rtol=0, atol=1e-5)


def checkpoint(folder: Path, **fields: Any) -> Path:
    """A tiny one of pre-norm layers, with a norm of the rows as well."""
    arrays = tiny.transformer_tensors(tiny.tensors())
    del arrays["embedding.weight"]
    norm = np.random.default_rng(9)
    arrays |= {
        "embedding_norm.weight": norm.uniform(0.5, 1.5, HIDDEN).astype(np.float32),
        "embedding_norm.bias": norm.normal(0, 0.2, HIDDEN).astype(np.float32),
    }
    left_out = dict.fromkeys(("vocab_size", "scale_embedding"))
    own = {
        "rows": True, "embedding_norm": True, "max_position_embeddings": MOST,
        "id2label": dict(zip("012", NAMES)),
    }  # fmt: skip
    tiny.write(folder, tiny.TRANSFORMER | left_out | own | fields, arrays)
    (folder / "vocab.txt").unlink()
    return folder


def written(file: Path, rows: int, seed: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.random.default_rng(seed).normal(size=(rows, HIDDEN)).astype(np.float32))
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of classes, whose files have 1 to 9 rows, and pictures beside them."""
    folder = tmp_path_factory.mktemp("rows")
    for place in range(COUNT):
        written(folder / NAMES[place % 3] / f"{place:02}.npy", 1 + place % MOST, place)
    (folder / NAMES[0] / "spectrum.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def quantized(folder: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("quantized") / "rows"
    arguments = ["--model", str(folder), "--data", str(source), "--out", str(out)]
    assert calibrate.main([*arguments, "--remedies", "none"]) == 0
    return out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "one.npy", 5, 99)


def golden_of(quantized: Path, file: Path) -> list[int]:
    classifier = Classifier.load(quantized, None, floats=False)
    its, (tokens,) = classifier.placed([classifier.tokens(str(file))])
    assert len(its.model.embedding.token) == len(np.load(file))
    return encoder.run(its.model, tokens.ids, tokens.types).tolist()


def test_a_file_is_classified(
    quantized: Path, folder: Path, file: Path, source: Path, tmp_path: Path, capsys
) -> None:
    """The reader is part of the spec; answers by every way are those of golden."""
    model, info = store.load(quantized)
    assert (info["spec"]["given"], info["spec"]["rows"]) == (True, True)
    assert not model.embedding.token.any()
    assert not {"tokenizer", "front"} & set(info)
    assert which.is_made(quantized, folder)
    out, lines = tmp_path / "one.json", tmp_path / "lines.jsonl"
    common = ["--quantized", str(quantized)]
    assert classify.main([str(file), *common, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    right = golden_of(quantized, file)
    assert list(found["golden"]["integer_logits"].values()) == right
    floats = load(folder)
    table = floats.arrays | {"embedding.token": np.load(file)}
    logits = float_model.run(floats.spec, table, np.arange(5, dtype=np.int32))
    assert list(found["float"]["logits"].values()) == pytest.approx(logits.tolist(), abs=1e-5)
    (tmp_path / "table.csv").write_text("file,label\none.npy,yes\none.npy,no\n")
    batch = ["--batch", str(tmp_path / "table.csv"), "-o", str(lines)]
    assert classify.main([*batch, *common]) == 0
    answers = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [list(one["integer_logits"].values()) for one in answers] == [right] * 2
    figures = tmp_path / "figures.json"
    assert evaluate.main([*common, "--data", str(source), "--json", str(figures)]) == 0
    values = json.loads(figures.read_text())
    assert (values["texts"], values["labelled_texts"]) == (COUNT, COUNT)
    assert f"{COUNT} files, " in capsys.readouterr().out


def test_other_commands_take_files(
    quantized: Path, folder: Path, file: Path, source: Path, tmp_path: Path, capsys
) -> None:
    """Inspection, the stream and vectors."""
    common = ["--quantized", str(quantized)]
    assert inspect.main([str(folder), "--data", str(source)]) == 0
    said = capsys.readouterr().out
    assert f"up to {MOST} tokens, whose rows come in files" in said
    assert f"files of rows, .npy with float32 [L, {HIDDEN}]" in said
    assert f"parameters: embedding {2 * HIDDEN}, layer " in said
    image = tmp_path / "model.img"
    stream = [*common, "--lanes", "4", "--image", str(image)]
    assert compiler.main(stream) == 0
    assert "note: rows come with each file" in capsys.readouterr().err
    assert not any(read_image(image.read_bytes()).rows)
    assert compiler.main([*stream, "--text", str(file)]) == 0
    full = read_image(image.read_bytes())
    assert any(full.rows[4 * full.row_bytes : 5 * full.row_bytes])
    assert not any(full.rows[5 * full.row_bytes :])
    cut = [*common, "--text", str(file), "--unit", "layernorm", "--out", str(tmp_path / "cut")]
    assert vectors.main(cut) == 0


@pytest.mark.slow
def test_slower_commands_take_files(
    quantized: Path, file: Path, source: Path, tmp_path: Path
) -> None:
    """A bench without Python, and cycles of batches."""
    common = ["--quantized", str(quantized)]
    made = ["-o", str(tmp_path / "bench"), "--text", str(file), "--lanes", "4"]
    assert benches.main(["accelerator", *common, *made]) == 0
    lengths = ["--lanes", "4", "--tokens", str(MOST), "--batch", "20", "--data", str(source)]
    assert cycles.main([*common, *lengths]) == 0


def test_rows_become_embeddings_and_a_class_each(
    source: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the classifier the mean of a file; without pooling a class for every row."""
    model = checkpoint(tmp_path / "model")
    out, npy = tmp_path / "embeds", tmp_path / "vectors.npy"
    given = ["--model", str(model), "--data", str(source), "--remedies", "none"]
    assert calibrate.main([*given, "--task", "embedding", "--out", str(out)]) == 0
    assert embedding.main([str(source), "--quantized", str(out), "-o", str(npy)]) == 0
    assert np.load(npy).shape == (COUNT, HIDDEN)
    assert f"{COUNT} files, " in capsys.readouterr().out
    assert inspect.main([str(model), "--task", "embedding", "--texts", "0"]) == 0
    assert f"\nembedding of {HIDDEN}: the mean of the tokens\n" in capsys.readouterr().out
    change(model, pooling="none")
    out, figures = tmp_path / "every", tmp_path / "every.json"
    assert calibrate.main([*given, "--out", str(out)]) == 0
    assert classify.main([str(file), "--quantized", str(out), "--json", str(figures)]) == 0
    found = json.loads(figures.read_text())["golden"]
    assert found["words"] == [*"01234"]
    assert np.shape(found["integer_logits"]) == (5, len(NAMES))
    (tmp_path / "table.csv").write_text("file,tags\none.npy,yes no yes no yes\n")
    options_ = ["--quantized", str(out), "--json", str(figures)]
    assert evaluate.main(["--data", str(tmp_path / "table.csv"), *options_]) == 0
    with pytest.raises(CheckpointError, match=r"pooling is 'none' and task 'embedding'"):
        load(model, EMBEDDING)


def saved(out: Path, value: Any, pickled: bool = False) -> None:
    np.save(out, value, allow_pickle=pickled)


def archived(out: Path) -> None:
    with out.open("wb") as content:
        np.savez(content, rows=np.zeros((3, HIDDEN)))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "width": (lambda out: saved(out, np.zeros((3, 11))), r"float64 \[3, 11\]: it must be a .npy"),
    "vector": (lambda out: saved(out, np.zeros(HIDDEN)), r"is an array of float64 \[12\]: it must"),
    "3-D": (lambda out: saved(out, np.zeros((1, 3, HIDDEN))), r"float64 \[1, 3, 12\]: it must"),
    "integers": (lambda out: saved(out, np.zeros((3, HIDDEN), int)), r"int64 \[3, 12\]: it must"),
    "complex": (lambda out: saved(out, np.zeros((3, HIDDEN), complex)), r"complex128 \[3, 12\]"),
    "no row": (lambda out: saved(out, np.zeros((0, HIDDEN))), r"\[0, 12\]: .* L from 1 to 9$"),
    "long": (lambda out: saved(out, np.zeros((10, HIDDEN))), r"\[10, 12\]: .* L from 1 to 9$"),
    "nan": (lambda out: saved(out, np.full((1, HIDDEN), np.nan)), "has 12 values that are not fin"),
    "large": (lambda out: saved(out, np.full((1, HIDDEN), 1e39)), "has 12 values that are not fin"),
    "pickle": (
        lambda out: saved(out, np.array([[{}] * HIDDEN]), True),
        r"is damaged or cut off \(Object arrays cannot be loaded .*: it must be a .npy file of",
    ),
    "text": (lambda out: out.write_text("1 2 3"), "is no .npy file: it must be a .npy file of"),
    "npz": (archived, "is no .npy file: it must be"),
    "cut": (lambda out: out.write_bytes(b"\x93NUMPY\x01\x00"), "is damaged or cut off"),
    "empty": (lambda out: out.write_bytes(b""), "is empty: it must be a .npy file of finite"),
    "folder": (lambda out: out.mkdir(), "is a folder: give a .npy file in it"),
    "missing": (lambda out: None, "cannot read .*bad.npy: No such file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_refused(kind: str, quantized: Path, tmp_path: Path, capsys) -> None:
    make, message = BAD[kind]
    out = tmp_path / "bad.npy"
    make(out)
    assert classify.main([str(out), "--quantized", str(quantized)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
    assert "bad.npy" in line


@pytest.mark.parametrize("kind", [np.float16, np.float64, ">f4"])
def test_other_floats_are_the_same_rows(kind: Any, quantized: Path, tmp_path: Path) -> None:
    rows = np.arange(3 * HIDDEN).reshape(3, HIDDEN) / 16
    for name, dtype in (("one", np.float32), ("two", kind)):
        np.save(tmp_path / name, rows.astype(dtype))
    first, second = (golden_of(quantized, tmp_path / f"{name}.npy") for name in ("one", "two"))
    assert first == second


NONE_AT_HAND = "and none are at hand: name .npy files of rows"


def test_what_takes_no_rows_says_so(
    quantized: Path, folder: Path, file: Path, tmp_path: Path, capsys
) -> None:
    common = ["--quantized", str(quantized)]

    def refused(main: Callable[[list[str]], int], arguments: list[str], message: str) -> None:
        assert main(arguments) == 2
        assert re.search(message, capsys.readouterr().err.splitlines()[-1])

    refused(classify.main, [str(file), "--pair", "x", *common], "reads one file: give no pair")
    refused(classify.main, [" ", *common], "the path of the rows is empty")
    refused(classify.main, [str(file), "--tokens", "4", *common], "limit is 4: give --tokens 5")
    refused(classify.main, [str(file), "--model", str(folder)], NONE_AT_HAND)
    for main in (calibrate.main, evaluate.main):
        refused(main, ["--model", str(folder)], NONE_AT_HAND)
    for main in (evaluate.main, run.main, regress.main, vectors.main):
        refused(main, common, NONE_AT_HAND)
    refused(inspect.main, [str(folder)], NONE_AT_HAND)
    for arguments in (common, ["--model", str(folder)]):
        refused(embedding.main, arguments, NONE_AT_HAND)
    refused(cycles.main, [*common, "--lanes", "4", "--batch", "20"], NONE_AT_HAND)
    ids = tmp_path / "ids"
    ids.write_text("0 1\n")
    refused(vectors.main, [*common, "--ids", str(ids)], "a model of files, whose ids are the num")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda out: out.mkdir(), "holds no .npy file"),
        (lambda out: out.with_suffix(".npz"), "no files at .*: give a folder with a folder of fil"),
        (lambda out: written(out / "maybe" / "1.npy", 1, 1), "its name is 'maybe', not one of no"),
    ],
)
def test_bad_sources_are_refused(make: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    out = tmp_path / "data"
    make(out)
    with pytest.raises(TextError, match=message):
        list(data.stream(out, inputs=FILES, names=NAMES))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows": 1}, "rows is 1: it must be true or false"),
        ({"rows": False}, "the tensor embedding.weight is missing"),
        ({"vocab_size": 12}, "vocab_size is 12 and rows true: the rows are those of your front"),
        ({"scale_embedding": True}, "scale_embedding is True and rows true: .* leave scale_emb"),
        ({"sinusoids": True}, "sinusoids is True and rows true: .* leave sinusoids out"),
        ({"hidden_size": 24}, "embedding.token has shape 9 x 12: the config asks for 9 x 24"),
        ({"max_position_embeddings": 8193}, "max_position_embeddings is 8193: it must be from 1"),
    ],
)
def test_refuses_a_config(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(checkpoint(tmp_path / "model", **fields))


def test_an_embedding_beside_rows_has_no_place(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "model", sinusoids=False, scale_embedding=False)
    assert load(model).spec.rows
    file = model / "model.safetensors"
    save_file(load_file(file) | {"embedding.weight": np.zeros((12, 12), np.float32)}, file)
    with pytest.raises(CheckpointError, match=r"embedding.weight has no place in this encoder"):
        load(model)
    with pytest.raises(ValueError, match=r"rows is True and given False"):
        EncoderSpec(
            layers=1, hidden=4, heads=1, head_size=4, ffn=4, labels=("a", "b"), vocabulary=1,
            positions=1, rows=True,
        )  # fmt: skip


@pytest.mark.parametrize("family", ["whisper", "wav2vec2", "hubert", "sew"])
def test_sound_as_it_is_names_this_way(family: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    with pytest.raises(CheckpointError, match=r"run them yourself, and its layers as a bert2rtl-t"):
        options.read(tmp_path / "config.json")


@pytest.mark.slow
def test_the_simulated_verilog_takes_files(
    quantized: Path, file: Path, source: Path, tmp_path: Path, capsys
) -> None:
    figures = tmp_path / "run.json"
    common = ["--quantized", str(quantized), "--lanes", "4", "--json", str(figures)]
    page = ["--html", str(tmp_path / "page.html")]
    assert run.main([*common, *page, "--text", str(file), "--simulator", "icarus"]) == 0
    said = capsys.readouterr().out
    assert "Every bit equal to the golden model" in said
    assert f"file    {file}" in " ".join(said.split("\n"))
    verdicts = {one["model"]: one for one in json.loads(figures.read_text())["verdicts"]}
    assert list(verdicts["RTL"]["logits"].values()) == golden_of(quantized, file)
    drawn = (tmp_path / "page.html").read_text()
    assert "One file through simulated Verilog" in drawn
    assert "Rows are shaded by the mean over all queries" in drawn
