"""`python -m quant.calibrate`: a float checkpoint and some texts to an integer model.

Runs the float model on the texts, observes every tensor, quantizes (quant.quantize.encoder), then
runs the integer model on the same texts to count what saturates and to measure each tensor's error.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.machine import give_back_memory
from cli.options import Parser, add_json, add_model, add_tokens, positive, version
from cli.paths import check_written
from cli.progress import Bar

import numpy as np
from numpy.typing import NDArray

from golden import encoder, fast, store
from golden.fast import integer
from golden.fast.watching import TracedEngine
from golden.model import Model
from quant import reader, which
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, Checkpoint, load, say
from quant.foreign.proof import proving, said
from quant.foreign.tokenizer import Tokens, together
from quant.foreign.tokenizer import encode as encode_text
from quant.images import data as images
from quant.measure.compare import (
    TensorError,
    answering,
    compare,
    softmax_errors,
    table,
)
from quant.measure.tasks import likeness, task_of
from quant.measure.verdict import (
    judge,
)
from quant.model import float_model
from quant.model.spec import (
    EMBEDDING,
    LABELLED,
    QUESTION_ANSWERING,
    TASKS,
    TEXT_SIDE,
    Arrays,
    EncoderSpec,
    Floats,
)
from quant.quantize import choose, decode, given, rounding
from quant.quantize.choose import NONE
from quant.quantize.encoder import Quantized, quantize, with_tokens
from quant.quantize.given import TABLE
from quant.quantize.logit_correction import correct_logits
from quant.quantize.observers import Observer, Observing
from quant.quantize.options import REMEDIES, Options, applicable, idle
from quant.quantize.quantizers import SCORE_LIMIT, CalibrationError, require_softmax
from quant.quantize.rewriting import REWRITINGS, Rewritten, rewrite
from quant.quantize.splitting import Split
from quant.texts.corpora import CORPORA, check_there
from quant.texts.data_file import Review, add_columns, layout_of

SAMPLES = 128
MAX_TOKENS = 512
CHUNK = 32  # texts between two steps of the progress bar
TOGETHER = 1024  # tokens that the float model takes at a time
TRACED = 256  # the same where all its tensors are kept
PLAIN = 2  # texts that plain golden runs on as well
FEW = 32  # texts, below which a calibration says little of others
UNKNOWN = 0.5  # share of tokens, above which the texts are not those of the model
AUTO, ALL = "auto", "all"  # besides lists of remedies
DEFAULT_DATA = "imdb"
SENTENCES = "rotten-tomatoes"  # what an embedding is calibrated on
SPLIT = "train"  # never the split that accuracy is measured on

EXAMPLES = """\
examples:
  python -m quant.calibrate
  python -m quant.calibrate --model my-model --data reviews.csv --out build/my-model
  python -m quant.calibrate --model hub:owner/name
  python -m quant.calibrate --samples 256 --json build/calibration.json
  python -m quant.calibrate --remedies centre,split --out build/trial
  python -m quant.calibrate --precise --out build/precise
"""


def default_data(spec: EncoderSpec) -> str:
    """The corpus that a checkpoint is calibrated on unless --data says otherwise.

    Raises ValueError where no corpus at hand has such texts.
    """
    if spec.task == QUESTION_ANSWERING:
        raise UserError(
            "a model that answers questions needs questions with their texts: give --data FILE "
            "with the columns question and context"
        )
    return images.usual(spec.inputs, SENTENCES if spec.task == EMBEDDING else DEFAULT_DATA)


def encode(texts: Sequence[Review], checkpoint: Checkpoint, max_tokens: int) -> list[Tokens]:
    """The tokens of each text, cut to ``max_tokens`` or to what the position table covers.

    Warns where most of them are unknown to the tokenizer.
    """
    its = reader.of_checkpoint(checkpoint)
    found = [
        encode_text(checkpoint.spec, its, review.content, review.pair, max_tokens)
        for review in texts
    ]
    if checkpoint.resolved is not None and "unk" in checkpoint.resolved.special:
        every = np.concatenate([np.empty(0, np.int32), *(tokens.ids for tokens in found)])
        unknown = np.count_nonzero(every == checkpoint.resolved.special["unk"])
        if unknown > len(every) * UNKNOWN:
            print(
                f"warning: {unknown / len(every):.0%} of the tokens are unknown to the tokenizer: "
                "with --data FILE give texts as the model was trained on",
                file=sys.stderr,
                flush=True,
            )
    return found


def _silent(count: int) -> None:
    """Progress that nobody is told of."""


def observe_all(
    checkpoint: Checkpoint,
    texts: Sequence[Tokens],
    *,
    observers: dict[str, Observer] | None = None,
    advance: Callable[[int], object] = _silent,
) -> tuple[dict[str, Observer], Floats]:
    """An observer for every tensor of the float model on these texts, and its logits [n, C].

    Of a model without pooling n counts the tokens of all texts, here and below. ``observers`` go on
    from what they saw before.

    The model runs in float64. In float32 the last bit depends on the processor and the number of
    threads, which would reach some of the rounded multipliers; here every machine gets the same.
    """
    doubles = float_model.Doubles(checkpoint.arrays)
    observers = {} if observers is None else observers
    trace = Observing(observers, checkpoint.spec)
    logits = []
    for some in together(texts, TOGETHER):
        logits.append(run_floats(checkpoint.spec, doubles, some, trace))
        advance(tokens_of(some))
    return observers, np.vstack(logits)


def run_floats(
    spec: EncoderSpec, arrays: Arrays, texts: Sequence[Tokens], trace: float_model.Trace | None
) -> Floats:
    """The float model's logits of some texts, [n, C]."""
    ids, types = (np.concatenate([getattr(t, name) for t in texts]) for name in ("ids", "types"))
    lengths = [len(text.ids) for text in texts]
    return float_model.run(spec, arrays, ids, types, trace=trace, lengths=lengths)


def tokens_of(texts: Sequence[Tokens]) -> int:
    return sum(len(text.ids) for text in texts)


def golden_logits(
    model: Model, texts: Sequence[Tokens], advance: Callable[[int], object] = _silent
) -> NDArray[np.int64]:
    """Logits [n, C] of the integer model, by the compiled engine that equals golden bit for bit."""
    engine, logits = fast.Engine(model), []
    for i in range(0, len(texts), CHUNK):
        some = texts[i : i + CHUNK]
        logits.append(engine.run_batch([t.ids for t in some], [t.types for t in some]))
        advance(tokens_of(some))
    return np.concatenate(logits).astype(np.int64)


def check(
    checkpoint: Checkpoint,
    quantized: Quantized,
    texts: Sequence[Tokens],
    advance: Callable[[int], object] = _silent,
) -> dict[str, TensorError]:
    """The error of every tensor of the integer model on these texts.

    The traces are those of the fast engine, and on the shortest texts compared with golden's own.
    Raises CalibrationError where scores that saturate change the softmax of a head too much.
    """
    errors: dict[str, TensorError] = {}
    changes = np.zeros((len(quantized.model.layers), checkpoint.spec.heads))
    engine = TracedEngine(quantized.model, integer.load())
    ordered = sorted(texts, key=lambda text: len(text.ids))
    plain = [id(text) for text in ordered[:PLAIN]]
    for some in together(ordered, TRACED):
        floats: float_model.Trace = {}
        run_floats(checkpoint.spec, checkpoint.arrays, some, floats)
        integers = engine.trace_batch([t.ids for t in some], [t.types for t in some])
        lengths = [len(text.ids) for text in some]
        for text, exact, codes in zip(
            some, float_model.by_text(checkpoint.spec, floats, lengths), integers, strict=True
        ):
            if id(text) in plain:
                _compare_with_golden(quantized.model, text, codes)
            shown = answering(checkpoint.spec, codes)
            compare(errors, exact, shown, quantized.info["tensors"])
            for i in range(len(changes)):
                changes[i] += softmax_errors(quantized.model, i, codes).sum(axis=-1)
        advance(tokens_of(some))
    for i, change in enumerate(changes / tokens_of(texts)):
        require_softmax(f"layer.{i}.scores", change)
    return errors


def _compare_with_golden(model: Model, text: Tokens, trace: dict[str, Any]) -> None:
    """Raises CalibrationError where the fast engine is not golden, which tests hold it to be."""
    expected: dict[str, Any] = {}
    encoder.run(model, text.ids, text.types, trace=expected)
    for name, codes in expected.items():
        if not np.array_equal(codes, trace[name]):
            raise CalibrationError(
                f"{name}: golden.fast gives other integers than golden on this machine: run "
                "python -m pytest tests/golden and report what it prints"
            )


class Calibrator:
    """A checkpoint and the texts it is calibrated on, which are observed once.

    The table of tokens is that of the texts alone: their rows and the one that reaches furthest,
    which makes the same scale. If ``precise`` is given, all options have it, and what only the
    other choice needs is not kept.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        texts: Sequence[Tokens],
        *,
        precise: bool | None = None,
        bar: Bar | None = None,
    ) -> None:
        self.table = checkpoint.arrays[TABLE]
        self.checkpoint, self.texts, self._rows = _compact(checkpoint, texts)
        self.precise = precise
        self.bar = bar or Bar("", 0, shown=False)
        self._forget()
        tokens = np.cumsum([len(text.ids) for text in texts])
        few = 1 + int(np.searchsorted(tokens[:-1], choose.TOKENS))
        self.observers: dict[str, Observer] = {}
        self.exact = self._observe(self.texts[:few])
        self._few: Calibrator | None = None  # on the texts that remedies are chosen on
        if few < len(texts):
            self._few = copy(self)
            self._few.texts = self.texts[:few]
            self._few._forget()
            self._few.observers = {name: copy(x) for name, x in self.observers.items()}
            self.exact = np.vstack([self.exact, self._observe(self.texts[few:])])

    def _forget(self) -> None:
        """What follows from the texts is still to be found."""
        self._splits: dict[bool, dict[str, Split]] = {}
        self._rewritten: dict[frozenset[str], tuple[Rewritten, dict[str, Observer]]] = {}
        self._made: tuple[Options, Quantized, float] | None = None  # the best of the trials
        self._logits: WeakKeyDictionary[Model, NDArray[np.int64]] = WeakKeyDictionary()

    def _observe(self, texts: Sequence[Tokens]) -> Floats:
        return observe_all(
            self.checkpoint, texts, observers=self.observers, advance=self.bar.update
        )[1]

    def quantize(self, options: Options) -> Quantized:
        """The integer model by these options, without remedies where they are still to be chosen.

        Its logits are corrected by their mean error on the texts.
        """
        compact = self.compact(options)
        quantized = with_tokens(compact, self.table)
        if compact.model in self._logits:
            self._logits[quantized.model] = self._logits[compact.model]
        return quantized

    def compact(self, options: Options) -> Quantized:
        """The same with the tokens of ``self.texts`` alone."""
        if self._made is not None and self._made[0] == options:
            return self._made[1]
        checkpoint = self.checkpoint
        arrays, observers = self._observed(frozenset(options.remedies or ()) & REWRITINGS)
        splits = self._splits.setdefault(options.precise, {})

        def watch(model: Model) -> Mapping[str, rounding.Moments]:
            if splits and self.precise is not None:
                for observer in (*observers.values(), *self.observers.values()):
                    observer.forget_rows()
            return rounding.watch(model, self.texts, self.bar.update)

        quantized = quantize(checkpoint.spec, arrays, observers, options, watch, splits)
        if options.bias_correction:
            logits = self._run(quantized.model)
            quantized = correct_logits(quantized, logits, self.exact)
            self._logits[quantized.model] = logits + np.array(quantized.info["logit_correction"])
        return quantized

    def _run(self, model: Model) -> NDArray[np.int64]:
        """Golden's logits on the texts, of a model of their tokens or of all."""
        if model not in self._logits:
            texts = self.texts
            if model.shape.vocabulary != self.checkpoint.spec.vocabulary:
                texts = [replace(t, ids=self._rows[t.ids].astype(np.int32)) for t in texts]
            logits = golden_logits(model, texts, self.bar.update)
            self._logits[model] = self.checkpoint.spec.kept(logits, [len(t.ids) for t in texts])
        return self._logits[model]

    def error(self, quantized: Quantized) -> float:
        """The distance of the integer logits from the float ones on the texts."""
        scale = decode.scale(quantized.info["tensors"]["logits"])
        task = task_of(self.checkpoint.spec)
        return task.distance(self._run(quantized.model) * scale, self.exact)

    def likeness(self, quantized: Quantized) -> float:
        """How alike golden and float are on the texts, as quant.measure.verdict takes it."""
        scale = decode.scale(quantized.info["tensors"]["logits"])
        codes = self._run(quantized.model)
        return likeness(self.checkpoint.spec, self.texts, codes, scale, self.exact)

    def choose(self, options: Options) -> tuple[Options, dict[str, float]]:
        """The options with their remedies chosen, and the error of each choice by its names.

        A choice that breaks a bound of the contract counts as infinitely wrong and is not listed.
        """
        remedies = applicable(self.checkpoint.spec)
        trial = self._few or self

        def error(names: tuple[str, ...]) -> float:
            tried = replace(options, remedies=names)
            try:
                quantized = trial.compact(tried)
                found = trial.error(quantized)
            except CalibrationError as refusal:  # said where nothing else is left
                self.bar.say(f"remedies tried: {choose.named(names)}: {refusal}")
                return inf
            if trial is self and (self._made is None or choose.better(self._made[2], found)):
                self._made = tried, quantized, found  # it will be asked for again
            self.bar.say(f"remedies tried: {choose.named(names)}: error {found:.3g}")
            return found

        chosen, trials = choose.choose(remedies, error)
        return replace(options, remedies=chosen), {
            choose.joined(names): found for names, found in trials.items() if found < inf
        }

    def _observed(self, names: frozenset[str]) -> tuple[Arrays | Rewritten, dict[str, Observer]]:
        """A rewritten encoder and what was seen of it.

        Its tensors are those of the checkpoint, moved and scaled by the channel, and so are the
        extremes and means. Scores of centred keys need another look where the checkpoint's own do
        not fit 16 bits.
        """
        if not names:
            return self.checkpoint.arrays, self.observers
        if names not in self._rewritten:
            rewritten = rewrite(self.checkpoint.spec, self.checkpoint.arrays, self.observers, names)
            scores = (self.observers[name] for name in rewritten.row_constants)
            if all(x.amplitude <= SCORE_LIMIT for x in scores):
                return rewritten, rewritten.observers(self.observers)
            twin = replace(self.checkpoint, arrays=dict(rewritten.arrays))
            observers, _ = observe_all(twin, self.texts, advance=self.bar.update)
            self._rewritten[names] = rewritten, observers
        return self._rewritten[names]


def _compact(
    checkpoint: Checkpoint, texts: Sequence[Tokens]
) -> tuple[Checkpoint, list[Tokens], NDArray[np.int64]]:
    """The checkpoint with the rows of its table that the texts use and the one that reaches
    furthest; the texts in these rows; the rows."""
    table = checkpoint.arrays[TABLE]
    furthest = np.maximum(table.max(axis=1), -table.min(axis=1)).argmax()
    rows = np.unique(np.concatenate([*(text.ids for text in texts), [furthest]]))
    spec = replace(checkpoint.spec, vocabulary=len(rows))
    arrays = checkpoint.arrays | {TABLE: table[rows]}
    compact = [
        replace(text, ids=np.searchsorted(rows, text.ids).astype(np.int32)) for text in texts
    ]
    return replace(checkpoint, spec=spec, arrays=arrays), compact, rows


def calibrate(
    checkpoint: Checkpoint,
    texts: Sequence[Tokens],
    options: Options,
    source: dict[str, Any],
) -> tuple[Quantized, dict[str, TensorError]]:
    """Observe, quantize and check; ``source`` says in the description where the texts came from.

    A model that quant.measure.verdict finds poor is said on stderr, with what to try. One of images
    or rows has no table of tokens but zeros, which the rows of an input take the place of.
    """
    tokens, spec = tokens_of(texts), checkpoint.spec
    checkpoint, texts = given.placed(checkpoint, texts)
    begins = f"calibrating on {len(texts):,} {spec.inputs}, {tokens:,} tokens"
    tried = 0 if options.remedies is not None else len(applicable(spec)) + 2
    expected = 4 * tokens + 2 * tried * min(tokens, choose.TOKENS)
    with Bar(begins, expected) as bar:
        calibrator = Calibrator(checkpoint, texts, precise=options.precise, bar=bar)
        trials: dict[str, float] = {}
        if options.remedies is None:
            options, trials = calibrator.choose(options)
        else:
            useful = tuple(name for name in options.remedies if name in applicable(spec))
            options = replace(options, remedies=useful)
        quantized = calibrator.quantize(options)
        likeness = calibrator.likeness(quantized)
        del calibrator  # what was observed takes as much memory as the weights
        bar.say(f"checking the integer model with {choose.named(options.remedies or ())}")
        errors = check(checkpoint, quantized, texts, bar.update)
    verdict = judge(errors, likeness, len(texts), spec.task, spec.inputs)
    if spec.given:
        quantized = with_tokens(quantized, np.zeros((spec.vocabulary, spec.hidden), np.float32))
    quantized.info.update(
        {
            "tool": f"bert2rtl {version()}",
            "checkpoint": {
                "directory": str(checkpoint.directory),
                "sha256": checkpoint.sha256,
                "task": checkpoint.asked,
                "difference": checkpoint.difference,
            },
            **reader.facts(checkpoint),
            "spec": spec.to_json(),
            "calibration": source | {"texts": len(texts), "tokens": tokens} | asdict(options),
            "trials": trials,
            "verdict": verdict.to_json(),
            "check": {name: error.to_json() for name, error in errors.items()},
        }
    )
    if not verdict.good:
        print(verdict, file=sys.stderr)
    return quantized, errors


def save(quantized: Quantized, checkpoint: Checkpoint, out: Path) -> None:
    """The quantized model with its tokenizer or front end beside it: it can be used alone.

    A checkpoint's path is kept as it was given where the folder of the call is above ``out``, from
    which it is found again; else it is made absolute.
    """
    if not out.resolve().is_relative_to(Path.cwd()):
        quantized.info["checkpoint"]["directory"] = str(checkpoint.directory.absolute())
    reader.save(checkpoint, out)
    store.save(quantized.model, out, quantized.info)


def calibrated(
    options: argparse.Namespace, tasks: Sequence[str] = TASKS
) -> tuple[Path, Path | None]:
    """The folder of the integer model that a command's options name, and the checkpoint.

    As `quant.which.model_of`, and calibrated first where it is missing, as `ensure`.
    """
    choice = which.model_of(options)
    if choice.there or choice.checkpoint is None:
        return choice.folder, choice.checkpoint
    return ensure(choice.checkpoint, tasks), choice.checkpoint


def ensure(model: Path = DEFAULT_MODEL, tasks: Sequence[str] = LABELLED) -> Path:
    """The folder of the integer model of a checkpoint, calibrated with the defaults if needed.

    Of two commands that need it at once, one calibrates and the other waits. Raises UserError for a
    checkpoint of another task than these before anything is written.
    """
    out = which.folder_of(model)
    if which.is_made(out, model):
        return out
    checkpoint = load(model)
    checkpoint.spec.require(tasks, model)
    with files.locked(out.with_name(f".{which.name_of(model)}.lock")):
        out = which.folder_of(model)
        if not which.is_made(out, model):
            print(f"calibrating {out} from {model}: there is none yet", file=sys.stderr)
            calibrate_into(out, checkpoint, parser().parse_args([]))
    return out


def calibrate_into(
    out: Path,
    checkpoint: Checkpoint,
    options: argparse.Namespace,
    difference: Callable[[], float | None] = lambda: None,
) -> tuple[Quantized, dict[str, TensorError]]:
    """Calibrate by the options of the command, and save the integer model in the folder ``out``.

    difference: that to transformers' own model, asked for before anything is written.
    """
    say(checkpoint)
    spec, data = checkpoint.spec, options.data or default_data(checkpoint.spec)
    reviews = images.load(
        spec.inputs, data, SPLIT, names=(), layout=layout_of(options), task=spec.task
    )
    texts = encode(reviews[: options.samples], checkpoint, options.tokens)
    if len(texts) < FEW:
        print(
            f"warning: {len(texts):,} {spec.inputs} are few: ranges that they do not reach are cut "
            f"off; give {FEW} or more, {SAMPLES} are read by default",
            file=sys.stderr,
            flush=True,
        )
    source = {"data": data, "max_tokens": options.tokens}
    if data in images.NAMED:
        source["split"] = SPLIT
    choices = Options(
        bias_correction=not options.no_bias_correction,
        remedies=options.remedies,
        precise=options.precise,
    )
    quantized, errors = calibrate(checkpoint, texts, choices, source)
    quantized.info["checkpoint"]["difference"] = difference()
    save(quantized, checkpoint, out)
    return quantized, errors


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
        f"embeddings {SENTENCES}); of a model of images {images.DIGITS}, a folder, a table of "
        "files; of one of rows a folder or a table of .npy files",
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
        choices=(*TASKS, TEXT_SIDE),
        metavar="NAME",
        help="purpose of the checkpoint, where its own files do not say so or its head is not "
        f"wanted: {', '.join(TASKS)}; {EMBEDDING} leaves out any head; {TEXT_SIDE} takes the text "
        "side of a whole CLIP, else the image side",
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
    give_back_memory()
    if options.data and options.data not in images.NAMED:
        check_there(options.data)  # before the checkpoint is read
    options.model = hub.local(options.model)
    out = options.out or which.folder_of(options.model)
    check_written(out, "DIR")
    if which.is_checkpoint(out):
        raise UserError(
            f"--out {out} is a checkpoint, whose tokenizer would be overwritten: "
            "name another folder"
        )
    checkpoint = load(options.model, options.task)
    with proving(checkpoint) as difference:
        quantized, errors = calibrate_into(out, checkpoint, options, difference)
    print(summary(quantized, errors))
    print(said(replace(checkpoint, difference=quantized.info["checkpoint"]["difference"])))
    print(f"wrote {out}")
    if options.json:
        files.write_json(options.json, quantized.info)
    following = {EMBEDDING: "quant.embed", QUESTION_ANSWERING: "sim.run"}
    then(following.get(checkpoint.spec.task, "quant.evaluate"), "--quantized", out)
    return 0


def summary(quantized: Quantized, errors: dict[str, TensorError]) -> str:
    """The error of each tensor and the tightest of the overflow bounds."""
    proof = quantized.info["proof"]
    name = max(proof, key=lambda name: proof[name]["bound"] / proof[name]["limit"])
    bound, limit = proof[name]["bound"], proof[name]["limit"]
    info = quantized.info
    spec = EncoderSpec.from_json(info["spec"])
    taken, trials = tuple(info["calibration"]["remedies"]), info["trials"]
    lines = [table(errors), f"remedies: {choose.named(taken)}"]
    if trials:
        measure = task_of(spec).error
        tried = ", ".join(f"{names} {error:.3g}" for names, error in trials.items())
        lines.append(f"tried, by the mean {measure}: {tried}")
    lines += [f"{name} has no effect: {why}" for name, why in idle(spec).items()]
    lines.append(
        f"no overflow: {len(proof):,} bounds proven, the tightest is {name}: {bound:,} < {limit:,}"
    )
    verdict = info["verdict"]
    lines.append(f"verdict: {'good' if verdict['good'] else 'poor'}: {verdict['summary']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
