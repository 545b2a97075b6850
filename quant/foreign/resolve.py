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
from typing import Any, ClassVar, Self

from quant.foreign.config import CONFIG, check, json_object
from quant.foreign.sentence import Layout
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

    FILE: ClassVar = "tokenizer.json"

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

    @property
    def content(self) -> bytes:
        """The pipeline as a tokenizer.json, which goes into a quantized model's folder."""
        return self.pipeline.encode()

    @classmethod
    def of(cls, content: bytes, facts: Mapping[str, Any]) -> Self:
        """The tokenizer that has this `content` and these `facts` but the hash."""
        return cls(pipeline=content.decode(), **facts)


def resolve(layout: Layout) -> Resolved:
    """The tokenizer of a checkpoint, as its folder and sentence-transformers' files say.

    CheckpointError names the file and what is wrong with it, and what the library cannot express
    without a checkpoint's own code.
    """
    folder, tokens = layout.encoder, layout.tokens
    file = folder / SETTINGS
    code = json_object(file).get("auto_map") if file.is_file() else None
    check(not code, "auto_map", code, "left out: code of its own is never run", file)
    theirs = _theirs(folder)
    esm = type(theirs).__name__ == "EsmTokenizer"
    fast = getattr(theirs, "is_fast", False) and hasattr(theirs, "backend_tokenizer")
    backend: Any = _proteins(theirs) if esm else theirs.backend_tokenizer if fast else None
    names = dict.fromkeys(theirs.vocab_files_names.values())
    longest, split = theirs.model_max_length, theirs.split_special_tokens
    whole = longest >= 1 and (longest >= _LENGTHS or longest == int(longest))
    dropout = getattr(getattr(backend, "model", None), "dropout", None)
    kind = type(theirs).__name__
    check(backend, "the tokenizer", kind, "one of the library tokenizers, not in Python", folder)
    if not any((folder / name).is_file() for name in names):
        raise CheckpointError(f"{folder} has no tokenizer: it needs {' or '.join(names)}")
    check(not split, "split_special_tokens", split, "false: they are always taken as such", file)
    check(not dropout, "the tokenizer's dropout", dropout, "0 or null, to have one result", folder)
    check(tokens or whole, "model_max_length", longest, "1 or more, and whole", file)
    if layout.lower:
        _lower(backend)
    backend.no_truncation()
    backend.no_padding()
    return Resolved(
        pipeline=backend.to_str(),
        tokens=tokens or (int(longest) if longest < _LENGTHS else None),
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
    return sorted({file for name in FILES for file in folder.glob(name) if file.is_file()})


def _theirs(folder: Path) -> Any:
    """The tokenizer as `transformers` makes it, by no code of the folder's."""
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
        said = (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".:")
        wanted = "a tokenizer.json or the vocabulary files of that class"
        what = f"{folder}: transformers cannot read the tokenizer ({said})"
        holds = f"{SETTINGS} must hold what its class takes, beside {wanted}"
        raise CheckpointError(f"{what}: {holds}") from None
    return theirs


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
    made.post_processor = processors.TemplateProcessing(
        single=[first, "$A", last],
        pair=[first, "$A", last, "$B:1", f"{last}:1"],
        special_tokens=[(x, theirs.convert_tokens_to_ids(x)) for x in dict.fromkeys((first, last))],
    )
    return made


def _lower(backend: Any) -> None:
    """Lower case first, unless it is one of the rules, as sentence-transformers does it."""
    from tokenizers import normalizers

    rules: Any = backend.normalizer
    rest = [*rules] if hasattr(rules, "__len__") else [rules] if rules else []
    if not any(isinstance(rule, normalizers.Lowercase) for rule in rest):
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])
