"""Memories of a design as instances of the modules of `rtl.generate.library`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Fragment, Instance, Signal, Value
from amaranth.lib import memory

from rtl.generate.amaranth_private import MemoryInstance
from rtl.generate.fields import Fields
from rtl.generate.library import RAM, REGISTER_FILE
from rtl.primitives.memory import DistributedMemory, Memory, Rom

#: Cycles from the address to the data of a RAM or a ROM of the library.
LATENCY = 2


def instance(fragment: Fragment, component: Any, fields: Fields) -> Instance | None:
    """The instance of a RAM or a register file; None for all else, and for another latency."""
    ram = is_a(component, Memory) and component.latency == LATENCY
    if (ram or is_a(component, DistributedMemory)) and component.depth > 1:
        read, write, more = component.read, component.write, {}
        if ram:
            more = {"p_LANES": component.by_lane, "p_OUTPUT_REGISTER": 1}
            more["i_read_en"] = Const(1, 1)
        return _made(
            RAM if ram else REGISTER_FILE,
            fragment,
            component.depth,
            (write.en, write.address, write.data),
            (read.address, read.data),
            fields,
            **more,
        )
    if isinstance(fragment, MemoryInstance):
        return _plain(fragment, fields)
    return None


def _plain(fragment: MemoryInstance, fields: Fields) -> Instance | None:
    """The same for a memory of Amaranth's, a FIFO's: one port to write, one to read."""
    made = origin(fragment, memory.Memory)
    if made is None or made.depth == 1 or any(made.init):
        return None
    (write, *writes), (read, *reads) = made.write_ports, made.read_ports
    if writes or reads or fragment._read_ports[0]._domain == "comb":
        return None
    if fragment._read_ports[0]._transparent_for:
        return None
    return _made(
        RAM,
        fragment,
        made.depth,
        (write.en, write.addr, write.data),
        (read.addr, read.data),
        fields,
        p_LANES=len(write.en),
        p_OUTPUT_REGISTER=0,
        i_read_en=fields.on_value(read.en),
    )


def _made(
    module: str,
    fragment: Fragment,
    depth: int,
    write: tuple[Any, Any, Any],
    read: tuple[Any, Any],
    fields: Fields,
    **more: Any,
) -> Instance:
    """An instance; `write` is enable, address and data, `read` address and data."""
    (en, to, data), (at, word) = map(Value.cast, write), map(Value.cast, read)
    return Instance(
        module,
        p_WIDTH=len(word),
        p_DEPTH=depth,
        p_ADDRESS_BITS=len(at),
        i_clk=_clock(fragment),
        i_write_en=fields.on_value(en),
        i_write_address=fields.on_value(to),
        i_write_data=fields.on_value(data),
        i_read_address=fields.on_value(at),
        o_read_data=fields.on_value(word),
        **more,
    )


def table_instance(module: str, fragment: Fragment, rom: Rom, fields: Fields) -> Instance:
    """The instance of a ROM whose entries `module` holds."""
    ends = {}
    for port in range(rom.ports):
        for way, end in (("i", "address"), ("o", "data")):
            value = Value.cast(getattr(rom, f"{end}{port}"))
            ends[f"{way}_{end}{port}"] = fields.on_value(value)
    return Instance(module, i_clk=_clock(fragment), **ends)


def origin(fragment: Fragment, kind: type) -> Any:
    """The component of a fragment."""
    return next((o for o in fragment.origins or () if isinstance(o, kind)), None)


def is_a(component: Any, kind: type) -> bool:
    """True where it is of that class, also where its module was loaded once more."""
    known = kind.__module__, kind.__qualname__
    return any((base.__module__, base.__qualname__) == known for base in type(component).__mro__)


def _clock(fragment: Fragment) -> Signal:
    """The clock of a fragment that has one."""
    domains = {name for name in fragment.statements if name != "comb"}
    for below in (fragment, *(below for below, _, _ in fragment.subfragments)):
        if isinstance(below, MemoryInstance):
            ports = (*below._read_ports, *below._write_ports)
            domains |= {port._domain for port in ports if port._domain != "comb"}
    (domain,) = domains
    return fragment.domains[domain].clk
