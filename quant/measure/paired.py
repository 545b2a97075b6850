"""Both models on the same texts, the float and the integer one: the share of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cli.progress import Advance

import numpy as np
from numpy.typing import NDArray

from golden import encoder, fast
from golden.model import Model
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import Tokens
from quant.measure.compare import TensorError, answering, compare
from quant.model import float_model
from quant.quantize import given
from quant.quantize.encoder import Quantized, with_tokens

SHARE = 64
"""Texts of a worker at a time."""


@dataclass(frozen=True)
class Models:
    """What all texts share.

    Attributes
    ----------
    tensors
        What calibration says of each tensor of the integer model, as
        `quant.measure.compare.compare` takes it.
    """

    checkpoint: Checkpoint
    integers: Model
    tensors: dict[str, Any]


@dataclass(frozen=True)
class Pairs:
    """Logits [n, C] of both models, without pooling those of every token; errors by tensor over the
    texts that were traced."""

    float_logits: NDArray[np.float32]
    integer_logits: NDArray[np.int64]
    errors: dict[str, TensorError]


def shares(texts: Sequence[Tokens], traced: int) -> dict[str, tuple[Sequence[Tokens], int]]:
    """The cases of `cli.workers.each`: texts, and of how many of them the tensors are compared.

    Those all lie in the first, so that their errors are summed in one order.
    """
    size = max(SHARE, traced)
    return {
        f"text {first}": (texts[first : first + size], traced if first == 0 else 0)
        for first in range(0, len(texts), size)
    }


def run(
    models: Models, share: tuple[Sequence[Tokens], int], advance: Advance | None = None
) -> Pairs:
    """Run both models on a share of the texts."""
    texts, traced = share
    table, texts = given.gathered(texts)  # of a share of images, since all have too many
    if table is not None:
        quantized = Quantized(models.integers, {"tensors": models.tensors})
        models = replace(
            models,
            checkpoint=given.with_table(models.checkpoint, table),
            integers=with_tokens(quantized, table).model,
        )
    spec, arrays = models.checkpoint.spec, models.checkpoint.arrays
    errors: dict[str, TensorError] = {}
    float_logits = []
    for i, tokens in enumerate(texts):
        floats: float_model.Trace | None = {} if i < traced else None
        float_logits.append(float_model.run(spec, arrays, tokens.ids, tokens.types, trace=floats))
        if floats is not None:
            integers: dict[str, Any] = {}
            encoder.run(models.integers, tokens.ids, tokens.types, trace=integers)
            compare(errors, floats, answering(spec, integers), models.tensors)
        if advance is not None:
            advance(1)
    logits = fast.run_batch(models.integers, [t.ids for t in texts], [t.types for t in texts])
    logits = spec.kept(logits, [len(t.ids) for t in texts])
    return Pairs(np.vstack(float_logits), logits.astype(np.int64), errors)
