"""`python -m quant.calibrate`: a float checkpoint and some texts to an integer model.

Runs the float model on the texts, observes every tensor, quantizes (quant.quantize.encoder), then
runs the integer model on the same texts to count what saturates and to measure each tensor's error.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.machine import BUILD
from cli.options import Parser, add_json, add_model, add_tokens, positive, version
from cli.paths import check_written
from cli.progress import progress

import numpy as np
from numpy.typing import NDArray

from golden import encoder, fast, store
from golden.model import Model
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, Checkpoint, fingerprint, load, say
from quant.foreign.tokenizer import PIPELINE, TextTokenizer, Tokens
from quant.foreign.tokenizer import encode as encode_text
from quant.measure import vectors
from quant.measure.answers import held, span, texts_of
from quant.measure.compare import TensorError, compare, table
from quant.measure.metrics import determination
from quant.measure.verdict import judge
from quant.model import float_model
from quant.model.spec import (
    EMBEDDING,
    LABELLED,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TASKS,
    Arrays,
    EncoderSpec,
    Floats,
)
from quant.quantize import choose, decode, rounding
from quant.quantize.encoder import Quantized, quantize
from quant.quantize.logit_correction import correct_logits
from quant.quantize.observers import METHODS, Observer, observe
from quant.quantize.options import REMEDIES, Options
from quant.quantize.quantizers import CalibrationError
from quant.quantize.rewriting import REWRITINGS, Rewritten, rewrite
from quant.texts.corpora import CORPORA, load_texts
from quant.texts.data_file import Review, add_columns, layout_of

SAMPLES = 128
MAX_TOKENS = 512
CHUNK = 32  # texts between two steps of the progress bar
AUTO, NONE, ALL = "auto", "none", "all"  # besides lists of remedies
DEFAULT_DATA = "imdb"
SENTENCES = "rotten-tomatoes"  # what an embedding is calibrated on
SPLIT = "train"  # never the split that accuracy is measured on

EXAMPLES = """\
examples:
  python -m quant.calibrate
  python -m quant.calibrate --model my-model --data reviews.csv --out build/my-model
  python -m quant.calibrate --model hub:owner/name
  python -m quant.calibrate --method mse --samples 256 --json build/calibration.json
  python -m quant.calibrate --remedies centre,split --out build/trial
  python -m quant.calibrate --precise --out build/precise
"""


def default_out(model: Path) -> Path:
    """Where the quantized model of a checkpoint directory goes unless --out says otherwise."""
    return BUILD / model.resolve().name


def default_data(spec: EncoderSpec) -> str:
    """The corpus that a checkpoint is calibrated on unless --data says otherwise.

    Raises ValueError where no corpus at hand has such texts.
    """
    if spec.task == QUESTION_ANSWERING:
        raise ValueError(
            "a model that answers questions needs questions with their texts: give --data FILE "
            "with the columns question and context"
        )
    return SENTENCES if spec.task == EMBEDDING else DEFAULT_DATA


def encode(
    texts: Sequence[Review], tokenizer: TextTokenizer, checkpoint: Checkpoint, max_tokens: int
) -> list[Tokens]:
    """The tokens of each text, cut to ``max_tokens`` or to what the position table covers."""
    return [
        encode_text(checkpoint.spec, tokenizer, review.content, review.pair, max_tokens)
        for review in texts
    ]


def observe_all(
    checkpoint: Checkpoint, texts: Sequence[Tokens]
) -> tuple[dict[str, Observer], Floats]:
    """An observer for every tensor of the float model on these texts, and its logits [n, C].

    Of a model without pooling n counts the tokens of all texts, here and below.

    The model runs in float64. In float32 the last bit depends on the processor and the number of
    threads, which would reach some of the rounded multipliers; here every machine gets the same.
    """
    doubles: Arrays = {name: array.astype(np.float64) for name, array in checkpoint.arrays.items()}
    observers: dict[str, Observer] = {}
    logits = []
    for tokens in progress(texts, "observing"):
        trace: float_model.Trace = {}
        float_model.run(checkpoint.spec, doubles, tokens.ids, tokens.types, trace=trace)
        observe(trace, observers)
        logits.append(trace["logits"])
    return observers, np.vstack(logits)


def golden_logits(model: Model, texts: Sequence[Tokens]) -> NDArray[np.int64]:
    """Logits [n, C] of the integer model, by the compiled engine that equals golden bit for bit."""
    parts = [texts[i : i + CHUNK] for i in range(0, len(texts), CHUNK)]
    logits = [
        fast.run_batch(model, [t.ids for t in part], [t.types for t in part])
        for part in progress(parts, "running golden", unit=f"times {CHUNK} texts")
    ]
    return np.concatenate(logits).astype(np.int64)


def check(
    checkpoint: Checkpoint, quantized: Quantized, texts: Sequence[Tokens]
) -> dict[str, TensorError]:
    """The error of every tensor of the integer model on these texts.

    Raises CalibrationError when a score saturates, since the softmax of that row would be wrong.
    """
    errors: dict[str, TensorError] = {}
    for tokens in progress(texts, "checking"):
        floats: float_model.Trace = {}
        integers: dict[str, Any] = {}
        float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types, trace=floats)
        encoder.run(quantized.model, tokens.ids, tokens.types, trace=integers)
        compare(errors, floats, integers, quantized.info["tensors"])
    for name, error in errors.items():
        if name.endswith(".scores") and error.limits:
            raise CalibrationError(
                f"{name}: {error.limits} of {error.count} scores saturate the 16-bit format, "
                "so the softmax of their rows would be wrong"
            )
    return errors


Runner = Callable[[Model, Sequence[Tokens]], NDArray[np.integer[Any]]]


class Calibrator:
    """A checkpoint and the texts it is calibrated on; each rewriting is observed once."""

    def __init__(self, checkpoint: Checkpoint, texts: Sequence[Tokens]) -> None:
        self.checkpoint, self.texts = checkpoint, texts
        self.observers, self.exact = observe_all(checkpoint, texts)
        self._rewritten: dict[frozenset[str], tuple[Rewritten, dict[str, Observer]]] = {}

    def quantize(self, options: Options, run: Runner | None = None) -> Quantized:
        """The integer model by these options, without remedies where they are still to be chosen.

        ``run`` gives the integer logits by which the mean error is corrected, golden's by default.
        """
        checkpoint = self.checkpoint
        arrays, observers = self._observed(frozenset(options.remedies or ()) & REWRITINGS)
        watch = partial(rounding.watch, texts=self.texts)
        quantized = quantize(checkpoint.spec, arrays, observers, options, watch)
        if options.bias_correction:
            logits = (run or golden_logits)(quantized.model, self.texts)
            quantized = correct_logits(quantized, logits, self.exact)
        return quantized

    def error(self, quantized: Quantized) -> float:
        """The mean difference of the integer logits from the float ones on the texts.

        Of embeddings, whose length says nothing, the mean distance of the unit vectors; of numbers,
        whose units differ, in standard deviations of each.
        """
        scale = decode.scale(quantized.info["tensors"]["logits"])
        logits = golden_logits(quantized.model, self.texts) * scale
        task = self.checkpoint.spec.task
        if task == EMBEDDING:
            return vectors.distance(logits, self.exact)
        difference = np.abs(logits - self.exact)
        if task == REGRESSION:
            deviation = self.exact.std(axis=0)
            difference /= np.where(deviation > 0, deviation, 1)
        return float(difference.mean())

    def likeness(self, quantized: Quantized) -> float:
        """How alike golden and float are on the texts, as quant.measure.verdict takes it."""
        logits, task = golden_logits(quantized.model, self.texts), self.checkpoint.spec.task
        if task == QUESTION_ANSWERING:
            spec, texts = self.checkpoint.spec, self.texts
            both = (texts_of(spec, rows, texts) for rows in (logits, self.exact))
            same = [span(t, a) == span(t, b) for t, a, b in zip(texts, *both, strict=True)]
            return float(np.mean(same))
        if task == EMBEDDING:
            return float(vectors.cosines(logits, self.exact).mean())
        if task == MULTI_LABEL:
            return float(np.mean(held(logits) == held(self.exact)))
        if task == REGRESSION:
            scale = decode.scale(quantized.info["tensors"]["logits"])
            return float(determination(logits * scale, self.exact).min())
        return float(np.mean(logits.argmax(axis=1) == self.exact.argmax(axis=1)))

    def choose(self, options: Options) -> tuple[Options, dict[str, float]]:
        """The options with their remedies chosen, and the error of each choice by its names.

        A choice that breaks a bound of the contract counts as infinitely wrong and is not listed.
        """
        trial = self
        tokens = np.cumsum([len(text.ids) for text in self.texts])
        if tokens[-1] > choose.TOKENS:
            few = 1 + int(np.searchsorted(tokens, choose.TOKENS))
            trial = Calibrator(self.checkpoint, self.texts[:few])

        def error(names: tuple[str, ...]) -> float:
            try:
                return trial.error(trial.quantize(replace(options, remedies=names)))
            except CalibrationError:  # said where nothing else is left
                return inf

        chosen, trials = choose.choose(REMEDIES, error)
        return replace(options, remedies=chosen), {
            "+".join(names) or NONE: found for names, found in trials.items() if found < inf
        }

    def _observed(self, names: frozenset[str]) -> tuple[Arrays | Rewritten, dict[str, Observer]]:
        if not names:
            return self.checkpoint.arrays, self.observers
        if names not in self._rewritten:
            rewritten = rewrite(self.checkpoint.spec, self.checkpoint.arrays, self.observers, names)
            twin = replace(self.checkpoint, arrays=rewritten.arrays)
            self._rewritten[names] = rewritten, observe_all(twin, self.texts)[0]
        return self._rewritten[names]


def calibrate(
    checkpoint: Checkpoint,
    texts: Sequence[Tokens],
    options: Options,
    source: dict[str, Any],
) -> tuple[Quantized, dict[str, TensorError]]:
    """Observe, quantize and check; ``source`` says in the description where the texts came from.

    A model that quant.measure.verdict finds poor is said on stderr, with what to try.
    """
    calibrator = Calibrator(checkpoint, texts)
    trials: dict[str, float] = {}
    if options.remedies is None:
        options, trials = calibrator.choose(options)
    quantized = calibrator.quantize(options)
    errors = check(checkpoint, quantized, texts)
    verdict = judge(errors, calibrator.likeness(quantized), len(texts), checkpoint.spec.task)
    quantized.info.update(
        {
            "tool": f"bert2rtl {version()}",
            "checkpoint": {
                "directory": str(checkpoint.directory),
                "sha256": checkpoint.sha256,
                "task": checkpoint.asked,
            },
            "tokenizer": checkpoint.resolved.facts,
            "spec": checkpoint.spec.to_json(),
            "calibration": source
            | {"texts": len(texts), "tokens": sum(len(t.ids) for t in texts)}
            | asdict(options),
            "trials": trials,
            "verdict": verdict.to_json(),
            "check": {name: error.to_json() for name, error in errors.items()},
        }
    )
    if not verdict.good:
        print(verdict, file=sys.stderr)
    return quantized, errors


def save(quantized: Quantized, checkpoint: Checkpoint, out: Path) -> None:
    """The quantized model with its tokenizer beside it, so that it classifies alone."""
    files.write(out / PIPELINE, checkpoint.resolved.pipeline.encode())
    store.save(quantized.model, out, quantized.info)


def ensure(
    model: Path = DEFAULT_MODEL, out: Path | None = None, tasks: Sequence[str] = LABELLED
) -> Path:
    """The directory of the quantized model of a checkpoint, calibrated with the defaults if needed.

    It is needed when there is none yet, or one of another checkpoint, and said on stderr. Of two
    commands that need it at once, one calibrates and the other waits. Raises ValueError for a
    checkpoint of another task than these before anything is written.
    """
    out, sha256 = out or default_out(model), fingerprint(model)
    checkpoint = None if _made_of(out, sha256, model, tasks) else load(model)
    if checkpoint is None:
        return out
    checkpoint.spec.require(tasks, model)
    with files.locked(out.with_name(f".{out.name}.lock")):
        if _made_of(out, sha256, model, tasks):
            return out
        return _ensured(checkpoint, model, out)


def _made_of(out: Path, sha256: str, model: Path, tasks: Sequence[str]) -> bool:
    """Whether the quantized model in ``out`` is there, and of the checkpoint with this hash."""
    if not (out / store.DESCRIPTION).is_file():
        return False
    info = store.info_of(out)
    if info.get("checkpoint", {}).get("sha256") != sha256 or "tokenizer" not in info:
        return False
    EncoderSpec.from_json(info["spec"]).require(tasks, model)
    return True


def _ensured(checkpoint: Checkpoint, model: Path, out: Path) -> Path:
    there = (out / store.DESCRIPTION).is_file()
    reason = "the one there is of another checkpoint" if there else "there is none yet"
    print(f"calibrating {out} from {model}: {reason}", file=sys.stderr)
    say(checkpoint)
    data = default_data(checkpoint.spec)
    tokenizer = TextTokenizer(checkpoint.resolved)
    texts = encode(load_texts(data, SPLIT)[:SAMPLES], tokenizer, checkpoint, MAX_TOKENS)
    source = {"data": data, "split": SPLIT, "max_tokens": MAX_TOKENS}
    quantized, _ = calibrate(checkpoint, texts, Options(), source)
    save(quantized, checkpoint, out)
    return out


def parser() -> Parser:
    result = Parser(
        "quant.calibrate", "Turn a fine-tuned checkpoint into an integer model.", EXAMPLES
    )
    add_model(result)
    add_task(result)
    result.add_argument(
        "--data",
        metavar="NAME|FILE",
        help=f"texts to observe: {' or '.join(CORPORA)} (its training split), or a .csv, .tsv, "
        f".jsonl, .txt or .parquet file (default: {DEFAULT_DATA}; of an encoder that makes "
        f"embeddings {SENTENCES})",
    )
    result.add_argument(
        "--samples",
        type=positive,
        default=SAMPLES,
        metavar="N",
        help=f"number of texts (default: {SAMPLES})",
    )
    add_tokens(result, MAX_TOKENS)
    result.add_argument(
        "--method",
        choices=METHODS,
        default=Options().method,
        help=f"how a tensor's clipping point is chosen (default: {Options().method})",
    )
    result.add_argument(
        "--no-bias-correction",
        action="store_true",
        help="leave the mean error of the rounded weights in",
    )
    result.add_argument(
        "--precise",
        action="store_true",
        help="operands of 16 bits, which their layers read in two passes: the outputs of LayerNorm "
        "and of the feed-forward activation",
    )
    result.add_argument(
        "--remedies",
        type=remedies,
        metavar="NAMES",
        help=f"{AUTO}: those that the calibration texts ask for (the default); {NONE}; {ALL}; or a "
        f"list of {', '.join(REMEDIES)}, see docs/numerics.md",
    )
    result.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="quantized model (default: build/ and the name of --model)",
    )
    add_json(result)
    add_columns(result)
    return result


def add_task(group: Parser) -> None:
    """--task: of the commands that read a checkpoint."""
    group.add_argument(
        "--task",
        choices=TASKS,
        metavar="NAME",
        help="what the checkpoint is for, where its own files do not say so or its head is not "
        f"wanted: {', '.join(TASKS)}; {EMBEDDING} leaves out any head",
    )


def remedies(text: str) -> tuple[str, ...] | None:
    """An option's value that names remedies; None leaves the choice to `calibrate`."""
    words = {AUTO: None, NONE: (), ALL: REMEDIES}
    if text in words:
        return words[text]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in REMEDIES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no remedy: allowed {', '.join([*words, *REMEDIES])}"
            )
    return tuple(name for name in REMEDIES if name in names)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: calibrate_command(parser().parse_args(arguments)))


def calibrate_command(options: argparse.Namespace) -> int:
    options.model = hub.local(options.model)
    out = options.out or default_out(options.model)
    check_written(out, "DIR")
    checkpoint = load(options.model, options.task)
    say(checkpoint)
    tokenizer = TextTokenizer(checkpoint.resolved)
    data = options.data or default_data(checkpoint.spec)
    spec, layout = checkpoint.spec, layout_of(options)
    reviews = load_texts(data, SPLIT, names=(), layout=layout, task=spec.task)
    reviews = reviews[: options.samples]
    texts = encode(reviews, tokenizer, checkpoint, options.tokens)
    source = {"data": data, "max_tokens": options.tokens}
    if data in CORPORA:
        source["split"] = SPLIT
    quantized, errors = calibrate(
        checkpoint,
        texts,
        Options(
            method=options.method,
            bias_correction=not options.no_bias_correction,
            remedies=options.remedies,
            precise=options.precise,
        ),
        source,
    )
    save(quantized, checkpoint, out)
    print(summary(quantized, errors))
    print(f"wrote {out}")
    if options.json:
        files.write_json(options.json, quantized.info)
    return 0


def summary(quantized: Quantized, errors: dict[str, TensorError]) -> str:
    """The error of each tensor and the tightest of the overflow bounds."""
    proof = quantized.info["proof"]
    name = max(proof, key=lambda name: proof[name]["bound"] / proof[name]["limit"])
    bound, limit = proof[name]["bound"], proof[name]["limit"]
    trials = quantized.info["trials"]
    task = quantized.info["spec"]["task"]
    measure = "distance of the embeddings" if task == EMBEDDING else "error of the logits"
    if task == REGRESSION:
        measure = "error in deviations"
    tried = f"; tried, by the mean {measure}: " if trials else ""
    return (
        f"{table(errors)}\n"
        f"remedies: {', '.join(quantized.info['calibration']['remedies']) or NONE}{tried}"
        f"{', '.join(f'{names} {error:.4f}' for names, error in trials.items())}\n"
        f"no overflow: {len(proof)} bounds proven, the tightest is {name}: {bound} < {limit}"
    )


if __name__ == "__main__":
    sys.exit(main())
