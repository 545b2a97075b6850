"""Token sequences into padded batches, in an order that is a function of (seed, epoch) alone.

An epoch shuffles the sequences, sorts pools of many batches by length so that a batch pads little,
cuts the pools into batches and shuffles these. Every random choice is drawn from a generator
seeded with (seed, epoch) or (seed, step): a run that is killed and resumed at any step sees the
same batches as one that is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from train.tokens import SpecialTokens

Ids = npt.NDArray[np.int32]

_POOL = 50  # batches that are sorted by length together


@dataclass(frozen=True)
class Batch:
    """Right-padded token ids and their attention mask, both int64 [batch, length]."""

    ids: npt.NDArray[np.int64]
    mask: npt.NDArray[np.int64]


def clip(ids: Ids, length: int, special: SpecialTokens) -> Ids:
    """At most ``length`` tokens: the beginning of the text, with [CLS] and [SEP] kept."""
    if len(ids) <= length:
        return ids
    return np.concatenate([ids[: length - 1], [special.sep]]).astype(np.int32)


def window(ids: Ids, length: int, special: SpecialTokens, rng: np.random.Generator) -> Ids:
    """At most ``length`` tokens from a random place of the text, with [CLS] and [SEP] around.

    The beginning and the end of the text, which say most, have a third of the choices each.
    """
    if len(ids) <= length:
        return ids
    room = len(ids) - length
    start = int(np.clip(rng.integers(-room, 2 * room + 1), 0, room))
    body = ids[1 + start : start + length - 1]
    return np.concatenate([[special.cls], body, [special.sep]]).astype(np.int32)


def drop_words(ids: Ids, share: float, special: SpecialTokens, rng: np.random.Generator) -> Ids:
    """``ids`` with each inner token replaced by [MASK] with probability ``share``."""
    if share == 0:
        return ids
    dropped = rng.random(len(ids)) < share
    dropped[[0, -1]] = False
    return np.where(dropped, np.int32(special.mask), ids)


def pad(sequences: Sequence[Ids], special: SpecialTokens) -> Batch:
    """Sequences of token ids as one batch as long as the longest."""
    length = max(len(ids) for ids in sequences)
    ids = np.full((len(sequences), length), special.pad, np.int64)
    mask = np.zeros((len(sequences), length), np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return Batch(ids, mask)


def epoch_batches(
    lengths: Sequence[int], size: int, *, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """The batches of one training epoch, each an array of ``size`` indices of alike lengths.

    A remainder that fills no batch is left out; the next epoch leaves out others.
    """
    rng = np.random.default_rng((seed, epoch))
    sizes = np.asarray(lengths)
    order = rng.permutation(len(sizes))
    batches = []
    for start in range(0, len(order), _POOL * size):
        pool = order[start : start + _POOL * size]
        pool = pool[np.argsort(sizes[pool], kind="stable")]
        batches += [pool[i : i + size] for i in range(0, len(pool) - size + 1, size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def by_length(lengths: Sequence[int], size: int) -> Iterator[npt.NDArray[np.int64]]:
    """All indices in batches of at most ``size``, sorted by length: for evaluation."""
    order = np.argsort(np.asarray(lengths), kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]
