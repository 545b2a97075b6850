"""`python -m quant.inspect CHECKPOINT`: what a checkpoint is, and whether it is read right.

Nothing is calibrated and nothing written. The channels that reach far are those of the float model
on a few texts.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.journey import then
from cli.options import MODEL, Parser, add_json, whole

import numpy as np

from quant import reader
from quant.calibrate import SPLIT, add_task, default_data, encode, observe_all
from quant.foreign import hub, proof
from quant.foreign.checkpoint import Checkpoint, load, say
from quant.foreign.tokenizer import TextTokenizer
from quant.images import data as images
from quant.measure.compare import OUTLIER, TensorError
from quant.measure.metrics import shown
from quant.model.position_bias import BIAS
from quant.model.spec import EMBEDDING, TEXTS
from quant.model.window import said
from quant.quantize import given
from quant.quantize.observers import Observer
from quant.texts.data_file import add_columns, layout_of

SAMPLES, TOKENS, SHOWN = 16, 128, 8
OPERANDS = (
    *(".norm", ".context", ".ffn.up", ".ffn.gate.linear", ".ffn.gate", ".ffn.hidden"),
    *(".q", ".k", ".v", "pooled"),
)
"""Tensors whose channels share one int8 scale, by the last part of their name."""

EXAMPLES = """\
examples:
  python -m quant.inspect
  python -m quant.inspect hub:owner/name --texts 0
  python -m quant.inspect my-model --data reviews.csv --json build/inspection.json
"""


def reaches(observers: Mapping[str, Observer]) -> list[dict[str, Any]]:
    """The tensors of OPERANDS with channels that reach OUTLIER times as far as the median one.

    {"tensor", "channels"} of each, the channels with how many times as far; the furthest first.
    """
    found = []
    for name, observer in observers.items():
        # up beside a gate has 16 bits
        gated = name.endswith(".up") and f"{name.removesuffix('up')}gate" in observers
        if gated or not name.endswith(OPERANDS):
            continue
        low, high = observer.channel_extremes
        if far := TensorError(peaks=np.maximum(-low, high).astype(np.float64)).outliers():
            found.append({"tensor": name, "channels": far})
    return sorted(found, key=lambda one: -one["channels"][0][1])


def parser() -> Parser:
    result = Parser("quant.inspect", "Structure of a checkpoint, and whether it runs.", EXAMPLES)
    result.add_argument(
        "model",
        nargs="?",
        default=str(MODEL),
        metavar="CHECKPOINT",
        help=f"folder in Hugging Face layout, or hub:owner/name (default: {MODEL})",
    )
    result.add_argument(
        "--data",
        metavar="NAME|FILE",
        help="texts that the float model runs on, as quant.calibrate takes them",
    )
    result.add_argument(
        "--texts",
        type=whole(0),
        default=SAMPLES,
        metavar="N",
        help=f"how many of them; 0: look for no channels that reach far (default: {SAMPLES})",
    )
    add_task(result)
    add_json(result)
    add_columns(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: inspect_command(parser().parse_args(arguments)))


def inspect_command(options: argparse.Namespace) -> int:
    checkpoint = proof.proved(load(hub.local(Path(options.model)), options.task))
    say(checkpoint)
    spec, reached = checkpoint.spec, None
    print(description(checkpoint))
    if options.texts:
        data, layout = options.data or default_data(spec), layout_of(options)
        texts = images.load(spec.inputs, data, SPLIT, layout=layout, task=spec.task)
        most = TOKENS if spec.inputs == TEXTS else spec.max_tokens
        encoded = encode(texts[: options.texts], checkpoint, most)
        reached = reaches(observe_all(*given.placed(checkpoint, encoded))[0])
        print(f"\n{reach_table(reached, f'{len(encoded)} {spec.inputs}')}\n")
    print(proof.said(checkpoint))
    if options.json:
        values = {
            "model": options.model,
            "sha256": checkpoint.sha256,
            "difference": checkpoint.difference,
            "spec": spec.to_json(),
            **reader.facts(checkpoint),
            "notes": list(checkpoint.notes),
            "parameters": sum(parts(checkpoint).values()),
            "reaches": reached,
        }
        files.write_json(options.json, values)
    then("quant.calibrate", "--model", options.model)
    return 0


def parts(checkpoint: Checkpoint) -> dict[str, int]:
    """The parameters by part: embedding, layer, head; what layers share counts once.

    Tables of rotary positions are none, nor are zeros in the place of other positions or of the
    beta of an RMSNorm, of rows that come in files, or the identity of an embedding.
    """
    spec, found = checkpoint.spec, dict[str, int]()
    for name, array in {id(x): (name, x) for name, x in checkpoint.arrays.items()}.values():
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
    """The structure: the options that are not absent, and the number of parameters by part."""
    spec, counted, resolved = checkpoint.spec, parts(checkpoint), checkpoint.resolved
    reads = str(checkpoint.front or f"files of rows, .npy with float32 [L, {spec.hidden}]")
    if resolved is not None:
        rows = TextTokenizer(resolved).rows
        reads = f"texts; tokenizer of {rows:,} entries, which cuts at the {resolved.side}"
    values = {name: value for name, value in spec.to_json().items() if value}
    values |= {"windows": said(spec.windows)} if spec.windows else {}
    values |= {"reads": reads, "tokens": spec.max_tokens}
    values |= {"parameters": {"in all": sum(counted.values()), **counted}}
    return f"{checkpoint.directory}: maps to the encoder\n{shown(values)}"


def reach_table(reached: Sequence[dict[str, Any]], texts: str) -> str:
    """What `reaches` gives as lines, the first SHOWN; texts: what was looked at."""
    if not reached:
        return f"no channel reaches {OUTLIER} times as far as the median one on {texts}"
    lines = {
        one["tensor"]: ", ".join(f"{c} ({times:.0f}x)" for c, times in one["channels"][:4])
        for one in reached[:SHOWN]
    }
    return (
        f"channels that reach {OUTLIER} times as far as the median one, {texts}, the first of "
        f"{len(reached)} tensors:\n{shown(lines)}\n"
        "quant.calibrate tries what helps (docs/numerics.md, section 10)"
    )


if __name__ == "__main__":
    sys.exit(main())
