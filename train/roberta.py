"""RoBERTa (Liu et al., 2019) from nothing: its byte-level BPE and a new model.

The vocabulary is a byte-pair encoding (Sennrich et al., 2016) of bytes (Radford et al., 2019). A
text is split into words, each with the space before it, and a word is the string of its UTF-8
bytes: nothing is unknown, and case and accents stay. The pair of neighbours that is the most
frequent in all training texts becomes a token, again and again.
"""

import json
from collections.abc import Sequence
from typing import Any

from cli.progress import stage

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import RobertaForSequenceClassification, RobertaTokenizer

from train.checkpoint import new_bert
from train.failure import TrainError
from train.family_options import FEWEST_TOKENS, SPECIAL, TOKENS

_CLS, _PAD, _SEP = 0, 1, 2
_FEWEST_PAIRS = 2  # a pair that occurs once says nothing about other texts


def byte_pairs(texts: Sequence[str], size: int | None) -> RobertaTokenizer:
    """A tokenizer with ``size`` tokens: special ones, the 256 bytes, and merged pairs of tokens.

    A function of the texts and the size alone. None stands for the default, or the most that the
    texts give: a pair has to occur twice. Raises TrainError where they give less than ``size``.
    """
    wanted = size or TOKENS
    stage(f"the vocabulary: {wanted:,} tokens of {len(texts):,} texts")
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=wanted,
        min_frequency=_FEWEST_PAIRS,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    found = trained.get_vocab_size()
    if size is not None and found < size:
        raise TrainError(
            f"--vocab-size {size}: the training texts give {found:,} tokens at most: "
            f"ask for {FEWEST_TOKENS} to {found}"
        )
    model = json.loads(trained.to_str())["model"]
    return RobertaTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def new_roberta(
    labels: Sequence[str], *, max_position_embeddings: int, **drawn: Any
) -> RobertaForSequenceClassification:
    """A RoBERTa that covers so many tokens, drawn as `train.checkpoint.new_bert` does it.

    The table of positions has rows for the padding and before it, which stand for no position.
    """
    return new_bert(
        labels,
        kind=RobertaForSequenceClassification,
        max_position_embeddings=max_position_embeddings + _PAD + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        bos_token_id=_CLS,
        pad_token_id=_PAD,
        eos_token_id=_SEP,
        **drawn,
    )
