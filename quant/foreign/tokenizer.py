"""Text to token ids, with the checkpoint's own vocabulary, through the `tokenizers` library."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from quant.foreign.resolve import Resolved
from quant.model.spec import QUESTION_ANSWERING, TOKEN_CLASSIFICATION, EncoderSpec
from quant.model.spec import InputError as InputError

_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # what Python reads such a byte as


@dataclass(frozen=True)
class Picture:
    """An image as a model sees it: its pixels [h, w] or [h, w, 3], cut into patches.

    The patches are tokens, line by line, the first of which is number ``first``; ``grid`` counts
    them from top to bottom and from left to right.
    """

    pixels: NDArray[np.uint8]
    first: int
    grid: tuple[int, int]


@dataclass(frozen=True)
class Tokens:
    """One sequence: ids, segment types (int32 [L]) and the words that they stand for.

    ``dropped`` is the number of tokens that did not fit the limit. ``spelling``, where it was asked
    for, has the words of the text itself, and ``begins`` the token with which each begins, -1 for a
    word that was cut or that no token stands for. ``context`` has, of a question's text, for each
    of its tokens the token's place and the characters [first, last) of ``pair``, the text.
    ``picture`` is the image that it stands for, and ``made`` gives the rows of an image or a file
    as long as these are not part of a table (`placed`).
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    words: tuple[str, ...]
    dropped: int = 0
    spelling: tuple[str, ...] = ()
    begins: tuple[int, ...] = ()
    context: tuple[tuple[int, int, int], ...] = ()
    pair: str = ""
    picture: Picture | None = None
    made: Callable[[], NDArray[np.float32]] | None = None

    @property
    def rows(self) -> NDArray[np.float32] | None:
        """Of an image or a file, what stands in place of the token table [L, H], made anew by each
        call."""
        return None if self.made is None else self.made()

    @property
    def kept(self) -> NDArray[np.intp]:
        """The words that a token stands for, by their place in ``spelling``."""
        return np.flatnonzero(np.array(self.begins, int) >= 0)

    @property
    def first(self) -> NDArray[np.intp]:
        """The token with which each of the kept words begins."""
        return np.array(self.begins, np.intp)[self.kept]


def together(texts: Sequence[Tokens], most: int) -> Iterator[list[Tokens]]:
    """The texts in their order, as many at a time as have ``most`` tokens or less; at least one."""
    some: list[Tokens] = []
    for text in texts:
        if some and sum(len(one.ids) for one in [*some, text]) > most:
            yield some
            some = []
        some.append(text)
    if some:
        yield some


def placed(
    checkpoint: Any, texts: Sequence[Tokens]
) -> tuple[NDArray[np.float32] | None, Any, list[Tokens]]:
    """The float model, where it is there, with the rows that a host computed for the inputs.

    A model of images or of files of rows has no table of tokens. What an input becomes, a row a
    token, is put where the token rows are, and the ids are the numbers of these rows; the table of
    positions is zero. So several inputs share a table with the rows of all of them, and everything
    behind it (golden, the stream, the Verilog) reads rows by their numbers, as it does of a text.
    Given are the table [rows, H], None where no input brings rows, the model, and the inputs.
    """
    parts = [rows for text in texts if (rows := text.rows) is not None]
    if not parts:
        return None, checkpoint, list(texts)
    table, ends = np.concatenate(parts), np.cumsum([len(text.ids) for text in texts])
    numbers = np.split(np.arange(len(table), dtype=np.int32), ends[:-1])
    found = [replace(text, ids=ids, made=None) for text, ids in zip(texts, numbers, strict=True)]
    return table, checkpoint and checkpoint.with_tokens(table), found


class TextTokenizer:
    """The tokenizer of a checkpoint or a quantized model, as it is resolved."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self._tokenizer: Any = Tokenizer.from_str(resolved.pipeline)

    @property
    def rows(self) -> int:
        """Rows of an embedding table that covers every id."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    def least(self, pair: bool) -> int:
        """Tokens of the shortest text or pair: one of each part beside the special ones."""
        special: int = self._tokenizer.num_special_tokens_to_add(pair)
        return special + (2 if pair else 1)

    def encode(
        self,
        text: str | Sequence[str],
        pair: str | None = None,
        *,
        limit: int,
        words: bool = False,
        answer: bool = False,
    ) -> Tokens:
        """The tokens of ``text`` (and ``pair``), the longer part cut until ``limit`` tokens remain.

        text: a text, or its words where it was split before. words: say with which token each word
        of the text begins; of a text that was not split its words are what the tokenizer splits it
        into, punctuation by itself. answer: say which characters of the pair each of its tokens
        stands for, and cut the pair alone.

        Raises InputError for an empty text, for bytes that were not UTF-8 (surrogates here), and
        for a limit that leaves no room for one token.
        """
        split = not isinstance(text, str)
        whole = " ".join(text) if split else str(text)
        for part, name in ((whole, "text"), (pair, "second text")):
            if part is not None and not part.strip():
                raise InputError(f"the {name} is empty: give at least one word")
            if part is not None and (wrong := _NOT_UTF8.search(part)):
                byte = f"character {wrong.start() + 1} is the byte {ord(wrong[0]) & 0xFF:#04x}"
                advice = "convert it, for example with iconv"
                raise InputError(f"the {name} is not UTF-8: {byte}: {advice}")
        given = partial(self._tokenizer.encode, list(text) if split else text, pair, split)
        self._tokenizer.no_truncation()
        found, minimum = given(), self.least(pair is not None)
        special = minimum - (1 if pair is None else 2)
        if answer:
            minimum = special + 1 + found.sequence_ids.count(0)
        if limit < minimum:
            room = f"the limit of {limit} tokens leaves no room for the text"
            raise InputError(f"{room}: it must be {minimum} or more")
        unanswered = answer and pair is not None and 1 not in found.sequence_ids
        if unanswered or len(found.ids) <= special:
            empty = str(pair) if unanswered else whole
            raise InputError(f"{empty[:40]!r} holds nothing that the vocabulary knows: give a word")
        dropped = max(0, len(found.ids) - limit)
        if dropped:
            cut = {"strategy": "only_second" if answer else "longest_first"}
            self._tokenizer.enable_truncation(limit, direction=self.resolved.side, **cut)
            found = given()
        spelling, begins = _words(found, text) if words else ((), ())
        types = np.asarray(found.type_ids, np.int32) * np.int32(self.resolved.segments)
        places = [i for i, part in enumerate(found.sequence_ids) if answer and part == 1]
        context = tuple((place, *found.offsets[place]) for place in places)
        asked = (context, pair or "" if answer else "")
        words_of = (tuple(found.tokens), dropped, spelling, begins)
        return Tokens(np.asarray(found.ids, np.int32), types, *words_of, *asked)


def _words(encoding: Any, text: str | Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words of the (first) text, and the token with which each begins."""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for place, (word, part) in enumerate(zip(encoding.word_ids, encoding.sequence_ids)):
        if word is not None and part == 0:
            begins.setdefault(word, place)
            ends[word] = encoding.offsets[place][1]
    if not isinstance(text, str):
        return tuple(text), tuple(begins.get(word, -1) for word in range(len(text)))
    spans = ((encoding.offsets[place][0], ends[word]) for word, place in begins.items())
    return tuple(text[first:last].strip() for first, last in spans), tuple(begins.values())


def encode(spec: EncoderSpec, tokenizer: Any, text: Any, pair: str | None, most: int) -> Tokens:
    """The tokens of a text for a model: ``most`` of them, or what its position table covers.

    Raises InputError as TextTokenizer.encode, for a pair where every token has a class or the model
    has no second segment, for a question without a text, and for an id that has no embedding, or no
    position.
    """
    every, asked = spec.task == TOKEN_CLASSIFICATION, spec.task == QUESTION_ANSWERING
    if pair is not None and (every or spec.pooling == "last"):
        reads = "with a class for every token" if every else "that reads the token at a text's end"
        raise InputError(f"a model {reads} reads one text: give no pair")
    if asked and pair is None:
        raise InputError("a question needs the text that answers it: give it as the pair")
    limit = min(most, spec.max_tokens)
    tokens = tokenizer.encode(text, pair, limit=limit, words=every, answer=asked)
    ids, padding = tokens.ids, spec.position_offset - 1  # RoBERTa's positions count no padding
    end = int(ids.max()) if spec.end is None else spec.end
    vocabulary = f"the model's embedding has {spec.vocabulary} rows"
    last = "the model does not read the tokens behind it, which ends a text"
    dropout = "it changes every embedding of the text by how often it stands there (token_dropout)"
    position = "it is padding to the model (pad_token_id) and has no position"
    inside = np.arange(len(ids)) < len(ids) - 1
    for wrong, why in (
        (ids >= spec.vocabulary, vocabulary),
        ((ids == end) & (spec.pooling == "last") & inside, last),
        (ids == spec.unread, dropout),
        ((ids == padding) & (padding >= 0), position),
    ):
        if wrong.any():
            place = int(wrong.argmax())
            word = f"{tokens.words[place]!r} has the id {ids[place]}"
            raise InputError(f"{word}, {why}: leave it out of the text")
    if not spec.types:
        return replace(tokens, types=np.zeros_like(tokens.types))
    if (largest := int(tokens.types.max())) >= spec.types:
        there = f"the model has {spec.types} segment type{'s' if spec.types > 1 else ''}"
        raise InputError(f"the second text has the segment {largest}: {there}: give no pair")
    return tokens
