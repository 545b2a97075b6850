"""`python -m quant.inspect CHECKPOINT`: what a checkpoint is, whether it maps, and what it needs.

Nothing is calibrated and nothing written: the shape is read from the checkpoint, cycles and memory
follow from it alone, and the channels that reach far are those of the float model on a few texts.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import MODEL, Parser, add_json, positive, whole

import numpy as np

from golden.model import Model
from quant import reader
from quant.calibrate import (
    DEFAULT_DATA,
    SENTENCES,
    SPLIT,
    add_task,
    default_data,
    encode,
    observe_all,
)
from quant.foreign import hub
from quant.foreign.checkpoint import Checkpoint, load, say
from quant.foreign.sentence import MODULES
from quant.foreign.tokenizer import TextTokenizer
from quant.images import data as images
from quant.measure.compare import OUTLIER
from quant.model.position_bias import BIAS
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    IDENTITY,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TOKEN_CLASSIFICATION,
    EncoderSpec,
)
from quant.model.window import said
from quant.quantize import given
from quant.quantize.observers import Observer
from quant.quantize.stand_in import stand_in
from quant.texts.corpora import CORPORA
from quant.texts.data_file import add_columns, layout_of
from rtl.compile.fit import (
    biased_heads,
    fixed_tokens,
    has_gates,
    has_rms_norm,
    longest_sequence,
    needed_labels,
    pairs_of,
    windowed,
)
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import LANES, Config, ceil_div
from rtl.interface.options import options_of
from sim.cycles.model import predict
from sim.estimate.area import estimate
from sim.report import table

_ANSWERS = {
    CLASSIFICATION: "classes",
    MULTI_LABEL: "labels, several at once",
    QUESTION_ANSWERING: "where an answer begins and ends, of every token",
    REGRESSION: "numbers",
    TOKEN_CLASSIFICATION: "classes of every token",
}

_POOLED = {
    "first": "the first token",
    "mean": "the mean of the tokens",
    "last": "the token at the text's end, which the host keeps of every token's outputs",
    "none": "every token",
}

TEXTS = 16
TOKENS = 128
SHOWN = 8
OPERANDS = (
    *(".norm", ".context", ".ffn.up", ".ffn.gate.linear", ".ffn.gate", ".ffn.hidden"),
    *(".q", ".k", ".v", "pooled"),
)
"""Tensors whose channels share one int8 scale, by the last part of their name."""

EXAMPLES = """\
examples:
  python -m quant.inspect
  python -m quant.inspect my-model --tokens 256
  python -m quant.inspect hub:owner/name --texts 0
  python -m quant.inspect my-model --data reviews.csv --json build/inspection.json
"""


@dataclass(frozen=True)
class Needs:
    """Needs and cost of one number of lanes.

    Attributes
    ----------
    config
        The least limits that take the model at `tokens` tokens.
    cycles
        Of one sequence of that length, all other things as `sim.cycles` has them by default.
    stream_bytes, row_bytes
        The command stream, and the rows of the embedding table with values of 8 bits.
    """

    config: Config
    tokens: int
    cycles: int
    stream_bytes: int
    row_bytes: int
    dsp: int
    block_ram: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Reach:
    """A tensor of the float model and its channels that reach furthest.

    channels: (channel, how many times as far as the median one), the furthest first.
    """

    tensor: str
    channels: tuple[tuple[int, float], ...]


def smallest(model: Model, lanes: int, tokens: int) -> Config:
    """The least limits of an accelerator that takes sequences of `tokens` tokens of the model.

    Raises
    ------
    ValueError
        No accelerator takes it; the message names the limit.
    """
    shape = model.shape
    value_width = shape.heads * ceil_div(shape.head_size, lanes) * lanes
    widths = [max(layer.weight.shape) for layer in model.head[:-1]]
    hidden = max(shape.hidden, shape.head_size, value_width)
    config = Config(
        lanes=lanes,
        tokens=tokens,
        hidden=hidden,
        ffn=max([shape.ffn, *(width for width in widths if width > hidden)]),
        labels=shape.labels,
        bias_heads=biased_heads(model),
        rotary_pairs=pairs_of(model),
        windows=windowed(model),
        rms_norm=has_rms_norm(model),
        gated=has_gates(model),
    )
    config = replace(config, labels=needed_labels(shape, config))
    found = longest_sequence(model, config)
    if found < tokens:
        raise UserError(f"{tokens:,} tokens: the model takes {found} at most at {lanes} lanes")
    return config


def needs(checkpoint: Checkpoint, model: Model, lanes: int, tokens: int) -> Needs:
    """The model's needs at this number of lanes; ValueError where no accelerator takes it."""
    config = smallest(model, lanes, tokens)
    program = compile_model(model, config)
    resources, spec = estimate(config), checkpoint.spec
    rows = spec.vocabulary + max(spec.types, 1) * spec.positions
    return Needs(
        config=config,
        tokens=tokens,
        cycles=predict(program, tokens).cycles,
        stream_bytes=len(program.stream()),
        row_bytes=rows * embedding_table(model, lanes).shape[1],
        dsp=resources["DSP"],
        block_ram=resources["block RAM"],
    )


def reaches(observers: dict[str, Observer]) -> list[Reach]:
    """The tensors of OPERANDS with channels that reach OUTLIER times as far as the median one.

    `up` beside a gate is none of them: it has 16 bits.
    """
    found = []
    for name, observer in observers.items():
        gated = name.endswith(".up") and f"{name.removesuffix('up')}gate" in observers
        if gated or not name.endswith(OPERANDS):
            continue
        low, high = observer.channel_extremes
        peaks = np.maximum(-low, high)
        times = peaks / (float(np.median(peaks)) or np.inf)
        far = [(int(c), float(times[c])) for c in np.argsort(-times) if times[c] >= OUTLIER]
        if far:
            found.append(Reach(name, tuple(far)))
    return sorted(found, key=lambda reach: -reach.channels[0][1])


def parser() -> Parser:
    result = Parser(
        "quant.inspect", "Family of a checkpoint, whether it is supported, and its needs.", EXAMPLES
    )
    result.add_argument(
        "model",
        nargs="?",
        default=str(MODEL),
        metavar="CHECKPOINT",
        help=f"folder in Hugging Face layout, or hub:owner/name (default: {MODEL})",
    )
    result.add_argument(
        "--tokens",
        type=positive,
        metavar="N",
        help=f"length of the counted sequence (default: {TOKENS}, or the longest of the model; of "
        "images the one that they have)",
    )
    result.add_argument(
        "--data",
        metavar="NAME|FILE",
        help=f"texts that the float model runs on: {' or '.join(CORPORA)}, or a .csv, .tsv, "
        f".jsonl, .txt or .parquet file (default: {DEFAULT_DATA}; of an encoder that makes "
        f"embeddings {SENTENCES})",
    )
    result.add_argument(
        "--texts",
        type=whole(0),
        default=TEXTS,
        metavar="N",
        help=f"how many of them; 0: look for no channels that reach far (default: {TEXTS})",
    )
    add_task(result)
    add_json(result)
    add_columns(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: inspect_command(parser().parse_args(arguments)))


def inspect_command(options: argparse.Namespace) -> int:
    directory = hub.local(Path(options.model))
    checkpoint = load(directory, options.task)
    say(checkpoint)
    spec = checkpoint.spec
    model, found, refused = stand_in(checkpoint), [], {}
    fixed = fixed_tokens(model, {"spec": spec.to_json()})
    tokens = min(options.tokens or fixed or TOKENS, spec.max_tokens)
    if fixed and options.tokens not in (None, fixed):
        raise UserError(
            f"--tokens is {options.tokens}: an image of this model has {fixed} tokens, of which "
            "none can be cut: leave --tokens away"
        )
    print(description(checkpoint))
    for lanes in LANES:
        try:
            found.append(needs(checkpoint, model, lanes, tokens))
        except ValueError as error:
            refused[lanes] = str(error)
    print(f"\n{needs_table(found, refused, tokens)}")
    reached = None
    if options.texts:
        layout = layout_of(options)
        data = options.data or default_data(spec)
        texts = images.load(spec.inputs, data, SPLIT, names=(), layout=layout, task=spec.task)[
            : options.texts
        ]
        encoded = encode(texts, checkpoint, tokens)
        reached = reaches(observe_all(*given.placed(checkpoint, encoded))[0])
        print(f"\n{reach_table(reached, f'{len(encoded)} {spec.inputs}')}")
    if options.json:
        values = {
            "model": options.model,
            "sha256": checkpoint.sha256,
            "spec": spec.to_json(),
            **reader.facts(checkpoint),
            "notes": list(checkpoint.notes),
            "parameters": parameters(checkpoint),
            "tokens": tokens,
            "needs": [entry.to_json() for entry in found],
            "refused": {str(lanes): reason for lanes, reason in refused.items()},
            "reaches": None if reached is None else [asdict(reach) for reach in reached],
        }
        files.write_json(options.json, values)
    then("quant.calibrate", "--model", options.model)
    return 0


def parameters(checkpoint: Checkpoint) -> int:
    """How many numbers the encoder with its head has; the identity of an embedding counts none."""
    return sum(parts(checkpoint).values())


def parts(checkpoint: Checkpoint) -> dict[str, int]:
    """The parameters by part: embedding, layer, head; what layers share counts once.

    Tables of rotary positions are none, nor are zeros in the place of other positions or of the
    beta of an RMSNorm, or of rows that come in files.
    """
    spec, found = checkpoint.spec, dict[str, int]()
    distinct = {id(array): (name, array) for name, array in checkpoint.arrays.items()}
    for name, array in distinct.values():
        part, size = name.split(".")[0], array.size
        absent = name == "embedding.position" or (spec.rms_norm and name.endswith(".beta"))
        absent |= spec.rows and name == "embedding.token"
        if part == "rotary" or (absent and not array.any()):
            continue
        if name == BIAS:  # differences of one bucket share a column
            size = np.unique(array, axis=1).size
        if part == "embedding" and "projection" not in name:  # what is beyond its size is zero
            size = size // spec.hidden * (spec.embedding_size or spec.hidden)
        found[part] = found.get(part, 0) + size
    if spec.task == EMBEDDING and not spec.width:
        del found["head"]
    return found


def description(checkpoint: Checkpoint) -> str:
    """The structure in words, and the number of parameters by part."""
    spec = checkpoint.spec
    narrow = f"embedding of {spec.embedding_size}, projected; " if spec.embedding_size else ""
    counted = ", ".join(f"{part} {count:,}" for part, count in parts(checkpoint).items())
    return "\n".join(
        [
            f"{checkpoint.directory}: maps to the encoder",
            f"{narrow}{spec.layers} layers, hidden {spec.hidden}, "
            f"{spec.heads} heads of {spec.head_size}, feed-forward {spec.ffn} with "
            f"{spec.activation}, {spec.norm}-norm, {_tokens(spec)}{_bias(spec)}",
            _input(checkpoint),
            _outputs(checkpoint),
            f"{parameters(checkpoint):,} parameters: {counted}",
        ]
    )


def _tokens(spec: EncoderSpec) -> str:
    if spec.rows:
        return f"up to {spec.max_tokens:,} tokens, whose rows come in files"
    if spec.given:
        return f"{spec.max_tokens:,} tokens an image, whose rows the host computes"
    return f"up to {spec.max_tokens:,} tokens of {spec.vocabulary:,}, {spec.types} segment types"


def _bias(spec: EncoderSpec) -> str:
    bias = ", scores with a bias by relative positions" if spec.position_bias else ""
    if spec.rotary:
        bias += ", rotary positions"
    if spec.kv_heads:
        bias += f", {spec.kv_heads} heads of K and V"
    for there, name in ((spec.gated, "gated feed-forward"), (spec.rms_norm, "RMSNorm")):
        bias += f", {name}" if there else ""
    return bias + (f"; windows, {said(spec.windows)}" if spec.windows else "")


def _input(checkpoint: Checkpoint) -> str:
    """How texts, images or files become tokens."""
    if checkpoint.spec.rows:
        return f"files of rows, .npy with float32 [L, {checkpoint.spec.hidden}]"
    resolved = checkpoint.resolved
    if resolved is None:
        return str(checkpoint.front)
    rows = TextTokenizer(resolved).rows
    second = "of type 1" if resolved.segments and checkpoint.spec.types > 1 else "of type 0, too"
    return (
        f"tokenizer of {rows:,} entries; a text that is too long is cut at the {resolved.side}, "
        f"the second of a pair is {second}"
    )


def _outputs(checkpoint: Checkpoint) -> str:
    """What leaves the encoder."""
    spec = checkpoint.spec
    pooled = _POOLED[spec.pooling]
    if spec.task == EMBEDDING:
        told = spec.pooling == "last" or spec.rows or (checkpoint.directory / MODULES).is_file()
        return f"embedding of {spec.outputs}: {pooled}{'' if told else f', as without {MODULES}'}"
    head = [*spec.head_activations, "none"]
    if spec.function != IDENTITY:
        head[-1] = f"none, then a {spec.function} on the host"
    return (
        f"head: {pooled}, {len(head)} linear layers with {', '.join(head)}; "
        f"{_ANSWERS[spec.task]}: {', '.join(spec.labels)}"
    )


def needs_table(found: Sequence[Needs], refused: dict[int, str], tokens: int) -> str:
    """A line a number of lanes, and the command that generates the smallest accelerator."""
    rows = [
        [x.config.lanes, x.cycles, x.stream_bytes, x.row_bytes, x.dsp, x.block_ram] for x in found
    ]
    lines = [f"{tokens:,} tokens, without remedies, at least:"]
    if rows:
        headings = ["lanes", "cycles", "stream bytes", "embedding bytes", "DSP", "block RAM"]
        options = " ".join(options_of(found[0].config))
        lines += [
            table(headings, rows),
            f"the smallest: python -m rtl.generate accelerator {options}",
            "embedding tables of 16 bits a value (--remedies wide) have twice the bytes; LUTs and "
            "parts: python -m sim.estimate",
        ]
    lines += [f"{lanes} lanes: no accelerator takes it: {why}" for lanes, why in refused.items()]
    return "\n".join(lines)


def reach_table(reached: Sequence[Reach], texts: str) -> str:
    """The tensors with channels that reach far, the furthest first, and what to do about them.

    texts: how many inputs of which kind were looked at.
    """
    if not reached:
        return f"no channel reaches {OUTLIER} times as far as the median one on {texts}"
    lines = [f"channels that reach {OUTLIER} times as far as the median one, {texts}:"]
    for reach in reached[:SHOWN]:
        first = ", ".join(f"{channel} ({times:.0f}x)" for channel, times in reach.channels[:4])
        more = f" and {len(reach.channels) - 4} more" if len(reach.channels) > 4 else ""
        lines.append(f"  {reach.tensor}: {first}{more}")
    if len(reached) > SHOWN:
        lines.append(f"  {len(reached) - SHOWN} more tensors")
    lines.append("quant.calibrate tries what helps (docs/numerics.md, section 10)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
