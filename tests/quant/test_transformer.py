"""The plain Transformer encoder: its loader against PyTorch's own module, and what it refuses."""

import json
import random
import re
import runpy
import shutil
from itertools import product
from math import cos, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quant import inspect
from quant.calibrate import Calibrator
from quant.foreign.checkpoint import DEFAULT_MODEL, load
from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.model import float_model
from quant.model.spec import CheckpointError
from quant.quantize.options import Options
from quant.texts.corpora import rotten_tomatoes
from rtl.compile.program import compile_model
from rtl.interface.config import Config
from sim.cycles.model import predict
from tests.quant import tiny
from tests.tiers import quick

ROOT = Path(__file__).resolve().parents[2]
POSITIONS, HIDDEN, EPSILON = 60, 24, 1e-3


def positions() -> list[list[float]]:
    """Section 3.5 of "Attention is all you need", number by number."""
    return [
        [(cos if c % 2 else sin)(place / 10000 ** ((c - c % 2) / HIDDEN)) for c in range(HIDDEN)]
        for place in range(POSITIONS)
    ]


def module(words: int, activation: str, *, pre: bool, final: bool, embedding: bool) -> Any:
    """A user's own model, by the book, with random weights livelier than PyTorch's."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, HIDDEN)
            if embedding:
                self.embedding_norm = nn.LayerNorm(HIDDEN, EPSILON)
            layer = nn.TransformerEncoderLayer(
                HIDDEN, 3, 40, 0.1, activation, EPSILON, batch_first=True, norm_first=pre
            )
            norm = nn.LayerNorm(HIDDEN, EPSILON) if final else None
            self.encoder = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
            self.classifier = nn.Linear(HIDDEN, 3)

        def forward(self, ids: Any, padding: Any, *, scale: bool, mean: bool) -> Any:
            x = self.embedding(ids) * (sqrt(HIDDEN) if scale else 1)
            x = x + torch.tensor(positions())[: ids.shape[1]]
            x = self.embedding_norm(x) if embedding else x
            x = self.encoder(x, src_key_padding_mask=padding)
            if not mean:
                return self.classifier(x[:, 0])
            rows = [row[~hidden].mean(0) for row, hidden in zip(x, padding)]
            return self.classifier(torch.stack(rows))

    torch.manual_seed(3)
    made = Model().eval()
    for name, parameter in made.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm" in name and "weight" in name else 0.0, 0.3)
    return made


def export(model: Any, folder: Path) -> Path:
    """The checkpoint that models/export_transformer.py makes of it."""
    runpy.run_path(str(ROOT / "models" / "export_transformer.py"))["export"](folder, model)
    return folder


VOCABULARY = (DEFAULT_MODEL / "vocab.txt").resolve()


def change(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | fields
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def sentences(tokenizer: TextTokenizer) -> list[Tokens]:
    """Real ones, the longest cut to the positions of the model."""
    texts = rotten_tomatoes("test")[:12]
    encoded = [tokenizer.encode(text.text, limit=POSITIONS) for text in texts]
    assert min(len(t.ids) for t in encoded) < 20 < max(len(t.ids) for t in encoded)
    return encoded


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("pre", "embedding", "final"),
    quick([(True, False, True), (True, True, True), (False, True, False)]),
)
def test_equals_pytorch_on_real_sentences_with_padding(
    pre: bool,
    embedding: bool,
    final: bool,
    activation: str,
    sentences: list[Tokens],
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    model = module(30522, activation, pre=pre, final=final, embedding=embedding)
    folder = export(model, tmp_path / "my-model")
    shutil.copy(VOCABULARY, folder)
    longest = max(len(tokens.ids) for tokens in sentences)
    ids = np.zeros((len(sentences), longest), np.int32)
    attend = np.zeros(ids.shape, bool)
    for row, tokens in enumerate(sentences):
        ids[row, : len(tokens.ids)] = tokens.ids
        attend[row, : len(tokens.ids)] = True
    for scale, mean in product((True, False), repeat=2):
        pooling = "mean" if mean else "first"
        change(
            folder,
            hidden_act=activation,
            embedding_norm=embedding,
            scale_embedding=scale,
            pooling=pooling,
            max_position_embeddings=POSITIONS,
            id2label={"0": "a", "1": "b", "2": "c"},
        )
        checkpoint = load(folder)
        assert checkpoint.spec.max_tokens == POSITIONS
        with torch.no_grad():
            batch = torch.from_numpy(ids), torch.from_numpy(~attend)
            theirs = model(*batch, scale=scale, mean=mean).numpy()
        assert theirs.std() > 0.1
        for row, tokens in enumerate(sentences):
            ours = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids)
            np.testing.assert_allclose(ours, theirs[row], rtol=0, atol=1e-5)
            padded = float_model.run(
                checkpoint.spec, checkpoint.arrays, ids[row], attend=attend[row]
            )
            np.testing.assert_allclose(padded, theirs[row], rtol=0, atol=1e-5)


def transformer(folder: Path, arrays: Any = None, **fields: Any) -> Path:
    """A tiny one; a field or tensor of None is left out."""
    tensors = tiny.transformer_tensors(tiny.tensors()) | (arrays or {})
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return tiny.write(folder, tiny.TRANSFORMER | fields, kept)


def test_the_integers_follow_the_float_model(tmp_path: Path) -> None:
    """As test_quantize.py asks of the specs that no loader gave."""
    checkpoint = load(transformer(tmp_path))
    rng = np.random.default_rng(1)
    texts = [
        Tokens(rng.integers(0, 12, n).astype(np.int32), np.zeros(n, np.int32), ())
        for n in rng.integers(1, 16, 60)
    ]
    calibrator = Calibrator(checkpoint, texts[:30])
    quantized = calibrator.quantize(Options(remedies=()))
    assert calibrator.error(quantized) < 0.05 * np.abs(calibrator.exact).mean()


def test_inspect_counts_the_cycles_of_its_integers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, figures = transformer(tmp_path / "model"), tmp_path / "figures.json"
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film !\nthe bad films\n")
    options = ["--data", str(texts), "--texts", "2", "--json", str(figures)]
    assert inspect.main([str(folder), *options]) == 0
    said = capsys.readouterr().out
    assert "with relu, pre-norm, up to 16 tokens of 12, 0 segment types\ntokenizer of" in said
    assert "\nhead: the mean of" in said
    checkpoint = load(folder)
    ids = np.arange(12, dtype=np.int32)
    calibrator = Calibrator(checkpoint, [Tokens(ids, np.zeros_like(ids), ())])
    model = calibrator.quantize(Options(remedies=())).model
    for entry in json.loads(figures.read_text())["needs"]:
        program = compile_model(model, Config(**entry["config"]))
        assert entry["cycles"] == predict(program, 16).cycles


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"final_norm": False}, "final.norm: norm_first without a norm after the last layer is"),
        (
            {"norm_first": False, "embedding_norm": True},
            "final.norm: a second norm after the last layer, whose own is the last already",
        ),
        (
            {"norm_first": False, "final_norm": False},
            "embedding.norm: post-norm layers on an embedding without a norm is not supported",
        ),
        ({"embedding_norm": True}, "the tensor embedding_norm.weight is missing"),
        (
            {"norm_first": False, "final_norm": False, "embedding_norm": True},
            "the tensor embedding_norm.weight is missing",
        ),
        ({"norm_first": None}, "norm_first is None: it must be true or false"),
        ({"norm_first": 1}, "norm_first is 1: it must be true or false"),
        ({"scale_embedding": "yes"}, "scale_embedding is 'yes': it must be true or false"),
        ({"layer_norm_eps": None}, "layer_norm_eps is None: it must be a finite number"),
        ({"layer_norm_eps": [1e-5, 1e-6]}, r"layer_norm_eps is \[1e-05, 1e-06\]: it must be a fin"),
        ({"layer_norm_eps": -1}, "epsilon is -1.0: LayerNorm needs it above 0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps is nan: it must be a finite number"),
        ({"hidden_act": None}, "layer.0.ffn.up: the activation None is not supported"),
        ({"hidden_act": ["relu"]}, r"layer.0.ffn.up: the activation \['relu'\] is not supported"),
        (
            {"hidden_act": "xielu"},
            "layer.0.ffn.up: the activation 'xielu' is not supported: it must",
        ),
        ({"pooling": None}, "pooling is None: it must be one of first, mean, last, none"),
        ({"pooling": "max"}, "pooling is 'max': it must be one of first, mean, last, none"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0: it must be from 1 to 8192"),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings is 1000000000000: it must"),
        ({"vocab_size": 13}, "embedding.token has shape 12 x 12: the config asks for 13 x 12"),
        ({"hidden_size": 24}, "embedding.token has shape 12 x 12: the config asks for 12 x 24"),
        ({"intermediate_size": 21}, "layer.0.ffn.up.weight has shape 20 x 12: .* asks for 21 x 12"),
        ({"num_attention_heads": 5}, "a hidden size of 12 cannot be split into 5 heads"),
        ({"num_hidden_layers": 3}, "encoder.layers.2.self_attn.in_proj_weight is missing"),
        ({"num_hidden_layers": 1}, "encoder.layers.1.linear1.bias has no place .*12 such"),
        ({"id2label": ["a", "b", "c"]}, r"id2label is \['a', 'b', 'c'\]: it must name each"),
        ({"id2label": {"0": "a"}}, "classifier has 3 outputs, but id2label .* names 1 labels"),
    ],
)
def test_refuses_a_config(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(transformer(tmp_path, **fields))


LAYER = "encoder.layers.1"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {f"{LAYER}.self_attn.in_proj_bias": None},
            rf"{LAYER}.self_attn.in_proj_bias is missing \(a layer without one has zeros there\)",
        ),
        ({f"{LAYER}.norm2.bias": None}, rf"{LAYER}.norm2.bias is missing \(a layer without one"),
        ({f"{LAYER}.norm2.weight": None}, rf"{LAYER}.norm2.weight is missing$"),
        ({"encoder.norm.weight": None}, "encoder.norm.weight is missing"),
        ({"classifier.weight": None}, "classifier.weight is missing"),
        (
            {f"{LAYER}.self_attn.in_proj_weight": np.zeros((35, 12), np.float32)},
            rf"{LAYER}.self_attn.in_proj has shapes \(35, 12\) and \(36,\): a matrix and a bias",
        ),
        (
            {f"{LAYER}.self_attn.bias_k": np.zeros((1, 1, 12), np.float32)},
            rf"{LAYER}.self_attn.bias_k has no place in this encoder",
        ),
        (
            {"positions.pe": np.zeros((16, 12), np.float32)},
            "positions.pe has no place in this encoder",
        ),
        (
            {"embedding.weight": np.zeros(12, np.float32)},
            r"embedding.weight has shape \(12,\): a row for each entry is needed",
        ),
        (
            {f"{LAYER}.linear2.weight": np.full((12, 20), np.nan, np.float32)},
            "layer.1.ffn.down.weight holds a value that is not a finite number",
        ),
    ],
)
def test_refuses_tensors(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(transformer(tmp_path, arrays))


def test_the_fields_that_are_needed_are_read_and_others_are_not(tmp_path: Path) -> None:
    """Each changes what is loaded or refuses it."""
    plain = load(transformer(tmp_path / "plain"))
    for number, name in enumerate(tiny.CONFIG | tiny.TRANSFORMER):
        if name in ("architectures", "type_vocab_size", "id2label"):
            continue
        with pytest.raises(CheckpointError):
            load(transformer(tmp_path / str(number), **{name: None}))
    assert load(transformer(tmp_path / "note", pad_token_id=7)).spec == plain.spec


VALUES = [
    None, True, False, 0, 1, -1, 2, 3, 12, 16, 8192, 8193, 10**12, 10**400, 0.0, 1e-5, -0.5, 1e300,
    float("nan"), float("inf"), "", "relu", "gelu", "mean", "first", "pre", "x" * 50, [], ["a"],
    ["0", "1", "2"], {}, {"0": 1}, {"0": "a", "1": None, "2": []}, [[]],
]  # fmt: skip


def broken(rng: random.Random, tensors: dict[str, np.ndarray]) -> None:
    """One tensor changed in place, in whatever way."""
    name = rng.choice(sorted(tensors))
    match rng.randrange(6):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(["a", "encoder.", name + ".x", name[1:]])] = tensors.pop(name)
        case 2:
            size = tuple(rng.randrange(4) for _ in range(rng.randrange(4)))
            tensors[name] = np.zeros(size, np.float32)
        case 3:
            tensors[name] = np.ascontiguousarray(tensors[name].T)
        case 4:
            kinds = [np.float16, np.float64, np.int64, np.int8, np.bool_, np.uint16]
            tensors[name] = tensors[name].astype(rng.choice(kinds))
        case 5:
            value = rng.choice([np.nan, np.inf, 0.0, 1e30])
            tensors[name] = np.full_like(tensors[name], value)


def refusal(folder: Path) -> str | None:
    """What the checkpoint is refused with; None where it runs."""
    try:
        loaded = load(folder)
    except CheckpointError as error:
        return str(error)
    ids = np.array([0, 5, 11], np.int32)[: loaded.spec.max_tokens]
    with np.errstate(over="ignore", invalid="ignore"):
        assert float_model.run(loaded.spec, loaded.arrays, ids).shape == (3,)
    return None


def test_any_bad_checkpoint_is_refused_in_one_line_or_runs(tmp_path: Path) -> None:
    """Fields of any value and tensors of any kind, by seed."""
    names = [name for name in tiny.CONFIG | tiny.TRANSFORMER if name != "architectures"]
    names += ["window", "rope_theta", "gated", "rms_norm", "num_key_value_heads"]
    said = []
    for seed in range(300):
        rng = random.Random(seed)
        fields = {name: rng.choice(VALUES) for name in rng.sample(names, rng.randrange(3))}
        tensors = tiny.transformer_tensors(tiny.tensors())
        if not fields or rng.random() < 0.4:
            broken(rng, tensors)
        folder = tiny.write(tmp_path / str(seed), tiny.TRANSFORMER | fields, tensors)
        message = refusal(folder)
        assert message is None or re.fullmatch(rf"{folder}[/:].+", message), message
        said.append(message)
    assert 20 < said.count(None) < 100
