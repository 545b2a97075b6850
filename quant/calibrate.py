"""`python -m quant.calibrate`: a float checkpoint and some texts to an integer model.

Runs the float model on the texts, observes every tensor, quantizes (quant.quantize.encoder), then
runs the integer model on the same texts to count what saturates and to measure each tensor's error.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.machine import give_back_memory
from cli.options import Parser, add_json, add_model, add_tokens, positive, version
from cli.paths import check_written
from cli.progress import Bar, stage

import numpy as np
from numpy.typing import NDArray

from golden import encoder, fast, store
from golden.fast import products
from golden.model import Model
from quant import which
from quant.foreign.checkpoint import DEFAULT_MODEL, Checkpoint, load, say
from quant.foreign.proof import proving, said, without_torch
from quant.foreign.tokenizer import Tokens, placed, together
from quant.foreign.tokenizer import encode as encode_text
from quant.images import data as images
from quant.measure.compare import TensorError, answering, compare, softmax_errors, table
from quant.measure.tasks import ADVICE, judge, likeness, task_of
from quant.model import float_model
from quant.model.spec import EMBEDDING, LABELLED, QUESTION_ANSWERING, TASKS, EncoderSpec, Floats
from quant.quantize import encoder as quantizing
from quant.quantize import options as remedying
from quant.quantize import rounding
from quant.quantize.encoder import Quantized, correct_logits, with_tokens
from quant.quantize.observers import Observer, Observing
from quant.quantize.options import NONE, REMEDIES, Options, applicable, idle
from quant.quantize.quantizers import SCORE_LIMIT, CalibrationError, require_softmax
from quant.quantize.rewriting import REWRITINGS, Rewritten, rewrite
from quant.quantize.splitting import Split
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
    """The corpus that --data is by default; UserError where none at hand has such inputs."""
    if spec.task == QUESTION_ANSWERING:
        needs = "a model that answers questions needs questions with their texts"
        raise UserError(f"{needs}: give --data FILE with the columns question and context")
    return images.usual(spec.inputs, SENTENCES if spec.task == EMBEDDING else DEFAULT_DATA)


def encode(texts: Sequence[Review], checkpoint: Checkpoint, max_tokens: int) -> list[Tokens]:
    """The tokens of each text, cut to ``max_tokens`` or to what the position table covers.

    Warns where most of them are unknown to the tokenizer.
    """
    spec, its, resolved = checkpoint.spec, which.of_checkpoint(checkpoint), checkpoint.resolved
    found = [encode_text(spec, its, one.content, one.pair, max_tokens) for one in texts]
    if found and resolved is not None and "unk" in resolved.special:
        every = np.concatenate([tokens.ids for tokens in found])
        unknown = np.mean(every == resolved.special["unk"])
        if unknown > UNKNOWN:
            what = f"{unknown:.0%} of the tokens are unknown to the tokenizer"
            stage(f"warning: {what}: with --data FILE give texts as the model was trained on")
    return found


def observe_all(
    checkpoint: Checkpoint,
    texts: Sequence[Tokens],
    observers: dict[str, Observer] | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> tuple[dict[str, Observer], Floats]:
    """An observer for every tensor of the float model on these texts, and its logits [n, C].

    Of a model without pooling n counts the tokens of all texts, here and below. ``observers`` go on
    from what they saw before; ``advance`` hears how many tokens were done.

    The model runs in float64. In float32 the last bit depends on the processor and the number of
    threads, which would reach some of the rounded multipliers; here every machine gets the same.
    """
    doubles = replace(checkpoint, arrays=float_model.Doubles(checkpoint.arrays))
    observers = {} if observers is None else observers
    trace = Observing(observers, checkpoint.spec)
    logits = []
    for some in together(texts, TOGETHER):
        logits.append(run_floats(doubles, some, trace))
        advance(tokens_of(some))
    return observers, np.vstack(logits)


def run_floats(checkpoint: Checkpoint, texts: Sequence[Tokens], trace: float_model.Trace) -> Floats:
    """The float model's logits of some texts, [n, C]."""
    ids, types = (np.concatenate([getattr(t, name) for t in texts]) for name in ("ids", "types"))
    lengths = [len(text.ids) for text in texts]
    return float_model.run(checkpoint.spec, checkpoint.arrays, ids, types, trace, lengths)


def tokens_of(texts: Sequence[Tokens]) -> int:
    return sum(len(text.ids) for text in texts)


def check(
    checkpoint: Checkpoint,
    quantized: Quantized,
    texts: Sequence[Tokens],
    advance: Callable[[int], object] = lambda _: None,
) -> dict[str, TensorError]:
    """The error of every tensor of the integer model on these texts.

    Raises CalibrationError where scores that saturate change the softmax of a head too much.
    """
    errors, changes = traced(checkpoint, quantized, texts, advance)
    for i, change in enumerate(changes):
        require_softmax(f"layer.{i}.scores", change)
    return errors


def traced(
    checkpoint: Checkpoint,
    quantized: Quantized,
    texts: Sequence[Tokens],
    advance: Callable[[int], object] = lambda _: None,
) -> tuple[dict[str, TensorError], Floats]:
    """The error of every tensor, and how much saturation changes the softmax [layers, heads].

    The traces are those of the fast engine, and on the shortest texts compared with golden's own.
    """
    spec, model = checkpoint.spec, quantized.model
    errors: dict[str, TensorError] = {}
    changes = np.zeros((len(model.layers), spec.heads))
    engine = fast.Engine(model, products.load())
    plain = PLAIN
    for some in together(sorted(texts, key=lambda text: len(text.ids)), TRACED):
        floats: float_model.Trace = {}
        run_floats(checkpoint, some, floats)
        integers = engine.trace_batch([t.ids for t in some], [t.types for t in some])
        for text, codes in zip(some[:plain], integers):
            expected: dict[str, Any] = {}
            encoder.run(model, text.ids, text.types, trace=expected)
            for name in expected:
                if not np.array_equal(expected[name], codes[name]):  # as tests hold it to be
                    what = f"{name}: golden.fast gives other integers than golden on this machine"
                    run = "run python -m pytest tests/golden and report what it prints"
                    raise CalibrationError(f"{what}: {run}")
        plain = max(0, plain - len(some))
        exact = float_model.by_text(spec, floats, [len(text.ids) for text in some])
        for values, codes in zip(exact, integers, strict=True):
            compare(errors, values, answering(spec, codes), quantized.info["tensors"])
            for i in range(len(changes)):
                changes[i] += softmax_errors(model, i, codes).sum(axis=-1)
        advance(tokens_of(some))
    return errors, changes / tokens_of(texts)


@dataclass(frozen=True)
class Observed:
    """What the float model does on some texts: the observers of its tensors, its logits [n, C].

    The checkpoint's table of tokens has the rows that the texts use, and the one that reaches
    furthest, which makes the same scale; the texts number these rows. ``splits``, by whether
    operands are precise, keeps what `split` finds for each layer: no other remedy changes it.
    """

    checkpoint: Checkpoint
    texts: Sequence[Tokens]
    observers: dict[str, Observer]
    exact: Floats
    bar: Bar
    splits: dict[bool, dict[str, Split]] = field(default_factory=dict)


def observe(
    checkpoint: Checkpoint, texts: Sequence[Tokens], bar: Bar | None = None
) -> tuple[Observed, Observed]:
    """What is observed on the first texts, on which remedies are chosen, and on all of them."""
    bar = bar or Bar("", 0, shown=False)
    table = checkpoint.arrays["embedding.token"]
    furthest = np.maximum(table.max(axis=1), -table.min(axis=1)).argmax()
    rows = np.unique(np.concatenate([*(text.ids for text in texts), [furthest]]))
    compact = checkpoint.with_tokens(table[rows])
    texts = [replace(text, ids=np.searchsorted(rows, text.ids).astype(np.int32)) for text in texts]
    tokens = np.cumsum([len(text.ids) for text in texts])
    few = 1 + int(np.searchsorted(tokens[:-1], remedying.TOKENS))
    observers, exact = observe_all(compact, texts[:few], advance=bar.update)
    first = Observed(compact, texts[:few], observers, exact, bar)
    if few >= len(texts):
        return first, first
    observers = {name: copy(observer) for name, observer in observers.items()}
    _, more = observe_all(compact, texts[few:], observers=observers, advance=bar.update)
    return first, Observed(compact, texts, observers, np.vstack([exact, more]), bar)


Made: TypeAlias = tuple[Quantized, NDArray[np.int64]]
"""An integer model with the tokens of the texts alone, and its logits on them [n, C]."""


def quantize(observed: Observed, options: Options) -> Made:
    """The integer model by these options, without remedies where they are still to be chosen.

    Its logits are corrected by their mean error on the texts.
    """
    spec, texts, advance = observed.checkpoint.spec, observed.texts, observed.bar.update
    arrays, observers = _rewritten(observed, frozenset(options.remedies or ()) & REWRITINGS)
    splits = observed.splits.setdefault(options.precise, {})

    def watch(model: Model) -> Mapping[str, rounding.Moments]:
        if splits:  # what they were found by takes as much memory as the weights
            for observer in (*observers.values(), *observed.observers.values()):
                observer.forget_rows()
        return rounding.watch(model, texts, advance)

    quantized = quantizing.quantize(spec, arrays, observers, options, watch, splits)
    engine, found = fast.Engine(quantized.model), []
    for i in range(0, len(texts), CHUNK):
        some = texts[i : i + CHUNK]
        found.append(engine.run_batch([t.ids for t in some], [t.types for t in some]))
        advance(tokens_of(some))
    logits = np.concatenate(found).astype(np.int64)
    logits = spec.kept(logits, [len(text.ids) for text in texts])
    quantized = correct_logits(quantized, logits, observed.exact)
    return quantized, logits + np.array(quantized.info["logit_correction"])


def _rewritten(observed: Observed, names: frozenset[str]) -> tuple[Rewritten, dict[str, Observer]]:
    """A rewritten encoder and what was seen of it, moved and scaled by the channel as its tensors.

    Scores of centred keys need another look where the checkpoint's own do not fit 16 bits.
    """
    checkpoint, observers = observed.checkpoint, observed.observers
    if not names:
        return Rewritten(checkpoint.arrays), observers
    found = rewrite(checkpoint.spec, checkpoint.arrays, observers, names)
    if all(observers[name].amplitude <= SCORE_LIMIT for name in found.row_constants):
        seen = {name: frame for name, frame in found.frames.items() if name in observers}
        moved = {name: observers[name].reframed(x.factors, x.centres) for name, x in seen.items()}
        return found, observers | moved
    twin = replace(checkpoint, arrays=dict(found.arrays))
    return found, observe_all(twin, observed.texts, advance=observed.bar.update)[0]


def distance(observed: Observed, made: Made) -> float:
    """The distance of the integer logits from the float ones on the texts."""
    quantized, logits = made
    task = task_of(observed.checkpoint.spec)
    return task.distance(logits * quantized.logit_scale, observed.exact)


def choose(observed: Observed, options: Options) -> tuple[Options, dict[str, float], Made | None]:
    """The options with their remedies chosen, the error of each choice by its names, and its model.

    A choice that breaks a bound of the contract counts as infinitely wrong and is not listed.
    """
    best: list[tuple[float, Made]] = []

    def error(names: tuple[str, ...]) -> float:
        said = f"remedies tried: {remedying.named(names)}: "
        try:
            made = quantize(observed, replace(options, remedies=names))
            found = distance(observed, made)
        except CalibrationError as refusal:  # raised where nothing else is left
            observed.bar.say(f"{said}{refusal}")
            return inf
        if not best or remedying.better(best[0][0], found):
            best[:] = [(found, made)]
        observed.bar.say(f"{said}error {found:.3g}")
        return found

    chosen, trials = remedying.choose(applicable(observed.checkpoint.spec), error)
    listed = {"+".join(names) or NONE: found for names, found in trials.items() if found < inf}
    return replace(options, remedies=chosen), listed, best[0][1] if best else None


def calibrate(
    checkpoint: Checkpoint, texts: Sequence[Tokens], options: Options, source: dict[str, Any]
) -> tuple[Quantized, dict[str, TensorError]]:
    """Observe, quantize and check; ``source`` says in the description where the texts came from.

    A model that quant.measure.tasks finds poor is said on stderr, with what to try. One of images
    or rows has no table of tokens but zeros, which the rows of an input take the place of.
    """
    tokens, spec = tokens_of(texts), checkpoint.spec
    _, checkpoint, texts = placed(checkpoint, texts)
    begins = f"calibrating on {len(texts):,} {spec.inputs}, {tokens:,} tokens"
    tried = 0 if options.remedies is not None else len(applicable(spec)) + 2
    expected = 4 * tokens + 2 * tried * min(tokens, remedying.TOKENS)
    with Bar(begins, expected) as bar:
        options, trials, quantized, alike = _chosen(checkpoint, texts, options, bar)
        bar.say(f"checking the integer model with {remedying.named(options.remedies or ())}")
        errors = check(checkpoint, quantized, texts, bar.update)
    verdict = judge(errors, alike, len(texts), spec.task, spec.inputs)
    if spec.given:
        quantized = with_tokens(quantized, np.zeros((spec.vocabulary, spec.hidden), np.float32))
    about: dict[str, Any] = {"directory": str(checkpoint.directory), "sha256": checkpoint.sha256}
    about |= {"task": checkpoint.asked, "difference": checkpoint.difference}
    quantized.info.update(
        tool=f"bert2rtl {version()}",
        checkpoint=about,
        **which.facts(checkpoint),
        spec=spec.to_json(),
        calibration=source | {"texts": len(texts), "tokens": tokens} | asdict(options),
        trials=trials,
        verdict=verdict,
        check={name: error.to_json() for name, error in errors.items()},
    )
    if not verdict["good"]:
        lines = [*(f"warning: {line}" for line in verdict["findings"]), f"try: {ADVICE}"]
        print(*lines, sep="\n", file=sys.stderr)
    return quantized, errors


def _chosen(
    checkpoint: Checkpoint, texts: Sequence[Tokens], options: Options, bar: Bar
) -> tuple[Options, dict[str, float], Quantized, float]:
    """As `choose` gives them; the model, and how alike to float."""
    first, observed = observe(checkpoint, texts, bar)
    spec, trials, made = checkpoint.spec, dict[str, float](), None
    if options.remedies is None:
        options, trials, made = choose(first, options)
    else:
        useful = tuple(name for name in options.remedies if name in applicable(spec))
        options = replace(options, remedies=useful)
    quantized, logits = (first is observed and made) or quantize(observed, options)
    alike = likeness(spec, observed.texts, logits, quantized.logit_scale, observed.exact)
    return options, trials, with_tokens(quantized, checkpoint.arrays["embedding.token"]), alike


def save(quantized: Quantized, checkpoint: Checkpoint, out: Path) -> None:
    """The quantized model with its tokenizer or front end beside it: it can be used alone.

    The checkpoint's path is kept as given where the folder of the call is above ``out``.
    """
    if not out.resolve().is_relative_to(Path.cwd()):
        quantized.info["checkpoint"]["directory"] = str(checkpoint.directory.absolute())
    which.save(checkpoint, out)
    store.save(quantized.model, out, quantized.info)


def calibrated(
    options: argparse.Namespace, tasks: Sequence[str] = TASKS
) -> tuple[Path, Path | None]:
    """What `quant.which.model_of` gives, calibrated first where it is missing, as by `ensure`."""
    folder, there, checkpoint = which.model_of(options)
    if there or checkpoint is None:
        return folder, checkpoint
    return ensure(checkpoint, tasks), checkpoint


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
    """Calibrate by the command's options, ask for the proof's difference, and save into ``out``."""
    say(checkpoint)
    spec, data = checkpoint.spec, options.data or default_data(checkpoint.spec)
    layout = layout_of(options)
    reviews = images.load(spec.inputs, data, SPLIT, layout=layout, task=spec.task)
    texts = encode(reviews[: options.samples], checkpoint, options.tokens)
    if len(texts) < FEW:
        few = f"{len(texts):,} {spec.inputs} are few: ranges that they do not reach are cut off"
        stage(f"warning: {few}; give {FEW} or more, {SAMPLES} are read by default")
    named = {"split": SPLIT} if data in images.NAMED else {}
    source = {"data": data, "max_tokens": options.tokens} | named
    choices = Options(remedies=options.remedies, precise=options.precise)
    quantized, errors = calibrate(checkpoint, texts, choices, source)
    quantized.info["checkpoint"]["difference"] = difference()
    save(quantized, checkpoint, out)
    return quantized, errors


def parser() -> Parser:
    what = "Turn a fine-tuned checkpoint into an integer model."
    result = Parser("quant.calibrate", what, EXAMPLES)
    add_model(result)
    which.add_task(result)
    default = f"{DEFAULT_DATA}; of an encoder that makes embeddings {SENTENCES}"
    images.add_data(result, default, " (its training split)")
    what = f"number of texts (default: {SAMPLES})"
    result.add_argument("--samples", type=positive, default=SAMPLES, metavar="N", help=what)
    add_tokens(result, MAX_TOKENS)
    what = "operands of 16 bits, read in two passes: outputs of LayerNorm and of the activation"
    result.add_argument("--precise", action="store_true", help=what)
    what = (
        f"{AUTO}: those that the calibration texts ask for (the default); {NONE}; {ALL}; or a "
        f"list of {', '.join(REMEDIES)}, see docs/numerics.md"
    )
    result.add_argument("--remedies", type=remedies, metavar="NAMES", help=what)
    what = "quantized model (default: build/ and the name of --model)"
    result.add_argument("--out", type=Path, metavar="DIR", help=what)
    add_json(result)
    add_columns(result)
    return result


def remedies(text: str) -> tuple[str, ...] | None:
    """An option's value that names remedies; None leaves the choice to `calibrate`."""
    words = {AUTO: None, NONE: (), ALL: REMEDIES}
    if text in words:
        return words[text]
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in REMEDIES]:
        allowed = ", ".join([*words, *REMEDIES])
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no remedy: allowed {allowed}")
    return tuple(name for name in REMEDIES if name in names)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: calibrate_command(parser().parse_args(arguments)))


def calibrate_command(options: argparse.Namespace) -> None:
    give_back_memory()
    options.model = which.local(options.model)
    out = options.out or which.folder_of(options.model)
    check_written(out, "DIR")
    if which.is_checkpoint(out):
        why = "is a checkpoint, whose tokenizer would be overwritten: name another folder"
        raise UserError(f"--out {out} {why}")
    with without_torch():
        checkpoint = load(options.model, options.task)
    with proving(checkpoint) as difference:
        quantized, errors = calibrate_into(out, checkpoint, options, difference)
    proof = said(quantized.info["checkpoint"]["difference"], checkpoint)
    print(summary(quantized, errors), proof, f"wrote {out}", sep="\n")
    if options.json:
        files.write_json(options.json, quantized.info)
    following = {EMBEDDING: "quant.embed", QUESTION_ANSWERING: "sim.run"}
    then(following.get(checkpoint.spec.task, "quant.evaluate"), "--quantized", out)


def summary(quantized: Quantized, errors: dict[str, TensorError]) -> str:
    """The error of each tensor and the tightest of the overflow bounds."""
    info, proof, verdict = quantized.info, quantized.info["proof"], quantized.info["verdict"]
    spec = EncoderSpec.from_json(info["spec"])
    lines = [table(errors), f"remedies: {remedying.named(info['calibration']['remedies'])}"]
    if trials := info["trials"]:
        tried = ", ".join(f"{names} {error:.3g}" for names, error in trials.items())
        lines.append(f"tried, by the mean {task_of(spec).error}: {tried}")
    lines += [f"{name} has no effect: {why}" for name, why in idle(spec).items()]
    name = max(proof, key=lambda name: proof[name]["bound"] / proof[name]["limit"])
    tightest = f"tightest {name}: {proof[name]['bound']:,} < {proof[name]['limit']:,}"
    lines.append(f"no overflow: {len(proof):,} bounds proven, {tightest}")
    lines.append(f"verdict: {'good' if verdict['good'] else 'poor'}: {verdict['summary']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
