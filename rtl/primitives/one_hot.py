"""State machines with a register for each state.

Whether the machine is in a state is one bit, and so is whether it goes there: of its neighbours
alone. Where much hangs on that, an encoded state would be decoded before and encoded behind it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from amaranth.hdl import Cat, Module, Signal, Value

State = TypeVar("State", bound=Enum)


def one_hot(first: State) -> dict[State, Signal]:
    """The registers of all states, of which `first` is set by the reset."""
    return {
        state: Signal(name=f"state_{state.name.lower()}", init=state is first)
        for state in type(first)
    }


def move(
    m: Module, states: dict[State, Signal], moves: Iterable[tuple[State, Value, State]]
) -> None:
    """Make the moves: in a state, when to leave it, and for which; one at most at a time.

    A state that no move enters stays 0.
    """
    moves = list(moves)
    for name, state in states.items():
        enters = [states[source] & when for source, when, to in moves if to is name]
        leaves = [when for source, when, _ in moves if source is name]
        if enters or leaves:
            m.d.sync += state.eq(Cat(*enters).any() | (state & ~Cat(*leaves).any()))
