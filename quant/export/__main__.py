"""`python -m quant.export`: a quantized model as C99 source.

The inference stands beside this file as it is, and the model becomes data.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.machine import BUILD
from cli.options import Parser, add_model, add_quantized, version
from cli.paths import check_written

import numpy as np

from golden import reciprocal, rsqrt, softmax, store
from golden.model import Linear, Model, Norm
from golden.window import sides
from quant.calibrate import calibrated
from quant.model.spec import TEXTS, inputs_of
from quant.quantize.quantizers import scale

DESCRIPTION = """\
Write a quantized model as a directory of C99 source, without libraries, allocation or floating
point; its logits are those of golden, bit for bit.
"""
EXAMPLES = """\
examples:
  python -m quant.export c
  python -m quant.export c --quantized build/bert-tiny-imdb -o build/export/imdb
"""
OUT = BUILD / "export"

INFERENCE = ("bert_infer.h", "bert_infer.c", "bert_main.c")
GENERATED = ("bert_shape.h", "bert_model.h")

PART = 1024  # as in bert_infer.c; C99 asks compilers for strings of 4095 characters
_LITERAL = 64  # codes in one literal; literals that follow each other are one string
_NUMBERS = 16  # numbers in a line
_TABLES = ("token", "position", "token_low", "position_low")
_PARTS = ("q", "k", "v", "o", "gate", "up", "down", "norm1", "norm2")

# A byte as it stands in a string. Octal digits are escaped, so that none follows an escape and
# this may be short; a question mark, so that there are no trigraphs.
_BYTES = [
    chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?_01234567' else f"\\{byte:o}"
    for byte in range(256)
]


def parser() -> Parser:
    result = Parser("quant.export", DESCRIPTION, EXAMPLES)
    result.add_argument("format", choices=["c"], help="format of the output")
    what = (
        f"directory of the C (default: {OUT}/ and the name of the model); one that holds anything "
        "but an earlier export is refused"
    )
    result.add_argument("-o", "--out", type=Path, metavar="DIR", help=what)
    source = result.add_mutually_exclusive_group()
    add_model(source, default=None)
    add_quantized(source)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: export_command(parser().parse_args(arguments)))


def export_command(options: argparse.Namespace) -> None:
    if options.out is not None:
        check_directory(options.out)
    quantized, _ = calibrated(options)
    out = options.out or OUT / quantized.resolve().name
    check_directory(out)
    model, info = store.load(quantized)
    with files.replacing(out) as temporary:
        temporary.mkdir()
        for name, text in sources(model, info).items():
            temporary.joinpath(name).write_text(text, encoding="ascii")
    shape = model.shape
    logits = f"{shape.labels} logits{' each' if shape.pooling == 'none' else ''}"
    program = shlex.quote(f"{out}-infer" if "/" in str(out) else f"./{out}-infer")
    ids = sorted({0, shape.vocabulary // 2, shape.vocabulary - 1})[: shape.tokens]
    print(f"{out}: C99 source of {quantized}, up to {shape.tokens:,} tokens, {logits}")
    print(f"compile: cc -std=c99 -O2 -o {program} {shlex.quote(str(out))}/*.c")
    if inputs_of(info) == TEXTS:
        print(f"run:     echo {' '.join(map(str, ids))} | {program}")
    else:
        print(f"run:     {program} < FILE   {shape.tokens:,} x {shape.hidden} numbers, an image's")


def check_directory(out: Path) -> None:
    """Raises UserError where writing to `out` would cost a file that no export wrote."""
    check_written(out, "DIR")
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if others := sorted(there - {*INFERENCE, *GENERATED}):
        what = f"{out} holds {others[0]}, which is not of an export"
        raise UserError(f"{what}: name a new directory with -o, or remove this one")


def sources(model: Model, info: Mapping[str, Any]) -> dict[str, str]:
    """The files of the C export by name, 7-bit text.

    info is what the store has beside the model; its labels and the scale of the logits become a
    comment.
    """
    here, given = resources.files(__package__ or "quant.export"), inputs_of(info) != TEXTS
    texts = {name: here.joinpath(name).read_text() for name in INFERENCE}
    texts["bert_shape.h"] = _comment(info) + _shape(model, given)
    texts["bert_model.h"] = "".join(_model(model, given))
    return texts


def _shape(model: Model, given: bool) -> str:
    shape, every = model.shape, model.shape.pooling == "none"
    widths = [shape.hidden, *(layer.weight.shape[0] for layer in model.head[:-1])]
    names = ("layers", "hidden", "heads", "head_size", "inner", "ffn", "labels", "positions")
    values: dict[str, int | str] = {
        **{name.upper(): getattr(shape, name) for name in (*names, "tokens")},
        "KV_HEADS": shape.kv_heads or shape.heads,
        "VOCABULARY": f"UINT32_C({shape.vocabulary})",
        "OFFSET": shape.position_offset,
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
    lines = "".join(f"#define BERT_{name} {value}\n" for name, value in values.items())
    return f"#ifndef BERT_SHAPE_H\n#define BERT_SHAPE_H\n\n#include <stdint.h>\n\n{lines}\n#endif\n"


def _comment(info: Mapping[str, Any]) -> str:
    """What the logits mean, where the description says it."""
    lines = [f"/* Sizes and structure of the model, written by bert2rtl {version()}."]
    spec, tensors = info.get("spec") or {}, info.get("tensors") or {}
    if "task" in spec:  # JSON may escape a slash, and so nothing in it ends the comment
        labels = json.dumps(spec["labels"])
        lines.append(f"   Task: {spec['task']}, labels: {labels}".replace("/", "\\/"))
    if spec.get("pooling") == "last":
        lines.append("   Of the outputs of every token those of the text's last one count.")
    if spec.get("given"):
        step = tensors["embedding.sum"]["scale"]
        lines.append(f"   A row holds what the front end makes of the image / {step!r},")
        lines.append("   rounded and limited to -32512..32512.")
    if "logits" in tensors:
        steps = ", ".join(repr(float(x)) for x in np.atleast_1d(scale(tensors["logits"])))
        lines.append(f"   A logit of the float model is about {steps} times the integer.")
    return "\n".join([*lines, "*/\n"])


def _model(model: Model, given: bool) -> Iterator[str]:
    """bert_model.h: arrays first, the structures that name them after."""
    yield f"/* Weights and tables of the model, written by bert2rtl {version()}. */\n"
    yield "#define CODES(array) (const signed char *)&array\n\n"
    embedding, present = model.embedding, set[str]()
    for name in _TABLES:
        if (table := getattr(embedding, name)) is not None and not given:
            present.add(name)
            yield from codes(f"{name}_table", table.reshape(-1, model.shape.hidden))
    yield from numbers("exp2_table", "uint16_t", softmax.EXP2_TABLE)
    yield from numbers("reciprocal_table", "uint16_t", reciprocal.TABLE)
    yield from numbers("rsqrt_table", "uint16_t", rsqrt.TABLE)
    if model.position_bias is not None:
        present.add("position_bias")
        yield from numbers("position_bias", "int16_t", model.position_bias.ravel())
    for j, turns in enumerate(model.rotary or ()):
        yield from numbers(f"rotary_{j}_cosine", "int16_t", turns.cos.ravel())
        yield from numbers(f"rotary_{j}_sine", "int16_t", turns.sin.ravel())
    parts: dict[str, Linear | Norm | None] = {"norm_embedding": embedding.norm}
    parts |= {"norm_final": model.final_norm, "norm_head": model.head_norm}
    parts["projection"] = model.projection
    heads = {f"head_{i}": linear for i, linear in enumerate(model.head)}
    for i, layer in enumerate(model.layers):
        own = vars(layer.attention) | vars(layer.ffn) | vars(layer)
        parts |= {f"layer_{i}_{name}": own[name] for name in _PARTS}
    for name, part in (parts | heads).items():
        if part is not None:
            present.add(name)
            yield from _linear(name, part) if isinstance(part, Linear) else _norm(name, part)

    def to(name: str) -> str:
        return f"&{name}" if name in present else "NULL"

    yield "\nstatic const encoder_layer layers[BERT_LAYERS] = {\n"
    for i, layer in enumerate(model.layers):
        a, f, table = layer.attention, layer.ffn, f"rotary_{layer.rotary}"
        pointers = [to(f"layer_{i}_{name}") for name in _PARTS]
        turned = layer.rotary is not None
        pointers += [f"{table}_cosine", f"{table}_sine"] if turned else ["NULL", "NULL"]
        shifts = (a.residual_shift, f.gate_shift or 0, f.residual_shift)
        values = (a.score_m, a.score_s, a.context_m, a.context_s, *shifts)
        keys = sides(layer.window, model.shape.tokens)
        yield f"    {{{', '.join([*pointers, *map(str, (*values, *keys))])}}},\n"
    yield "};\n\nstatic const linear_layer *const head_layers[BERT_HEAD] = {"
    yield f"{', '.join(map(to, heads))}}};\n\nstatic const encoder model = {{\n    "
    fields = [f"CODES({name}_table)" if name in present else "NULL" for name in _TABLES]
    fields += ["position_bias" if "position_bias" in present else "NULL"]
    fields += [to(name) for name in ("norm_embedding", "norm_final", "norm_head", "projection")]
    factors = (embedding.token_factor, embedding.position_factor)
    yield ", ".join([*fields, *map(str, (*factors, model.mean_m or 0, model.mean_s or 0))])
    yield "};\n"


def _linear(name: str, linear: Linear) -> Iterator[str]:
    rows, columns = linear.weight.shape
    yield from codes(f"{name}_weight", linear.weight)
    yield from numbers(f"{name}_bias", "int32_t", linear.bias)
    fields = [str(rows), str(columns), f"CODES({name}_weight)", f"{name}_bias"]
    for part, kind, values in (("m", "uint16_t", linear.m), ("s", "uint8_t", linear.s)):
        fields.append("NULL" if values is None else f"{name}_{part}")
        if values is not None:
            yield from numbers(f"{name}_{part}", kind, values)
    for part, table in (("table", linear.table), ("table_low", linear.table_low)):
        fields.append("NULL" if table is None else f"CODES({name}_{part})")
        if table is not None:
            yield from codes(f"{name}_{part}", table[None])
    yield f"static const linear_layer {name} = {{{', '.join(fields)}}};\n"


def _norm(name: str, norm: Norm) -> Iterator[str]:
    yield from numbers(f"{name}_gamma", "int16_t", norm.gamma)
    yield from numbers(f"{name}_beta", "int32_t", norm.beta)
    shifts = "NULL" if norm.operand_shifts is None else f"{name}_shifts"
    if norm.operand_shifts is not None:
        yield from numbers(shifts, "uint8_t", norm.operand_shifts)
    values = f"{norm.shift}, {int(norm.wide)}, {int(bool(norm.rms))}, INT64_C({norm.epsilon})"
    yield f"static const norm_layer {name} = {{{name}_gamma, {name}_beta, {shifts}, {values}}};\n"


def codes(name: str, rows: np.ndarray) -> Iterator[str]:
    """An array of int8 [rows, columns] as strings of at most PART columns, each with its 0."""
    parts = -(-rows.shape[1] // PART)
    width = min(rows.shape[1], PART) + 1
    yield f"static const signed char {name}[{len(rows) * parts}][{width}] = {{\n"
    for row in rows.view(np.uint8):
        data = row.tobytes()
        for first in range(0, len(data), PART):
            part = list(map(_BYTES.__getitem__, data[first : first + PART]))
            literals = ("".join(part[i : i + _LITERAL]) for i in range(0, len(part), _LITERAL))
            yield "\n".join(f'"{literal}"' for literal in literals) + ",\n"
    yield "};\n"


def numbers(name: str, kind: str, values: np.ndarray) -> Iterator[str]:
    """An array of numbers of the C type `kind`."""
    yield f"static const {kind} {name}[{len(values)}] = {{\n"
    for first in range(0, len(values), _NUMBERS):
        yield ", ".join(map(str, values[first : first + _NUMBERS].tolist())) + ",\n"
    yield "};\n"


if __name__ == "__main__":
    sys.exit(main())
