"""The work of `train.pretrain`: an encoder that predicts masked words."""

import argparse
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM

from quant.texts.corpora import CORPORA, imdb, rotten_tomatoes
from quant.texts.data_file import Review, TextError, stream_texts
from train.batches import Batch
from train.card import encoder_card, table
from train.checkpoint import save_checkpoint
from train.choices import PRESETS, REVIEWS
from train.command import ended, finish, places, recorded
from train.corpus import UNCHOSEN, Blocks, mask, open_tokens, write_tokens
from train.device import device_of, how_made, plan_of
from train.failure import TrainError
from train.heartbert import FusedConfig, FusedForMaskedLM
from train.initialise import attend_to_neighbours
from train.loop import train
from train.tokens import default_vocabulary, load_tokenizer

MaskedLM: TypeAlias = BertForMaskedLM | FusedForMaskedLM

_VALIDATION_SEED = 1  # the masks of validation are the same at every evaluation


def pretrain(options: argparse.Namespace) -> None:
    """Train as the options say, and write the checkpoint and, if asked, the figures."""
    for name, value in PRESETS[options.preset].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if not 3 <= options.length <= options.positions:
        raise TrainError(
            f"--length {options.length}: the model has {options.positions} positions, "
            "and a block needs 3 tokens or more"
        )
    work = places(options, options.preset)
    device = device_of(options)
    vocabulary = options.vocab or default_vocabulary()
    tokenizer = load_tokenizer(vocabulary)
    source = _source(options.data, vocabulary)
    tokens = work / "tokens.bin"
    corpus = open_tokens(tokens, tokenizer, source)
    if corpus is None:
        write_tokens(_texts(options.data), tokenizer, tokens, source)
        corpus = open_tokens(tokens, tokenizer, source)
        assert corpus is not None
    blocks = Blocks(corpus, length=options.length, held_out=options.held_out, seed=options.seed)
    per_epoch = blocks.count // options.batch
    if per_epoch == 0:
        raise TrainError(
            f"{blocks.count} training blocks do not fill a batch of {options.batch}: lower --batch"
        )
    model = _model(options, len(tokenizer)).to(device)
    read: dict[int, tuple[int, npt.NDArray[np.int64]]] = {}

    def loss(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        epoch, index = divmod(step, per_epoch)
        if epoch not in read:
            read.clear()
            read[epoch] = blocks.epoch(epoch)
        offset, order = read[epoch]
        chosen = order[index * options.batch : (index + 1) * options.batch]
        rng = np.random.default_rng((options.seed, epoch, index))
        batch, targets = mask(blocks.read(chosen, offset), corpus, rng, share=options.masked)
        total, hits, count = _predict(model, batch, targets, device)
        return total / max(1, count), {"accuracy": 100 * hits / max(1, count)}

    def evaluate() -> dict[str, float]:
        rng = np.random.default_rng(_VALIDATION_SEED)
        total, hits, count = 0.0, 0, 0
        for held_out in blocks.validation(options.batch):
            part = _predict(model, *mask(held_out, corpus, rng, share=options.masked), device)
            total, hits, count = total + part[0].item(), hits + part[1], count + part[2]
        return {"accuracy": 100 * hits / max(1, count), "loss": total / max(1, count)}

    plan = plan_of(
        options,
        device,
        steps=options.steps,
        evaluate_at=tuple(range(options.every, options.steps, options.every)),
    )
    arguments = recorded(options)
    outcome = train(
        model,
        plan,
        loss,
        evaluate,
        snapshot=work / "snapshot.safetensors",
        arguments={**arguments, "texts": source},
        description="pre-training",
    )
    card = encoder_card(
        summary=f"An encoder ({type(model).__name__}) pre-trained on {len(corpus.ids):,} tokens "
        f"({', '.join(Path(name).name for name in options.data)}), for "
        "`python -m train.finetune --model`.",
        **how_made(options, "train.pretrain", outcome),
    )
    save_checkpoint(model, tokenizer, options.out, card)
    print(table(outcome.history))
    finish(options, {"arguments": arguments, **dataclasses.asdict(outcome)})
    (work / "snapshot.safetensors").unlink(missing_ok=True)
    ended(options, outcome.seconds, "train.finetune")


def _predict(
    model: MaskedLM, batch: Batch, targets: npt.NDArray[np.int64], device: str
) -> tuple[torch.Tensor, int, int]:
    """Summed loss, hits and number of the chosen places; only these reach the decoder."""
    ids = torch.from_numpy(batch.ids).to(device)
    attend = torch.from_numpy(batch.mask).to(device)
    wanted = torch.from_numpy(targets).to(device)
    chosen = wanted != UNCHOSEN
    if isinstance(model, BertForMaskedLM):
        hidden = model.bert(input_ids=ids, attention_mask=attend).last_hidden_state
        logits = model.cls(hidden[chosen])
    else:
        logits = model.hidden_to_logits(model(ids, attend)[chosen])
    logits = logits.float()
    loss = functional.cross_entropy(logits, wanted[chosen], reduction="sum")
    hits = int((logits.argmax(1) == wanted[chosen]).sum())
    return loss, hits, int(chosen.sum())


def _model(options: argparse.Namespace, vocabulary: int) -> MaskedLM:
    torch.manual_seed(options.seed)
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "intermediate_size": options.ffn,
        "max_position_embeddings": options.positions,
    }
    if options.hidden % options.heads:
        raise TrainError(f"--hidden {options.hidden} is no multiple of --heads {options.heads}")
    if options.preset == "heartbert":
        model: MaskedLM = FusedForMaskedLM(FusedConfig(**shape), options.dropout)
    else:
        config = BertConfig(
            hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=0.0, **shape
        )
        model = BertForMaskedLM(config)
    if options.neighbours:
        attend_to_neighbours(model)
    return model


def _texts(data: Sequence[str]) -> Iterator[str]:
    for source in data:
        if source == REVIEWS:
            reviews: Iterable[Review] = itertools.chain(imdb("train"), rotten_tomatoes("train"))
        elif source in CORPORA:
            reviews = CORPORA[source]("train")
        else:
            reviews = stream_texts(source, names=())
        yield from (review.text for review in reviews)


def _source(data: Sequence[str], vocabulary: Path) -> str:
    """What the token file depends on: the vocabulary's hash; names, sizes and times of files."""
    digest = hashlib.sha256(vocabulary.read_bytes()).hexdigest()[:16]
    parts = [digest]
    for name in data:
        if name == REVIEWS or name in CORPORA:
            parts.append(name)
            continue
        if not Path(name).is_file():
            raise TextError(
                f"no data set or file named {name!r}: give {REVIEWS}, {', '.join(CORPORA)}, "
                "or the path of a .csv, .jsonl, .txt or .parquet file"
            )
        status = Path(name).stat()
        parts.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return ", ".join(parts)
