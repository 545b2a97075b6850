"""A checkpoint's tokenizer as `transformers` reads it: the files, and every option in them.

The library itself is asked, once, without torch and without running a checkpoint's code. What comes
out is plain: the text of a tokenizer.json that holds everything, and a few facts beside it, so that
nothing behind reads the checkpoint's own files.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from quant.foreign.config import CONFIG, json_object
from quant.model.spec import CheckpointError

SETTINGS = "tokenizer_config.json"
FILES = (
    *("tokenizer*.json", "vocab*.json", "vocab*.txt", "merges.txt", "tekken.json", "*.model"),
    *("special_tokens_map.json", "added_tokens.json"),
)
"""What a tokenizer may be made of, as patterns: of a checkpoint's hash, and fetched from a hub."""

_LENGTHS = 1 << 20
"""The library says 10^30 where a checkpoint has no limit."""
_PROBE = f"a \u00e9 \u4e2d \U00013000 {'x' * 200}"
"""Some of it is in no vocabulary."""


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
    theirs = _theirs(folder, settings)
    backend = _proteins(theirs) if _of_esm(theirs) else theirs.backend_tokenizer
    if lower:
        _lower(backend)
    backend.no_truncation()
    backend.no_padding()
    return Resolved(
        pipeline=backend.to_str(),
        tokens=_length(folder, theirs.model_max_length) if tokens is None else tokens,
        side=theirs.truncation_side,
        segments="token_type_ids" in theirs.model_input_names,
        special={
            name.removesuffix("_token"): int(getattr(theirs, f"{name}_id"))
            for name, token in sorted(theirs.special_tokens_map.items())
            if name.endswith("_token") and isinstance(token, str)
        },
    )


def files(folder: Path) -> list[Path]:
    """Those in ``folder`` that its tokenizer may be made of."""
    found = {file for pattern in FILES for file in folder.glob(pattern) if file.is_file()}
    return sorted(found)


def _settings(folder: Path) -> dict[str, Any]:
    """The options of tokenizer_config.json; of every JSON file whether it is one."""
    found = {file.name: json_object(file) for file in files(folder) if file.suffix == ".json"}
    settings = found.get(SETTINGS, {})
    if settings.get("auto_map"):
        raise CheckpointError(
            f"{folder / SETTINGS}: auto_map is {settings['auto_map']!r}: code of its own, which is "
            f"never run: if tokenizer.json says all, take it out of {SETTINGS}"
        )
    return settings


def _theirs(folder: Path, settings: Mapping[str, Any]) -> Any:
    """The tokenizer as `transformers` makes it, by the library of tokenizers and no other code."""
    theirs = _read(folder)
    if isinstance(theirs, str):
        raise CheckpointError(
            f"{folder}: transformers cannot read the tokenizer ({theirs}): {SETTINGS} must hold "
            "what its class takes, beside a tokenizer.json or the vocabulary files of that class"
        )
    fast = getattr(theirs, "is_fast", False) and hasattr(theirs, "backend_tokenizer")
    if not fast and not _of_esm(theirs):
        raise CheckpointError(
            f"{folder}: the tokenizer {type(theirs).__name__} is written in Python: only those of "
            "the library tokenizers are supported"
        )
    names = dict.fromkeys(theirs.vocab_files_names.values())
    if isinstance(versions := settings.get("fast_tokenizer_files"), list):
        names |= dict.fromkeys(map(str, versions))
    if not any((folder / name).is_file() for name in names):
        raise CheckpointError(f"{folder} has no tokenizer: it needs {' or '.join(names)}")
    if theirs.split_special_tokens:
        raise CheckpointError(
            f"{folder / SETTINGS}: split_special_tokens is {theirs.split_special_tokens!r}: "
            "special tokens in a text are always taken as such: it must be false"
        )
    if fast and (dropout := getattr(theirs.backend_tokenizer.model, "dropout", None)):
        raise CheckpointError(
            f"{folder}: the tokenizer's dropout is {dropout}: a text would have other tokens "
            "each time: it must be 0 or null"
        )
    return theirs


def _of_esm(theirs: Any) -> bool:
    return type(theirs).__name__ == "EsmTokenizer"


def _proteins(theirs: Any) -> Any:
    """ESM's tokenizer, which the library has in Python alone: one token for each amino acid.

    Any token of the vocabulary is split off, the longest one at a place; what is left between two
    of them or spaces is one unknown token.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    vocabulary = theirs.get_vocab()
    words = "|".join(re.escape(word) for word in sorted(vocabulary, key=len, reverse=True) if word)
    made = Tokenizer(models.WordLevel(vocabulary, theirs.unk_token))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(words), "isolated")]
    )
    first, last = theirs.cls_token, theirs.eos_token
    ends = {token: theirs.convert_tokens_to_ids(token) for token in (first, last)}
    made.post_processor = processors.TemplateProcessing(
        single=[first, "$A", last],
        pair=[first, "$A", last, "$B:1", f"{last}:1"],
        special_tokens=list(ends.items()),
    )
    return made


def _read(folder: Path) -> Any:
    """What the library makes of the files, a text where it fails: what it says."""
    from transformers import AutoTokenizer
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    family = json_object(folder / CONFIG).get("model_type")
    known = {} if family in CONFIG_MAPPING else {"config": CONFIG_MAPPING["bert"]()}
    try:
        theirs = AutoTokenizer.from_pretrained(
            folder.resolve(), local_files_only=True, trust_remote_code=False, **known
        )
        theirs(_PROBE, "[x]")  # a vocabulary without what it needs fails only now
    except BaseException as error:  # whatever the library and the files make of each other
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return _line(error)
    return theirs


def _length(folder: Path, longest: float) -> int | None:
    """The checkpoint's longest text, None for no limit."""
    if not longest >= 1 or (longest < _LENGTHS and longest != int(longest)):
        raise CheckpointError(
            f"{folder / SETTINGS}: model_max_length is {longest!r}: it must be 1 or more, and whole"
        )
    return int(longest) if longest < _LENGTHS else None


def _lower(backend: Any) -> None:
    """Lower case first, unless it is one of the rules, as sentence-transformers does it."""
    from tokenizers import normalizers

    rules: Any = backend.normalizer
    rest = [] if rules is None else [rules]
    if isinstance(rules, normalizers.Sequence):
        rest = [rules[place] for place in range(len(rules))]
    if not any(isinstance(rule, normalizers.Lowercase) for rule in rest):
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])


def _line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".:")
