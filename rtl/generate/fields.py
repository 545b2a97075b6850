"""Signals with fields as a signal for each field, called signal__field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amaranth.hdl import Cat, Format, Signal, Value

from rtl.generate.amaranth_private import (
    FragmentTransformer,
    SignalDict,
    StatementTransformer,
    ValueTransformer,
)


class Fields(FragmentTransformer, ValueTransformer, StatementTransformer):
    """A signal with fields becomes a signal for each, all without the format that named them."""

    def __init__(self, whole: Sequence[Signal]) -> None:
        self._parts: SignalDict = SignalDict()
        self._arrays: SignalDict = SignalDict()
        for signal in whole:
            has_fields = isinstance(signal._format, Format.Struct | Format.Array)
            kept = _renewed(signal, signal.name, 0, len(signal)) if has_fields else signal
            self._parts[signal] = kept
            self._arrays[kept] = array(signal._format)

    def on_Signal(self, value: Signal) -> Value:
        if value not in self._parts:
            found = self._by_field(value)
            self._parts[value] = found[0] if len(found) == 1 else Cat(*found)
        return self._parts[value]

    def array(self, signal: Signal) -> str:
        """The `array` of the field that a signal stands for."""
        return str(self._arrays.get(signal, ""))

    def signals(self, value: Any) -> list[Signal]:
        """The signals that stand for one."""
        found = self.on_value(Value.cast(value))
        return [found] if isinstance(found, Signal) else list(found.parts)

    def _by_field(self, signal: Signal) -> list[Signal]:
        if not isinstance(signal._format, Format.Struct | Format.Array):
            return [signal]
        found, start = [], 0
        for name, width, what in _pieces(signal.name, signal._format):
            if width:
                made = _renewed(signal, name if signal.name else "", start, width)
                self._arrays[made] = what
                found.append(made)
            start += width
        return found


def _renewed(signal: Signal, name: str, start: int, width: int) -> Signal:
    return Signal(
        width,
        name=name,
        init=signal.init >> start & (1 << width) - 1,
        reset_less=signal.reset_less,
        attrs=signal.attrs,
    )


def array(what: Any) -> str:
    """Elements and their bits, as "4 x 16 bits, signed"; empty where there are no two elements.

    An array of arrays has several factors, the outermost first.
    """
    lengths = []
    while isinstance(what, Format.Array) and what._fields:
        lengths += [len(what._fields)] if len(what._fields) > 1 else []
        what = what._fields[0]
    if not lengths:
        return ""
    if isinstance(what, Format):
        (value,) = (chunk[0] for chunk in what._chunks if not isinstance(chunk, str))
    else:
        value = what._value
    lengths.append(len(value))
    sign = ", signed" if value.shape().signed else ""
    return f"{' x '.join(map(str, lengths))} bits{sign}"


def _pieces(name: str, what: Any) -> Iterator[tuple[str, int, str]]:
    """Name, width and `array` of each field, low bits first; arrays and unions stay whole."""
    if isinstance(what, Format.Struct):
        fields = [
            p for key, below in what._fields.items() for p in _pieces(f"{name}__{key}", below)
        ]
        overlap = sum(width for _, width, _ in fields) != len(what._value)
        yield from [(name, len(what._value), "")] if overlap else fields
    elif isinstance(what, Format):
        (value,) = (chunk[0] for chunk in what._chunks if not isinstance(chunk, str))
        yield name, len(value), ""
    else:
        yield name, len(what._value), array(what)
