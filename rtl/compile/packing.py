"""Payloads: weights and parameters as the words of the stream, and the layers
that a model does not have: the identity, V with padded heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from golden.model import Linear, Norm, Rotary
from rtl.interface.command import NORM_PLANES, PARAMETER_PLANES
from rtl.interface.config import ceil_div

IDENTITY_WEIGHT, IDENTITY_M, IDENTITY_S = 64, 1 << 15, 21
"""64 x, requantized by 2^15 * 2^-21, is x: the projection that puts X8 into V's layout."""


def identity(outputs: int, inputs: int) -> Linear:
    """y = x, with zeros behind where there are more outputs."""
    return Linear(
        weight=np.eye(outputs, inputs, dtype=np.int8) * np.int8(IDENTITY_WEIGHT),
        bias=np.zeros(outputs, np.int32),
        m=np.full(outputs, IDENTITY_M, np.int32),
        s=np.full(outputs, IDENTITY_S, np.int32),
    )


def padded_heads(linear: Linear, heads: int, width: int) -> Linear:
    """V's output channels with each head padded with zeros to `width`."""
    assert linear.m is not None
    assert linear.s is not None

    def pad(x: np.ndarray, value: int = 0) -> np.ndarray:
        split = x.reshape(heads, -1, *x.shape[1:])
        room = [(0, 0), (0, width - split.shape[1])] + [(0, 0)] * (x.ndim - 1)
        return np.pad(split, room, constant_values=value).reshape(-1, *x.shape[1:])

    return Linear(
        weight=pad(linear.weight),
        bias=pad(linear.bias),
        m=pad(linear.m, 1 << 15),
        s=pad(linear.s, 15),
    )


def weights(linear: Linear, tile_columns: int) -> bytes:
    """For each tile of so many columns the weights of K inputs, then 7 byte planes of parameters.

    The last tile is padded with zeros.
    """
    columns, length = linear.weight.shape
    width = ceil_div(columns, tile_columns) * tile_columns
    padded = np.zeros((width, length), np.int8)
    padded[:columns] = linear.weight
    planes = np.zeros((width, PARAMETER_PLANES), np.uint8)
    planes[:columns, :4] = linear.bias.astype("<i4")[:, None].view(np.uint8)
    if linear.m is None or linear.s is None:
        m, s = np.full(columns, IDENTITY_M), np.full(columns, 15)
    else:
        m, s = linear.m, linear.s
    planes[:columns, 4:6] = m.astype("<u2")[:, None].view(np.uint8)
    planes[:columns, 6] = s
    parts = []
    for first in range(0, width, tile_columns):
        part = slice(first, first + tile_columns)
        parts += [padded[part].T.tobytes(), planes[part].T.tobytes()]
    return b"".join(parts)


def norm_planes(norm: Norm, lanes: int) -> bytes:
    """The byte planes of gamma and beta, and of the operand's shifts where it has any."""
    planes = np.zeros((len(norm.gamma), NORM_PLANES), np.uint8)
    planes[:, :2] = norm.gamma.astype("<i2")[:, None].view(np.uint8)
    planes[:, 2:] = norm.beta.astype("<i4")[:, None].view(np.uint8)
    if norm.operand_shifts is not None:
        planes = np.column_stack([planes, norm.operand_shifts])
    padded = np.pad(planes, ((0, -len(planes) % lanes), (0, 0)))
    return padded.reshape(-1, lanes, planes.shape[1]).swapaxes(1, 2).tobytes()


def bias_planes(table: np.ndarray, lanes: int, row_tiles: int) -> bytes:
    """The byte planes of a position bias, int16 [heads, 2 T - 1], for sequences of row_tiles * N.

    Of each head 2 * row_tiles words of N values: entry i of them is that of k - q = i + 1 -
    row_tiles * N. What no two tokens of the model are apart is 0, as is the last entry.
    """
    heads, longest = len(table), table.shape[1] // 2 + 1
    places = row_tiles * lanes
    entries = np.zeros((heads, 2 * places), np.int16)
    most = min(longest, places)  # of all k - q between 1 - most and most - 1
    entries[:, places - most : places + most - 1] = table[:, longest - most : longest + most - 1]
    return _planes(entries, lanes)


def rotary_planes(tables: Sequence[Rotary], lanes: int, row_tiles: int) -> bytes:
    """The byte planes of tables of rotary positions, for sequences of row_tiles * N.

    Of each pair of all tables row_tiles words of N values cos, then as many of sin: the order of
    the channels, see `rtl.datapath.rotary`. What is beyond the tokens of the model is 0.
    """
    places = row_tiles * lanes
    pairs = np.concatenate([np.stack((table.cos, table.sin), axis=-1) for table in tables], axis=1)
    entries = np.zeros((2 * pairs.shape[1], places), np.int16)
    kept = pairs.reshape(len(pairs), -1)[:places]
    entries[:, : len(kept)] = kept.T
    return _planes(entries, lanes)


def _planes(entries: np.ndarray, lanes: int) -> bytes:
    """The low bytes of each word of N values of 16 bits, then its high bytes."""
    words = entries.astype("<i2").reshape(-1, lanes, 1)
    return words.view(np.uint8).swapaxes(1, 2).tobytes()
