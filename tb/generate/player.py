"""The pins of a unit without streams, cycle by cycle, and what it must answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cli.errors import UserError

import numpy as np

from rtl.interface.config import Config
from tb.expected import Writes
from tb.generate.memories import Expected, Format
from tb.packing import pack

#: Inputs that do something: 0 unless given. All others are noise unless given.
CONTROLS = {"write_en", "mask_en", "score_en", "parameter_en", "start", "valid"}
PAUSE = 0.25


def format_of(facts: dict[str, Any]) -> Format:
    """The elements of a port of a data sheet."""
    element = facts.get("element", facts)
    return Format(facts.get("length", 1), element["width"], element.get("signed", False))


@dataclass(frozen=True)
class Answer:
    """A word that a port must show: in that cycle, or next where its own enable says when."""

    port: str
    cycle: int
    tensor: str
    axes: tuple[str, ...]
    index: tuple[int, ...]
    values: list[int]
    address: int = 0


@dataclass
class Player:
    """The cycles of a unit's pins, and the answers.

    Attributes
    ----------
    ports
        Of the unit's data sheet.
    stalls
        Seed of the pauses; None: none.
    enables
        By the port that it enables: (port that is high when it is written, port of the address).
    """

    ports: dict[str, Any]
    config: Config
    latency: int
    stalls: int | None = None
    enables: dict[str, tuple[str, str]] = field(default_factory=dict)
    pins: list[dict[str, int]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._noise = np.random.default_rng(1 if self.stalls is None else [1, self.stalls])
        self.inputs = {
            name: facts
            for name, facts in self.ports.items()
            if facts["direction"] == "input" and name not in ("clk", "rst") and facts["width"]
        }

    @property
    def lanes(self) -> int:
        return self.config.lanes

    @property
    def now(self) -> int:
        """The cycle that comes next."""
        return len(self.pins)

    def chance(self, probability: float) -> bool:
        """Whether something happens that only stalls make happen."""
        return self.stalls is not None and bool(self._noise.random() < probability)

    def play(self, **given: Any) -> int:
        """A cycle; its number."""
        words = {}
        for name, facts in self.inputs.items():
            width = facts["width"]
            if name in given:
                value = given[name]
                listed = np.atleast_1d(value).tolist()
                words[name] = pack(listed, format_of(facts).width)
            elif name in CONTROLS:
                words[name] = 0
            else:
                words[name] = int.from_bytes(self._noise.bytes(-(-width // 8)), "little") % (
                    1 << width
                )
        self.pins.append(words)
        return len(self.pins) - 1

    def pause(self) -> None:
        """Cycles in which nothing is given, by chance."""
        while self.chance(PAUSE):
            self.play()

    def expect(
        self,
        cycle: int,
        port: str,
        tensor: str,
        values: Any,
        axes: tuple[str, ...] = (),
        index: tuple[int, ...] = (),
        address: int = 0,
    ) -> None:
        """`values` at a port; the first lane's index is `index`, the others' follow it.

        A port without bits has nothing to show.
        """
        if not self.ports[port]["width"]:
            return
        listed = np.atleast_1d(values).tolist()
        self.answers.append(Answer(port, cycle, tensor, axes, index, listed, address))

    def expected(self) -> list[Expected]:
        """The answers port by port, in order; `check_PORT` is high where no enable says when."""
        found: dict[str, Expected] = {}
        groups: dict[str, list[list[Answer]]] = {}
        for answer in sorted(self.answers, key=lambda one: one.cycle):
            listed = groups.setdefault(answer.port, [])
            if not listed or listed[-1][0].tensor != answer.tensor:
                listed.append([])
            listed[-1].append(answer)
        for port, listed in groups.items():
            enable, address = self.enables.get(port, (f"check_{port}", ""))
            found[port] = Expected(port, format_of(self.ports[port]), enable, address)
            for group in listed:
                values = np.array([one.values for one in group])
                places = np.array([one.index for one in group], int).reshape(len(group), 1, -1)
                index = np.repeat(places, values.shape[1], 1)
                index[:, :, :1] += np.arange(values.shape[1])[:, None]
                writes = Writes(
                    port,
                    group[0].tensor,
                    np.array([one.address for one in group]),
                    values,
                    np.ones(values.shape, bool),
                    index,
                )
                found[port].add(0, writes, axes=group[0].axes)
        return [found[port] for port in sorted(found)]

    def checks(self) -> dict[str, set[int]]:
        """Cycles in which a port is compared that no enable of the unit names."""
        found: dict[str, set[int]] = {}
        for answer in self.answers:
            if answer.port not in self.enables:
                cycles = found.setdefault(answer.port, set())
                if answer.cycle in cycles:
                    raise UserError(f"{answer.port} has two values in cycle {answer.cycle}")
                cycles.add(answer.cycle)
        return found
