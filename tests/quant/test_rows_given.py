"""Files of rows that a user's own front end made, as models/export_sound.py has it for sound."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from quant.foreign.checkpoint import load
from quant.images.data import read_rows
from quant.model import float_model
from quant.model.spec import EMBEDDING, CheckpointError, InputError
from tests.quant import tiny, zoo

ROOT = Path(__file__).resolve().parents[2]
HIDDEN, MOST = 12, 9
NAMES = ("no", "stop", "yes")


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
    hidden = tiny.json_of(folder / "config.json")["hidden_size"]
    head = {"classifier.weight": np.eye(hidden), "classifier.bias": np.zeros(hidden)}
    save_file(load_file(file) | {n: x.astype(np.float32) for n, x in head.items()}, file)
    labels = {str(i): f"channel {i}" for i in range(hidden)}
    zoo.change(folder, pooling="none", id2label=labels)


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


def saved(out: Path, *shape: int, dtype: Any = float, value: Any = 0) -> None:
    np.save(out, np.full(shape, value, dtype))


def archived(out: Path) -> None:
    with out.open("wb") as content:
        np.savez(content, rows=np.zeros((3, HIDDEN)))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "width": (lambda out: saved(out, 3, 11), r"float64 \[3, 11\]\): it must be a .npy"),
    "3-D": (lambda out: saved(out, 1, 3, HIDDEN), r"float64 \[1, 3, 12\]\): it must"),
    "integers": (lambda out: saved(out, 3, HIDDEN, dtype=int), r"int64 \[3, 12\]\): it must"),
    "no row": (lambda out: saved(out, 0, HIDDEN), r"\[0, 12\]\): .* L from 1 to 9$"),
    "long": (lambda out: saved(out, 10, HIDDEN), r"\[10, 12\]\): .* L from 1 to 9$"),
    "nan": (lambda out: saved(out, 1, HIDDEN, value=np.nan), "12 values that are not fin"),
    "large": (lambda out: saved(out, 1, HIDDEN, value=1e39), "12 values that are not fin"),
    "pickle": (lambda out: saved(out, 1, HIDDEN, dtype=object), "Object arrays cannot"),
    "text": (lambda out: out.write_text("1 2 3"), "cannot be read .*: it must be a .npy file of"),
    "npz": (archived, "cannot be read .*: it must be"),
    "cut": (lambda out: out.write_bytes(b"\x93NUMPY\x01\x00"), "cannot be read .*: it must be"),
    "folder": (lambda out: out.mkdir(), "is no file.: it must be a .npy file"),
    "missing": (lambda out: None, "does not exist.: it must be a .npy file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_refused(kind: str, tmp_path: Path) -> None:
    make, message = BAD[kind]
    make(tmp_path / "bad.npy")
    with pytest.raises(InputError, match=message) as error:
        read_rows(tmp_path / "bad.npy", HIDDEN, MOST)
    assert str(error.value).startswith(str(tmp_path / "bad.npy"))


@pytest.mark.parametrize("kind", [np.float16, np.float64, ">f4"])
def test_other_floats_are_the_same_rows(kind: Any, tmp_path: Path) -> None:
    rows = (np.arange(3 * HIDDEN).reshape(3, HIDDEN) / 16).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows.astype(kind))
    found = read_rows(tmp_path / "rows.npy", HIDDEN, MOST)
    assert found.dtype == np.float32
    assert np.array_equal(found, rows)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows": False}, "vocab_size is None"),
        ({"hidden_size": 24}, "embedding.token has shape 9 x 12: the config asks for 9 x 24"),
        *(({name: value}, f"{name} is {value}") for name, value in (
            ("rows", 1), ("vocab_size", 12), ("scale_embedding", True), ("sinusoids", True),
            ("max_position_embeddings", 8193))),
    ],
)  # fmt: skip
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
