"""`python -m sim.regress`: many texts through the simulated accelerator, each held to golden."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cli import options as common
from cli.command import Exit, run_command
from cli.files import write_json
from cli.journey import then
from cli.options import Parser, positive, whole
from cli.progress import Bar, stage
from cli.words import counted
from cli.workers import each

import numpy as np

from golden import fast as golden_fast
from quant import which
from quant.calibrate import DEFAULT_DATA
from quant.images import data as images
from quant.measure.tasks import texts_of
from quant.model.spec import TEXTS
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review as Text
from quant.texts.data_file import add_columns, layout_of
from rtl.compile.batches import pack
from rtl.compile.fit import fitting_model
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import LANES, array
from sim.machine.inference import STREAMS, Loaded
from sim.machine.machine import accelerator
from sim.options import add_memory_options, add_model_options, quantized_of
from sim.phases import CLOCK_MHZ, utilisation
from sim.report import table
from sim.share import SHARE, Batch, Setup, simulate

SPLIT = "test"
ROWS = (
    ("{inputs} compared", "{texts:,}"),
    ("with every intermediate", "{traced:,}"),
    ("inferences", "{inferences:,}"),
    ("tokens", "{tokens:,}"),
    ("values compared", "{values:,}"),
    ("mismatches", "{mismatches:,}"),
    ("inferences with a problem", "{failed:,}"),
    ("cycles, mean", "{mean:,.0f}"),
    ("cycles, total", "{cycles:,}"),
    ("a second at {mhz} MHz", "{rate:,.0f}"),
    ("utilisation, tokens", "{utilisation[0]:.1%}"),
    ("utilisation, row tiles", "{utilisation[1]:.1%}"),
    ("seconds", "{seconds:.1f}"),
    ("simulated cycles a second", "{speed:,.0f}"),
)
DESCRIPTION = """\
Run many texts through the simulated accelerator and compare every one with golden.

All texts: the logits, bit for bit. A sample of them: every write of every named intermediate. How
good these logits are says `quant.evaluate`.
"""
EXAMPLES = """\
examples:
  python -m sim.regress --texts 1000 --lanes 16 --jobs 2
  python -m sim.regress --lanes 8 --tokens 64 --trace-sample 100
  python -m sim.regress --texts 25000 --dask tcp://head:8786
  python -m sim.regress --quantized build/mine --data texts.csv --stalls 1
  python -m sim.regress --data rotten-tomatoes --batch 256 --lanes 16 --stream-bytes 2
"""


def passed(figures: Mapping[str, Any]) -> bool:
    """Whether there was something to compare, and all was equal."""
    compared = figures["texts"] > 0 and figures["values"] > 0
    return compared and not figures["mismatches"] and not figures["problems"]


def sample(texts: int, size: int) -> set[int]:
    """`size` of the texts, evenly spread."""
    size = min(size, texts)
    return {place * texts // size for place in range(size)}


def read(options: argparse.Namespace) -> list[Text]:
    """The texts that the options name; UserError where they cannot be read."""
    (spec, _), layout = which.of_options(options), layout_of(options)
    options.data = options.data or images.usual(spec.inputs, DEFAULT_DATA)
    given: Any = {"names": spec.labels, "layout": layout, "task": spec.task}
    return images.load(spec.inputs, options.data, SPLIT, **given)[: options.texts]


def regress(
    quantized: QuantizedModel, texts: Sequence[Text], options: argparse.Namespace
) -> dict[str, Any]:
    """Run the texts and compare them; errors as of the parts it uses.

    ``values`` are compared: logits of all texts, intermediates of the ``traced`` ones; ``problems``
    has a line for each inference that failed. ``cycles`` are of all inferences, ``simulated`` with
    register accesses; ``seconds`` are without the build.
    """
    spec = quantized.spec
    quantized, sequences = quantized.placed(
        [quantized.tokens(text.content, text.pair, max_tokens=options.tokens) for text in texts]
    )
    model, lengths = quantized.model, [len(t.ids) for t in sequences]
    longest = max(*lengths, options.batch or 1)
    config = fitting_model(model, options.lanes, longest, columns=options.columns)
    program = compile_model(model, config, whole_last_layer=options.whole_last_layer)
    stage(f"running golden: {len(sequences):,} {spec.inputs}")
    golden = golden_fast.run_batch(model, [t.ids for t in sequences], [t.types for t in sequences])
    of_texts = texts_of(spec, golden, sequences)
    traced = sample(len(sequences), options.trace_sample)
    setup = Setup(
        model=model,
        loaded=Loaded(program, embedding_table(model, config.lanes)),
        memory={name: getattr(options, name) for name in STREAMS},
        stalls=options.stalls,
    )
    alone = [[place] for place in range(len(sequences))]
    batches = pack(program, lengths) if options.batch else alone
    work = [
        Batch(
            number=number,
            texts=batch,
            sequences=[sequences[place] for place in batch],
            golden=np.concatenate([of_texts[place].reshape(-1) for place in batch]),
            traced=not traced.isdisjoint(batch),
        )
        for number, batch in enumerate(batches)
    ]
    shares = {f"inference {at}": work[at : at + SHARE] for at in range(0, len(work), SHARE)}
    values = mismatches = cycles = simulated = 0
    problems: list[str] = []
    if options.dask is None:
        accelerator(config)
    began = time.perf_counter()
    says = f"simulating: {counted(len(sequences), spec.inputs)}"
    with Bar(says, len(sequences), spec.inputs) as bar:
        results = each(simulate, setup, shares, jobs=options.jobs, dask=options.dask)
        seen = (one for _, share in results for one in share)
        for batch, (took, stepped, found) in zip(work, seen, strict=True):
            bar.update(len(batch.texts))
            cycles, simulated = cycles + took, simulated + stepped
            values += found.compared.total()
            mismatches += found.mismatches.total()
            problems += [f"{batch.name}: {text}" for text in found.problems[:1]]
    return {
        "task": spec.task,
        "texts": len(sequences),
        "traced": len(traced),
        "inferences": len(batches),
        "lanes": config.lanes,
        "columns": config.tile_columns,
        "max_tokens": options.tokens,
        "tokens": sum(lengths),
        "values": values,
        "mismatches": mismatches,
        "problems": problems,
        "cycles": cycles,
        "utilisation": utilisation(program, lengths, cycles),
        "simulated": simulated,
        "seconds": time.perf_counter() - began,
    }


def report(figures: Mapping[str, Any], inputs: str = TEXTS) -> str:
    """The figures as tables, and the problems, the first ten of them; of which inputs."""
    problems, shape = figures["problems"], array(figures["lanes"], figures["columns"])
    further = {
        "inputs": inputs,
        "mhz": CLOCK_MHZ,
        "failed": len(problems),
        "mean": figures["cycles"] / figures["texts"],
        "rate": 1e6 * CLOCK_MHZ * figures["texts"] / figures["cycles"],
        "speed": figures["simulated"] / figures["seconds"],
    }
    rows = [[cell.format(**figures, **further) for cell in row] for row in ROWS]
    more = [f"... and {len(problems) - 10} more"] if len(problems) > 10 else []
    most = f"{figures['texts']:,} {inputs} of up to {figures['max_tokens']:,} tokens"
    verdict = "passed: equal bit for bit" if passed(figures) else "FAILED"
    parts = f"{most} on {shape}\n", table(["", "value"], rows) + "\n", *problems[:10], *more
    return "\n".join([*parts, verdict])


def parser() -> Parser:
    result = Parser("sim.regress", DESCRIPTION, EXAMPLES)
    many: Any = {"type": positive, "default": 100, "metavar": "N"}
    result.add_argument("--texts", "--reviews", help="how many (default: 100)", **many)
    add_model_options(result)
    common.add_lanes(result, LANES)
    common.add_columns(result)
    common.add_tokens(result, 128)
    common.add_jobs(result, "simulations")
    common.add_dask(result)
    what = "texts whose intermediates are all compared (default: 20)"
    result.add_argument("--trace-sample", type=whole(0), default=20, metavar="N", help=what)
    images.add_data(result, DEFAULT_DATA, " (its test split)")
    add_memory_options(result, ahead=True)
    what = (
        "let texts share an inference, side by side in a token memory of so many tokens (default: "
        "each alone)"
    )
    result.add_argument("--batch", type=positive, metavar="TOKENS", help=what)
    what = "let every stream rest at random"
    result.add_argument("--stalls", type=whole(0), metavar="SEED", help=what)
    common.add_json(result)
    add_columns(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    texts = read(options)  # before a calibration, which takes a minute
    directory = quantized_of(options)
    quantized = QuantizedModel.load(directory, None, floats=False)
    figures = regress(quantized, texts, options)
    print(report(figures, quantized.spec.inputs))
    if options.json:
        facts = figures | {"passed": passed(figures)}
        del facts["seconds"]  # depends on the machine: the same texts give the same file
        write_json(options.json, facts)
    if not passed(figures):
        return Exit.DIFFERENT
    then("rtl.generate", "accelerator", "--lanes", options.lanes, "--fit", directory)
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
