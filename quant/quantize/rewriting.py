"""Rewritings of an encoder that leave its function as it is and give its tensors narrower ranges.

Channels of a real network differ in centre and spread, while an int8 tensor has one scale. Weights
and biases on both sides of a tensor can take such differences up, exactly:

    centre    a constant leaves the output of a LayerNorm (through beta) and comes back in the
              biases of its readers; one leaves V and comes back in O's bias, since the rows of the
              softmax sum to one; one leaves K for good, since it adds the same to a row of scores,
              but not where K is turned by rotary positions
    balance   a channel of Q is multiplied and the same channel of K divided by sqrt(max|k|/max|q|),
              so that both are used to the same part (Nagel et al., "Data-free quantization through
              weight equalization and bias correction", 2019); a channel of V is divided by its
              largest magnitude, and so is the context, and O's column is multiplied by it; so is
              a channel of the last LayerNorm, and the head's column is multiplied by it;
              channels that are turned together, and those of the heads of Q that share K and V,
              have one factor
"""

import re
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import EncoderSpec, Floats
from quant.quantize.observers import Observer

REWRITINGS = frozenset({"centre", "balance"})

Doubles = NDArray[np.floating[Any]]


class ScaledArrays(UserDict[str, Floats]):
    """Arrays of which some are scaled whenever they are read: float64 takes twice the room."""

    def __init__(self, arrays: Mapping[str, Floats]) -> None:
        self._scales: dict[str, tuple[np.ufunc, Doubles]] = {}
        super().__init__(arrays)

    def __getitem__(self, name: str) -> Floats:
        operation, factors = self._scales.get(name, (None, None))
        return self.data[name] if operation is None else operation(self.data[name], factors)

    def __setitem__(self, name: str, x: Floats) -> None:
        self.data[name] = x
        self._scales.pop(name, None)

    def scale(self, name: str, operation: np.ufunc, factors: Doubles) -> None:
        """Multiply or divide an array from here on."""
        if (factors != 1).any():
            self[name] = self[name]
            self._scales[name] = operation, factors


@dataclass(frozen=True)
class Frame:
    """Where a tensor of the rewritten encoder lies: original = factors * rewritten + centres."""

    factors: Doubles
    centres: Doubles


@dataclass(frozen=True)
class Rewritten:
    """The arrays of the encoder after a rewriting, and the frame of each tensor it moved.

    Scores whose name is in ``row_constants`` differ from the original's by a constant a row.
    """

    arrays: Mapping[str, Floats]
    frames: Mapping[str, Frame] = field(default_factory=dict)
    row_constants: frozenset[str] = frozenset()


def rewrite(
    spec: EncoderSpec,
    arrays: Mapping[str, Floats],
    observers: Mapping[str, Observer],
    names: frozenset[str],
) -> Rewritten:
    """The encoder after the REWRITINGS of these names, by what was observed of it.

    What changes is float64; tables and weights that stay as they are are those of ``arrays``.
    """
    # As float64 but for the large ones: a weight becomes that where it is multiplied.
    large = re.compile(r"embedding\.token|layer\..*\.weight").fullmatch
    own = {name: a if large(name) else a.astype(np.float64) for name, a in arrays.items()}
    kinds = ("centre" in names, "balance" in names)
    return _Rewriter(spec, ScaledArrays(own), observers, *kinds).rewritten()


@dataclass
class _Rewriter:
    spec: EncoderSpec
    arrays: ScaledArrays
    observers: Mapping[str, Observer]
    centre: bool
    balance: bool
    frames: dict[str, Frame] = field(default_factory=dict)
    row_constants: set[str] = field(default_factory=set)

    def rewritten(self) -> Rewritten:
        pre, first, layers = self.spec.norm == "pre", self.spec.first_norm, range(self.spec.layers)
        readers = [*([f"layer.{i}.{key}" for key in "qkv"] for i in layers), ["head.0"]]
        streams = [*(f"layer.{i}.o" for i in layers), None]
        if self.spec.embedding_size:
            self._norm("embedding", "embedding.norm", ["embedding.projection"], None)
        elif not (pre and first):
            self._norm("embedding", "embedding.norm", readers[0], streams[0])
        for i in layers:
            name = f"layer.{i}"
            up = [f"{name}.ffn.up", *[f"{name}.ffn.gate"] * self.spec.gated]
            self._attention(i)
            reads: list[tuple[list[str], str | None]] = [(readers[i], None), (up, None)]
            if not pre:
                reads = [(up, f"{name}.ffn.down"), (readers[i + 1], streams[i + 1])]
            if i or first or not pre:
                self._norm(f"{name}.attention", f"{name}.norm1", *reads[0])
            self._norm(f"{name}.ffn", f"{name}.norm2", *reads[1])
        if pre:
            self._norm("final", "final.norm", ["head.0"], None)
        return Rewritten(self.arrays, self.frames, frozenset(self.row_constants))

    def _middle(self, name: str) -> tuple[Doubles, Doubles]:
        """The middle of each channel's range (0 unless centring), and its reach from there."""
        low, high = self.observers[name].channel_extremes
        middle = (low + high) / 2 if self.centre else np.zeros_like(low)
        reach = np.maximum(high - middle, middle - low)
        return middle, np.where(reach > 0, reach, 1.0)

    def _norm(self, tensor: str, norm: str, readers: list[str], stream: str | None) -> None:
        """Centre the output of a LayerNorm; ``stream`` is the branch whose sum it is added to.

        The last one, which the head alone reads, is balanced as well.
        """
        last = readers == ["head.0"]
        if not (self.centre or (self.balance and last)):
            return
        middle, reach = self._middle(f"{tensor}.norm")
        factor = reach if self.balance and last else np.ones_like(reach)
        arrays = self.arrays
        arrays[f"{norm}.gamma"] = arrays[f"{norm}.gamma"] / factor
        arrays[f"{norm}.beta"] = (arrays[f"{norm}.beta"] - middle) / factor
        for name in readers:
            weight, bias = f"{name}.weight", f"{name}.bias"
            inputs = arrays[weight].shape[1]  # all channels, or those of a factorised embedding
            arrays[bias] = arrays[bias] + arrays[weight] @ middle[:inputs]
            arrays.scale(weight, np.multiply, factor[:inputs])
        if stream is not None:
            arrays[f"{stream}.bias"] = arrays[f"{stream}.bias"] + middle
        names = [f"{tensor}.norm", f"{tensor}.x8", *(["pooled"] if last else [])]
        self.frames |= dict.fromkeys(names, Frame(factor, middle))

    def _pairs(self, name: str) -> tuple[Doubles, Doubles]:
        """The reach of each channel of a tensor that is turned, that of its pair, and no centre."""
        low, high = self.observers[name].channel_extremes
        reach = np.repeat(np.maximum(-low, high).reshape(-1, 2).max(axis=1), 2)
        return np.where(reach > 0, reach, 1.0), np.zeros_like(reach)

    def _attention(self, layer: int) -> None:
        arrays, name = self.arrays, f"layer.{layer}"
        centres, reaches = zip(*(self._middle(f"{name}.{key}") for key in "qkv"))
        turned = self.spec.table(layer) is not None
        reach_k, centre_k = reaches[1], centres[1]
        low, high = self.observers[f"{name}.q"].channel_extremes
        reach_q = np.maximum(-low, high)
        if turned:  # a constant in K is another one at each position
            reach_k, centre_k = self._pairs(f"{name}.k")
            reach_q, _ = self._pairs(f"{name}.q")
        heads = self.spec.heads // self.spec.groups  # of Q to one of K and V
        reach_q = reach_q.reshape(heads, -1).max(axis=0)
        centres = (np.zeros(len(reach_q) * heads), centre_k, centres[2])  # in Q none is free
        factors = [np.ones(len(reach_q) * heads), *[np.ones_like(reach_q)] * 2]
        if self.balance:
            ratio = np.sqrt(reach_k / np.where(reach_q > 0, reach_q, 1.0))
            factors = [np.tile(1 / ratio, heads), ratio, reaches[2]]
        o = f"{name}.o"
        context = Frame(np.tile(factors[2], heads), np.tile(centres[2], heads))
        arrays[f"{o}.bias"] = arrays[f"{o}.bias"] + arrays[f"{o}.weight"] @ context.centres
        arrays.scale(f"{o}.weight", np.multiply, context.factors)
        for key, centre, factor in zip("qkv", centres, factors):
            weight, bias = f"{name}.{key}.weight", f"{name}.{key}.bias"
            arrays.scale(weight, np.divide, factor[:, None])
            arrays[bias] = (arrays[bias] - centre) / factor
            self.frames[f"{name}.{key}"] = Frame(factor, centre)
            if turned and key != "v":
                self.frames[f"{name}.{key}.linear"] = self.frames[f"{name}.{key}"]
        self.frames[f"{name}.context"] = context
        if self.centre and not turned:
            self.row_constants.add(f"{name}.scores")
