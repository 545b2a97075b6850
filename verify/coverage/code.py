"""Code coverage as Verilator's programs write it, and its points summed over files and instances.

A file begins with the line `# SystemC::Coverage-3`. Every other line is

    C 'KEYS' COUNT

where KEYS are pairs of a key and a value, \\x01 before the key and \\x02 before the value: `page`
is v_KIND/MODULE, `l` and `n` are line and column, `o` says what is counted (`a[3]:0->1`, `if`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from cli.errors import UserError

FIRST_LINE = "# SystemC::Coverage-3"
KINDS = ("line", "branch", "toggle")
_TOGGLE = re.compile(r"(.+?)(?:\[(\d+)\])?:(0->1|1->0)")


@dataclass(frozen=True, order=True)
class Point:
    """What is counted.

    Attributes
    ----------
    kind, module
        Of KINDS, and the module of the Verilog.
    line
        Of the Verilog, from 1 on.
    what
        A signal's bit and its edge, or the branch and its column.
    """

    kind: str
    module: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.module}:{self.line} {self.what}"


def read(text: str, name: str = "coverage data") -> Counter[Point]:
    """The points of a file and how often each was counted, summed over instances.

    name
        Of the file, for messages.

    Raises
    ------
    ValueError
        It is no coverage data of Verilator, or damaged.
    """
    first, *lines = text.splitlines() or [""]
    if first != FIRST_LINE:
        raise UserError(f"{name} begins with {first[:40]!r}, not with {FIRST_LINE!r}")
    found: Counter[Point] = Counter()
    for number, line in enumerate(lines, 2):
        try:
            keys, count = line.removeprefix("C '").rsplit("' ", 1)
            facts = dict(pair.split("\x02", 1) for pair in keys.split("\x01")[1:])
            kind, module = facts["page"].removeprefix("v_").split("/", 1)
            what = facts["o"] if kind == "toggle" else f"{facts['o']}, column {facts['n']}"
            found[Point(kind, module, int(facts["l"]), what)] += int(count)
        except (ValueError, KeyError):
            raise UserError(f"{name}, line {number}: {line[:60]!r} is no point") from None
    return found


def merged(files: Iterable[Counter[Point]]) -> Counter[Point]:
    """The sum; a point that was never counted stays, with 0."""
    found: Counter[Point] = Counter()
    for points in files:
        for point, count in points.items():
            found[point] += count
    return found


def _ranges(bits: Iterable[int]) -> str:
    """Bits 1, 2, 3, 7 as [3:1], [7]."""
    groups = groupby(enumerate(sorted(bits)), lambda pair: pair[1] - pair[0])
    runs = [[bit for _, bit in group] for _, group in groups]
    return ", ".join(f"[{r[-1]}:{r[0]}]" if len(r) > 1 else f"[{r[0]}]" for r in runs)


def holes(points: Counter[Point]) -> dict[str, list[str]]:
    """What was never counted, by module; the bits of a signal together."""
    found: dict[str, list[str]] = {}
    bits: dict[tuple[str, str, str], set[int]] = {}
    for point in sorted(p for p, count in points.items() if not count):
        toggle = _TOGGLE.fullmatch(point.what) if point.kind == "toggle" else None
        if toggle is None:
            text = f"{point.kind} at line {point.line}: {point.what}"
            found.setdefault(point.module, []).append(text)
        else:
            signal, bit, edge = toggle.groups()
            bits.setdefault((point.module, signal, edge), set()).add(int(bit or -1))
    for (module, signal, edge), missing in bits.items():
        named = signal + (_ranges(missing) if min(missing) >= 0 else "")
        found.setdefault(module, []).append(f"toggle {named} {edge}")
    return found
