"""The families of new models, `train.finetune --family`, and what differs between them."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.checkpoint import Classifier, new_bert
from train.distil import NONE
from train.failure import TrainError
from train.family_options import (
    ALBERT,
    BERT,
    DISTILBERT,
    ELECTRA,
    FACTORISED,
    ROBERTA,
    TRANSFORMER,
)
from train.initialise import attend_to_neighbours, pca_embeddings
from train.relatives import new_relative
from train.roberta import byte_pairs, new_roberta
from train.tokens import CheckpointTokenizer, default_vocabulary, load_tokenizer, minilm
from train.transformer import CHOICES as TRANSFORMER_CHOICES
from train.transformer import (
    choices_of,
    embedding_deviation,
    new_transformer,
)

MINILM = "minilm"
"""The default of --embeddings where the vocabulary is BERT's."""


@dataclass(frozen=True)
class Family:
    """What is particular in making a new model.

    tokenizer
        By the options and the training texts.
    model
        By the options, the labels and ``drawn``: what the constructors of all families take.
    own
        The options that it alone has, and their defaults.
    refused
        The options that it does not have, and the reason.
    embeddings
        The default of --embeddings.
    """

    tokenizer: Callable[[argparse.Namespace, Sequence[str]], CheckpointTokenizer]
    model: Callable[[argparse.Namespace, Sequence[str], Mapping[str, Any]], Classifier]
    own: Mapping[str, Any]
    refused: Mapping[str, str]
    embeddings: str = MINILM


def _word_pieces(options: argparse.Namespace, _: Sequence[str]) -> CheckpointTokenizer:
    return load_tokenizer(options.vocab or default_vocabulary())


def _byte_pairs(options: argparse.Namespace, texts: Sequence[str]) -> CheckpointTokenizer:
    tokenizer = byte_pairs(texts, options.vocab_size)
    options.vocab_size = len(tokenizer)
    return tokenizer


def _bert(
    options: argparse.Namespace, labels: Sequence[str], drawn: Mapping[str, Any]
) -> Classifier:
    model = new_bert(labels, **drawn)
    if options.embeddings != NONE:
        pca_embeddings(model.bert.embeddings.word_embeddings.weight, _source(options))
    if options.neighbours:
        attend_to_neighbours(model)
    return model


def _transformer(
    options: argparse.Namespace, labels: Sequence[str], drawn: Mapping[str, Any]
) -> Classifier:
    model = new_transformer(labels, **drawn, **choices_of(options))
    if options.embeddings != NONE:
        deviation = embedding_deviation(model.config)
        pca_embeddings(model.embedding.weight, _source(options), deviation)
    return model


def _roberta(
    options: argparse.Namespace, labels: Sequence[str], drawn: Mapping[str, Any]
) -> Classifier:
    model = new_roberta(labels, **drawn)
    if options.neighbours:
        attend_to_neighbours(model)
    return model


def _relative(family: str) -> Family:
    def model(
        options: argparse.Namespace, labels: Sequence[str], drawn: Mapping[str, Any]
    ) -> Classifier:
        made = new_relative(family, options, labels, drawn)
        if options.embeddings != NONE:
            words = made.base_model.embeddings.word_embeddings.weight
            pca_embeddings(words, _source(options))
        return made

    own = {"embedding_size": None} if family in FACTORISED else {}
    reason = f"sets the first layer of a {BERT} or {ROBERTA}"
    return Family(_word_pieces, model, own=own, refused={"neighbours": reason})


def _source(options: argparse.Namespace) -> Path:
    return minilm() if options.embeddings == MINILM else Path(options.embeddings)


FAMILIES = {
    BERT: Family(_word_pieces, _bert, own={}, refused={}),
    TRANSFORMER: Family(
        _word_pieces,
        _transformer,
        own=TRANSFORMER_CHOICES,
        refused={"neighbours": "sets learned positions, those of a transformer are fixed"},
    ),
    ROBERTA: Family(
        _byte_pairs,
        _roberta,
        own={"vocab_size": None},
        refused={
            "vocab": "names WordPieces, a roberta makes byte pairs of its training texts",
            "embeddings": "are of another vocabulary than the byte pairs that a roberta makes",
        },
        embeddings=NONE,
    ),
    **{family: _relative(family) for family in (ELECTRA, ALBERT, DISTILBERT)},
}


def settle_family(options: argparse.Namespace) -> None:
    """Settle the options of the family, or refuse those that its new model does not have."""
    family = FAMILIES[options.family]
    for name, other in FAMILIES.items():
        given = [option for option in other.own if option in options and option not in family.own]
        if given:
            option = given[0].replace("_", "-")
            raise TrainError(f"--{option} is for a new model with --family {name}")
    if options.model is not None and options.family != BERT:
        raise TrainError(
            f"--family {options.family} is for a new model, --model has a family already"
        )
    for option, reason in family.refused.items():
        if getattr(options, option) not in (None, False, NONE):
            raise TrainError(f"--{option} {reason}")
    for option, default in family.own.items():
        setattr(options, option, getattr(options, option, default))
    if options.embeddings is None:
        options.embeddings = family.embeddings


def new_classifier(
    options: argparse.Namespace, labels: Sequence[str], vocabulary: int
) -> Classifier:
    """A new model of the options, its random weights drawn with --seed."""
    drawn = {
        "deviation": options.deviation,
        "dropout": options.dropout,
        "attention_dropout": options.attention_dropout,
        "seed": options.seed,
        "vocab_size": vocabulary,
        "hidden_size": options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "intermediate_size": options.ffn,
        "max_position_embeddings": options.positions,
    }
    return FAMILIES[options.family].model(options, labels, drawn)
