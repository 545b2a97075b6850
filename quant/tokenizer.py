"""Text to token ids, with the checkpoint's own vocabulary, through the `tokenizers` library.

tokenizer.json is used when the checkpoint has one, else vocab.txt with BERT's rules (Devlin et al.,
2019): basic tokenisation, lower case unless tokenizer_config.json says otherwise, then greedy
WordPiece; [CLS] text [SEP], and for a pair [CLS] first [SEP] second [SEP] with segment 1 for the
second.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer, Tokenizer

from quant.spec import CheckpointError

_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # what Python reads such a byte as

FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")


class InputError(ValueError):
    """A text that cannot be classified; the message says why."""


@dataclass(frozen=True)
class Tokens:
    """One sequence: ids, segment types (int32 [L]) and the words that they stand for.

    ``dropped`` is the number of tokens that did not fit the limit.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    words: tuple[str, ...]
    dropped: int = 0


class TextTokenizer:
    """The tokenizer of the checkpoint (or quantized model) in ``directory``."""

    def __init__(self, directory: str | Path) -> None:
        self._tokenizer = _load(Path(directory))
        self._tokenizer.no_padding()

    def encode(
        self, text: str, pair: str | None = None, *, limit: int, segments: int = 2
    ) -> Tokens:
        """The tokens of ``text`` (and ``pair``), the longer part cut until ``limit`` tokens remain.

        segments
            How many types the model has (0: no segment embedding): the second text has type 1
            where there is one, else 0.

        Raises InputError for an empty text, for bytes that were not UTF-8 (surrogates here), and
        for a limit that leaves no room for one token.
        """
        for part, name in ((text, "text"), (pair, "second text")):
            if part is not None and not part.strip():
                raise InputError(f"the {name} is empty: give at least one word")
            if part is not None and (wrong := _NOT_UTF8.search(part)):
                raise InputError(
                    f"the {name} is not UTF-8: character {wrong.start() + 1} is the byte "
                    f"{ord(wrong[0]) & 0xFF:#04x}: convert it, for example with iconv"
                )
        special = self._tokenizer.num_special_tokens_to_add(pair is not None)
        least = special + (1 if pair is None else 2)
        if limit < least:
            raise InputError(
                f"the limit of {limit} tokens leaves no room for the text: "
                f"it must be {least} or more"
            )
        self._tokenizer.no_truncation()
        encoding = self._tokenizer.encode(text, pair)
        if len(encoding.ids) <= special:
            raise InputError(f"{text[:40]!r} holds nothing that the vocabulary knows: give a word")
        dropped = max(0, len(encoding.ids) - limit)
        if dropped:
            self._tokenizer.enable_truncation(limit, strategy="longest_first")
            encoding = self._tokenizer.encode(text, pair)
        return Tokens(
            ids=np.asarray(encoding.ids, np.int32),
            types=np.minimum(encoding.type_ids, max(segments, 1) - 1).astype(np.int32),
            words=tuple(encoding.tokens),
            dropped=dropped,
        )


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
