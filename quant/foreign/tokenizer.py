"""Text to token ids, with the checkpoint's own vocabulary, through the `tokenizers` library."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    as long as these are not part of a table (quant.quantize.given).
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

        text
            A text, or its words where it was split before.
        words
            Say with which token each word of the text begins; of a text that was not split its
            words are what the tokenizer splits it into, punctuation by itself.
        answer
            Say which characters of the pair each of its tokens stands for, and cut the pair alone.

        Raises InputError for an empty text, for bytes that were not UTF-8 (surrogates here), and
        for a limit that leaves no room for one token.
        """
        split = not isinstance(text, str)
        whole = " ".join(text) if split else str(text)
        for part, name in ((whole, "text"), (pair, "second text")):
            if part is not None and not part.strip():
                raise InputError(f"the {name} is empty: give at least one word")
            if part is not None and (wrong := _NOT_UTF8.search(part)):
                raise InputError(
                    f"the {name} is not UTF-8: character {wrong.start() + 1} is the byte "
                    f"{ord(wrong[0]) & 0xFF:#04x}: convert it, for example with iconv"
                )

        def encoding() -> Any:
            return self._tokenizer.encode(given, pair, is_pretokenized=split)

        given = list(text) if split else text
        self._tokenizer.no_truncation()
        found, minimum = encoding(), self.least(pair is not None)
        special = minimum - (1 if pair is None else 2)
        if answer:
            minimum = special + 1 + found.sequence_ids.count(0)
        if limit < minimum:
            raise InputError(
                f"the limit of {limit} tokens leaves no room for the text: "
                f"it must be {minimum} or more"
            )
        unanswered = answer and pair is not None and 1 not in found.sequence_ids
        if unanswered or len(found.ids) <= special:
            empty = str(pair) if unanswered else whole
            raise InputError(f"{empty[:40]!r} holds nothing that the vocabulary knows: give a word")
        dropped = max(0, len(found.ids) - limit)
        if dropped:
            cut = {"strategy": "only_second" if answer else "longest_first"}
            self._tokenizer.enable_truncation(limit, direction=self.resolved.side, **cut)
            found = encoding()
        spelling, begins = _words(found, text) if words else ((), ())
        types = np.asarray(found.type_ids, np.int32)
        context = (
            (place, *found.offsets[place])
            for place, part in enumerate(found.sequence_ids)
            if answer and part == 1
        )
        return Tokens(
            ids=np.asarray(found.ids, np.int32),
            types=types if self.resolved.segments else np.zeros_like(types),
            words=tuple(found.tokens),
            dropped=dropped,
            spelling=spelling,
            begins=begins,
            context=tuple(context),
            pair=pair or "" if answer else "",
        )


def _words(encoding: Any, text: str | Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words of the (first) text, and the token with which each begins."""
    places: dict[int, list[int]] = {}
    for place, (word, part) in enumerate(zip(encoding.word_ids, encoding.sequence_ids)):
        if word is not None and part == 0:
            places.setdefault(word, []).append(place)
    if not isinstance(text, str):
        return tuple(text), tuple(places.get(word, [-1])[0] for word in range(len(text)))
    spans = [
        (encoding.offsets[place[0]][0], encoding.offsets[place[-1]][1]) for place in places.values()
    ]
    begins = tuple(place[0] for place in places.values())
    return tuple(text[first:last].strip() for first, last in spans), begins


def encode(
    spec: EncoderSpec,
    tokenizer: Any,
    text: Any,
    pair: str | None,
    most: int,
) -> Tokens:
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
    for wrong, why in (
        (ids >= spec.vocabulary, f"the model's embedding has {spec.vocabulary} rows"),
        (
            (ids == end) & (spec.pooling == "last") & (np.arange(len(ids)) < len(ids) - 1),
            "the model does not read the tokens behind it, which ends a text",
        ),
        (
            ids == spec.unread,
            "it changes every embedding of the text by how often it stands there (token_dropout)",
        ),
        (
            (ids == padding) & (padding >= 0),
            "it is padding to the model (pad_token_id) and has no position",
        ),
    ):
        if wrong.any():
            place = int(wrong.argmax())
            word = tokens.words[place]
            raise InputError(f"{word!r} has the id {ids[place]}, {why}: leave it out of the text")
    if not spec.types:
        return replace(tokens, types=np.zeros_like(tokens.types))
    if (largest := int(tokens.types.max())) >= spec.types:
        raise InputError(
            f"the second text has the segment {largest}: the model has {spec.types} segment "
            f"type{'s' if spec.types > 1 else ''}: give no pair"
        )
    return tokens
