"""The work of `train.pretrain`: blocks of masked tokens, and a run of the Trainer."""

import argparse
from functools import partial
from typing import Any

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import set_seed

from quant.texts.corpora import CORPORA, load_texts
from train.command import check_place
from train.encoders import IGNORED, only_masked
from train.examples import Item
from train.families import MASKED, new_model, new_tokenizer
from train.initialise import attend_to_neighbours
from train.pretrain import REVIEWS
from train.running import run, write

_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1  # of the chosen places; the rest keeps its token


class Blocks(Dataset):
    """Blocks of [CLS], tokens and [SEP], masked (Devlin et al., "BERT", 2019, section 3.1).

    Every inner token is chosen with probability ``share``; a chosen one becomes [MASK] (80 %), a
    random token (10 %) or stays (10 %). The label is the token where one was chosen, else IGNORED.
    All is drawn from (seed, epoch, block).
    """

    def __init__(self, blocks: NDArray[np.int32], tokenizer: Any, share: float, seed: int) -> None:
        self.blocks, self.tokenizer, self.share, self.seed = blocks, tokenizer, share, seed
        self.vocabulary, self.epoch = len(tokenizer), 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> Item:
        ids = self.blocks[index]
        rng = np.random.default_rng((self.seed, self.epoch, index))
        chosen = rng.random(len(ids)) < self.share
        chosen[[0, -1]] = False
        kind = rng.random(len(ids))
        shown = np.where(chosen & (kind < _MASK_SHARE), self.tokenizer.mask_token_id, ids)
        other = chosen & (kind >= _MASK_SHARE) & (kind < _MASK_SHARE + _RANDOM_SHARE)
        shown = np.where(other, rng.integers(self.vocabulary, size=len(ids)), shown)
        return {"input_ids": shown, "labels": np.where(chosen, ids, IGNORED)}


def pretrain(options: argparse.Namespace) -> None:
    """Train as the options say, and write the checkpoint."""
    if options.length > options.positions:
        raise UserError(
            f"--length {options.length}: the model has {options.positions} positions at most"
        )
    given = check_place(options, options.family)
    sources = list(CORPORA) if options.data == [REVIEWS] else options.data
    texts = [x.text for source in sources for x in load_texts(source, "train", names=())]
    tokenizer = new_tokenizer(options, texts)
    tokenizer.model_max_length = options.positions
    blocks = _blocks(texts, tokenizer, options.length)
    if len(blocks) <= options.held_out:
        raise UserError(
            f"the texts give {len(blocks)} blocks of {options.length} tokens: too few for training "
            f"beside --held-out {options.held_out}"
        )
    set_seed(options.seed)
    model = new_model(options, MASKED, (), len(tokenizer))
    attend_to_neighbours(model)
    only_masked(model)
    made = partial(Blocks, tokenizer=tokenizer, share=options.masked, seed=options.seed)
    train, held_out = blocks[: -options.held_out], blocks[-options.held_out :]
    lengths = [options.length] * len(train)
    trainer = run(options, given, model, made(train), made(held_out), lengths=lengths)
    write(options, trainer, {}, tokenizer)


def _blocks(texts: list[str], tokenizer: Any, length: int) -> NDArray[np.int32]:
    """All texts, a [SEP] behind each, cut into blocks with [CLS] and [SEP] around."""
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    ids = np.array([i for text in encoded for i in (*text, tokenizer.sep_token_id)], np.int32)
    inner = length - 2
    rows = ids[: len(ids) // inner * inner].reshape(-1, inner)
    around = np.full((2, len(rows), 1), [[[tokenizer.cls_token_id]], [[tokenizer.sep_token_id]]])
    return np.concatenate([around[0], rows, around[1]], axis=1).astype(np.int32)
