"""How a sentence embedding is made of an encoder's tokens, as sentence-transformers writes it down.

A folder of sentence-transformers has, beside the encoder, modules.json: what follows the encoder,
a folder each. Reimers and Gurevych, "Sentence-BERT" (2019).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quant.spec import Arrays, CheckpointError, EncoderSpec

MODULES = "modules.json"
LENGTH = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"

_MODE = "pooling_mode_"
_POOLINGS = {"cls_token": "first", "cls": "first", "mean_tokens": "mean", "mean": "mean"}


@dataclass(frozen=True)
class Sentence:
    """What modules.json and the files that it names say.

    pooling: as in EncoderSpec; the mean where there is no modules.json. tokens: the longest text,
    None for all positions. content: of every file that was read, for the checkpoint's hash.
    """

    pooling: str = "mean"
    tokens: int | None = None
    content: bytes = b""

    def applied(self, spec: EncoderSpec, arrays: Arrays) -> tuple[EncoderSpec, Arrays]:
        """The encoder with this pooling, its position table cut to the longest text."""
        tokens = min(self.tokens or spec.max_tokens, spec.max_tokens)
        rows = spec.position_offset + tokens
        positions = arrays["embedding.position"][:rows]
        spec = replace(spec, pooling=self.pooling, positions=rows)
        return spec, arrays | {"embedding.position": positions}


def read(directory: Path) -> Sentence:
    """The layout of the folder; CheckpointError names the file and what is not supported."""
    file = directory / MODULES
    if not file.is_file():
        return Sentence()
    found: list[bytes] = []
    modules = _json(file, found)
    if not isinstance(modules, list) or not all(isinstance(x, dict) for x in modules):
        raise CheckpointError(f"{file} must hold a JSON list of modules")
    kinds = [str(module.get("type")).split(".")[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise CheckpointError(
            f"{file}: the modules are {', '.join(kinds)}: only Transformer, Pooling and Normalize, "
            "in that order, are supported"
        )
    pooling = directory / str(modules[1].get("path")) / "config.json"
    sentence = Sentence(
        pooling=_pooling(pooling, _object(pooling, found)), tokens=_tokens(directory, found)
    )
    if (prompts := directory / PROMPTS).is_file():
        name = _object(prompts, found).get("default_prompt_name")
        if name is not None:
            raise CheckpointError(
                f"{prompts}: default_prompt_name is {name!r}: a text that is put before every text "
                "is not supported: set it to null, and put it there yourself"
            )
    return replace(sentence, content=b"".join(found))


def _pooling(file: Path, config: Mapping[str, Any]) -> str:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [key.removeprefix(_MODE) for key in config if key.startswith(_MODE) and config[key]]
    elif not isinstance(modes, list):
        modes = [modes]
    if len(modes) != 1 or str(modes[0]) not in _POOLINGS:
        raise CheckpointError(
            f"{file}: the pooling is {' and '.join(map(str, modes)) or 'none'}: it must be one of "
            "cls_token (the first token) and mean_tokens"
        )
    return _POOLINGS[modes[0]]


def _tokens(directory: Path, found: list[bytes]) -> int | None:
    file = directory / LENGTH
    if not file.is_file():
        return None
    tokens = _object(file, found).get("max_seq_length")
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise CheckpointError(f"{file}: max_seq_length is {tokens!r}: it must be 1 or more")
    return tokens


def _object(file: Path, found: list[bytes]) -> Mapping[str, Any]:
    value = _json(file, found)
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return value


def _json(file: Path, found: list[bytes]) -> Any:
    """The content of a JSON file, whose bytes join those found."""
    try:
        found.append(file.read_bytes())
        return json.loads(found[-1].decode())
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from None
