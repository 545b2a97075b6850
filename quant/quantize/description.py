"""The formats of an integer model's tensors, and the proofs of its bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from quant.model.spec import Floats
from quant.quantize.observers import Observer
from quant.quantize.quantizers import CalibrationError
from quant.quantize.rewriting import Rewritten


class Description:
    """Filled in the order of the computation; ``values`` goes into the model's description."""

    def __init__(self, rewritten: Rewritten, observers: Mapping[str, Observer]) -> None:
        self.rewritten, self.observers = rewritten, observers
        self.tensors: dict[str, dict[str, Any]] = {}
        self.weights: dict[str, dict[str, Any]] = {}
        self.proof: dict[str, dict[str, Any]] = {}

    @property
    def values(self) -> dict[str, Any]:
        return {"tensors": self.tensors, "weights": self.weights, "proof": self.proof}

    def prove(self, name: str, bound: int, limit: int) -> None:
        """Record a bound; CalibrationError unless it lies below the limit."""
        if bound >= limit:
            raise CalibrationError(f"{name} may reach {bound}: the contract allows below {limit}")
        self.proof[name] = {"bound": bound, "limit": limit}

    def tensor(self, name: str, scale: float, bits: int, **more: Any) -> None:
        """The format of a tensor of the trace, which quant.quantize.decode reads."""
        values: dict[str, Any] = {"scale": float(scale), "bits": bits}
        row_constant = name in self.rewritten.row_constants
        if name in self.observers and not row_constant:
            observer = self.observers[name]
            values |= {"minimum": observer.minimum, "maximum": observer.maximum}
        if name in self.rewritten.frames:
            frame = self.rewritten.frames[name]
            values |= {"factors": frame.factors.tolist(), "centres": frame.centres.tolist()}
        if row_constant:
            values["row_constant"] = True
        self.tensors[name] = values | more

    def multiply(self, name: str, factors: Floats) -> None:
        """Channel c of a tensor stands for factors[c] times what was said of it."""
        values = self.tensors[name]
        values["factors"] = (np.array(values.get("factors", 1.0)) * factors).tolist()
        values.setdefault("centres", [0.0] * len(factors))
