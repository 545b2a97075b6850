"""The register map as SystemRDL says it, read by the standard's own compiler.

`bert2rtl.rdl` is the one place where addresses, fields, access and reset values stand. The gateware
(`rtl.control.axi`) is held to it in simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from systemrdl.compiler import RDLCompiler
from systemrdl.node import AddrmapNode, FieldNode, RegNode
from systemrdl.rdltypes.builtin_enums import AccessType, OnWriteType

from rtl.dma.bus import Bus
from rtl.dma.registers import fifo_words
from rtl.interface.config import Config

SOURCE = Path(__file__).with_name("bert2rtl.rdl")
TOP = "bert2rtl"
LIMITS = ("lanes", "tokens", "hidden", "ffn", "labels")
"""The limits that the map shows: parameters of the SystemRDL file, in capitals."""

_ACCESS = {
    (AccessType.r, None): "ro",
    (AccessType.rw, None): "rw",
    (AccessType.w, None): "wo",
    (AccessType.rw, OnWriteType.woclr): "w1c",
}


@dataclass(frozen=True, kw_only=True)
class Field:
    """Bits of a register.

    Attributes
    ----------
    high, low
        Its place, both included.
    access
        ro, rw, wo (reads as 0; a written 1 acts once), or w1c (a written 1 clears).
    constant
        Hardware never changes it.
    reset
        Its value after `rst`.
    text
        What it says.
    values
        Names of its values with their meaning, where it has some: {0: ("NONE", "...")}.
    """

    name: str
    high: int
    low: int
    access: str
    constant: bool
    reset: int
    text: str
    values: dict[int, tuple[str, str]]

    @property
    def bits(self) -> str:
        """`3`, or `11:8`."""
        return str(self.low) if self.high == self.low else f"{self.high}:{self.low}"


@dataclass(frozen=True, kw_only=True)
class Register:
    """A word of the map, at a byte address."""

    address: int
    name: str
    text: str
    fields: tuple[Field, ...]


def compiled(config: Config, source: Path = SOURCE, bus: Bus | None = None) -> AddrmapNode:
    """The elaborated SystemRDL of a configuration, for exporters.

    bus
        That of the accelerator with DMA; None is the one without.

    Raises
    ------
    systemrdl.RDLCompileError
        `source` is no SystemRDL; the compiler says on stderr where and why.
    """
    compiler = RDLCompiler()
    compiler.compile_file(str(source))
    parameters = {name.upper(): getattr(config, name) for name in LIMITS}
    parameters["COLUMNS"] = config.tile_columns
    if bus is not None:
        parameters |= {
            "DMA": True,
            "BUS_BYTES": bus.data_bytes,
            "TOKEN_ROOM": fifo_words(config.tokens),
        }
    return compiler.elaborate(TOP, inst_name=TOP, parameters=parameters).top


def registers(
    config: Config, source: Path = SOURCE, bus: Bus | None = None
) -> tuple[Register, ...]:
    """The map of a configuration by rising address; parameters and errors are `compiled`'s."""
    return tuple(_register(node) for node in compiled(config, source, bus).registers())


def _register(node: RegNode) -> Register:
    return Register(
        address=node.absolute_address,
        name=node.inst_name,
        text=_text(node),
        fields=tuple(_field(field) for field in node.fields()),
    )


def _field(node: FieldNode) -> Field:
    values = node.get_property("encode")
    reset = node.get_property("reset")
    assert isinstance(reset, int), f"{node.get_path()} has no plain reset value"
    return Field(
        name=node.inst_name,
        high=node.high,
        low=node.low,
        access=_ACCESS[node.get_property("sw"), node.get_property("onwrite")],
        constant=not (node.is_hw_writable or node.get_property("hwset")),
        reset=reset,
        text=_text(node),
        values={v.value: (v.name, v.rdl_desc or "") for v in values or ()},
    )


def _text(node: RegNode | FieldNode) -> str:
    return " ".join((node.get_property("desc") or "").split())
