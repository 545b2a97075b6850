"""Tokenizers of foreign folders: ids, segments and lengths are those of their own library."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

from quant.foreign.checkpoint import DEFAULT_MODEL, fingerprint, load
from quant.foreign.tokenizer import InputError, TextTokenizer, encode
from quant.measure.metrics import unit
from quant.model import float_model
from quant.model.spec import CheckpointError
from tests.quant import tiny

TEXTS = [
    "The Movie was TERRIBLE, and I'd not watch it again!",
    "Caf\u00e9 na\u00efve Z\u00fcrich",
    "\u4e2d\u6587 and \U0001f600 film",
    "[MASK] is a [SEP] of words",
    "a",
    "good film bad movie " * 12,
]
PAIRS = [("Is it raining?", "No, it is SUNNY."), ("good film " * 9, "bad movie " * 14)]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"do_lower_case": False},
    {"do_lower_case": True},
    {"strip_accents": False},
    {"strip_accents": True, "do_lower_case": False},
    {"tokenize_chinese_chars": False},
    {"truncation_side": "left"},
    {"model_max_length": 9},
    {"model_max_length": 512},
    {"model_input_names": ["input_ids", "attention_mask"]},
    {"tokenizer_class": "PreTrainedTokenizerFast"},
    {"tokenizer_class": "DistilBertTokenizer"},
    {"added_tokens_decoder": {"5": {"content": "film", "special": False}}},
]


def folder_of(folder: Path, settings: dict[str, Any], whole: bool, family: str = "bert") -> Path:
    """The shipped vocabulary under other options, with and without a tokenizer.json."""
    folder.mkdir(parents=True)
    names = ("vocab.txt", "tokenizer.json") if whole else ("vocab.txt",)
    for name in names:
        shutil.copy(DEFAULT_MODEL / name, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def compare(folder: Path, longest: int = 24) -> None:
    """Every text of both kinds, cut where the checkpoint or `longest` says."""
    transformers = pytest.importorskip("transformers")
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception:  # what the library cannot read is refused
        with pytest.raises(CheckpointError, match="transformers cannot read the tokenizer"):
            tiny.tokenizer(folder)
        return
    ours = tiny.tokenizer(folder)
    limit = min(longest, ours.resolved.tokens or longest)
    assert limit == min(longest, theirs.model_max_length)
    for text, pair in [*((text, None) for text in TEXTS), *PAIRS]:
        found = ours.encode(text, pair, limit=limit)
        right = theirs(text, pair, truncation=True, max_length=limit)
        assert found.ids.tolist() == right["input_ids"], (text, pair)
        types = right.get("token_type_ids", [0] * len(found.ids))
        assert found.types.tolist() == types, (text, pair)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_every_option_is_that_of_transformers(settings, whole, tmp_path):
    compare(folder_of(tmp_path / "model", settings, whole))


def test_files_beside_the_vocabulary_count(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", {}, whole=False)
    (folder / "added_tokens.json").write_text(json.dumps({"sunny.": 30522}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"mask_token": "watch"}))
    compare(folder)


def test_byte_pairs_without_a_tokenizer_json(tmp_path: Path) -> None:
    """RoBERTa with vocab.json and merges.txt alone."""
    folder = tmp_path / "model"
    folder.mkdir()
    letters = [*"abcdefghijklmnopqrstuvwxyzTIMRE", "\u0120", "!", ",", "'", "?"]
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters, "go", "od", "good"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\ng o\no d\ngo od\n")
    (folder / "config.json").write_text('{"model_type": "roberta"}')
    for prefix in (False, True):
        settings = {"add_prefix_space": prefix}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        compare(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "code of its own is never run"),
        ({"split_special_tokens": True}, "split_special_tokens is True"),
        ({"model_max_length": 0}, "model_max_length is 0: it must be 1 or more"),
        ({"model_max_length": "512"}, "transformers cannot read the tokenizer"),
        ({"model_max_length": 9.7}, "model_max_length is 9.7: it must be 1 or more, and whole"),
        ({"model_max_length": float("nan")}, "model_max_length is nan"),
        ({"truncation_side": "middle"}, "current value: middle"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "in Python|cannot read"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message) as refusal:
        tiny.tokenizer(folder_of(tmp_path / "model", settings, whole=True))
    assert "\n" not in str(refusal.value)


def test_options_beside_the_special_tokens_count(tmp_path: Path) -> None:
    """The library takes any option from special_tokens_map.json."""
    folder = tiny.write(tmp_path)
    file = folder / "special_tokens_map.json"
    file.write_text('{"truncation_side": "left", "model_max_length": 7}')
    compare(folder)
    file.write_text('{"split_special_tokens": true}')
    with pytest.raises(CheckpointError, match="split_special_tokens is True"):
        tiny.tokenizer(folder)


def byte_pairs(folder: Path, **options: Any) -> Path:
    """A RoBERTa's tokenizer.json of a few letters, with options of its model."""
    pairs = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], **options))
    folder.mkdir()
    pairs.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "roberta"}')
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    return folder


def test_tokens_drawn_by_chance_are_refused(tmp_path: Path) -> None:
    assert tiny.tokenizer(byte_pairs(tmp_path / "none", dropout=0.0)).rows == 3
    with pytest.raises(CheckpointError, match=r"dropout is 0\.5"):
        tiny.tokenizer(byte_pairs(tmp_path / "half", dropout=0.5))


def test_a_library_that_panics_is_one_line(tmp_path: Path) -> None:
    folder = byte_pairs(tmp_path / "model")
    pipeline = json.loads((folder / "tokenizer.json").read_text())
    pipeline["model"]["continuing_subword_prefix"] = "@@"
    (folder / "tokenizer.json").write_text(json.dumps(pipeline))
    with pytest.raises(CheckpointError, match=r"cannot read the tokenizer \(slice index"):
        tiny.tokenizer(folder)


@pytest.mark.parametrize(
    "name",
    [
        *("tokenizer.json", "tokenizer.4.0.0.json", "tokenizer.model", "sentencepiece.bpe.model"),
        *("spiece.model", "spm.model", "tiktoken.model", "tekken.json", "vocab.txt", "vocab.json"),
        *("merges.txt", "added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"),
        *("config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"),
        *("sentence_bert_config.json", "preprocessor_config.json"),
    ],
)
def test_every_file_that_is_read_is_of_the_hash(name: str, tmp_path: Path) -> None:
    folder = tiny.write_embedder(tmp_path)
    file = folder / name
    assert fingerprint(folder) == load(folder).sha256
    content = file.read_bytes() if file.is_file() else b"{}"
    hashes = set()
    for written in (content, content + b" "):
        file.write_bytes(written)
        hashes.add(fingerprint(folder))
    assert len(hashes) == 2


def test_ids_beyond_the_embedding_are_refused(tmp_path: Path) -> None:
    folder = tiny.write(tmp_path, vocabulary=[*tiny.WORDS, "more"])
    with pytest.raises(CheckpointError, match="ids up to 12, and the embedding 12 rows"):
        load(folder)


def test_a_pair_needs_a_second_segment(tmp_path: Path) -> None:
    arrays = tiny.tensors()
    name = "bert.embeddings.token_type_embeddings.weight"
    arrays[name] = arrays[name][:1].copy()
    checkpoint = load(tiny.write(tmp_path, {"type_vocab_size": 1}, arrays))
    tokenizer = TextTokenizer(checkpoint.resolved)
    assert encode(checkpoint.spec, tokenizer, "good film", None, 16).types.max() == 0
    with pytest.raises(InputError, match="segment 1: the model has 1 segment type: give no pair"):
        encode(checkpoint.spec, tokenizer, "good", "film", 16)


LENGTHS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sentence_bert_config": {"max_seq_length": 9}}, {}),
    ({}, {"model_max_length": 7}),
    ({"sentence_bert_config": {"max_seq_length": None}}, {"model_max_length": 7}),
    ({"sentence_bert_config": {"max_seq_length": 12}}, {"model_max_length": 7}),
    ({"sentence_roberta_config": {"max_seq_length": 8}}, {}),
    ({"sentence_distilbert_config": {"max_seq_length": 8}}, {"model_max_length": 7}),
    ({"sentence_bert_config": {"max_seq_length": 400}}, {}),
    ({"sentence_bert_config": {"do_lower_case": True}}, {"do_lower_case": False}),
    ({}, {"do_lower_case": False}),
    ({}, {"truncation_side": "left", "model_max_length": 6}),
    ({"config_sentence_transformers": {"similarity_fn_name": "dot"}}, {}),
]


@pytest.mark.parametrize(("files", "settings"), LENGTHS)
def test_sentence_transformers_gives_the_same_vectors(files, settings, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    folder = tiny.write_embedder(tmp_path / "model", {"vocab_size": 13}, **files)
    arrays = tiny.encoder_tensors()
    table = arrays["embeddings.word_embeddings.weight"]
    arrays["embeddings.word_embeddings.weight"] = np.concatenate([table, table[:1] + 1])
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join([*tiny.WORDS, "Good"]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    checkpoint = load(folder)
    ours = TextTokenizer(checkpoint.resolved)
    longest = min(theirs.max_seq_length, 16)
    assert checkpoint.spec.max_tokens == longest
    theirs.max_seq_length = longest  # the library fails beyond the position table
    for text in ("Good film", "a GOOD bad film " * 5, "the film!"):
        tokens = encode(checkpoint.spec, ours, text, None, 512)
        right = theirs.preprocess([text])["input_ids"][0].tolist()
        assert tokens.ids.tolist() == right, text
        vector = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
        np.testing.assert_allclose(unit(vector), theirs.encode(text), atol=1e-5)
