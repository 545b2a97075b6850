"""Activation functions (GELU, tanh, ReLU, ...) as tables of int8 codes."""

import numpy as np


def lookup(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y = table[x & 255]

    table int8 [256], entry c holding the value of the code c (0..127) or c - 256 (-128..-1);
    x int8 of any shape. The tables are made at calibration; which function they hold does not
    matter here.
    """
    return table[x.view(np.uint8)]
