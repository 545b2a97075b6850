"""New models of BERT's relatives in transformers: ELECTRA, ALBERT and DistilBERT.

Clark et al., "ELECTRA" (2020); Lan et al., "ALBERT" (2020): an embedding of fewer channels than the
encoder, which are projected, and in ALBERT one layer's weights for all layers; Sanh et al.,
"DistilBERT" (2019): no segments. They read BERT's WordPieces.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import (
    AlbertForSequenceClassification,
    DistilBertForSequenceClassification,
    ElectraForSequenceClassification,
)

from train.checkpoint import Classifier, new_bert
from train.failure import TrainError
from train.family_options import ALBERT, DISTILBERT, ELECTRA, EMBEDDING_SIZE, FACTORISED

_KINDS = {
    ELECTRA: ElectraForSequenceClassification,
    ALBERT: AlbertForSequenceClassification,
    DISTILBERT: DistilBertForSequenceClassification,
}


def new_relative(
    family: str, options: argparse.Namespace, labels: Sequence[str], drawn: Mapping[str, Any]
) -> Classifier:
    """A model of the family, drawn as `train.checkpoint.new_bert` does it."""
    fields = dict(drawn)
    if family in FACTORISED:
        size = options.embedding_size or min(EMBEDDING_SIZE, options.hidden)
        if size > options.hidden:
            raise TrainError(
                f"--embedding-size {size}: an embedding is at most as wide as the encoder, "
                f"--hidden {options.hidden}"
            )
        fields["embedding_size"] = options.embedding_size = size
    if family == DISTILBERT:
        fields["hidden_dim"] = fields.pop("intermediate_size")
    model: Classifier = new_bert(labels, kind=_KINDS[family], **fields)
    return model
