"""The exact matrix product of the MAC array."""

import numpy as np

from golden.errors import UserError


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """acc[m, n] = sum_k a[m, k] * b[k, n], exact, int32.

    a int8 or uint8 [..., M, K], b int8 [..., K, N]; leading axes broadcast. Each product is at
    most 255 * 128, so no partial sum leaves int32 while K <= 65,793 (ValueError beyond).
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.dtype not in (np.int8, np.uint8):
            raise UserError(f"matmul: {name} has dtype {operand.dtype}; allowed int8 and uint8")
    k = a.shape[-1]
    if k * 255 * 128 >= 1 << 31:
        raise UserError(f"matmul: K = {k} may overflow int32; allowed 1..65793")
    return np.matmul(a.astype(np.int32), b.astype(np.int32))
