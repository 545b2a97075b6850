"""A quantized model as C99: the inference as it stands beside this file, and the model as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from cli.options import version

import numpy as np

from golden import reciprocal, rsqrt, softmax
from golden.model import Layer, Linear, Model, Norm
from golden.window import sides
from quant.model.spec import (
    MULTI_LABEL,
    REGRESSION,
    SIGMOID,
    TOKEN_CLASSIFICATION,
    is_given,
)
from quant.quantize.decode import scale

INFERENCE = ("bert_infer.h", "bert_model.h", "bert_infer.c", "bert_main.c")
GENERATED = ("bert_shape.h", "bert_model.c")

PART = 1024  # BERT_PART; C99 asks compilers for strings of 4095 characters
_LITERAL = 64  # codes in one literal; literals that follow each other are one string
_NUMBERS = 16  # numbers in a line
_NO_LINEAR = "{0, 0, NULL, NULL, NULL, NULL, NULL, NULL}"

# A byte as it stands in a string. Octal digits are escaped, so that none follows an escape and
# this may be short; a question mark, so that there are no trigraphs.
_BYTES = [
    chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?_01234567' else f"\\{byte:o}"
    for byte in range(256)
]


def sources(model: Model, info: Mapping[str, Any]) -> dict[str, str]:
    """The files of the C export by name, 7-bit text.

    info is what the store has beside the model; its labels and the scale of the logits become a
    comment.
    """
    here, has = resources.files(__package__ or "quant.export"), _mechanisms(model)
    texts = {name: here.joinpath(name).read_text() for name in INFERENCE}
    rows = is_given(info)
    texts["bert_shape.h"] = _comment(info) + _shape(model, rows, has)
    texts["bert_model.c"] = "".join(_model(model, rows, has))
    return texts


def _mechanisms(model: Model) -> dict[str, bool]:
    """Conditions of the preprocessor: a model has only the code that it needs."""
    return {
        "ROTARY": any(layer.rotary is not None for layer in model.layers),
        "GATED": any(layer.ffn.gate is not None for layer in model.layers),
        "RMS": any(norm.rms for _, norm in model.norms()),
        "SHARED": model.shape.kv_heads is not None,
        "BARE": model.layers[0].norm1 is None,
        "HEAD_NORM": model.head_norm is not None,
    }


def _shape(model: Model, given: bool, has: Mapping[str, bool]) -> str:
    shape, every = model.shape, model.shape.pooling == "none"
    widths = [shape.hidden, *(layer.weight.shape[0] for layer in model.head[:-1])]
    values: dict[str, int | str] = {
        "LAYERS": shape.layers,
        "HIDDEN": shape.hidden,
        "HEADS": shape.heads,
        "HEAD_SIZE": shape.head_size,
        "INNER": shape.inner,
        "FFN": shape.ffn,
        "LABELS": shape.labels,
        "VOCABULARY": f"UINT32_C({shape.vocabulary})",
        "POSITIONS": shape.positions,
        "OFFSET": shape.position_offset,
        "TOKENS": shape.tokens,
        "TYPES": max(shape.types, 1),
        "PRE_NORM": int(shape.norm == "pre"),
        "MEAN": int(shape.pooling == "mean"),
        "EVERY": int(every),
        "PRECISE": int(model.precise),
        "GIVEN": int(given),
        "LOGITS": shape.labels * (shape.tokens if every else 1),
        "HEAD": len(model.head),
        "HEAD_WIDTH": max(widths),
    }
    values |= {name: int(held) for name, held in has.items()}
    if shape.kv_heads is not None:
        values["KV_HEADS"] = shape.kv_heads
    lines = "".join(f"#define BERT_{name} {value}\n" for name, value in values.items())
    return f"#ifndef BERT_SHAPE_H\n#define BERT_SHAPE_H\n\n#include <stdint.h>\n\n{lines}\n#endif\n"


def _comment(info: Mapping[str, Any]) -> str:
    first = f"/* Sizes and structure of the model, written by bert2rtl {version()}."
    return "\n".join([first, *_meaning(info), "*/\n"])


def _meaning(info: Mapping[str, Any]) -> Iterator[str]:
    """What the logits mean, where the description says it."""
    match info:
        case {"spec": {"task": "embedding"}}:
            yield "   The outputs are an embedding; its direction is what counts, not its length."
            match info:
                case {"spec": {"pooling": "last"}}:
                    yield "   Of the outputs of every token those of the text's last one are it."
        case {"spec": {"labels": [*labels], **spec}}:
            # JSON may escape a slash, and so nothing in it ends the comment.
            yield "   Labels: " + json.dumps(labels).replace("/", "\\/")
            if spec.get("task") == MULTI_LABEL:
                yield "   Each label whose logit is above 0 holds, none of them or several."
            elif spec.get("task") == REGRESSION:
                yield "   The outputs are numbers, not the logits of classes."
                if spec.get("function") == SIGMOID:
                    yield "   The score that the model gives is 1 / (1 + exp(-x)) of a number x."
            elif spec.get("task") == TOKEN_CLASSIFICATION:
                yield "   Every token has the logits of all labels; the largest is its class."
    match info:
        case {"spec": {"given": True}, "tensors": {"embedding.sum": {"scale": float(step)}}}:
            yield f"   A row that is given holds what the front end makes of the image / {step!r},"
            yield "   rounded and limited to -32512..32512."
    match info:
        case {"tensors": {"logits": {"scale": float(), "factors": [*_]} as format}}:
            steps = ", ".join(repr(float(step)) for step in scale(format))
            yield f"   Outputs of the float model are about {steps} times the integers."
        case {"tensors": {"logits": {"scale": float(step)}}}:
            yield f"   A logit of the float model is about {step!r} times the integer."


def _model(model: Model, given: bool, has: Mapping[str, bool]) -> Iterator[str]:
    """bert_model.c: static arrays first, the structures that name them after."""
    yield f"/* Weights and tables of the model, written by bert2rtl {version()}. */\n"
    yield '#include "bert_model.h"\n\n'
    yield "#define CODES(array) (const signed char *)&array\n\n"
    embedding = model.embedding
    hidden = model.shape.hidden
    low = embedding.token_low, embedding.position_low
    if not given:
        yield from codes("token", embedding.token)
        yield from codes("position", embedding.position.reshape(-1, hidden))
    if not given and low[0] is not None and low[1] is not None:
        yield from codes("token_low", low[0])
        yield from codes("position_low", low[1].reshape(-1, hidden))
    for name, table in (
        ("exp2", softmax.EXP2_TABLE),
        ("reciprocal", reciprocal.TABLE),
        ("rsqrt", rsqrt.TABLE),
    ):
        yield from numbers(f"{name}_table", "uint16_t", table)
    norms = {"norm_embedding": embedding.norm, "norm_final": model.final_norm}
    for name, norm in (norms | {"norm_head": model.head_norm}).items():
        if norm is not None:
            yield from _norm_arrays(name, norm)
            yield f"static const bert_norm {name} =\n    {_norm(name, norm, has)};\n"
    if model.projection is not None:
        yield from _linear_arrays("projection", model.projection)
        value = _linear("projection", model.projection)
        yield f"static const bert_linear projection =\n    {value};\n"
    bias = model.position_bias
    if bias is not None:
        yield from numbers("position_bias", "int16_t", bias.ravel())
    for j in sorted({layer.rotary for layer in model.layers if layer.rotary is not None}):
        turns = (model.rotary or ())[j]
        yield from numbers(f"rotary_{j}_cosine", "int16_t", turns.cos.ravel())
        yield from numbers(f"rotary_{j}_sine", "int16_t", turns.sin.ravel())
    for i, layer in enumerate(model.layers):
        for name, linear in _projections(layer).items():
            yield from _linear_arrays(f"layer_{i}_{name}", linear)
        if layer.norm1 is not None:
            yield from _norm_arrays(f"layer_{i}_norm1", layer.norm1)
        yield from _norm_arrays(f"layer_{i}_norm2", layer.norm2)
    for i, linear in enumerate(model.head):
        yield from _linear_arrays(f"head_{i}", linear)

    yield "\nstatic const bert_layer layers[BERT_LAYERS] = {\n"
    for i, layer in enumerate(model.layers):
        yield _layer(f"layer_{i}", layer, model.shape.tokens, has)
    yield "};\n\nstatic const bert_linear head[BERT_HEAD] = {\n"
    for i, linear in enumerate(model.head):
        yield f"    {_linear(f'head_{i}', linear)},\n"
    yield "};\n\n"
    yield "const bert_encoder bert_model = {\n"
    wide = embedding.wide and not given
    yield f"    {'NULL, NULL' if given else 'CODES(token), CODES(position)'},\n"
    yield f"    {'CODES(token_low), CODES(position_low)' if wide else 'NULL, NULL'},\n"
    yield f"    {embedding.token_factor}, {embedding.position_factor},\n"
    yield f"    {'&norm_embedding' if embedding.norm else 'NULL'}, "
    yield f"{'&projection' if model.projection else 'NULL'}, "
    yield f"{'NULL' if bias is None else 'position_bias'}, layers,\n"
    yield f"    {'&norm_final' if model.final_norm else 'NULL'},\n"
    head_norm = " &norm_head," if has["HEAD_NORM"] else ""
    yield f"    {model.mean_m or 0}, {model.mean_s or 0}, head,{head_norm}\n"
    yield "    exp2_table, reciprocal_table, rsqrt_table};\n"


def _projections(layer: Layer) -> dict[str, Linear]:
    attention, ffn = layer.attention, layer.ffn
    projections = {"q": attention.q, "k": attention.k, "v": attention.v, "o": attention.o}
    gate = {} if ffn.gate is None else {"gate": ffn.gate}
    return projections | gate | {"up": ffn.up, "down": ffn.down}


def _layer(name: str, layer: Layer, tokens: int, has: Mapping[str, bool]) -> str:
    attention, (before, after) = layer.attention, sides(layer.window, tokens)
    linears = {key: _linear(f"{name}_{key}", value) for key, value in _projections(layer).items()}
    members = [
        *(linears[key] for key in ("q", "k", "v", "o")),
        f"{attention.score_m}, {attention.score_s}, {attention.context_m}, {attention.context_s}, "
        f"{attention.residual_shift}",
        f"{before}, {after}",
    ]
    if has["ROTARY"]:
        table = f"rotary_{layer.rotary}"
        members.append("NULL, NULL" if layer.rotary is None else f"{table}_cosine, {table}_sine")
    if has["GATED"]:
        members += [linears.get("gate", _NO_LINEAR), str(layer.ffn.gate_shift or 0)]
    members += [
        linears["up"],
        linears["down"],
        str(layer.ffn.residual_shift),
        "{0}" if layer.norm1 is None else _norm(f"{name}_norm1", layer.norm1, has),
        _norm(f"{name}_norm2", layer.norm2, has),
    ]
    return "    {" + ",\n     ".join(members) + "},\n"


def _linear_arrays(name: str, linear: Linear) -> Iterator[str]:
    yield from codes(f"{name}_weight", linear.weight)
    yield from numbers(f"{name}_bias", "int32_t", linear.bias)
    if linear.m is not None and linear.s is not None:
        yield from numbers(f"{name}_m", "uint16_t", linear.m)
        yield from numbers(f"{name}_s", "uint8_t", linear.s)
    if linear.table is not None:
        yield from codes(f"{name}_table", linear.table[None])
    if linear.table_low is not None:
        yield from codes(f"{name}_table_low", linear.table_low[None])


def _linear(name: str, linear: Linear) -> str:
    rows, columns = linear.weight.shape
    multiplier = "NULL, NULL" if linear.m is None else f"{name}_m, {name}_s"
    table = "NULL" if linear.table is None else f"CODES({name}_table)"
    low = "NULL" if linear.table_low is None else f"CODES({name}_table_low)"
    return f"{{{rows}, {columns}, CODES({name}_weight), {name}_bias, {multiplier}, {table}, {low}}}"


def _norm_arrays(name: str, norm: Norm) -> Iterator[str]:
    yield from numbers(f"{name}_gamma", "int16_t", norm.gamma)
    yield from numbers(f"{name}_beta", "int32_t", norm.beta)
    if norm.operand_shifts is not None:
        yield from numbers(f"{name}_shifts", "uint8_t", norm.operand_shifts)


def _norm(name: str, norm: Norm, has: Mapping[str, bool]) -> str:
    shifts = "NULL" if norm.operand_shifts is None else f"{name}_shifts"
    values = f"{norm.shift}, INT64_C({norm.epsilon}), {shifts}, {int(norm.wide)}"
    if has["RMS"]:
        values += f", {int(bool(norm.rms))}"
    return f"{{{name}_gamma, {name}_beta, {values}}}"


def codes(name: str, rows: np.ndarray) -> Iterator[str]:
    """An array of int8 [rows, columns] as strings of at most PART columns, each with its 0."""
    parts = -(-rows.shape[1] // PART)
    width = min(rows.shape[1], PART) + 1
    yield f"static const signed char {name}[{len(rows) * parts}][{width}] = {{\n"
    for row in rows.view(np.uint8):
        data = row.tobytes()
        for first in range(0, len(data), PART):
            yield _string(data[first : first + PART])
    yield "};\n"


def _string(data: bytes) -> str:
    literals = (data[first : first + _LITERAL] for first in range(0, len(data), _LITERAL))
    return "\n".join(f'"{"".join(map(_BYTES.__getitem__, part))}"' for part in literals) + ",\n"


def numbers(name: str, kind: str, values: np.ndarray) -> Iterator[str]:
    """An array of numbers of the C type `kind`."""
    yield f"static const {kind} {name}[{len(values)}] = {{\n"
    for first in range(0, len(values), _NUMBERS):
        yield ", ".join(map(str, values[first : first + _NUMBERS].tolist())) + ",\n"
    yield "};\n"
