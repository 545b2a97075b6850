"""Signals with fields as a signal for each field, called signal__field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amaranth.hdl import Cat, Format, Signal, Value
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._xfrm import FragmentTransformer, StatementTransformer, ValueTransformer


class Fields(FragmentTransformer, ValueTransformer, StatementTransformer):
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
