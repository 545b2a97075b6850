"""Exact products of codes by the integer instructions of the CPU, through onnxruntime.

A code c is held as the byte c + 128, so that both operands are unsigned: instructions that multiply
signed bytes by unsigned ones saturate the sum of two products on a CPU without VNNI. The sums are
int32, where 4,096 products of 8 bits leave three bits unused.
"""

import os
from typing import Any

import numpy as np

ZERO = 128  # the byte that stands for the code 0


class IntegerProducts:
    """As golden.fast.exact.FloatProducts, on bytes; None of them where `load` says so."""

    operand = np.uint8
    zero = ZERO
    sums = np.int32

    def __init__(self, session: Any) -> None:
        self._session = session

    def prepare(self, weight: np.ndarray) -> np.ndarray:
        """weight int8 [out, K] as bytes [K, out]."""
        return np.ascontiguousarray(weight.T.view(np.uint8) ^ ZERO)

    def multiply(self, x: np.ndarray, weight: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """x [rows, K] bytes times weight, in acc (int32 [rows, out])."""
        binding = self._session.io_binding()
        for name, array in (("x", x), ("weight", weight)):
            binding.bind_input(name, "cpu", 0, np.uint8, array.shape, array.ctypes.data)
        binding.bind_output("acc", "cpu", 0, np.int32, acc.shape, acc.ctypes.data)
        self._session.run_with_iobinding(binding)
        return acc


def load() -> IntegerProducts | None:
    """The products, or None where onnx or onnxruntime is missing or not exact on this CPU."""
    try:
        products = IntegerProducts(_session())
    except ImportError:
        return None
    return products if _exact(products) else None


def _session() -> Any:
    """acc = (x - 128) @ (weight - 128) for any shapes; as many threads as OMP_NUM_THREADS says."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    matrices = [
        helper.make_tensor_value_info(name, kind, [None, None])
        for name, kind in (
            ("x", TensorProto.UINT8),
            ("weight", TensorProto.UINT8),
            ("acc", TensorProto.INT32),
        )
    ]
    node = helper.make_node("MatMulInteger", ["x", "weight", "zero", "zero"], ["acc"])
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
    """Whether the largest products of either sign add up, in one row and in several."""
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
