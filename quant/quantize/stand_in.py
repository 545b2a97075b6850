"""A model of a checkpoint's shape, where no integers are needed."""

import re
from dataclasses import replace

import numpy as np

from golden.model import Model
from quant.foreign.checkpoint import Checkpoint
from quant.quantize.encoder import quantize
from quant.quantize.given import TABLE
from quant.quantize.observers import Observer
from quant.quantize.options import Options


class _Ranges(dict[str, Observer]):
    """Made-up ranges, another one for each layer: every layer then has its own activation table."""

    def __init__(self, layers: int) -> None:
        self._layers = layers

    def __missing__(self, name: str) -> Observer:
        found = re.match(r"(layer|head)\.(\d+)", name)
        place = int(found[2]) + (found[1] == "head") * self._layers if found else 0
        observer = Observer()
        observer.observe(np.array([[-1.0], [1.0]]) * (1 + 3 * place / (self._layers + 2)))
        return observer

    def __contains__(self, name: object) -> bool:
        return True


def stand_in(checkpoint: Checkpoint) -> Model:
    """The integer model of zeros that a calibration without remedies makes, with two tokens.

    Its cycles and sizes are those of the calibrated model: they depend on no integer, apart from
    equal activation tables, which are sent once.
    """
    spec = replace(checkpoint.spec, vocabulary=2)
    arrays = {
        name: np.broadcast_to(np.float32(0), array.shape)
        for name, array in checkpoint.arrays.items()
    }
    arrays[TABLE] = arrays[TABLE][:2]
    return quantize(spec, arrays, _Ranges(spec.layers), Options(remedies=())).model
