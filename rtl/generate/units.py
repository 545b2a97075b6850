"""The units that can be generated, each under the name that golden/, tb/ and tests/ use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cli.errors import UserError

from amaranth.lib import wiring

from rtl.accelerator import Accelerator
from rtl.datapath.activation import ActivationTable
from rtl.datapath.layernorm import LayerNorm
from rtl.datapath.matmul import MatMul
from rtl.datapath.position_bias import PositionBias
from rtl.datapath.reciprocal import Reciprocal
from rtl.datapath.requantize import Requantize
from rtl.datapath.rsqrt import Rsqrt
from rtl.datapath.softmax import Softmax
from rtl.interface.config import Config


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One entry of `python -m rtl.generate --list`.

    Attributes
    ----------
    name
        Stem of the files in golden/, rtl/ and tb/, and name of the Verilog module.
    build
        Makes the component for a configuration.
    description
        One line: what the unit computes.
    """

    name: str
    build: Callable[[Config], wiring.Component]
    description: str


UNITS: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit(
            name="requantize",
            build=lambda config: Requantize(config.lanes),
            description="saturate((acc * m + 2^(s-1)) >> s) in each lane",
        ),
        Unit(
            name="activation",
            build=lambda config: ActivationTable(config.lanes),
            description="int8 table of 256 entries (GELU, tanh, ReLU) in each lane",
        ),
        Unit(
            name="reciprocal",
            build=lambda config: Reciprocal(),
            description="normalised reciprocal of the softmax sum, shared by all lanes",
        ),
        Unit(
            name="rsqrt",
            build=lambda config: Rsqrt(),
            description="normalised reciprocal square root of the variance, shared by all lanes",
        ),
        Unit(
            name="softmax",
            build=lambda config: Softmax(config.lanes, config.tokens),
            description="weights and row scales of a tile of queries, one key a cycle",
        ),
        Unit(
            name="position_bias",
            build=lambda config: PositionBias(
                config.lanes, max(config.bias_heads, 1), config.row_tiles
            ),
            description="adds a number for head and key - query to the scores, one key a cycle",
        ),
        Unit(
            name="layernorm",
            build=lambda config: LayerNorm(config.lanes, config.hidden, config.row_tiles),
            description="layer normalisation of row tiles in two passes, one channel a cycle",
        ),
        Unit(
            name="matmul",
            build=MatMul,
            description="array of lanes x columns INT8 multiply-accumulators with shadow drain",
        ),
        Unit(
            name="accelerator",
            build=Accelerator,
            description="token ids to logits: the whole encoder",
        ),
    )
}


def unit(name: str) -> Unit:
    """The unit called `name`.

    Raises
    ------
    ValueError
        There is none; the message lists the names.
    """
    if name not in UNITS:
        raise UserError(f"no unit is called {name!r}: choose one of {', '.join(UNITS)}")
    return UNITS[name]
