"""Exact products of codes: by floating-point BLAS, or by the CPU's integer instructions.

A float32 holds every integer up to 2^24 in magnitude. Where the sum of |a_k * b_k| over all k is at
most 2^24, so is every partial sum in whatever order, blocking or fused multiply-add a BLAS uses:
each product and each addition is exact, and the float32 result is the integer. float64 does the
same up to 2^53.

The integer instructions come with onnxruntime. The code c of an operand is held as the byte c + 128
there, that of a weight as it is: this is what the instructions of VNNI multiply. Without them a CPU
may saturate the sum of two such products; there weights are bytes c + 128 as well, at half the
speed. The sums are int32, where 4,096 products of 8 bits leave three bits unused.
"""

import os
from typing import Any

import numpy as np

from golden.errors import UserError

FLOAT32_EXACT = 1 << 24
CODE = 128  # magnitude of an int8 activation
P_MAX = 255  # magnitude of a weight p of the softmax
ZERO = 128  # the byte that stands for the code 0

Parts = list[tuple[int, int, np.ndarray]]


def sum_type(bound: int) -> type[np.floating]:
    """The narrowest float type in which sums of magnitude `bound` are exact."""
    if bound <= FLOAT32_EXACT:
        return np.float32
    if bound <= 1 << 53:
        return np.float64
    raise UserError(f"a sum of magnitude {bound} is not exact in float64; allowed 0..2^53")


class FloatProducts:
    """Products by BLAS.

    Attributes
    ----------
    operand, zero
        Type of the arrays that hold codes, and what stands for the code 0 there.
    sums
        Type of the array that `multiply` is given for its result.
    """

    operand: type[np.generic] = np.float32
    zero = 0
    sums: type[np.generic] = np.float32

    def prepare(self, weight: np.ndarray) -> Any:
        """weight int8 [out, K], cut along K greedily into parts (first, last, float32 [K', out]).

        Every part keeps 128 * sum |weight| <= 2^24 for each output channel, so that its products
        with int8 codes are exact; one part is enough while K <= 1,032, and far beyond with trained
        weights, whose mean magnitude is a fraction of 127.
        """
        total = np.cumsum(np.abs(weight.astype(np.int64)) * CODE, axis=1)
        first, parts = 0, Parts()
        while first < weight.shape[1]:
            before = total[:, first - 1 : first] if first else 0
            fits = (total[:, first:] - before <= FLOAT32_EXACT).all(axis=0)
            last = weight.shape[1] if fits.all() else first + int(np.argmin(fits))
            part = np.ascontiguousarray(weight[:, first:last].T, dtype=np.float32)
            parts.append((first, last, part))
            first = last
        return parts

    def multiply(self, x: np.ndarray, weight: Any, acc: np.ndarray) -> np.ndarray:
        """x [rows, K] codes in float32; the products in acc (float32 [rows, out]) or in float64.

        With one part the result is acc; with more it is the float64 sum of the parts' products.
        """
        first, last, part = weight[0]
        np.matmul(x[:, first:last], part, out=acc)
        if len(weight) == 1:
            return acc
        total = acc.astype(np.float64)
        for first, last, part in weight[1:]:
            total += np.matmul(x[:, first:last], part, out=acc)
        return total


class IntegerProducts(FloatProducts):
    """Products of bytes by onnxruntime; none where `load` says so. signed: weights as they are."""

    operand = np.uint8
    zero = ZERO
    sums = np.int32

    def __init__(self, signed: bool) -> None:
        self._weight = np.int8 if signed else np.uint8
        self._session = _session(signed)

    def prepare(self, weight: np.ndarray) -> np.ndarray:
        """weight int8 [out, K] as bytes [K, out]."""
        codes = np.ascontiguousarray(weight.T)
        return codes if self._weight is np.int8 else codes.view(np.uint8) ^ ZERO

    def multiply(self, x: np.ndarray, weight: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """x [rows, K] bytes times weight, in acc (int32 [rows, out])."""
        binding = self._session.io_binding()
        for name, kind, array in (("x", np.uint8, x), ("weight", self._weight, weight)):
            binding.bind_input(name, "cpu", 0, kind, array.shape, array.ctypes.data)
        binding.bind_output("acc", "cpu", 0, np.int32, acc.shape, acc.ctypes.data)
        self._session.run_with_iobinding(binding)
        return acc


def load() -> IntegerProducts | None:
    """The products, or None where onnx or onnxruntime is missing or not exact on this CPU."""
    try:
        return next(filter(_exact, map(IntegerProducts, (True, False))), None)
    except ImportError:
        return None


def _session(signed: bool) -> Any:
    """acc = (x - 128) @ weight for any shapes, or @ (weight - 128) where that is not signed.

    It takes as many threads as OMP_NUM_THREADS says.
    """
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weight = TensorProto.INT8 if signed else TensorProto.UINT8
    matrices = [
        helper.make_tensor_value_info(name, kind, [None, None])
        for name, kind in (
            ("x", TensorProto.UINT8), ("weight", weight), ("acc", TensorProto.INT32)
        )
    ]  # fmt: skip
    zeros = ["zero"] if signed else ["zero", "zero"]
    node = helper.make_node("MatMulInteger", ["x", "weight", *zeros], ["acc"])
    zero = numpy_helper.from_array(np.array(ZERO, np.uint8), "zero")
    graph = helper.make_graph([node], "product", matrices[:2], matrices[2:], [zero])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _exact(products: IntegerProducts) -> bool:
    """The largest products of either sign add up, in one row and in several."""
    codes = np.array([-128, 127], np.int8)
    weight = np.repeat(codes, 40)[:, None].repeat(1030, axis=1)
    weight[::2, 1::2] ^= -1
    for rows in (1, 9):
        x = np.resize(codes, (rows, 1))[::-1].repeat(1030, axis=1)
        acc = np.empty((rows, len(weight)), np.int32)
        products.multiply(x.view(np.uint8) ^ ZERO, products.prepare(weight), acc)
        if (acc != x.astype(np.int64) @ weight.T.astype(np.int64)).any():
            return False
    return True
