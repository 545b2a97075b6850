"""Registers that carry a value along a pipeline."""

from typing import Any

from amaranth.hdl import Module, Signal, Value, ValueCastable, ValueLike


def unreset(shape: Any, name: str | None = None) -> Signal:
    """A register without reset: whoever begins to use it sets it first."""
    return Signal(shape, name=name, reset_less=True, src_loc_at=1)


def register(m: Module, value: ValueLike, name: str, *, reset: bool = False) -> Signal:
    """A register of the shape of value that takes it each cycle.

    Data registers have no reset, since a flag beside them says when they matter; flags have one.
    """
    shape = value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()
    signal = Signal(shape, name=name, reset_less=not reset)
    m.d.sync += signal.eq(value)
    return signal


def delay(m: Module, value: ValueLike, cycles: int, name: str, *, reset: bool = False) -> ValueLike:
    """value as it was `cycles` cycles ago; the registers are called name_1, name_2, ..."""
    for cycle in range(1, cycles + 1):
        value = register(m, value, f"{name}_{cycle}", reset=reset)
    return value


def stages(m: Module, value: ValueLike, cycles: int, name: str, *, reset: bool = True) -> list[Any]:
    """value after 0, 1, ..., `cycles` cycles: control fields, a copy a stage."""
    copies = [value]
    for cycle in range(1, cycles + 1):
        copies.append(register(m, copies[-1], f"{name}_{cycle}", reset=reset))
    return copies
