"""T5's encoder, of all its releases, against transformers' own class; what of it is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quant import calibrate, embed
from quant.foreign.checkpoint import load
from quant.model import float_model
from quant.model.spec import EMBEDDING, CheckpointError
from sim import run
from tests.quant.test_families import of_theirs
from tests.tiers import quick

NAMES = {"t5": "T5", "mt5": "MT5"}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "T5": ("t5", "EncoderModel", {}),
    "T5, other activation": ("t5", "EncoderModel", {"feed_forward_proj": "silu"}),
    "T5, heads of more channels": ("t5", "EncoderModel", {"d_kv": 10}),
    "T5, a class for every token": ("t5", "ForTokenClassification", {"num_labels": 3}),
    "T5 1.1": ("t5", "EncoderModel", {"feed_forward_proj": "gated-gelu"}),
    "T5 1.1, gate with SiLU": ("t5", "EncoderModel", {"feed_forward_proj": "gated-silu"}),
    "T5 1.1, small heads": ("t5", "EncoderModel", {"feed_forward_proj": "gated-gelu", "d_kv": 5}),
    "T5, other buckets": (
        "t5",
        "EncoderModel",
        {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20},
    ),
    "mT5": ("mt5", "EncoderModel", {}),
    "mT5, a class for every token": ("mt5", "ForTokenClassification", {"num_labels": 3}),
}
WHOLE = ("Model", "ForConditionalGeneration", "ForQuestionAnswering", "ForSequenceClassification")


def saved(folder: Path, family: str, head: str, options: dict[str, Any]) -> Any:
    """A tiny random checkpoint, and the model itself."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    sizes = {"vocab_size": 40, "d_model": 24, "d_kv": 6, "d_ff": 36, "num_layers": 3}
    sizes |= {"num_heads": 4, "decoder_start_token_id": 0}
    config = transformers.AutoConfig.for_model(family, **(sizes | options))
    model = getattr(transformers, f"{NAMES[family]}{head}")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model.float().eval()


def write_tokenizer(folder: Path) -> None:
    """Of T5's kind, with 40 pieces: the end of a text, and words behind a mark for spaces."""
    tokenizers = pytest.importorskip("tokenizers")
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", *(f"\u2581w{i}" for i in range(36))]
    made = tokenizers.Tokenizer(
        tokenizers.models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=2)
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    made.save(str(folder / "tokenizer.json"))
    facts = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": []}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))


def close(checkpoint: Any, model: Any) -> None:
    draw = np.random.default_rng(1)
    for length in (1, 9, 300):
        ids = draw.integers(2, 40, length).astype(np.int32)
        ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
        np.testing.assert_allclose(ours, of_theirs(model, ids, None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_encoder_equals_transformers(case: str, tmp_path: Path) -> None:
    model = saved(tmp_path, *CASES[case])
    checkpoint = load(tmp_path)
    spec = checkpoint.spec
    assert (spec.norm, spec.rms_norm, spec.position_bias, spec.gated) == (
        "pre", True, True, "1.1" in case or "mT5" in case,
    )  # fmt: skip
    close(checkpoint, model)


@pytest.mark.parametrize("family", quick(NAMES))
@pytest.mark.parametrize(
    ("count", "furthest"),
    [
        *((count, 128) for count in (0, 1, 2, 3, 4, 5, 7, 33)),
        *((32, furthest) for furthest in (-1, 0, 7, 8, 9, 10**30, 10**310)),
        *((4, 1), (4, 2), (600, 150), (600, 151)),
    ],
)
def test_buckets_are_followed_where_transformers_runs_them_and_refused_elsewhere(
    family: str, count: int, furthest: int, tmp_path: Path
) -> None:
    names = ("relative_attention_num_buckets", "relative_attention_max_distance")
    model = saved(tmp_path, family, "EncoderModel", dict(zip(names, (count, furthest))))
    try:
        of_theirs(model, np.full(300, 5, np.int32), None)
    except (ArithmeticError, IndexError, ValueError):
        said = f"config.json: {names[0]} is {count} and {names[1]} {furthest}: they must be 4 or"
        with pytest.raises(CheckpointError, match=said):
            load(tmp_path)
    else:
        close(load(tmp_path), model)


@pytest.mark.parametrize("head", WHOLE)
@pytest.mark.parametrize("family", NAMES)
def test_of_a_whole_model_the_encoder_is_taken_when_asked(
    family: str, head: str, tmp_path: Path
) -> None:
    model = saved(tmp_path, family, head, {})
    with pytest.raises(CheckpointError, match=f"{head} reads what a decoder writes.*--task embed"):
        load(tmp_path)
    checkpoint = load(tmp_path, EMBEDDING)
    assert any("decoder is left out" in note for note in checkpoint.notes)
    inner = model.transformer if hasattr(model, "transformer") else model
    close(checkpoint, inner.encoder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feed_forward_proj": "gated-other-gelu"}, "feed_forward_proj is 'gated-other-gelu'"),
        ({"feed_forward_proj": 3}, "feed_forward_proj is 3: it must be an activation"),
        ({"feed_forward_proj": "swirl"}, "swirl"),
        ({"is_gated_act": True}, r"is_gated_act is True: it must be False, by .*'relu'"),
        ({"dense_act_fn": "gelu"}, r"dense_act_fn is 'gelu': it must be 'relu'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"d_kv": 7}, "layer.0.q"),
        ({"relative_attention_num_buckets": 16}, "has 32 rows: there must be 16"),
        ({"relative_attention_num_buckets": -8}, "num_buckets is -8 and .* must be 4 or more"),
        ({"relative_attention_num_buckets": 8.0}, "num_buckets is 8.0: it must be an integer"),
        ({"d_model": 0}, "hidden is 0"),
    ],
)
def test_a_config_that_says_something_else_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    saved(tmp_path, "t5", "EncoderModel", {})
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


def quantized(folder: Path, head: str, options: dict[str, Any]) -> Path:
    saved(folder / "model", "t5", head, {"d_kv": 5} | options)
    data, out = folder / "texts.txt", folder / "quantized"
    data.write_text("w11 w12 w13\nw20 w21\nw30 w31 w32 w33 w34\n" * 4)
    common = ["--model", str(folder / "model"), "--data", str(data), "--out", str(out)]
    assert calibrate.main(common) == 0
    return out


def test_golden_follows_it(tmp_path: Path) -> None:
    """Random weights, so of a text of four words no more than the direction."""
    out, found = quantized(tmp_path, "EncoderModel", {}), tmp_path / "found.json"
    common = ["--model", str(tmp_path / "model"), "--quantized", str(out), "--json", str(found)]
    assert embed.main([*common, str(tmp_path / "texts.txt")]) == 0
    assert json.loads(found.read_text())["worst_cosine"] > 0.995


@pytest.mark.slow
@pytest.mark.parametrize("proj", ["relu", "gated-gelu"])
def test_the_verilog_has_its_bits(
    proj: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = quantized(tmp_path, "ForTokenClassification", {"feed_forward_proj": proj})
    one = ["--quantized", str(out), "--text", "w11 w21 w31", "--lanes", "4"]
    json_file = ["--json", str(tmp_path / "report.json")]
    assert run.main([*one, *json_file, "--simulator", "icarus"]) == 0
    assert "Every bit equal to the golden model." in capsys.readouterr().out
