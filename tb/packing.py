"""Arrays of lanes as the packed vectors that Verilog shows: element 0 in the low bits."""

from collections.abc import Iterable, Sequence

from cli.errors import UserError

import numpy as np

Integers = np.ndarray | Sequence[int]


def pack(values: Iterable[int], width: int) -> int:
    """The vector of the values, `width` bits each; a negative value as two's complement.

    Raises ValueError: A value needs more bits; the message names it, its place and the bits there
    are.
    """
    word = 0
    for place, value in enumerate(values):
        if not -(1 << width - 1) <= value < 1 << width:
            raise UserError(f"element {place} is {value}: it does not fit {width} bits")
        word |= (int(value) & (1 << width) - 1) << place * width
    return word


def unpack(word: int, width: int, length: int, signed: bool) -> list[int]:
    """The `length` elements of a vector, `width` bits each.

    Raises ValueError: The vector has bits beyond its last element.
    """
    if word < 0 or word >> width * length:
        raise UserError(f"{word:#x} does not fit {length} elements of {width} bits")
    elements = [word >> place * width & (1 << width) - 1 for place in range(length)]
    if signed:
        elements = [e - (1 << width) if e >> width - 1 else e for e in elements]
    return elements


def by_lanes(values: np.ndarray, lanes: int) -> np.ndarray:
    """Values or rows, [words, lanes, ...]; the last word is filled with the first ones."""
    return np.resize(values, (-(-len(values) // lanes), lanes, *values.shape[1:]))


ENDS_BIT, ATTEND_BIT, TYPE_BIT, ID_MASK = 1 << 26, 1 << 25, 1 << 24, (1 << 24) - 1
"""Of a word of the tokens stream; with the first one it is its sequence's last."""


def lengths_of(words: np.ndarray) -> list[int]:
    """Tokens of each sequence in the words of a tokens stream, uint32 [L]."""
    ends = np.flatnonzero(words[:-1] & ENDS_BIT) + 1
    return np.diff([0, *ends, len(words)]).tolist()


def last_places(lengths: Sequence[int], logits: int, every_token: bool) -> np.ndarray:
    """Places of the logits with `last`: each sequence has one, with as many logits for each as the
    others, or, where every token has its own, with as many for each token."""
    shares = lengths if every_token else [1] * len(lengths)
    return np.cumsum(shares) * logits // sum(shares) - 1


def stream_words(stream: bytes, width: int) -> list[int]:
    """A command stream in words of so many bytes, the last padded with zeros."""
    starts = range(0, len(stream), width)
    return [int.from_bytes(stream[at : at + width], "little") for at in starts]


def token_words(
    ids: Integers,
    types: Integers | None = None,
    attend: Integers | None = None,
    lengths: Sequence[int] | None = None,
) -> np.ndarray:
    """Words of the tokens stream, uint32 [L]: id[23:0], type[24], attend[25], ends[26].

    types are 0 and all tokens attend when left out. With `lengths` they are a batch of sequences,
    one after the other.

    Raises ValueError: There is no token, the lengths differ, or a value does not fit its bits; a
    sequence of a batch is empty, or they are not as long as the ids.
    """
    ids = np.asarray(ids, np.int64)
    types = np.zeros_like(ids) if types is None else np.asarray(types, np.int64)
    attend = np.ones_like(ids) if attend is None else np.asarray(attend, np.int64)
    if not ids.size:
        raise UserError("the sequence is empty: an inference needs at least one token")
    for name, values, maximum in (
        ("ids", ids, ID_MASK),
        ("types", types, 1),
        ("attend", attend, 1),
    ):
        if values.shape != ids.shape:
            raise UserError(f"{name} has {values.size} entries for {ids.size} ids")
        wrong = values[(values < 0) | (values > maximum)]
        if wrong.size:
            raise UserError(f"{name} holds {wrong[0]}: it must lie in 0..{maximum}")
    words = (ids | types << 24 | attend << 25).astype(np.uint32)
    if lengths is not None:
        if min(lengths, default=0) < 1 or sum(lengths) != len(words):
            raise UserError(
                f"the sequences have {list(lengths)} tokens: each needs one at least, and all "
                f"together {len(words)}"
            )
        words[np.cumsum(lengths) - 1] |= ENDS_BIT
    return words
