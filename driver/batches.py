"""Many sequences on an accelerator, as many an inference as fit; standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from driver import streams
from driver.accelerator import InferenceError


class Batch(NamedTuple):
    """The sequences of an inference, one after the other, and the length of each."""

    ids: list[int]
    types: list[int]
    attend: list[int]
    lengths: list[int]


def cut(
    limits: Mapping[str, int],
    check: Callable[[Sequence[int], Sequence[int], Sequence[int]], object],
    logits: Callable[[int], int],
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None,
    attend: Sequence[Sequence[int]] | None,
    row_tiles: int | None,
) -> list[tuple[list[int], Batch]]:
    """The sequences in batches: the places of each one's sequences in `ids`, and what is played.

    Parameters and errors as `infer_all`.
    """
    types = [[0] * len(one) for one in ids] if types is None else types
    attend = [[1] * len(one) for one in ids] if attend is None else attend
    for name, given in (("types", types), ("attend", attend)):
        if len(given) != len(ids):
            raise ValueError(f"{name} has {len(given)} sequences, ids has {len(ids)}")
    for place, sequence in enumerate(zip(ids, types, attend)):
        try:
            check(*sequence)
        except ValueError as error:
            raise ValueError(f"sequence {place}: {error}") from None
    lanes, tokens = limits["lanes"], limits["tokens"]
    room = -(-tokens // lanes)
    if logits(2) > logits(1):
        room = min(room, limits["labels"] * -(-room // lanes) // logits(1))
    room = room if row_tiles is None else row_tiles
    lengths = [len(one) for one in ids]
    found = []
    for batch in streams.pack(lengths, lanes, room):
        i, t, a = ([x for place in batch for x in part[place]] for part in (ids, types, attend))
        found.append((list(batch), Batch(i, t, a, [lengths[place] for place in batch])))
    return found


def parted(
    places: Sequence[int], batch: Batch, left: list[int], logits: Callable[[int], int]
) -> dict[int, list[int]]:
    """The logits of a batch by the places of its sequences."""
    found = {}
    for place, length in zip(places, batch.lengths):
        count = logits(length)
        found[place], left = left[:count], left[count:]
    return found


def failed(
    error: InferenceError,
    places: Sequence[int],
    batch: Batch,
    found: dict[int, list[int] | InferenceError],
) -> list[tuple[list[int], Batch]]:
    """Write the error of a batch into `found`; the batch without the sequence that is wrong.

    Nothing is left where the error is of no sequence, or of the only one: all have it then.
    """
    if error.sequence is None:
        found.update(dict.fromkeys(places, error))
        return []
    wrong = error.sequence
    found[places[wrong]] = InferenceError(error.code, places[wrong])
    *parts, lengths = batch
    begin = sum(lengths[:wrong])
    end = begin + lengths[wrong]
    i, t, a = (part[:begin] + part[end:] for part in parts)
    rest = [place for k, place in enumerate(places) if k != wrong]
    left = [length for k, length in enumerate(lengths) if k != wrong]
    return [(rest, Batch(i, t, a, left))] if rest else []


def infer_all(
    limits: Mapping[str, int],
    check: Callable[[Sequence[int], Sequence[int], Sequence[int]], object],
    infer: Callable[[Sequence[int], Sequence[int], Sequence[int], Sequence[int]], list[int]],
    logits: Callable[[int], int],
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None,
    attend: Sequence[Sequence[int]] | None,
    row_tiles: int | None,
) -> list[list[int]]:
    """The logits of each sequence, in their order.

    Parameters
    ----------
    limits
        Lanes, tokens and labels of the accelerator.
    check
        Refuses a sequence (its ids, types and attend) with a ValueError.
    infer
        The logits of the sequences of a batch, one after the other, from their ids, types and
        attend, and their lengths.
    logits
        How many come of a sequence of so many tokens.
    types, attend
        None: 0 for all tokens, 1 for all tokens.
    row_tiles
        How many an inference takes, as `python -m rtl.compile` prints for the model. None: as many
        as the longest sequence that the accelerator was made for, or as it holds the logits of
        where every token has some.

    Raises
    ------
    ValueError
        A sequence cannot be run, and is named; none was.
    DeviceError
        As `infer`; an InferenceError has the place of the sequence in `ids`.
    """
    found: dict[int, list[int]] = {}
    for places, batch in cut(limits, check, logits, ids, types, attend, row_tiles):
        try:
            left = infer(*batch)
        except InferenceError as error:
            if error.sequence is None:
                raise
            raise InferenceError(error.code, places[error.sequence]) from None
        found.update(parted(places, batch, left, logits))
    return [found[place] for place in range(len(ids))]
