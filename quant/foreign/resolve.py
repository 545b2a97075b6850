"""A checkpoint's tokenizer as `transformers` reads it: the files, and every option in them.

The library itself is asked, once, without torch and without running a checkpoint's code. What comes
out is plain: the text of a tokenizer.json that holds everything, and a few facts beside it, so that
nothing behind reads the checkpoint's own files.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from quant.foreign.config import CONFIG, json_object
from quant.model.spec import CheckpointError

SETTINGS = "tokenizer_config.json"
FILES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model", "sentencepiece.bpe.model"),
    *(SETTINGS, "special_tokens_map.json", "added_tokens.json"),
)
"""What a tokenizer may be made of: of a checkpoint's hash, and fetched from a hub."""

_LENGTHS = 1 << 20
"""The library says 10^30 where a checkpoint has no limit."""
_SIDES = ("right", "left")


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A tokenizer that needs none of the checkpoint's files.

    pipeline: the text of tokenizer.json. tokens: the longest sequence that the checkpoint's library
    makes, None where only the position table limits it. side: where a text that is too long is
    cut, "right" or "left". segments: the second text of a pair has type 1; else all types are 0.
    special: ids of the special tokens, by what they are for.
    """

    pipeline: str
    tokens: int | None
    side: str
    segments: bool
    special: dict[str, int]

    @property
    def facts(self) -> dict[str, Any]:
        """As JSON values, with the hash of the pipeline in its place."""
        values = asdict(self)
        return {"sha256": sha256(values.pop("pipeline").encode()).hexdigest(), **values}


def resolve(folder: Path, tokens: int | None = None, lower: bool = False) -> Resolved:
    """The tokenizer of the checkpoint in ``folder``.

    tokens, lower: as sentence-transformers' files say (quant.foreign.sentence): the longest text in
    place of the tokenizer's own, and lower case before its own rules. CheckpointError names the
    file and what is wrong with it, and what the library cannot express without a checkpoint's own
    code.
    """
    settings = _settings(folder)
    _refuse(folder, settings)
    theirs = _theirs(folder)
    backend = theirs.backend_tokenizer
    if lower:
        _lower(backend)
    backend.no_truncation()
    backend.no_padding()
    longest = theirs.model_max_length if tokens is None else tokens
    return Resolved(
        pipeline=backend.to_str(),
        tokens=int(longest) if longest < _LENGTHS else None,
        side=_one_of(folder, "truncation_side", theirs.truncation_side, _SIDES),
        segments="token_type_ids" in theirs.model_input_names,
        special={
            name.removesuffix("_token"): int(getattr(theirs, f"{name}_id"))
            for name, token in sorted(theirs.special_tokens_map.items())
            if name.endswith("_token") and isinstance(token, str)
        },
    )


def _settings(folder: Path) -> dict[str, Any]:
    """The options of tokenizer_config.json; of every JSON file whether it is one."""
    found: dict[str, dict[str, Any]] = {}
    for name in FILES:
        file = folder / name
        if name.endswith(".json") and file.is_file():
            found[name] = json_object(file)
    return found.get(SETTINGS, {})


def _refuse(folder: Path, settings: dict[str, Any]) -> None:
    """What the library would pass over, or run code for."""
    file = folder / SETTINGS
    if settings.get("auto_map"):
        raise CheckpointError(
            f"{file}: auto_map is {settings['auto_map']!r}: code of its own, which is never run: "
            f"if tokenizer.json says all, take it out of {SETTINGS}"
        )
    if settings.get("split_special_tokens"):
        raise CheckpointError(
            f"{file}: split_special_tokens is {settings['split_special_tokens']!r}: special tokens "
            "in a text are always taken as such: it must be false"
        )
    longest = settings.get("model_max_length")
    if longest is not None and (
        isinstance(longest, bool) or not isinstance(longest, int | float) or longest < 1
    ):
        raise CheckpointError(f"{file}: model_max_length is {longest!r}: it must be 1 or more")


def _theirs(folder: Path) -> Any:
    """The tokenizer as `transformers` makes it, by the library of tokenizers and no other code."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from transformers import AutoTokenizer
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    family = json_object(folder / CONFIG).get("model_type")
    known = {} if family in CONFIG_MAPPING else {"config": CONFIG_MAPPING["bert"]()}
    try:
        theirs = AutoTokenizer.from_pretrained(
            folder.resolve(), local_files_only=True, trust_remote_code=False, **known
        )
        theirs("a \u00e9 \u4e2d", "[x]")  # a vocabulary without what it needs fails only now
    except Exception as error:  # whatever the library and the files make of each other
        raise CheckpointError(
            f"{folder}: transformers cannot read the tokenizer ({_line(error)}): it must be a "
            "tokenizer.json, or the vocabulary files of its class"
        ) from None
    if not getattr(theirs, "is_fast", False) or not hasattr(theirs, "backend_tokenizer"):
        raise CheckpointError(
            f"{folder}: the tokenizer {type(theirs).__name__} is written in Python: only those of "
            "the library tokenizers are supported"
        )
    names = dict.fromkeys(theirs.vocab_files_names.values())
    if not any((folder / name).is_file() for name in names):
        raise CheckpointError(f"{folder} has no tokenizer: it needs {_either(list(names))}")
    return theirs


def _lower(backend: Any) -> None:
    """Lower case first, unless it is one of the rules, as sentence-transformers does it."""
    from tokenizers import normalizers

    rules: Any = backend.normalizer
    rest = [] if rules is None else [rules]
    if isinstance(rules, normalizers.Sequence):
        rest = [rules[place] for place in range(len(rules))]
    if not any(isinstance(rule, normalizers.Lowercase) for rule in rest):
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])


def _one_of(folder: Path, name: str, value: Any, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise CheckpointError(
            f"{folder / SETTINGS}: {name} is {value!r}: it must be {_either(allowed)}"
        )
    return str(value)


def _either(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".:")
