"""`python -m quant.inspect CHECKPOINT`: what a checkpoint is, and whether it is read right.

Nothing is calibrated and nothing written.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import files
from cli.command import run_command
from cli.journey import then
from cli.options import MODEL, Parser, add_json

from quant import which
from quant.foreign import proof
from quant.foreign.checkpoint import Checkpoint, load, say
from quant.foreign.tokenizer import TextTokenizer
from quant.measure.metrics import shown
from quant.model.distance import said

EXAMPLES = """\
examples:
  python -m quant.inspect
  python -m quant.inspect hub:owner/name --json build/inspection.json
"""


def parser() -> Parser:
    result = Parser("quant.inspect", "Structure of a checkpoint, and whether it runs.", EXAMPLES)
    what = f"folder in Hugging Face layout, or hub:owner/name (default: {MODEL})"
    result.add_argument("model", nargs="?", default=str(MODEL), metavar="CHECKPOINT", help=what)
    which.add_task(result)
    add_json(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: inspect_command(parser().parse_args(arguments)))


def inspect_command(options: argparse.Namespace) -> None:
    checkpoint = proof.proved(load(which.local(Path(options.model)), options.task))
    say(checkpoint)
    print(description(checkpoint), proof.said(checkpoint.difference, checkpoint), sep="\n")
    if options.json:
        of = {"model": options.model, "sha256": checkpoint.sha256}
        of |= {"difference": checkpoint.difference, "spec": checkpoint.spec.to_json()}
        of |= which.facts(checkpoint) | {"notes": list(checkpoint.notes)}
        files.write_json(options.json, of)
    then("quant.calibrate", "--model", options.model)


def description(checkpoint: Checkpoint) -> str:
    """The structure: the options that are not absent."""
    spec, resolved = checkpoint.spec, checkpoint.resolved
    reads = str(checkpoint.front or f"files of rows, .npy with float32 [L, {spec.hidden}]")
    if resolved is not None:
        rows = TextTokenizer(resolved).rows
        reads = f"texts; tokenizer of {rows:,} entries, which cuts at the {resolved.side}"
    values = {name: value for name, value in spec.to_json().items() if value}
    values |= {"windows": said(spec.windows)} if spec.windows else {}
    values |= {"reads": reads, "tokens": spec.max_tokens}
    return f"{checkpoint.directory}: maps to the encoder\n{shown(values)}"


if __name__ == "__main__":
    sys.exit(main())
