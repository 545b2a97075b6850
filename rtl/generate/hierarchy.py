"""A design as modules that a person can read: one for each part, with the ports of its signature.

Amaranth writes a design as one netlist and finds the ports of a part from the nets that cross its
border, so that they have numbers for names and differ from one lane to the next. Here each part is
converted for itself:

- its ports are the signals that it shares with what is around it: the members of its signature,
  under their names there, clock, reset, and a reset that `ResetInserter` gave it;
- a signal with fields becomes a signal for each field, called signal__field (`fields`);
- parts whose text is the same are one module;
- memories are instances of the modules of `rtl.generate.library` (`memories`).

What the design does is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cli.errors import ToolError

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Instance, Signal, Value
from amaranth.lib import wiring

from rtl.generate.amaranth_private import (
    Design,
    MemoryInstance,
    PortDirection,
    SignalDict,
    SignalSet,
)
from rtl.generate.fields import Fields
from rtl.generate.identifiers import free
from rtl.generate.library import Table
from rtl.generate.memories import LATENCY, instance, is_a, origin, table_instance
from rtl.primitives.memory import Rom


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
    array
        As `fields.array` says it.
    """

    name: str
    is_input: bool
    bundle: str
    signal: Signal
    array: str = ""


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


def parts(
    top: Any, name: str, ports: Sequence[tuple[str, Any, bool]], *, without: str = ""
) -> tuple[list[Part], list[Table]]:
    """The modules of `top`, which is called `name`, from the top down; those of its ROMs' tables.

    Parameters
    ----------
    ports
        Of the top: name, value, and whether it is an input.
    without
        Members of parts whose names begin so are no ports.
    """
    ways = {True: PortDirection.Input, False: PortDirection.Output}
    listed = [(port, Value.cast(v), ways[way]) for port, v, way in ports]
    prepared = Fragment.get(top, None).prepare(listed, hierarchy=(name,))
    fields = Fields([v for _, v, _ in listed])
    whole = fields(prepared.fragment)
    bundles = SignalDict()
    if isinstance(top, wiring.Component):
        for path, _, value in top.signature.flatten(top):
            bundles[Value.cast(value)] = str(path[0])
    named = [
        Port(
            name=port,
            is_input=way is PortDirection.Input,
            bundle="" if k >= len(listed) else bundles.get(v, port),
            signal=fields.on_value(v),
            array=fields.array(fields.on_value(v)),
        )
        for k, (port, v, way) in enumerate(prepared.ports)
        if len(v)
    ]
    named.sort(key=lambda port: port.bundle != "")
    writer = _Writer(name, fields, without)
    writer.part(whole, (), named)
    return writer.parts[::-1], list(writer.tables.values())


class _Design(Design):
    """One fragment, whose signals and instances have the names that are given."""

    def __init__(
        self, fragment: Fragment, ports: Sequence[Port], names: SignalDict, instance: str
    ) -> None:
        self._names, self._instance = names, instance
        ways = {True: PortDirection.Input, False: PortDirection.Output}
        listed = [(port.name, port.signal, ways[port.is_input]) for port in ports]
        super().__init__(fragment, listed, hierarchy=(IN_WORK,))

    def _assign_names(self, fragment: Fragment, hierarchy: tuple[str, ...]) -> None:
        info = self.fragments[fragment]
        info.name = hierarchy
        taken = {name for name, _, _ in self.ports} | {self._instance}
        for below, name, _ in fragment.subfragments:
            self.fragments[below].name = (*hierarchy, name)
            taken.add(name)
        for name, signal, _ in self.ports:
            info.signal_names[signal] = name
        for signal in info.used_signals:
            if signal not in info.signal_names and signal.name:
                name = free(self._names.get(signal, signal.name), taken)
                taken.add(name)
                info.signal_names[signal] = name


class _Writer:
    def __init__(self, name: str, fields: Fields, without: str) -> None:
        self.name, self.fields, self.without = name, fields, without
        self.parts: list[Part] = []
        self.tables: dict[tuple[int, ...], Table] = {}
        self.names: set[str] = set()
        self._known: dict[tuple[str, tuple[tuple[str, str, str], ...]], Part] = {}
        self._totals: dict[Fragment, tuple[SignalSet, SignalSet]] = {}

    def part(self, fragment: Fragment, path: tuple[str, ...], ports: Sequence[Port]) -> Part:
        """The module of a fragment, and those of all below it."""
        around = SignalSet(port.signal for port in ports)
        around.update(self._own(fragment)[0])
        new = Fragment(src_loc=fragment.src_loc)
        new.add_domains(fragment.domains.values())
        for domain, statements in fragment.statements.items():
            new.add_statements(domain, statements)
        names = SignalDict()
        instances: set[str] = {port.name for port in ports}
        for number, (below, given, _) in enumerate(fragment.subfragments):
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
        facts = tuple((port.name, port.bundle, port.array) for port in ports)
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

    def _below(
        self,
        below: Fragment,
        path: tuple[str, ...],
        around: SignalSet,
        fragment: Fragment,
        names: SignalDict,
    ) -> Fragment:
        """The instance that stands for a part in the module around it."""
        component = origin(below, wiring.Component)
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
                Port(
                    name=port,
                    is_input=signal not in drives,
                    bundle=bundle,
                    signal=signal,
                    array=self.fields.array(signal),
                )
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
        if is_a(component, Rom) and component.latency == LATENCY:
            return table_instance(
                self._table(component, path).name, fragment, component, self.fields
            )
        return instance(fragment, component, self.fields)

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


def _stem(top: str, path: tuple[str, ...]) -> str:
    return "_".join([top, *(step.rstrip("0123456789") for step in path)])
