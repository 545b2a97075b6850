"""The work of `train.pretrain`: blocks of tokens, of which some are masked, and a run."""

import argparse

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray
from transformers import DataCollatorForLanguageModeling, set_seed

from quant.texts.corpora import load_texts
from train.command import check_place
from train.encoders import only_masked
from train.families import MASKED, new_model, new_tokenizer
from train.initialise import attend_to_neighbours
from train.running import train, write


def run(options: argparse.Namespace) -> None:
    """Train as the options say, and write the checkpoint."""
    if options.length > options.positions:
        raise UserError(
            f"--length {options.length}: the model has {options.positions} positions at most"
        )
    check_place(options, options.family)
    texts = [x.text for source in options.data for x in load_texts(source, "train", names=())]
    tokenizer = new_tokenizer(options, texts)
    tokenizer.model_max_length = options.positions
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    ends = tokenizer.cls_token_id, tokenizer.sep_token_id
    ids = np.array([i for text in encoded for i in (*text, ends[1])])
    rows = [{"input_ids": row} for row in blocks(ids, options.length, ends)]
    held_out, others = rows[: options.held_out], rows[options.held_out :]
    if not others:
        raise UserError(
            f"the texts give {len(rows)} blocks of {options.length} tokens: too few for training "
            f"beside --held-out {options.held_out}"
        )
    set_seed(options.seed)
    model = new_model(options, MASKED, (), len(tokenizer))
    attend_to_neighbours(model)
    only_masked(model)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=options.masked)
    trainer = train(options, model, others, held_out, collate=collate)
    write(options, trainer, {}, tokenizer)


def blocks(ids: NDArray[np.int64], length: int, ends: tuple[int, int]) -> NDArray[np.int64]:
    """The ids of all texts in rows of [CLS], ``length`` - 2 of them, [SEP]."""
    rows = ids[: len(ids) // (length - 2) * (length - 2)].reshape(-1, length - 2)
    return np.pad(rows, ((0, 0), (1, 1)), constant_values=((0, 0), ends))
