"""Text to token ids, with the checkpoint's own vocabulary, through the `tokenizers` library.

tokenizer.json is used when the checkpoint has one, else vocab.txt with BERT's rules (Devlin et al.,
2019): basic tokenisation, lower case unless tokenizer_config.json says otherwise, then greedy
WordPiece; [CLS] text [SEP], and for a pair [CLS] first [SEP] second [SEP] with segment 1 for the
second.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer, Tokenizer

from quant.spec import TOKEN_CLASSIFICATION, CheckpointError, EncoderSpec

_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # what Python reads such a byte as

FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")


class InputError(ValueError):
    """A text that cannot be classified; the message says why."""


@dataclass(frozen=True)
class Tokens:
    """One sequence: ids, segment types (int32 [L]) and the words that they stand for.

    ``dropped`` is the number of tokens that did not fit the limit. ``spelling``, where it was asked
    for, has the words of the text itself, and ``begins`` the token with which each begins, -1 for a
    word that was cut or that no token stands for.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    words: tuple[str, ...]
    dropped: int = 0
    spelling: tuple[str, ...] = ()
    begins: tuple[int, ...] = ()

    @property
    def kept(self) -> NDArray[np.intp]:
        """The words that a token stands for, by their place in ``spelling``."""
        return np.flatnonzero(np.array(self.begins, int) >= 0)

    @property
    def first(self) -> NDArray[np.intp]:
        """The token with which each of the kept words begins."""
        return np.array(self.begins, np.intp)[self.kept]


class TextTokenizer:
    """The tokenizer of the checkpoint (or quantized model) in ``directory``."""

    def __init__(self, directory: str | Path) -> None:
        self._tokenizer = _load(Path(directory))
        self._tokenizer.no_padding()

    def encode(
        self,
        text: str | Sequence[str],
        pair: str | None = None,
        *,
        limit: int,
        segments: int = 2,
        words: bool = False,
    ) -> Tokens:
        """The tokens of ``text`` (and ``pair``), the longer part cut until ``limit`` tokens remain.

        text
            A text, or its words where it was split before.
        segments
            How many types the model has (0: no segment embedding): the second text has type 1
            where there is one, else 0.
        words
            Say with which token each word of the text begins; of a text that was not split its
            words are what the tokenizer splits it into, punctuation by itself.

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
        special = self._tokenizer.num_special_tokens_to_add(pair is not None)
        minimum = special + (1 if pair is None else 2)
        if limit < minimum:
            raise InputError(
                f"the limit of {limit} tokens leaves no room for the text: "
                f"it must be {minimum} or more"
            )
        self._tokenizer.no_truncation()
        given = list(text) if split else text
        encoding = self._tokenizer.encode(given, pair, is_pretokenized=split)
        if len(encoding.ids) <= special:
            raise InputError(f"{whole[:40]!r} holds nothing that the vocabulary knows: give a word")
        dropped = max(0, len(encoding.ids) - limit)
        if dropped:
            self._tokenizer.enable_truncation(limit, strategy="longest_first")
            encoding = self._tokenizer.encode(given, pair, is_pretokenized=split)
        spelling, begins = _words(encoding, text) if words else ((), ())
        return Tokens(
            ids=np.asarray(encoding.ids, np.int32),
            types=np.minimum(encoding.type_ids, max(segments, 1) - 1).astype(np.int32),
            words=tuple(encoding.tokens),
            dropped=dropped,
            spelling=spelling,
            begins=begins,
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
    tokenizer: TextTokenizer,
    text: str | Sequence[str],
    pair: str | None,
    most: int,
) -> Tokens:
    """The tokens of a text for a model: ``most`` of them, or what its position table covers.

    Raises InputError as TextTokenizer.encode, and for a pair where every token has a class.
    """
    every = spec.task == TOKEN_CLASSIFICATION
    if every and pair is not None:
        raise InputError("a model with a class for every token reads one text: give no pair")
    limit = min(most, spec.max_tokens)
    return tokenizer.encode(text, pair, limit=limit, segments=spec.types, words=every)


def _load(directory: Path) -> Any:
    whole, vocabulary = directory / "tokenizer.json", directory / "vocab.txt"
    if whole.is_file():
        try:
            return Tokenizer.from_file(str(whole))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{whole} is not a tokenizer: {error}") from None
    if not vocabulary.is_file():
        raise CheckpointError(f"{directory} has neither tokenizer.json nor vocab.txt")
    settings: dict[str, Any] = {}
    options = directory / "tokenizer_config.json"
    if options.is_file():
        try:
            settings = json.loads(options.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(f"{options} is not JSON: {error}") from None
    words = vocabulary.read_text(encoding="utf-8", errors="replace").splitlines()
    for needed in ("[CLS]", "[SEP]", "[UNK]", "[PAD]"):
        if needed not in words:
            raise CheckpointError(f"{vocabulary} has no {needed}: it is not a BERT vocabulary")
    return BertWordPieceTokenizer(
        str(vocabulary),
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
