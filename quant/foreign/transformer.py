"""The plain Transformer encoder, as torch.nn.TransformerEncoder has it (Vaswani et al., 2017).

docs/models.md has the fields of the config and the names of the tensors, which are those of
PyTorch's own state dict. A front end of the user's may give rows in place of the embeddings.
"""

from math import sqrt
from typing import Any

import numpy as np

from golden.model import RMS_HIDDEN_MAX, ROTARY_TABLES_MAX, TOKENS_MAX, Window
from quant.foreign.rope import rope
from quant.foreign.tensors import (
    Config,
    Tensors,
    activation,
    answers_of,
    boolean,
    head_size,
    identity,
    integer,
    number,
)
from quant.model.position_bias import BIAS, alibi
from quant.model.rotary import neighbours, shared, tables
from quant.model.spec import (
    EMBEDDING,
    TOKEN_CLASSIFICATION,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
    check_arrays,
)
from quant.model.window import Windows

OWN = "bert2rtl-transformer"
NONE, ALIBI, BUCKETS = BIASES = ("none", "alibi", "buckets")

BASE_MAX = 10**9
"""Of rotary positions; published models have 500 to some millions."""


def sinusoids(positions: int, hidden: int) -> Floats:
    """The position table [P, H]: channel 2i of row p is sin(p / 10000^(2i / H)), 2i + 1 its cosine.

    Computed in float64, given as float32.
    """
    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, hidden, 2) / hidden)
    table = np.empty((positions, hidden))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)[:, : hidden // 2]
    return table.astype(np.float32)


def transformer(
    config: Config, tensors: Tensors, task: str | None = None
) -> tuple[EncoderSpec, Arrays]:
    """The layout of train.transformer: one linear layer on the mean of the tokens, one, or each.

    task: of an encoder of rows EMBEDDING leaves that layer out.
    """
    pre, embedding_norm = boolean(config, "norm_first"), boolean(config, "embedding_norm")
    _check_norms(pre, embedding_norm, boolean(config, "final_norm"))
    rows = "rows" in config and boolean(config, "rows")
    hidden, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    positions = integer(config, "max_position_embeddings")
    if not 1 <= positions <= TOKENS_MAX:
        raise CheckpointError(
            f"config.json: max_position_embeddings is {positions}: it must be from 1 to "
            f"{TOKENS_MAX}, the longest sequence that an accelerator takes"
        )
    arrays = (
        _of_rows(config, tensors, positions) if rows else _embedding(config, tensors, positions)
    )
    rms, gated = (name in config and boolean(config, name) for name in ("rms_norm", "gated"))
    if rms and hidden > RMS_HIDDEN_MAX:
        raise CheckpointError(
            f"config.json: rms_norm is true with a hidden_size of {hidden}: an RMSNorm takes up to "
            f"{RMS_HIDDEN_MAX} channels"
        )
    if embedding_norm:
        arrays |= tensors.norm("embedding_norm", "embedding.norm", not rms)
    size = head_size(hidden, heads)
    groups = _groups(config, heads)
    bias = _position_bias(config, tensors, heads, positions)
    layers = integer(config, "num_hidden_layers")
    turns, angles = _rotary(config.get("rope_theta"), layers, size, positions)
    for i in range(layers):
        source, target = f"encoder.layers.{i}", f"layer.{i}"
        arrays |= _inputs(tensors, source, target, heads * size, groups * size)
        arrays |= tensors.linear(f"{source}.self_attn.out_proj", f"{target}.o")
        arrays |= tensors.norm(f"{source}.norm1", f"{target}.norm1", not rms)
        arrays |= tensors.linear(f"{source}.linear1", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{source}.linear2", f"{target}.ffn.down")
        if gated:
            arrays |= tensors.linear(f"{source}.linear_gate", f"{target}.ffn.gate")
        arrays |= tensors.norm(f"{source}.norm2", f"{target}.norm2", not rms)
    if pre:
        arrays |= tensors.norm("encoder.norm", "final.norm", not rms)
    pooling: Any = config.get("pooling")
    if rows and task == EMBEDDING:
        tensors.drop("classifier.")
        arrays |= identity(hidden)
        answers: dict[str, Any] = {"task": EMBEDDING, "labels": ()}
    else:
        arrays |= tensors.linear("classifier", "head.0")
        answers = answers_of(config, arrays["head.0.weight"])
    if pooling == "none" and answers["task"] != EMBEDDING:
        answers["task"] = TOKEN_CLASSIFICATION
    spec = EncoderSpec(
        layers=layers,
        hidden=hidden,
        heads=heads,
        head_size=size,
        ffn=integer(config, "intermediate_size"),
        vocabulary=positions if rows else integer(config, "vocab_size"),
        positions=positions,
        norm="pre" if pre else "post",
        embedding_norm=embedding_norm,
        pooling=pooling,
        activation=activation(config, "hidden_act"),
        epsilon=number(config, "layer_norm_eps"),
        position_bias=bool(bias),
        windows=_windows(config.get("window"), layers),
        rotary=turns,
        kv_heads=0 if groups == heads else groups,
        gated=gated,
        rms_norm=rms,
        given=rows,
        rows=rows,
        **answers,
    )
    arrays |= bias | angles
    check_arrays(spec, arrays)  # so that every head is where the order of its channels changes
    for i in range(layers):
        if spec.table(i) is not None:
            arrays = neighbours(arrays, f"layer.{i}", size, size)
        if spec.kv_heads:
            arrays = shared(arrays, f"layer.{i}", heads, groups)
    return spec, arrays


def _embedding(config: Config, tensors: Tensors, positions: int) -> Arrays:
    words = tensors.table("embedding.weight")
    if boolean(config, "scale_embedding"):
        words = words * np.float32(sqrt(words.shape[1]))
    table = sinusoids(positions, words.shape[1])
    if "sinusoids" in config and not boolean(config, "sinusoids"):
        table = np.zeros_like(table)
    return {"embedding.token": words, "embedding.position": table}


def _of_rows(config: Config, tensors: Tensors, positions: int) -> Arrays:
    """Zeros, which rows take the place of; they have all of an embedding in them."""
    for name in ("vocab_size", "scale_embedding", "sinusoids"):
        if config.get(name) not in (None, False):
            raise CheckpointError(
                f"config.json: {name} is {config[name]!r} and rows true: the rows are those of "
                f"your front end, which does all of that: leave {name} out"
            )
    zeros = np.zeros((positions, tensors.width("encoder.layers.0.norm1.weight")), np.float32)
    return {"embedding.token": zeros, "embedding.position": zeros.copy()}


def _groups(config: Config, heads: int) -> int:
    """Heads of K and V."""
    if config.get("num_key_value_heads") is None:
        return heads
    groups = integer(config, "num_key_value_heads")
    if groups < 1 or heads % groups:
        raise CheckpointError(
            f"config.json: num_key_value_heads is {groups}: it must be a divisor of "
            f"num_attention_heads, {heads}"
        )
    return groups


def _inputs(tensors: Tensors, source: str, target: str, inner: int, keys: int) -> Arrays:
    """Q, K and V: `inner` rows of one matrix, and twice `keys`."""
    if inner == keys:
        names = [f"{target}.{name}" for name in "qkv"]
        return tensors.linear(f"{source}.self_attn.in_proj", *names, joint="_")
    joint = tensors.linear(f"{source}.self_attn.in_proj", target, joint="_")
    return {
        f"{target}.{name}.{part}": rows
        for part in ("weight", "bias")
        for name, rows in zip("qkv", np.split(joint[f"{target}.{part}"], [inner, inner + keys]))
    }


def _each(name: str, value: Any, layers: int, one: bool) -> list[Any]:
    """The value of each layer; one: it is not a list of them."""
    found = [value] * layers if one else value
    if len(found) != layers:
        raise CheckpointError(
            f"config.json: {name} is {value!r}: a list must have one for each of "
            f"the {layers} layers"
        )
    return list(found)


def _rotary(
    value: Any, layers: int, size: int, positions: int
) -> tuple[tuple[int | None, ...], Arrays]:
    """The table of each layer, and all tables.

    value: the base of all layers, or a list with one for each; null where Q and K are not turned.
    """
    each = _each("rope_theta", value, layers, not isinstance(value, list))
    for base in each:
        if base is not None and not 1 <= number({"rope_theta": base}, "rope_theta") <= BASE_MAX:
            raise CheckpointError(
                f"config.json: rope_theta has {base}: a base must be from 1 to {BASE_MAX:,}"
            )
    bases = list(dict.fromkeys(base for base in each if base is not None))
    if not bases:
        return (), {}
    if size % 2 or len(bases) > ROTARY_TABLES_MAX:
        raise CheckpointError(
            f"layer.0.q: rope_theta is {value!r} and a head has {size} channels: it must have at "
            f"most {ROTARY_TABLES_MAX} different numbers, and the channels are turned in pairs"
        )
    arrays: Arrays = {}
    for j, base in enumerate(bases):
        found = tables(rope({"rope_theta": base}, size).frequencies, positions, size)
        arrays |= dict(zip((f"rotary.{j}.cos", f"rotary.{j}.sin"), found, strict=True))
    return tuple(None if base is None else bases.index(base) for base in each), arrays


def _windows(value: Any, layers: int) -> Windows:
    """Of [before, after], for all layers, or of a list with one for each, null for no window."""
    listed = isinstance(value, list)
    one = not listed or (len(value) == 2 and not any(isinstance(x, list) for x in value))
    found = tuple(_window(pair) for pair in _each("window", value, layers, one))
    return found if any(found) else ()


def _window(pair: Any) -> Window | None:
    if pair is None or pair == [None, None]:
        return None
    try:
        before, after = pair
        return Window(before, after)
    except (TypeError, ValueError):
        raise CheckpointError(
            f"config.json: window is {pair!r}: it must be [before, after], the keys about its own "
            f"that a query sees, each 0 to {TOKENS_MAX - 1:,} or null for all"
        ) from None


def _position_bias(config: Config, tensors: Tensors, heads: int, tokens: int) -> Arrays:
    """The bias of the scores; empty where there is none."""
    kind = config.get("position_bias", NONE)
    if kind not in BIASES:
        raise CheckpointError(
            f"config.json: position_bias is {kind!r}: it must be one of {', '.join(BIASES)}"
        )
    if kind == ALIBI:
        return {BIAS: alibi(heads, tokens)}
    if kind == NONE:
        return {}
    count, furthest = (
        integer(config, f"relative_attention_{name}") for name in ("num_buckets", "max_distance")
    )
    return tensors.position_bias("relative_attention_bias.weight", count, furthest, tokens)


def _check_norms(pre: bool, embedding_norm: bool, final_norm: bool) -> None:
    for wrong, why in (
        (pre and not final_norm, "final.norm: norm_first without a norm after the last layer"),
        (not pre and final_norm, "final.norm: a second norm after the last layer's own"),
        (
            not pre and not embedding_norm,
            "embedding.norm: post-norm layers on an embedding without a norm",
        ),
    ):
        if wrong:
            raise CheckpointError(
                f"{why} is not supported: layers read int8 operands, which one norm gives: train "
                "with norm_first and final_norm, or with embedding_norm alone"
            )
