"""The files of sentence-transformers beside an encoder: pooling, length, case, scores.

A SentenceTransformer's folder has modules.json: the encoder and what follows it, each with a folder
of its own. A CrossEncoder is a classifier, whose scores may leave through a sigmoid. Reimers and
Gurevych, "Sentence-BERT" (2019); read as version 6.2 of the library reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quant.foreign.config import CONFIG, json_object, json_value
from quant.model.spec import EMBEDDING, IDENTITY, SIGMOID, CheckpointError

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
LENGTHS = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files of which the first that is there says how long a text may be."""

_PACKAGE = "sentence_transformers."
_MODE = "pooling_mode_"
_POOLINGS = {"cls_token": "first", "cls": "first", "mean_tokens": "mean", "mean": "mean"}
_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_OUTPUTS = {False: ("last_hidden_state", "token_embeddings"), True: ("logits", "scores")}
"""What a Transformer gives and under which name, of an embedder and of a CrossEncoder."""
_FUNCTIONS = {
    "torch.nn.modules.activation.Sigmoid": SIGMOID,
    "torch.nn.Sigmoid": SIGMOID,
    "torch.nn.modules.linear.Identity": IDENTITY,
    "torch.nn.Identity": IDENTITY,
}


@dataclass(frozen=True)
class Layout:
    """The facts of a folder about the encoder in it.

    encoder: its folder. task: EMBEDDING where a pooling follows it, else None. pooling: as in
    EncoderSpec; the mean where nothing says so. tokens: the longest text, None for that of the
    tokenizer. lower: texts are lower-cased before the tokenizer's own rules. function: that of the
    scores of a CrossEncoder, None for another folder and "" for the library's default. notes: to be
    shown. content: of every file that was read, for the checkpoint's hash.
    """

    encoder: Path
    task: str | None = None
    pooling: str = "mean"
    tokens: int | None = None
    lower: bool = False
    function: str | None = None
    notes: tuple[str, ...] = ()
    content: bytes = b""


def read(directory: Path) -> Layout:
    """The layout of the folder; CheckpointError names the file and what is not supported."""
    found: list[bytes] = []
    layout = _read(directory, found)
    return replace(layout, content=b"".join(found))


def _read(directory: Path, found: list[bytes]) -> Layout:
    file = directory / MODULES
    if not file.is_file():
        return Layout(directory, function=_cross_encoder(directory / CONFIG))
    modules = json_value(file)
    found.append(file.read_bytes())
    if not isinstance(modules, list) or not all(isinstance(x, dict) for x in modules):
        raise CheckpointError(f"{file} must hold a JSON list of modules")
    kinds = [_kind(file, module) for module in modules]
    settings_file = directory / SETTINGS
    settings = _object(settings_file, found) if settings_file.is_file() else {}
    scores = settings.get("model_type") == "CrossEncoder"
    if len({str(module.get("name")) for module in modules}) < len(modules) or (
        kinds != ["Transformer"] if scores else kinds not in _MODULES
    ):
        raise CheckpointError(
            f"{file}: the modules are {', '.join(kinds)}: only Transformer, Pooling and Normalize, "
            "in that order and of different names, or of a CrossEncoder Transformer alone"
        )
    encoder, *others = (_folder(file, module) for module in modules)
    tokens, lower = _length(encoder, scores, found)
    notes = _prompts(settings_file, settings)
    if scores:
        function = _function(settings_file, settings.get("activation_fn"))
        function = function or _cross_encoder(encoder / CONFIG) or ""
        return Layout(encoder, None, "mean", tokens, lower, function, notes)
    size, measure = settings.get("truncate_dim"), settings.get("similarity_fn_name")
    if size is not None or measure not in (None, "cosine", "dot"[: 3 * (len(kinds) == 3)]):
        raise CheckpointError(
            f"{settings_file}: truncate_dim is {size!r} and similarity_fn_name {measure!r}: "
            "vectors are given whole and of length 1: they must be null and cosine, or dot behind "
            "a Normalize module"
        )
    pooling_file, *rest = (folder / CONFIG for folder in others)
    pooling = _pooling(pooling_file, _object(pooling_file, found))
    for normalize in filter(Path.is_file, rest):
        for name, value in _object(normalize, found).items():
            if value not in (None, "sentence_embedding"):
                raise CheckpointError(
                    f"{normalize}: {name} is {value!r}: only the pooled vector can be normalized, "
                    "which is sentence_embedding: leave it out"
                )
    return Layout(encoder, EMBEDDING, pooling, tokens, lower, None, notes)


def _kind(file: Path, module: Mapping[str, Any]) -> str:
    name = str(module.get("type"))
    if not name.startswith(_PACKAGE):
        raise CheckpointError(
            f"{file}: the module {name} is code of its own, which is never run: only those of "
            "sentence_transformers are supported"
        )
    return name.split(".")[-1]


def _folder(file: Path, module: Mapping[str, Any]) -> Path:
    path = Path(str(module.get("path") or ""))
    if path.is_absolute() or ".." in path.parts:
        raise CheckpointError(f"{file}: the path {path} leads out of the folder: it must lie in it")
    return file.parent / path


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


def _length(encoder: Path, scores: bool, found: list[bytes]) -> tuple[int | None, bool]:
    """The longest text, and whether it is lower-cased first."""
    files = ((file, _object(file, found)) for name in LENGTHS if (file := encoder / name).is_file())
    file, config = next((pair for pair in files if pair[1]), (encoder, {}))
    tokens, lower = config.get("max_seq_length"), config.get("do_lower_case") or False
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise CheckpointError(f"{file}: max_seq_length is {tokens!r}: it must be 1 or more")
    if not isinstance(lower, bool):
        raise CheckpointError(f"{file}: do_lower_case is {lower!r}: it must be true or false")
    output, given = _OUTPUTS[scores]
    text = [{"text": {"method": "forward", "method_output_name": x}} for x in (output, [output])]
    for name, right in (("modality_config", text), ("module_output_name", [given])):
        if config.get(name) not in (None, *right):
            raise CheckpointError(
                f"{file}: {name} is {config[name]!r}, which is not supported: leave it out"
            )
    return tokens, lower


def _prompts(file: Path, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """A note on texts that may be put before a text, none of which is."""
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise CheckpointError(f"{file}: prompts is {prompts!r}: it must be a text for each name")
    if name is not None and (not isinstance(name, str) or prompts.get(name) != ""):
        raise CheckpointError(
            f"{file}: default_prompt_name is {name!r}: a text that is put before every text "
            "is not supported: set it to null, and put it there yourself"
        )
    named = ", ".join(f"{name}: {text!r}" for name, text in prompts.items() if text)
    return (f"its prompts ({named}) are put before no text: do it yourself",) if named else ()


def _cross_encoder(file: Path) -> str | None:
    """The function that an older CrossEncoder keeps in config.json; None where it is no such."""
    try:
        config = json_object(file)
    except CheckpointError:
        return None  # the reader of config.json says so
    theirs, older = (
        config.get(name)
        for name in ("sentence_transformers", "sbert_ce_default_activation_function")
    )
    if isinstance(theirs, dict) and "activation_fn" in theirs:
        return _function(file, theirs["activation_fn"])
    if older is not None:
        return _function(file, older)
    return "" if isinstance(theirs, dict) else None


def _function(file: Path, name: object) -> str:
    if name is None:
        return ""
    if not isinstance(name, str) or name not in _FUNCTIONS:
        raise CheckpointError(
            f"{file}: the scores go through {name}: only torch.nn.Sigmoid and torch.nn.Identity "
            "are supported"
        )
    return _FUNCTIONS[name]


def _object(file: Path, found: list[bytes]) -> dict[str, Any]:
    """The object of a JSON file, whose bytes join those found."""
    value = json_object(file)
    found.append(file.read_bytes())
    return value
