"""Tiny random checkpoints in the layout of each family, for corners that real ones do not reach."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import BertWordPieceTokenizer

from golden import encoder, fast, store
from golden.model import Shape
from quant.calibrate import check, observe, quantize
from quant.foreign.checkpoint import Checkpoint, load
from quant.foreign.resolve import Resolved, resolve
from quant.foreign.sentence import read
from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.model import float_model
from quant.model.spec import TABLE, EncoderSpec
from quant.quantize.encoder import Quantized, with_tokens
from quant.quantize.options import Options

RESOLVED = Resolved(pipeline="", tokens=None, side="right", segments=True, special={})
"""Of a checkpoint that reads no text."""

WORDS = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *("good", "bad", "film", "a", "the"),
         "##s", "!"]  # fmt: skip

CONFIG: dict[str, Any] = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "id2label": {"0": "bad", "1": "good", "2": "mixed"},
}


def quantized(source: Checkpoint, texts: Sequence[Tokens], options: Options) -> Quantized:
    """The integer model by all of these texts."""
    return with_tokens(quantize(observe(source, texts)[1], options)[0], source.arrays[TABLE])


def followed(
    source: Checkpoint, texts: list[Tokens], others: list[Tokens], options: Options, count: int
) -> tuple[Quantized, float]:
    """The integer model by these texts and its SQNR on others, of which fast computes some."""
    made = quantized(source, texts, options)
    for text in others[:count]:
        golden = encoder.run(made.model, text.ids, text.types)
        np.testing.assert_array_equal(fast.run(made.model, text.ids, text.types), golden)
    return made, check(source, made, others)["logits"].sqnr


def tensors(seed: int = 1, labels: int = 3) -> dict[str, np.ndarray]:
    """The tensors of the BERT checkpoint that CONFIG describes."""
    rng = np.random.default_rng(seed)
    result: dict[str, np.ndarray] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        result[f"{name}.weight"] = rng.normal(0, inputs**-0.5, (outputs, inputs))
        result[f"{name}.bias"] = rng.normal(0, 0.1, outputs)

    def norm(name: str) -> None:
        result[f"{name}.weight"] = rng.uniform(0.5, 1.5, 12)
        result[f"{name}.bias"] = rng.normal(0, 0.2, 12)

    for table, rows in (("word", len(WORDS)), ("position", 16), ("token_type", 2)):
        result[f"bert.embeddings.{table}_embeddings.weight"] = rng.normal(0, 1, (rows, 12))
    norm("bert.embeddings.LayerNorm")
    for i in range(2):
        layer = f"bert.encoder.layer.{i}"
        for name in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{name}", 12, 12)
        linear(f"{layer}.attention.output.dense", 12, 12)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", 20, 12)
        linear(f"{layer}.output.dense", 12, 20)
        norm(f"{layer}.output.LayerNorm")
    linear("bert.pooler.dense", 12, 12)
    linear("classifier", labels, 12)
    return {name: tensor.astype(np.float32) for name, tensor in result.items()}


def renamed(bert: dict[str, np.ndarray], layer: str, qkv: str, names: list[str]) -> Any:
    """The layers and the classifier of BERT's tensors by other names, Q, K and V in one tensor.

    names: of attention's output and its norm, of the two layers behind it and their norm.
    """
    ours = ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
            "output.dense", "output.LayerNorm")  # fmt: skip
    result = {}
    for part in ("weight", "bias"):
        result[f"classifier.{part}"] = bert[f"classifier.{part}"]
        for i in range(2):
            old, new = f"bert.encoder.layer.{i}", layer.format(i)
            result[f"{new}.{qkv}{part}"] = np.concatenate(
                [bert[f"{old}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            )
            for a, b in zip(ours, names, strict=True):
                result[f"{new}.{b}.{part}"] = bert[f"{old}.{a}.{part}"]
    return result


def fused_tensors(bert: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same encoder in the fused layout, without the pooler."""
    names = ["attention", "attention_norm", "intermediate", "output", "output_norm"]
    tables = {"word": "word", "position": "position", "segment": "token_type"}
    return {
        **renamed(bert, "layers.{}", "qkv.", names),
        **{f"embeddings.{new}.weight": bert[f"bert.embeddings.{old}_embeddings.weight"]
           for new, old in tables.items()},
        **{f"embeddings.norm.{part}": bert[f"bert.embeddings.LayerNorm.{part}"]
           for part in ("weight", "bias")},
    }  # fmt: skip


TRANSFORMER: dict[str, Any] = {
    "architectures": None,
    "model_type": "bert2rtl-transformer",
    "type_vocab_size": None,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-5,
    "norm_first": True,
    "embedding_norm": False,
    "final_norm": True,
    "scale_embedding": True,
    "pooling": "mean",
}
"""What the config of a plain Transformer encoder has beside or instead of CONFIG's fields."""


def transformer_tensors(bert: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The layers of BERT's tensors in the layout of a plain Transformer encoder, pre-norm."""
    names = ["self_attn.out_proj", "norm1", "linear1", "linear2", "norm2"]
    return {
        **renamed(bert, "encoder.layers.{}", "self_attn.in_proj_", names),
        "embedding.weight": bert["bert.embeddings.word_embeddings.weight"],
        **{f"encoder.norm.{part}": bert[f"bert.embeddings.LayerNorm.{part}"]
           for part in ("weight", "bias")},
    }  # fmt: skip


def resolved(words: Sequence[str]) -> Resolved:
    """BERT's uncased WordPieces, as calibration finds them in a checkpoint."""
    pieces = BertWordPieceTokenizer({word: i for i, word in enumerate(words)})
    return replace(RESOLVED, pipeline=pieces.to_str())


def info_of(shape: Shape, folder: Path, words: Sequence[str]) -> dict[str, Any]:
    """What calibration says of a model of this shape, its tokenizer written into the folder."""
    found = resolved(words)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / found.FILE).write_bytes(found.content)
    same = ("layers", "hidden", "heads", "head_size", "ffn", "vocabulary", "positions", "types")
    spec = EncoderSpec(
        labels=tuple(map(str, range(shape.labels))), **{name: getattr(shape, name) for name in same}
    )
    return {
        "checkpoint": {"sha256": "0"},
        "spec": spec.to_json(),
        "tensors": {"logits": {"scale": 1.0}},
        "tokenizer": found.facts,
    }


def tokenizer(folder: Path) -> TextTokenizer:
    """That of a checkpoint's folder."""
    return TextTokenizer(resolve(read(folder)))


def one_by_one(
    model: Path, quantized: Path, texts: Sequence[str | Sequence[str]], words: bool = False
) -> tuple[list[Tokens], list[np.ndarray], list[np.ndarray]]:
    """The tokens of each text, golden's integers, and the numbers of the float model."""
    integers, checkpoint, reader = store.load(quantized)[0], load(model), tokenizer(model)
    tokens = [reader.encode(text, limit=16, words=words) for text in texts]
    golden = [encoder.run(integers, t.ids, t.types) for t in tokens]
    spec, arrays = checkpoint.spec, checkpoint.arrays
    return tokens, golden, [float_model.run(spec, arrays, t.ids, t.types) for t in tokens]


def write_tokenizer(directory: Path, rows: int = len(WORDS)) -> None:
    """BERT's WordPieces of `rows` entries, whatever the family of the checkpoint."""
    words = [*WORDS, *(f"w{i}" for i in range(len(WORDS), rows))][:rows]
    (directory / "vocab.txt").write_text("\n".join(words) + "\n")
    (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


def write_tokenizer_file(directory: Path, rows: int) -> None:
    """The same in one file, for a family whose tokenizer may be any."""
    write_tokenizer(directory, rows)
    words = (directory / "vocab.txt").read_text().split()
    (directory / "tokenizer.json").write_text(resolved(words).pipeline)
    (directory / "tokenizer_config.json").write_text("{}")


def write(
    directory: Path,
    config: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
    vocabulary: list[str] | None = None,
) -> Path:
    """A checkpoint directory; a config entry of None is left out."""
    directory.mkdir(parents=True, exist_ok=True)
    values = {key: value for key, value in (CONFIG | (config or {})).items() if value is not None}
    (directory / "config.json").write_text(json.dumps(values))
    (directory / "vocab.txt").write_text("\n".join(vocabulary or WORDS) + "\n")
    save_file(tensors() if arrays is None else arrays, directory / "model.safetensors")
    return directory


def encoder_tensors(seed: int = 1) -> dict[str, np.ndarray]:
    """The tensors of `tensors` as an encoder saved alone: no prefix, no classifier."""
    return {
        name.removeprefix("bert."): tensor
        for name, tensor in tensors(seed).items()
        if not name.startswith("classifier.")
    }


def write_embedder(
    directory: Path,
    config: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
    modules: list[str] | None = None,
    pooling: dict[str, Any] | None = None,
    **others: dict[str, Any],
) -> Path:
    """A folder of sentence-transformers; others by the stem of their file."""
    given = {"architectures": ["BertModel"], "id2label": None} | (config or {})
    write(directory, given, encoder_tensors() if arrays is None else arrays)
    kinds = ["Transformer", "Pooling", "Normalize"] if modules is None else modules
    package = "sentence_transformers.models"
    entries = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{package}.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (directory / "modules.json").write_text(json.dumps(entries))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    modes: dict[str, Any] = {"word_embedding_dimension": 12, "include_prompt": True}
    modes |= {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    modes = modes if pooling is None else pooling
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    for stem, values in others.items():
        (directory / f"{stem}.json").write_text(json.dumps(values))
    return directory


def json_of(file: Path) -> Any:
    return json.loads(file.read_text())
