"""The files of sentence-transformers beside an encoder: pooling, length, case, scores.

A SentenceTransformer's folder has modules.json: the encoder and what follows it, each with a folder
of its own. A CrossEncoder is a classifier, whose scores may leave through a sigmoid. Reimers and
Gurevych, "Sentence-BERT" (2019); read as version 6.2 of the library reads them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quant.foreign.config import CONFIG, check, json_object, json_value
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
_MODULES = ["Transformer", "Pooling", "Normalize"]
_OUTPUTS = {False: ("last_hidden_state", "token_embeddings"), True: ("logits", "scores")}
"""What a Transformer gives and under which name, of an embedder and of a CrossEncoder."""
_FUNCTIONS = {
    f"torch.nn.{inside}": function
    for name, function in (("activation.Sigmoid", SIGMOID), ("linear.Identity", IDENTITY))
    for inside in (f"modules.{name}", name.split(".")[1])
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
    file, settings_file = directory / MODULES, directory / SETTINGS
    if not file.is_file():
        return Layout(directory, function=_cross_encoder(directory / CONFIG))
    modules = json_value(file)
    if not isinstance(modules, list) or not all(isinstance(x, dict) for x in modules):
        raise CheckpointError(f"{file} must hold a JSON list of modules")
    settings = json_object(settings_file) if settings_file.is_file() else {}
    scores = settings.get("model_type") == "CrossEncoder"
    kinds = [str(module.get("type")) for module in modules]
    kinds = [kind.split(".")[-1] if kind.startswith(_PACKAGE) else kind for kind in kinds]
    right = kinds in ([_MODULES[:1]] if scores else [_MODULES[:2], _MODULES])
    order = f"of {', '.join(_MODULES)} of sentence_transformers, in that order"
    check(right, "the list of modules", kinds, order, file)
    encoder, *others = (_folder(file, module) for module in modules)
    lengths, configs = [encoder / name for name in LENGTHS], [folder / CONFIG for folder in others]
    tokens, lower = _length(encoder, filter(Path.is_file, lengths), scores)
    prompts = settings.get("prompts") or {}
    check(isinstance(prompts, dict), "prompts", prompts, "a text for each name", settings_file)
    empty = [name for name, text in prompts.items() if text == ""]
    _only(settings_file, settings, {"default_prompt_name": empty})
    task, pooling, function = None, "mean", None
    if scores:
        function = _function(settings_file, settings.get("activation_fn"))
        function = function or _cross_encoder(encoder / CONFIG) or ""
    else:
        measures = ["cosine", "dot"][: len(kinds) - 1]  # a vector of length 1 has both in common
        _only(settings_file, settings, {"truncate_dim": [], "similarity_fn_name": measures})
        task, pooling = EMBEDDING, _pooling(configs[0], json_object(configs[0]))
        for normalize in filter(Path.is_file, configs[1:]):
            options = json_object(normalize)
            _only(normalize, options, dict.fromkeys(options, ("sentence_embedding",)))
    named = ", ".join(f"{name}: {text!r}" for name, text in prompts.items() if text)
    notes = (f"its prompts ({named}) are put before no text: do it yourself",) if named else ()
    files = filter(Path.is_file, [file, settings_file, *lengths, *configs])
    content = b"".join(map(Path.read_bytes, files))
    return Layout(encoder, task, pooling, tokens, lower, function, notes, content)


def _only(file: Path, options: Mapping[str, Any], allowed: Mapping[str, Sequence[Any]]) -> None:
    """Raises CheckpointError for an option with another value than null or one of those allowed."""
    for name, values in allowed.items():
        value, right = options.get(name), " or ".join(["null", *map(repr, values)])
        check(value is None or value in values, name, value, right, file)


def _folder(file: Path, module: Mapping[str, Any]) -> Path:
    path = Path(str(module.get("path") or ""))
    inside = not path.is_absolute() and ".." not in path.parts
    check(inside, "the path of a module", str(path), "below the folder", file)
    return file.parent / path


def _pooling(file: Path, config: Mapping[str, Any]) -> str:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [key.removeprefix(_MODE) for key in config if key.startswith(_MODE) and config[key]]
    modes = modes if isinstance(modes, list) else [modes]
    right = len(modes) == 1 and str(modes[0]) in _POOLINGS
    allowed = "one of cls_token (the first token) and mean_tokens"
    check(right, "the pooling", " and ".join(map(str, modes)) or "none", allowed, file)
    return _POOLINGS[modes[0]]


def _length(encoder: Path, files: Iterable[Path], scores: bool) -> tuple[int | None, bool]:
    """The longest text, and whether it is lower-cased first."""
    pairs = ((file, json_object(file)) for file in files)
    file, config = next((pair for pair in pairs if pair[1]), (encoder, {}))
    tokens, lower = config.get("max_seq_length"), config.get("do_lower_case") or False
    right = tokens is None or (type(tokens) is int and tokens >= 1)
    check(right, "max_seq_length", tokens, "1 or more", file)
    check(isinstance(lower, bool), "do_lower_case", lower, "true or false", file)
    output, given = _OUTPUTS[scores]
    text = [{"text": {"method": "forward", "method_output_name": x}} for x in (output, [output])]
    _only(file, config, {"modality_config": text, "module_output_name": [given]})
    return tokens, lower


def _cross_encoder(file: Path) -> str | None:
    """The function that an older CrossEncoder keeps in config.json; None where it is no such."""
    try:
        config = json_object(file)
    except CheckpointError:
        return None  # the reader of config.json says so
    theirs, older = config.get("sentence_transformers"), "sbert_ce_default_activation_function"
    said = config.get(older)
    if isinstance(theirs, dict):
        return _function(file, theirs.get("activation_fn", said))
    return None if said is None else _function(file, said)


def _function(file: Path, name: Any) -> str:
    _only(file, {"activation_fn": name}, {"activation_fn": list(_FUNCTIONS)})
    return _FUNCTIONS.get(name, "")
