"""Take a real review through checkpoint, calibration, golden model and simulated Verilog.

The whole model runs in the generated accelerator, and every intermediate that the hardware writes
is compared with the golden model, bit for bit, and with the float model in units of its scale.

examples:
  python -m sim.run
  python -m sim.run --review "That movie was terrible!" --lanes 16
  python -m sim.run --unit attention --lanes 8
  python -m sim.run --unit softmax --simulator icarus
  python -m sim.run --waves
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from golden import encoder
from quant import float_model, hub
from quant.calibrate import ensure
from quant.checkpoint import DEFAULT_MODEL
from quant.classify import Classifier
from quant.decode import lsb, real
from quant.texts import imdb
from quant.tokenizer import Tokens
from rtl.compile.program import Program, compile_attention, compile_model
from rtl.generate.units import unit
from rtl.generate.verilog import VerilogError
from rtl.interface.config import LANES, Config
from rtl.interface.trace import Stall
from sim.design import generated
from sim.phases import Phase, phases, work
from sim.report import table, write_json
from sim.simulators import SIMULATORS, BenchError, SimulatorError, folder_of, run
from tb import vectors
from tb.case import Case, accelerator_inference, attention_inference, write_case

OUT = Path("build/sim")
CLOCK_MHZ = 100
TOKENS = 128
WHOLE, ATTENTION = "accelerator", "attention"


class Mismatch(Exception):
    """The hardware differs from the golden model, or nothing was compared."""


@dataclass(frozen=True)
class Review:
    """A text with what the golden model and the float model make of it."""

    text: str
    classifier: Classifier
    tokens: Tokens
    golden: Mapping[str, np.ndarray]
    floats: Mapping[str, np.ndarray]


def default_review() -> str:
    """The first review of the test split that fills 128 tokens."""
    return next(review.text for review in imdb("test") if len(review.text.split()) >= TOKENS)


def read_review(text: str, model: Path, most: int) -> Review:
    """Calibrate `model` if needed and run the review through golden and float.

    Raises
    ------
    ValueError
        The text is empty, or the model cannot be read.
    """
    classifier = Classifier.load(ensure(model), model)
    tokens = classifier.tokens(text, max_tokens=most)
    golden: dict[str, np.ndarray] = {}
    floats: dict[str, np.ndarray] = {}
    checkpoint = classifier.require_checkpoint()
    encoder.run(classifier.model, tokens.ids, tokens.types, trace=golden)
    logits = float_model.run(
        checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types, trace=floats
    )
    floats["logits"] = logits
    return Review(text, classifier, tokens, golden, floats)


def differences(review: Review, tensor: str) -> tuple[float, float] | None:
    """Largest and mean distance of a tensor from its float twin, in units of its scale."""
    formats = review.classifier.info["tensors"]
    twin = tensor.removesuffix(".x8") + ".norm" if tensor.endswith(".x8") else tensor
    if tensor not in formats or twin not in review.floats:
        return None
    format, exact = formats[tensor], review.floats[twin]
    apart = np.abs(real(review.golden[tensor], format, exact.shape[-1]) - exact) / lsb(format)
    return float(apart.max()), float(apart.mean())


def simulate(
    name: str, config: Config, case: Case, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Play a case; the bench's report of each inference.

    Raises
    ------
    Mismatch
        A bit differs, an inference failed, or nothing was compared.
    """
    stem = f"{name}-{config.lanes}-{options.simulator}"
    path, report = OUT / f"{stem}.case.npz", OUT / f"{stem}.report.json"
    write_case(path, case)
    report.unlink(missing_ok=True)
    try:
        run(
            name,
            options.simulator,
            config,
            testcases=["case"],
            env={"CASE": str(path.resolve()), "REPORT": str(report.resolve())},
            waves=options.waves,
        )
    except BenchError as error:
        raise Mismatch(str(error)) from None
    inferences: list[dict[str, Any]] = json.loads(report.read_text())["inferences"]
    if not all(sum(item["compared"].values()) for item in inferences):
        raise Mismatch("nothing was compared")
    return inferences


def whole_model(review: Review, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """The accelerator on the review: prints what it said, and where its cycles went."""
    model = review.classifier.model
    program = compile_model(model, config, first_tile_only=options.first_tile_only)
    ids, types = review.tokens.ids, review.tokens.types
    inference = accelerator_inference(program, model, ids, types, name="review")
    interval = -(-config.lanes // min(options.stream_bytes or config.lanes, config.lanes))
    case = Case(inferences=(inference,), interval=interval, row_latency=options.row_latency)
    begin = time.perf_counter()
    result = simulate(WHOLE, config, case, options)[0]
    seconds = time.perf_counter() - begin

    said = verdicts(review, np.array(result["result"]).reshape(-1))
    print(table(["model", "class", *review.classifier.spec.labels, "logits"], said), "\n")
    rows = phases(program, len(ids), result["operations"])
    print(table(*phase_table(rows, result, review)))
    print("largest, mean: distance from the float model in units of the tensor's scale")
    useful = work(program, len(ids))
    ideal = useful / config.lanes**2
    stalls = ", ".join(f"{count:,} {cause}" for cause, count in result["stalls"].items() if count)
    microseconds = result["cycles"] / CLOCK_MHZ
    print(
        f"\n{result['cycles']:,} cycles from the start to the last logit: "
        f"{microseconds / 1000:.2f} ms at {CLOCK_MHZ} MHz, {1e6 / microseconds:.0f} reviews a "
        f"second.\nIdeal {ideal:,.0f} cycles for {useful:,} MACs: utilisation "
        f"{ideal / result['cycles']:.1%}. No operand: {stalls}."
    )
    return {
        "verdicts": [dict(zip(("model", "class", "probabilities"), row)) for row in said],
        "phases": [row.as_dict() for row in rows],
        "ideal_cycles": ideal,
        "utilisation": ideal / result["cycles"],
        "milliseconds": microseconds / 1000,
        "seconds": seconds,
        **summary(result),
    }


def verdicts(review: Review, rtl: np.ndarray) -> list[list[object]]:
    """A row each for the float model, golden and RTL: class, probabilities, logits."""
    spec, scale = review.classifier.spec, review.classifier.logit_scale
    rows: list[list[object]] = []
    for name, logits, raw in (
        ("float", review.floats["logits"], None),
        ("golden", review.golden["logits"] * scale, review.golden["logits"]),
        ("RTL", rtl * scale, rtl),
    ):
        shares = float_model.softmax(np.asarray(logits, np.float32))
        shown = [f"{value:.4f}" for value in logits] if raw is None else list(map(str, raw))
        rows.append(
            [
                name,
                spec.labels[int(np.argmax(logits))],
                *(f"{share:.2%}" for share in shares),
                " ".join(shown),
            ]
        )
    return rows


def phase_table(
    rows: list[Phase], result: dict[str, Any], review: Review
) -> tuple[list[str], list[list[object]]]:
    headings = [
        "phase", "cycles", "ideal", "utilisation", "values", "mismatches", "largest", "mean",
    ]  # fmt: skip
    lines: list[list[object]] = []
    for row in rows:
        compared = {t: n for t, n in result["compared"].items() if t in row.tensors}
        apart = [d for tensor in row.tensors if (d := differences(review, tensor))]
        lines.append(
            [
                row.name,
                row.cycles,
                None if row.ideal is None else round(row.ideal),
                None if not row.cycles or row.ideal is None else f"{row.ideal / row.cycles:.1%}",
                sum(compared.values()),
                sum(result["mismatches"].get(tensor, 0) for tensor in row.tensors),
                f"{apart[-1][0]:.2f}" if apart else None,
                f"{apart[-1][1]:.3f}" if apart else None,
            ]
        )
    total = sum(result["compared"].values())
    lines.append(
        ["total", result["cycles"], None, None, total, sum(result["mismatches"].values()), None,
         None]
    )  # fmt: skip
    return headings, lines


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """What the JSON says of an inference."""
    kept = ("cycles", "active", "stalls", "operations", "compared", "mismatches")
    return {key: result[key] for key in kept if key in result}


def attention_layers(review: Review, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """The attention datapath of every layer on the review's activations."""
    model = review.classifier.model
    tokens = len(review.tokens.ids)
    lines, figures = [], []
    for layer in range(model.shape.layers):
        before = f"layer.{layer - 1}.ffn.x8" if layer else "embedding.x8"
        program: Program = compile_attention(model, config, layer)
        inference = attention_inference(program, model, layer, review.golden[before])
        begin = time.perf_counter()
        result = simulate(ATTENTION, config, Case(inferences=(inference,)), options)[0]
        seconds = time.perf_counter() - begin
        ideal = work(program, tokens) / config.lanes**2
        apart = differences(review, f"layer.{layer}.context") or (None, None)
        line = {
            "unit": f"attention, layer {layer}",
            "simulator": options.simulator,
            "lanes": config.lanes,
            "tokens": tokens,
            "cycles": result["cycles"],
            "ideal cycles": round(ideal),
            "MAC utilisation": round(ideal / result["cycles"], 4),
            "values compared": sum(result["compared"].values()),
            "mismatches": sum(result["mismatches"].values()),
            "largest": apart[0],
            "mean": apart[1],
            "seconds": round(seconds, 1),
        }
        lines.append(list(line.values()))
        figures.append(summary(result) | line)
    print(table(list(line), lines))
    print("\nlargest, mean: distance of the context from the float model, in units of its scale")
    return {"layers": figures}


def one_unit(review: Review, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """A unit's bench on its vectors of the review."""
    folder = OUT / "vectors" / options.unit
    arguments = ["--model", str(ensure(options.model)), "--out", str(folder)]
    arguments += ["--unit", options.unit, "--tokens", str(options.max_tokens)]
    if vectors.main([*arguments, "--text", review.text]) != 0:
        raise Mismatch(f"no vectors of {options.unit} could be cut")
    begin = time.perf_counter()
    try:
        results = run(
            options.unit,
            options.simulator,
            config,
            testcases=["real_reviews"],
            env={"VECTORS": str(folder.resolve())},
            waves=options.waves,
        )
    except BenchError as error:
        raise Mismatch(str(error)) from None
    values = sum(
        tensor.values.size
        for case in vectors.read(folder, options.unit)
        for tensor in case.outputs.values()
    )
    line = {
        "unit": options.unit,
        "simulator": options.simulator,
        "lanes": config.lanes,
        "tokens": len(review.tokens.ids),
        "cycles": sum(round(result.simulated_ns / 10) for result in results),
        "values compared": values,
        "mismatches": 0,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    if not values:
        raise Mismatch("nothing was compared")
    print(table(list(line), [list(line.values())]))
    return line


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m sim.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--review", metavar="TEXT", help="default: a review of the test split")
    result.add_argument("--unit", default=WHOLE, help=f"default: {WHOLE}, the whole model")
    result.add_argument("--lanes", type=int, default=8, choices=LANES, help="default: 8")
    result.add_argument("--simulator", default="verilator", choices=sorted(SIMULATORS))
    result.add_argument(
        "--max-tokens", type=int, default=TOKENS, metavar="N", help=f"default: {TOKENS}"
    )
    result.add_argument(
        "--model",
        type=Path,
        default=DEFAULT_MODEL,
        metavar="DIR",
        help="checkpoint, or hub:owner/name",
    )
    result.add_argument(
        "--stream-bytes", type=int, metavar="N", help="model stream, bytes a cycle; default: lanes"
    )
    result.add_argument(
        "--row-latency", type=int, default=20, metavar="N", help="of the embedding memory, cycles"
    )
    result.add_argument(
        "--first-tile-only", action="store_true", help="prune the last layer to the first token"
    )
    result.add_argument("--waves", action="store_true", help="record every signal as FST")
    result.add_argument(
        "--json", type=Path, default=OUT / "report.json", help=f"default: {OUT / 'report.json'}"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except Mismatch as error:
        print(f"\nMISMATCH: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError, SimulatorError, VerilogError) as error:
        print(f"sim.run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sim.run: interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    for name, low in (("max_tokens", 3), ("stream_bytes", 1), ("row_latency", 0)):
        value = getattr(options, name)
        if value is not None and value < low:
            raise ValueError(f"--{name.replace('_', '-')} is {value}: it must be {low} or more")
    unit(options.unit)
    options.model = hub.local(options.model)
    text = options.review if options.review is not None else default_review()
    review = read_review(text, options.model, options.max_tokens)
    shown = " ".join(text.split())
    cut = f", {review.tokens.dropped} more cut" if review.tokens.dropped else ""
    print(f"review  {shown[:300]}{'...' if len(shown) > 300 else ''}")
    print(f"tokens  {len(review.tokens.ids)}{cut}")
    shape = review.classifier.model.shape
    config = Config(
        lanes=options.lanes,
        tokens=max(TOKENS, len(review.tokens.ids)),
        hidden=max(Config.hidden, shape.hidden),
        ffn=max(Config.ffn, shape.ffn),
    )
    print(f"model   {options.model}, INT8 in {ensure(options.model)}")
    print(f"unit    {options.unit}, {config.lanes} lanes, {options.simulator}\n", flush=True)
    play = {WHOLE: whole_model, ATTENTION: attention_layers}.get(options.unit, one_unit)
    figures = play(review, config, options)
    seconds = time.perf_counter() - begin
    report = {
        "unit": options.unit,
        "simulator": options.simulator,
        "lanes": config.lanes,
        "tokens": len(review.tokens.ids),
        "review": text,
        "total_seconds": seconds,
        "stall_causes": [cause.name.lower() for cause in Stall if cause is not Stall.NONE],
        **figures,
    }
    write_json(options.json, report)
    print(f"\nEvery bit equal to the golden model. {seconds:.0f} s; figures in {options.json}")
    if options.waves:
        fst = folder_of(generated(options.unit, config), options.simulator, waves=True)
        fst = fst / f"{options.unit}.fst"
        print(f"waves: {os.path.relpath(fst)}; open it with: gtkwave {os.path.relpath(fst)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
