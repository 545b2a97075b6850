"""A design as modules that a person can read: one for each part, with the ports of its signature.

Amaranth writes a design as one netlist and finds the ports of a part from the nets that cross its
border, so that they have numbers for names and differ from one lane to the next. Here each part is
converted for itself:

- its ports are the signals that it shares with what is around it: the members of its signature,
  under their names there, clock, reset, and a reset that `ResetInserter` gave it;
- a signal with fields becomes a signal for each field, called signal__field;
- parts whose text is the same are one module;
- memories are instances of the modules of `rtl.generate.library`.

What the design does is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cli.command import ToolError

from amaranth.back import rtlil
from amaranth.hdl import (
    Cat,
    Const,
    Format,
    Fragment,
    Instance,
    IOBufferInstance,
    IOPort,
    Signal,
    Value,
)
from amaranth.hdl._ast import SignalDict, SignalSet
from amaranth.hdl._ir import Design, PortDirection
from amaranth.hdl._mem import MemoryInstance
from amaranth.hdl._xfrm import FragmentTransformer, StatementTransformer, ValueTransformer
from amaranth.lib import memory, wiring

from rtl.generate.identifiers import free
from rtl.generate.library import RAM, REGISTER_FILE, Table
from rtl.primitives.memory import DistributedMemory, Memory, Rom


class VerilogError(ToolError):
    """The design cannot be written as Verilog; the message says what Yosys or the names say."""


IN_WORK = "module_in_work"


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of a module.

    Attributes
    ----------
    bundle
        The member of the signature that it belongs to; empty for clock and resets.
    """

    name: str
    is_input: bool
    bundle: str
    signal: Signal | IOPort


@dataclass(frozen=True, kw_only=True)
class Part:
    """A module.

    Attributes
    ----------
    ports
        In order: clocks and resets, then bundle by bundle.
    rtlil
        The module, and no other.
    component
        What it was made of.
    """

    name: str
    ports: tuple[Port, ...]
    rtlil: str
    component: Any


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A design.

    Attributes
    ----------
    modules
        In the order in which they are met from the top down.
    tables
        The modules of its ROMs.
    """

    modules: Sequence[Part]
    tables: Sequence[Table]


def parts(
    top: Any, name: str, ports: Sequence[tuple[str, Any, bool | None]], *, without: str = ""
) -> Parts:
    """The modules of `top`, which is called `name`.

    Parameters
    ----------
    ports
        Of the top: name, value, and whether it is an input; None for a pad.
    without
        Members of parts whose names begin so are no ports.
    """
    ways = {True: PortDirection.Input, False: PortDirection.Output, None: None}
    listed = [(port, v if way is None else Value.cast(v), ways[way]) for port, v, way in ports]
    prepared = Fragment.get(top, None).prepare(listed, hierarchy=(name,))
    fields = _Fields([v for _, v, way in listed if way is not None])
    whole = fields(prepared.fragment)
    bundles = SignalDict()
    if isinstance(top, wiring.Component):
        for path, _, value in top.signature.flatten(top):
            bundles[Value.cast(value)] = str(path[0])
    named = [
        Port(
            name=port,
            is_input=way is PortDirection.Input,
            bundle="" if k >= len(listed) else bundles.get(v, port) if way else port,
            signal=fields.on_value(v) if isinstance(v, Signal) else v,
        )
        for k, (port, v, way) in enumerate(prepared.ports)
        if len(v)
    ]
    named.sort(key=lambda port: port.bundle != "")
    writer = _Writer(name, fields, without)
    writer.part(whole, (), named)
    return Parts(modules=writer.parts[::-1], tables=list(writer.tables.values()))


class _Fields(FragmentTransformer, ValueTransformer, StatementTransformer):
    """A signal with fields becomes a signal for each, all without the format that named them."""

    def __init__(self, whole: Sequence[Signal]) -> None:
        self._parts: SignalDict = SignalDict()
        for signal in whole:
            has_fields = isinstance(signal._format, Format.Struct | Format.Array)
            kept = _renewed(signal, signal.name, 0, len(signal)) if has_fields else signal
            self._parts[signal] = kept

    def on_Signal(self, value: Signal) -> Value:
        if value not in self._parts:
            self._parts[value] = _by_field(value)
        return self._parts[value]

    def signals(self, value: Any) -> list[Signal]:
        """What stands for a signal."""
        found = self.on_value(Value.cast(value))
        return [found] if isinstance(found, Signal) else list(found.parts)


def _renewed(signal: Signal, name: str, start: int, width: int) -> Signal:
    return Signal(
        width,
        name=name,
        init=signal.init >> start & (1 << width) - 1,
        reset_less=signal.reset_less,
        attrs=signal.attrs,
    )


def _by_field(signal: Signal) -> Value:
    if not isinstance(signal._format, Format.Struct | Format.Array):
        return signal
    pieces = list(_pieces(signal.name, signal._format))
    if sum(width for _, width in pieces) != len(signal):  # of a union they lie on one another
        pieces = [(signal.name, len(signal))]
    found, start = [], 0
    for name, width in pieces:
        if width:
            found.append(_renewed(signal, name if signal.name else "", start, width))
        start += width
    return found[0] if len(found) == 1 else Cat(*found)


def _pieces(name: str, what: Any) -> Iterator[tuple[str, int]]:
    """Name and width of each field, low bits first; arrays stay whole."""
    if isinstance(what, Format.Struct):
        for key, below in what._fields.items():
            yield from _pieces(f"{name}__{key}", below)
    elif isinstance(what, Format):
        (value,) = (chunk[0] for chunk in what._chunks if not isinstance(chunk, str))
        yield name, len(value)
    else:
        yield name, len(what._value)


class _Design(Design):
    """One fragment, whose signals and instances have the names that are given."""

    def __init__(
        self, fragment: Fragment, ports: Sequence[Port], names: SignalDict, instance: str
    ) -> None:
        self._names, self._instance = names, instance
        ways = {True: PortDirection.Input, False: PortDirection.Output}
        listed = [
            (
                port.name,
                port.signal,
                ways[port.is_input] if isinstance(port.signal, Signal) else None,
            )
            for port in ports
        ]
        super().__init__(fragment, listed, hierarchy=(IN_WORK,))

    def _assign_names(self, fragment: Fragment, hierarchy: tuple[str, ...]) -> None:
        info = self.fragments[fragment]
        info.name = hierarchy
        taken = {name for name, _, _ in self.ports} | {self._instance}
        for below, name, _ in fragment.subfragments:
            self.fragments[below].name = (*hierarchy, name)
            taken.add(name)
        for name, signal, _ in self.ports:
            if isinstance(signal, Signal):
                info.signal_names[signal] = name
            else:
                info.io_port_names[signal] = name
        for signal in info.used_signals:
            if signal not in info.signal_names and signal.name:
                name = free(self._names.get(signal, signal.name), taken)
                taken.add(name)
                info.signal_names[signal] = name


class _Writer:
    def __init__(self, name: str, fields: _Fields, without: str) -> None:
        self.name, self.fields, self.without = name, fields, without
        self.parts: list[Part] = []
        self.tables: dict[tuple[int, ...], Table] = {}
        self.names: set[str] = set()
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], Part] = {}
        self._totals: dict[Fragment, tuple[SignalSet, SignalSet]] = {}

    def part(self, fragment: Fragment, path: tuple[str, ...], ports: Sequence[Port]) -> Part:
        """The module of a fragment, and those of all below it."""
        around = SignalSet(port.signal for port in ports if isinstance(port.signal, Signal))
        around.update(self._own(fragment)[0])
        new = Fragment(src_loc=fragment.src_loc)
        new.add_domains(fragment.domains.values())
        for domain, statements in fragment.statements.items():
            new.add_statements(domain, statements)
        names = SignalDict()
        instances: set[str] = {port.name for port in ports}
        for number, (below, given) in enumerate(self._with_pads(fragment, new, names)):
            if given is None and type(below) is Fragment:
                place = ".".join([self.name, *path, f"U${number}"])
                raise VerilogError(
                    f"a part has no name: {place}. Use `m.submodules.name = part`, so that names "
                    "in Verilog stay the same when another part is added."
                )
            name = free(given or "primitive", instances)
            instances.add(name)
            new.add_subfragment(self._below(below, (*path, name), around, fragment, names), name)
        design = _Design(new, ports, names, path[-1] if path else "")
        text, _ = rtlil.convert_fragment(design, name=IN_WORK, emit_src=False)
        facts = tuple((port.name, port.bundle) for port in ports)
        if (text, facts) in self._known:
            return self._known[text, facts]
        name = free(_stem(self.name, path), self.names)
        self.names.add(name)
        origins = [o for o in fragment.origins or () if hasattr(o, "elaborate")]
        component = next((o for o in origins if isinstance(o, wiring.Component)), None)
        found = Part(
            name=name,
            ports=tuple(ports),
            rtlil=text.replace(f"\\{IN_WORK}\n", f"\\{name}\n"),
            component=component or (origins[-2] if len(origins) > 1 else None),
        )
        self.parts.append(found)
        self._known[text, facts] = found
        return found

    def _with_pads(
        self, fragment: Fragment, new: Fragment, names: SignalDict
    ) -> Iterator[tuple[Fragment, str | None]]:
        """The parts of a fragment and their names; what buffers a pad goes into `new` instead.

        A pad is no signal, which a module of its own could have as a port.
        """
        for below, given, _ in fragment.subfragments:
            inside = below.subfragments if type(below) is Fragment else []
            if not any(isinstance(part, IOBufferInstance) for part, _, _ in inside):
                yield below, given
                continue
            for member, _, signal in self._members(_origin(below, wiring.Component)):
                names.setdefault(signal, f"{given}__{member}")
            for domain, statements in below.statements.items():
                new.add_statements(domain, statements)
            for part, own, _ in inside:
                yield part, f"{given}_{own or 'buffer'}"

    def _below(
        self,
        below: Fragment,
        path: tuple[str, ...],
        around: SignalSet,
        fragment: Fragment,
        names: SignalDict,
    ) -> Fragment:
        """What stands for a part in the module around it."""
        component = _origin(below, wiring.Component)
        members = list(self._members(component)) if component is not None else []
        for member, _, signal in members:
            names.setdefault(signal, f"{path[-1]}__{member}")
        made = self._memory(below, component, path)
        if made is not None:
            return made
        if type(below) is not Fragment:
            return below
        others = SignalSet(around)
        for sibling, _, _ in fragment.subfragments:
            if sibling is not below:
                others.update(self._total(sibling)[0])
        uses, drives = self._total(below)
        ports: list[tuple[str, str, Signal]] = []
        taken: set[str] = set()
        known = SignalSet()
        for member, bundle, signal in members:
            known.add(signal)
            shared = len(signal) and signal in uses and signal in others
            if shared and not self._left_out(bundle):
                ports.append((member, bundle, signal))
        clocks = SignalSet(d.clk for d in below.domains.values())
        clocks.update(d.rst for d in below.domains.values() if d.rst is not None)
        more = [s for s in uses if s in others and s not in known and len(s)]
        first = [(s.name, "", s) for s in more if s in clocks]
        inserted = [(s.name, "", s) for s in more if s not in clocks]
        listed = []
        for member, bundle, signal in [*first, *inserted, *ports]:
            port = free(member, taken)
            taken.add(port)
            listed.append(
                Port(name=port, is_input=signal not in drives, bundle=bundle, signal=signal)
            )
        found = self.part(below, path, listed)
        return Instance(
            found.name,
            *(
                ("i" if port.is_input else "o", formal.name, port.signal)
                for port, formal in zip(listed, found.ports, strict=True)
            ),
        )

    def _left_out(self, bundle: str) -> bool:
        return bool(self.without) and f"{bundle}_".startswith(self.without)

    def _members(self, component: Any) -> Iterator[tuple[str, str, Signal]]:
        """Name, bundle and signal of each member, by fields."""
        for path, _, value in component.signature.flatten(component):
            whole = Value.cast(value)
            if isinstance(whole, Signal):
                name = "__".join(map(str, path))
                for signal in self.fields.signals(whole):
                    yield name + signal.name[len(whole.name) :], str(path[0]), signal

    def _memory(self, fragment: Fragment, component: Any, path: tuple[str, ...]) -> Fragment | None:
        """The instance of the library's module in place of a memory."""
        value = self.fields.on_value
        if _is(component, Memory) and component.depth > 1:
            read, write = component.read, component.write
            return Instance(
                RAM,
                p_WIDTH=len(Value.cast(read.data)),
                p_DEPTH=component.depth,
                p_ADDRESS_BITS=len(Value.cast(read.address)),
                p_LANES=component.by_lane,
                p_OUTPUT_REGISTER=1,
                i_clk=_clock(fragment),
                i_write_en=value(Value.cast(write.en)),
                i_write_address=value(Value.cast(write.address)),
                i_write_data=value(Value.cast(write.data)),
                i_read_en=Const(1, 1),
                i_read_address=value(Value.cast(read.address)),
                o_read_data=value(Value.cast(read.data)),
            )
        if _is(component, DistributedMemory) and component.depth > 1:
            read, write = component.read, component.write
            return Instance(
                REGISTER_FILE,
                p_WIDTH=len(Value.cast(read.data)),
                p_DEPTH=component.depth,
                p_ADDRESS_BITS=len(Value.cast(read.address)),
                i_clk=_clock(fragment),
                i_write_en=value(Value.cast(write.en)),
                i_write_address=value(Value.cast(write.address)),
                i_write_data=value(Value.cast(write.data)),
                i_read_address=value(Value.cast(read.address)),
                o_read_data=value(Value.cast(read.data)),
            )
        if _is(component, Rom):
            found = self._table(component, path)
            ends = {}
            for port in range(component.ports):
                address, data = (getattr(component, f"{end}{port}") for end in ("address", "data"))
                ends[f"i_address{port}"] = value(Value.cast(address))
                ends[f"o_data{port}"] = value(Value.cast(data))
            return Instance(found.name, i_clk=_clock(fragment), **ends)
        if isinstance(fragment, MemoryInstance):
            return self._plain_memory(fragment)
        return None

    def _table(self, rom: Rom, path: tuple[str, ...]) -> Table:
        """The module of a ROM's table; one for all of the same entries."""
        width = len(Value.cast(rom.data0))
        key = rom.ports, width, *rom.init
        if key not in self.tables:
            name = free(_stem(self.name, path), self.names)
            self.names.add(name)
            self.tables[key] = Table(
                name=name, width=width, entries=tuple(rom.init), ports=rom.ports
            )
        return self.tables[key]

    def _plain_memory(self, fragment: MemoryInstance) -> Fragment | None:
        """The same for a memory of Amaranth's, a FIFO's: one port to write, one to read."""
        made = _origin(fragment, memory.Memory)
        if made is None or made.depth == 1 or any(made.init):
            return None
        (write, *writes), (read, *reads) = made.write_ports, made.read_ports
        if writes or reads or fragment._read_ports[0]._domain == "comb":
            return None
        if fragment._read_ports[0]._transparent_for:
            return None
        value = self.fields.on_value
        return Instance(
            RAM,
            p_WIDTH=len(Value.cast(read.data)),
            p_DEPTH=made.depth,
            p_ADDRESS_BITS=len(read.addr),
            p_LANES=len(write.en),
            p_OUTPUT_REGISTER=0,
            i_clk=_clock(fragment),
            i_write_en=value(write.en),
            i_write_address=value(write.addr),
            i_write_data=value(Value.cast(write.data)),
            i_read_en=value(read.en),
            i_read_address=value(read.addr),
            o_read_data=value(Value.cast(read.data)),
        )

    def _own(self, fragment: Fragment) -> tuple[SignalSet, SignalSet]:
        """Signals that a fragment uses, and those of them that it drives, its parts aside."""
        uses, drives = SignalSet(), SignalSet()
        for domain, statements in fragment.statements.items():
            driven = statements._lhs_signals()
            drives.update(driven)
            uses.update(driven)
            uses.update(statements._rhs_signals())
            if domain != "comb":
                clock = fragment.domains[domain]
                uses.add(clock.clk)
                if clock.rst is not None and not all(signal.reset_less for signal in driven):
                    uses.add(clock.rst)
        if isinstance(fragment, MemoryInstance):
            for port in (*fragment._read_ports, *fragment._write_ports):
                for value in (port._addr, port._data, port._en):
                    uses.update(value._rhs_signals())
                if port._domain != "comb":
                    uses.add(fragment.domains[port._domain].clk)
            for port in fragment._read_ports:
                drives.update(port._data._lhs_signals())
        if isinstance(fragment, Instance):
            for value, way in fragment.ports.values():
                if isinstance(value, Value):
                    uses.update(value._rhs_signals())
                    if way == "o":
                        drives.update(value._lhs_signals())
        return uses, drives

    def _total(self, fragment: Fragment) -> tuple[SignalSet, SignalSet]:
        """The same, its parts with it."""
        if fragment not in self._totals:
            uses, drives = self._own(fragment)
            for below, _, _ in fragment.subfragments:
                more, driven = self._total(below)
                uses.update(more)
                drives.update(driven)
            self._totals[fragment] = uses, drives
        return self._totals[fragment]


def _origin(fragment: Fragment, kind: type) -> Any:
    """The component of a fragment."""
    return next((o for o in fragment.origins or () if isinstance(o, kind)), None)


def _is(component: Any, kind: type) -> bool:
    """Whether it is of that class, also where its module was loaded once more."""
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


def _stem(top: str, path: tuple[str, ...]) -> str:
    return "_".join([top, *(step.rstrip("0123456789") for step in path)])
