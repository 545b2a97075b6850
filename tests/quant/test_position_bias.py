"""Relative position biases: the buckets and slopes, the float model with them, what is refused."""

import json
import re
from pathlib import Path
from typing import Any

from cli.machine import GENERATED

import numpy as np
import pytest
from safetensors.numpy import save_file

from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import InputError, TextTokenizer, encode
from quant.measure.vectors import unit
from quant.model import float_model, position_bias
from quant.model.spec import CheckpointError
from quant.texts.corpora import rotten_tomatoes
from tests.quant import tiny
from tests.quant.test_families import of_theirs, saved


@pytest.mark.parametrize(("count", "furthest"), [(32, 128), (32, 20), (4, 2), (64, 1000), (9, 77)])
def test_buckets_are_those_of_t5(count: int, furthest: int) -> None:
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    difference = position_bias.differences(4096)
    assert difference.tolist() == list(range(-4095, 4096))
    theirs = t5.T5Attention._relative_position_bucket(
        torch.tensor(difference), num_buckets=count, max_distance=furthest
    )
    np.testing.assert_array_equal(
        position_bias.buckets(difference, count, furthest), theirs.numpy()
    )


def test_buckets_are_those_of_mpnet() -> None:
    torch = pytest.importorskip("torch")
    mpnet = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    difference = position_bias.differences(4096)
    theirs = mpnet.MPNetEncoder.relative_position_bucket(torch.tensor(difference))
    np.testing.assert_array_equal(position_bias.buckets(difference, 32, 128), theirs.numpy())


def test_slopes_are_those_of_the_paper() -> None:
    """Section 3 has 8 and 16 heads; the authors' code has other numbers of them."""
    assert position_bias.slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    np.testing.assert_allclose(position_bias.slopes(16), [2 ** (-i / 2) for i in range(1, 17)])
    twelve = [*(2.0**-i for i in range(1, 9)), *(2**-x for x in (0.5, 1.5, 2.5, 3.5))]
    np.testing.assert_allclose(position_bias.slopes(12), twelve)
    assert position_bias.slopes(1).tolist() == [2.0**-8]
    np.testing.assert_array_equal(
        position_bias.alibi(8, 3)[:2], [[-1, -0.5, 0, -0.5, -1], [-0.5, -0.25, 0, -0.25, -0.5]]
    )


def test_a_column_is_key_minus_query() -> None:
    bias = np.arange(9.0)[None]  # of up to 5 tokens, its middle is 4
    assert position_bias.square(bias, 3).tolist() == [[[4, 5, 6], [3, 4, 5], [2, 3, 4]]]
    assert position_bias.cut(bias, 3).tolist() == [[2, 3, 4, 5, 6]]
    assert position_bias.cut(bias, 5).tolist() == bias.tolist()


def test_mpnet_equals_transformers_on_long_texts(tmp_path: Path) -> None:
    """Beyond the distance 128, where buckets end."""
    model = saved(tmp_path, "mpnet", "ForTokenClassification", max_position_embeddings=302)
    checkpoint = load(tmp_path)
    assert (checkpoint.spec.max_tokens, checkpoint.spec.position_offset) == (300, 2)
    ids = np.random.default_rng(4).integers(2, 40, 300).astype(np.int32)
    ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(ours, of_theirs(model, ids, None), rtol=1e-5, atol=1e-5)
    several = np.concatenate([ids[:5], ids, ids[:131]])
    together = float_model.run(
        checkpoint.spec, checkpoint.arrays, several, lengths=[5, len(ids), 131]
    )
    np.testing.assert_allclose(together[5:305], ours, rtol=1e-5, atol=1e-5)


def test_texts_that_the_tokenizer_cuts_have_the_middle_of_the_bias(tmp_path: Path) -> None:
    model = saved(tmp_path, "mpnet", "ForTokenClassification", max_position_embeddings=202)
    whole = load(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 150}))
    checkpoint = load(tmp_path)
    assert (whole.spec.max_tokens, checkpoint.spec.max_tokens) == (200, 150)
    ids = np.random.default_rng(4).integers(2, 40, 150).astype(np.int32)
    ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(ours, of_theirs(model, ids, None), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_all_mpnet_base_v2_equals_transformers_on_real_sentences() -> None:
    """Its tokens too; docs/models.md says where it comes from."""
    folder = GENERATED / "all-mpnet-base-v2"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    checkpoint = load(folder)
    assert checkpoint.spec.max_tokens == 384
    ours, theirs = TextTokenizer(folder), transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).float().eval()
    texts = [review.text for review in rotten_tomatoes("test")[:4]]
    for text in (*texts, " ".join(texts * 9)):
        tokens = encode(checkpoint.spec, ours, text, None, 512)
        ids = theirs(text, truncation=True, max_length=384)["input_ids"]
        assert tokens.ids.tolist() == ids
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        vector = float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids)
        wanted = unit(states.mean(dim=0).numpy())
        np.testing.assert_allclose(unit(vector), wanted, rtol=0, atol=1e-5)


PIECES = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", "good", "bad", "film", "a", "##s", "!", "e"]


def test_mpnets_own_tokenizer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    saved(tmp_path, "mpnet", "ForSequenceClassification")
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MPNetTokenizer", "model_max_length": 12})
    )
    checkpoint = load(tmp_path)
    ours = TextTokenizer(checkpoint.resolved)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text, pair in (
        ("Good films!", None),
        ("a <mask> film", "\u00e9 bad zoo"),
        ("a " * 20, None),
    ):
        found = encode(checkpoint.spec, ours, text, pair, 512)
        expected = theirs(text, pair, truncation=True)["input_ids"]
        assert found.ids.tolist() == expected
        assert not found.types.any()
    with pytest.raises(InputError, match="'<pad>' has the id 1, which is padding to the model"):
        encode(checkpoint.spec, ours, "good <pad> film", None, 512)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention_num_buckets": 16}, "must be 32, the default of mpnet"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2, an option that mpnet does not have"),
    ],
)
def test_options_of_mpnet_that_its_code_does_not_follow(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    saved(tmp_path, "mpnet", "Model")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


def test_another_padding_leaves_mpnets_positions_as_they_are(tmp_path: Path) -> None:
    model = saved(tmp_path, "mpnet", "Model", pad_token_id=5)
    checkpoint = load(tmp_path)
    ids = np.arange(2, 20, dtype=np.int32)
    ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(ours, of_theirs(model, ids, None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "umt5"}, "'umt5' cannot run: layer.0.scores: a bias of each layer's own"),
        ({"model_type": "deberta-v2"}, "relative positions that depend on the words"),
        ({"model_type": "beit"}, "a bias by rows and columns of patches, of each layer its own"),
        (
            {
                "position_embedding_type": "alibi",
                "feed_forward_type": "geglu",
                "emb_pooler": "mean",
            },
            "layer.0.ffn.up: a gated feed-forward beside ALiBi in a layout without a loader "
            "(JinaBERT-v2) (feed_forward_type is 'geglu')",
        ),
    ],
)
def test_what_more_than_a_bias_needs_is_refused_by_its_layer(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load(tiny.write(tmp_path, config))


OWN = {"position_bias": "buckets", "sinusoids": False} | {
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 6,
}


def write_own(folder: Path, config: dict[str, Any], rows: int = 8) -> Path:
    arrays = tiny.transformer_tensors(tiny.tensors())
    if config.get("position_bias") == "buckets":
        table = np.random.default_rng(7).normal(0, 1, (rows, 3)).astype(np.float32)
        arrays["relative_attention_bias.weight"] = table
    return tiny.write(folder, tiny.TRANSFORMER | config, arrays)


@pytest.mark.parametrize("config", [{"position_bias": "alibi", "sinusoids": False}, OWN, {}])
def test_a_plain_encoder_equals_pytorch(config: dict[str, Any], tmp_path: Path) -> None:
    """nn.MultiheadAttention's mask of floats, which it adds to the scores, is the bias."""
    torch = pytest.importorskip("torch")
    folder = write_own(tmp_path, config)
    checkpoint = load(folder)
    ids = np.random.default_rng(3).integers(2, 12, 16).astype(np.int32)
    layer = torch.nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, "relu", 1e-5, batch_first=True, norm_first=True
    )
    norm = torch.nn.LayerNorm(12, 1e-5)
    encoder = torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False).eval()
    arrays = tiny.transformer_tensors(tiny.tensors())
    state = {name.removeprefix("encoder."): torch.tensor(x) for name, x in arrays.items()}
    state = {name: x for name, x in state.items() if name.startswith(("layers.", "norm."))}
    encoder.load_state_dict(state)
    x = arrays["embedding.weight"][ids] * np.sqrt(np.float32(12))
    mask = np.zeros((3, 16, 16), np.float32)
    if config.get("position_bias") == "alibi":
        for h, slope in enumerate((1 / 16, 1 / 256, 1 / 4)):
            mask[h] = [[-slope * abs(k - q) for k in range(16)] for q in range(16)]
    elif config:
        table = np.random.default_rng(7).normal(0, 1, (8, 3)).astype(np.float32)
        # 4 buckets each way: 0, 1, and two of 2 to 6 that are logarithmic
        place = {
            d: min(d, 1) if d < 2 else 2 + int(np.log(d / 2) / np.log(3) * 2) for d in range(16)
        }
        for q in range(16):
            for k in range(16):
                row = min(place[abs(k - q)], 3) + 4 * (k > q)
                mask[:, q, k] = table[row]
    if config.get("sinusoids", True):
        x = x + checkpoint.arrays["embedding.position"]
    with torch.no_grad():
        y = encoder(torch.tensor(x)[None], mask=torch.tensor(mask))[0].mean(dim=0).numpy()
    wanted = arrays["classifier.weight"] @ y + arrays["classifier.bias"]
    ours = float_model.run(checkpoint.spec, checkpoint.arrays, ids)
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "rows", "message"),
    [
        ({"position_bias": "rotary"}, 8, "position_bias is 'rotary': it must be one of none, alib"),
        ({"sinusoids": 1}, 8, "sinusoids is 1: it must be true or false"),
        ({"position_bias": "buckets"}, 8, "relative_attention_num_buckets is None: it must be an"),
        (OWN, 9, "relative_attention_bias.weight has 9 rows: there must be 8"),
        (
            OWN | {"relative_attention_max_distance": 2},
            8,
            "relative_attention_max_distance 2: they must be 4 or more, and more than a fourth",
        ),
    ],
)
def test_own_fields_that_are_wrong(
    config: dict[str, Any], rows: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(write_own(tmp_path, config, rows))


def test_a_table_of_other_heads_is_refused(tmp_path: Path) -> None:
    folder = write_own(tmp_path, OWN)
    arrays = tiny.transformer_tensors(tiny.tensors())
    arrays["relative_attention_bias.weight"] = np.zeros((8, 4), np.float32)
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"attention\.bias has shape 4 x 31: the config"):
        load(folder)
