"""What makes tokens of an input: the tokenizer of texts, or the front end of images."""

from pathlib import Path
from typing import Any, TypeAlias

from cli import files

from quant.foreign import tokenizer
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import PIPELINE, TextTokenizer
from quant.images import front
from quant.images.reader import ImageReader

Reader: TypeAlias = TextTokenizer | ImageReader


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    if checkpoint.front is not None:
        return ImageReader(checkpoint.front)
    assert checkpoint.resolved is not None
    return TextTokenizer(checkpoint.resolved)


def of_quantized(directory: Path, info: dict[str, Any]) -> Reader:
    """That which calibration wrote beside a quantized model.

    CheckpointError where it is not that of this model.
    """
    if "front" in info:
        return ImageReader(front.stored(directory, info["front"]))
    return TextTokenizer(tokenizer.stored(directory, info))


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a description says of it: "tokenizer", or "front"."""
    if checkpoint.front is not None:
        return {"front": checkpoint.front.facts}
    assert checkpoint.resolved is not None
    return {"tokenizer": checkpoint.resolved.facts}


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Beside a quantized model, which can then be used alone."""
    if checkpoint.front is not None:
        checkpoint.front.save(out)
        return
    assert checkpoint.resolved is not None
    files.write(out / PIPELINE, checkpoint.resolved.pipeline.encode())
