"""`python -m sim.regress`: many texts through the simulated accelerator, each held to golden."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from cli.command import Exit, run_command
from cli.files import write_json
from cli.journey import then
from cli.options import (
    Parser,
    add_dask,
    add_jobs,
    add_json,
    add_lanes,
    add_tokens,
    positive,
    whole,
)
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
from sim.machine.inference import Loaded
from sim.machine.machine import accelerator
from sim.options import (
    add_lane_options,
    add_memory_options,
    add_model_options,
    add_stream_ahead,
    lanes_of,
    memory_of,
    quantized_of,
)
from sim.phases import CLOCK_MHZ, utilisation
from sim.report import table
from sim.share import SHARE, Batch, Setup, simulate

SPLIT = "test"
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


@dataclass(frozen=True)
class Regression:
    """The findings.

    ``values`` are compared: logits of all texts, intermediates of the ``traced`` ones; ``problems``
    has a line for each inference that failed. ``cycles`` are of all inferences, ``simulated`` with
    register accesses; ``seconds`` are without the build.
    """

    task: str
    texts: int
    traced: int
    inferences: int
    lanes: int
    columns: int
    max_tokens: int
    tokens: int
    values: int
    mismatches: int
    problems: list[str]
    cycles: int
    utilisation: tuple[float, float]
    simulated: int
    seconds: float

    @property
    def passed(self) -> bool:
        return self.texts > 0 and self.values > 0 and not self.mismatches and not self.problems


def sample(texts: int, size: int) -> set[int]:
    """`size` of the texts, evenly spread."""
    size = min(size, texts)
    return {place * texts // size for place in range(size)}


def read(options: argparse.Namespace) -> list[Text]:
    """The texts that the options name; UserError where they cannot be read."""
    (spec, _), layout = which.of_options(options), layout_of(options)
    options.data = options.data or images.usual(spec.inputs, DEFAULT_DATA)
    return images.load(
        spec.inputs, options.data, SPLIT, names=spec.labels, layout=layout, task=spec.task
    )[: options.texts]


def regress(
    quantized: QuantizedModel, texts: Sequence[Text], options: argparse.Namespace
) -> Regression:
    """Run the texts and compare them.

    Raises
    ------
    FitError, SimulatorError, ValueError
        As the parts it uses.
    """
    spec = quantized.spec
    quantized, sequences = quantized.placed(
        [quantized.tokens(text.content, text.pair, max_tokens=options.tokens) for text in texts]
    )
    lengths = [len(t.ids) for t in sequences]
    longest = max(*lengths, options.batch or 1)
    config = fitting_model(quantized.model, options.lanes, longest, **lanes_of(options))
    program = compile_model(quantized.model, config, whole_last_layer=options.whole_last_layer)
    stage(f"running golden: {len(sequences):,} {spec.inputs}")
    golden = golden_fast.run_batch(
        quantized.model, [t.ids for t in sequences], [t.types for t in sequences]
    )
    of_texts = texts_of(spec, golden, sequences)
    traced = sample(len(sequences), options.trace_sample)
    setup = Setup(
        model=quantized.model,
        loaded=Loaded(program, embedding_table(quantized.model, config.lanes)),
        memory=memory_of(options),
        stalls=options.stalls,
    )
    batches = (
        pack(program, lengths) if options.batch else [[place] for place in range(len(sequences))]
    )
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
    shares = {
        f"inference {first}": work[first : first + SHARE] for first in range(0, len(work), SHARE)
    }
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
    seconds = time.perf_counter() - began
    return Regression(
        task=spec.task,
        texts=len(sequences),
        traced=len(traced),
        inferences=len(batches),
        lanes=config.lanes,
        columns=config.tile_columns,
        max_tokens=options.tokens,
        tokens=sum(lengths),
        values=values,
        mismatches=mismatches,
        problems=problems,
        cycles=cycles,
        utilisation=utilisation(program, lengths, cycles),
        simulated=simulated,
        seconds=seconds,
    )


def report(figures: Regression, inputs: str = TEXTS) -> str:
    """The figures as tables, and the problems, the first ten of them; of which inputs."""
    a_second = 1e6 * CLOCK_MHZ * figures.texts / figures.cycles
    rows: list[list[object]] = [
        [f"{inputs} compared", figures.texts],
        ["with every intermediate", figures.traced],
        ["inferences", figures.inferences],
        ["tokens", figures.tokens],
        ["values compared", figures.values],
        ["mismatches", figures.mismatches],
        ["inferences with a problem", len(figures.problems)],
        ["cycles, mean", f"{figures.cycles / figures.texts:,.0f}"],
        ["cycles, total", f"{figures.cycles:,}"],
        [f"a second at {CLOCK_MHZ} MHz", f"{a_second:,.0f}"],
        ["utilisation, tokens", f"{figures.utilisation[0]:.1%}"],
        ["utilisation, row tiles", f"{figures.utilisation[1]:.1%}"],
        ["seconds", f"{figures.seconds:.1f}"],
        ["simulated cycles a second", f"{figures.simulated / figures.seconds:,.0f}"],
    ]
    lines = [
        f"{figures.texts:,} {inputs} of up to {figures.max_tokens:,} tokens on "
        f"{array(figures.lanes, figures.columns)}",
        "",
        table(
            ["", "value"],
            [[name, value if isinstance(value, str) else f"{value:,}"] for name, value in rows],
        ),
        "",
    ]
    lines += figures.problems[:10]
    if len(figures.problems) > 10:
        lines.append(f"... and {len(figures.problems) - 10} more")
    lines.append("passed: equal bit for bit" if figures.passed else "FAILED")
    return "\n".join(lines)


def parser() -> Parser:
    result = Parser("sim.regress", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "--texts",
        "--reviews",
        type=positive,
        default=100,
        metavar="N",
        help="how many (default: 100)",
    )
    add_model_options(result)
    add_lanes(result, LANES)
    add_lane_options(result)
    add_tokens(result, 128)
    add_jobs(result, "simulations")
    add_dask(result)
    result.add_argument(
        "--trace-sample",
        type=whole(0),
        default=20,
        metavar="N",
        help="texts whose intermediates are all compared (default: 20)",
    )
    images.add_data(result, DEFAULT_DATA, " (its test split)")
    add_memory_options(result)
    add_stream_ahead(result)
    result.add_argument(
        "--batch",
        type=positive,
        metavar="TOKENS",
        help="let texts share an inference, side by side in a token memory of so many tokens "
        "(default: each alone)",
    )
    result.add_argument(
        "--stalls", type=whole(0), metavar="SEED", help="let every stream rest at random"
    )
    add_json(result)
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
        # What depends on the machine stays out: the same texts give the same file.
        write_json(
            options.json,
            {name: value for name, value in asdict(figures).items() if name != "seconds"}
            | {"passed": figures.passed},
        )
    if not figures.passed:
        return Exit.DIFFERENT
    then("rtl.generate", "accelerator", "--lanes", options.lanes, "--fit", directory)
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
