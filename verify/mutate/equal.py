"""Which mutants are equivalent: no input sequence at all shows them. Proved by SAT, never assumed.

The netlist is flattened, and its cells are split where their bits have readers of their own. What a
mutant cannot reach, through logic and registers, is the same in both units and stands once; what it
reaches stands twice. A memory is taken out: what it reads is any value, the same for both, and what
it is given must be the same, words and their addresses where they are written; so both hold the
same words.
So may registers be, those that lie further from the mutant than some others: the induction then
has few states, and none that outputs show late. Questions are put to Yosys until one is answered
with yes: with the registers up to 0, 1, ... behind the mutant, and whatever the ones hold that it
cannot reach but for the few that stand just before; with all that it reaches; and with all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verify.mutate.netlist import Mutant, yosys

QUESTION_SECONDS = 90
"""For each question, its netlist read and reduced: whether it is answered hangs on no other one.

Of the processor, so a busy machine gives the same answers.
"""

TOGETHER = 2
"""Questions that one process answers: each of the accelerator takes a gigabyte, of four in all."""

STEPS = 8
BEHIND = 5
"""Registers behind the mutant that stay at most, before all of them do."""

BEFORE = 2
"""Registers, one behind the other, that stay before what is reached where not all of them do."""

INDUCTION = f"-tempinduct -maxsteps {STEPS}"
CLOCKS = ("CLK", "RD_CLK", "WR_CLK")

Bit = int | str
Cell = dict[str, Any]


def equivalents(text: str, top: str, mutants: Sequence[Mutant], jobs: int = 1) -> list[bool]:
    """Whether each mutant of this prepared netlist is proved to be the sound unit.

    jobs
        Processes that prove at once.
    """
    if not mutants:
        return []
    lines = "".join(
        f"mutate -ctrl {_selector(k)} 1 1 {mutant.command}\n" for k, mutant in enumerate(mutants)
    )
    flat = yosys(
        f"read_rtlil unit.il\n{lines}hierarchy -top {top}\nmemory_map -rom-only\nflatten\n"
        "splitcells\nopt_clean\nwrite_json flat.json\n",
        {"unit.il": text},
        "flat.json",
    )
    module = _with_words_where_written(json.loads(flat["flat.json"])["modules"][top])
    same = [False] * len(mutants)
    for kept in (*range(BEHIND + 1), "reached", "all"):
        rest = [k for k, proved in enumerate(same) if not proved]
        options = "" if kept == 0 else INDUCTION
        answers = _proved([both(module, _selector(k), kept) for k in rest], options, jobs)
        for k, proved in zip(rest, answers):
            same[k] = proved
    return same


def _selector(number: int) -> str:
    return f"mutant_{number}"


def _proved(miters: Sequence[str], options: str, jobs: int) -> list[bool]:
    """Whether `trigger` of each module `both` stays 0."""
    shares = [miters[at : at + TOGETHER] for at in range(0, len(miters), TOGETHER)]
    with ThreadPoolExecutor(jobs) as processes:
        answers = processes.map(lambda share: _answered(share, options), shares)
        return [same for share in answers for same in share]


def _answered(miters: Sequence[str], options: str) -> list[bool]:
    script = "".join(
        f"log question {k} .\nread_json {k}.json\nhierarchy -top both\nopt -full\n"
        # Bit by bit: what stands twice and is the same becomes one, what nobody reads goes.
        "simplemap\nopt -full -share_all\n"
        f"sat -prove trigger 0 {options} both\ndesign -reset\n"
        for k in range(len(miters))
    )
    files = {f"{k}.json": miter for k, miter in enumerate(miters)}
    log = yosys(script, files, seconds=QUESTION_SECONDS * len(miters))["log"]
    answers = {answer.split(" ")[0] for answer in log.split("\nquestion ") if "SUCCESS!" in answer}
    return [str(k) in answers for k in range(len(miters))]


def _outputs(cell: Cell) -> set[str]:
    return {port for port, way in cell["port_directions"].items() if way == "output"}


def _given(cell: Cell) -> set[str]:
    return cell["connections"].keys() - _outputs(cell)


def _bits(cell: Cell, ports: Iterable[str]) -> list[Bit]:
    return [bit for port in ports for bit in cell["connections"][port]]


def _unused(module: Cell) -> int:
    """The least number that no bit of it has, nor any above."""
    bits = [bit for cell in module["cells"].values() for bit in _bits(cell, cell["connections"])]
    bits += [bit for port in module["ports"].values() for bit in port["bits"]]
    return max(bit for bit in bits if isinstance(bit, int)) + 1


def _with_words_where_written(module: Cell) -> Cell:
    """The module with the words and addresses of every memory's write ports 0 where none writes."""
    cells: dict[str, Cell] = dict(module["cells"])
    fresh = _unused(module)

    def added(name: str, kind: str, a: list[Bit], b: list[Bit], width: int) -> list[Bit]:
        nonlocal fresh
        y: list[Bit] = list(range(fresh, fresh + width))
        fresh += width
        given = {"A": a, "B": b} if b else {"A": a}
        sizes = {f"{p}_WIDTH": format(len(bits), "032b") for p, bits in (*given.items(), ("Y", y))}
        cells[name] = {
            "type": kind,
            "parameters": {f"{p}_SIGNED": "0" for p in given} | sizes,
            "attributes": {},
            "port_directions": dict.fromkeys(given, "input") | {"Y": "output"},
            "connections": given | {"Y": y},
        }
        return y

    for name, cell in module["cells"].items():
        if not cell["type"].startswith("$mem") or not cell["connections"].get("WR_EN"):
            continue
        there = cell["connections"]
        enable, address = there["WR_EN"], there["WR_ADDR"]
        ports = int(cell["parameters"]["WR_PORTS"], 2)
        width, places = len(enable) // ports, len(address) // ports
        writes: list[Bit] = []
        for port in range(ports):
            bits = enable[port * width : (port + 1) * width]
            writes += added(f"{name}$writes{port}", "$reduce_or", bits, [], 1) * places
        words = added(f"{name}$words", "$and", there["WR_DATA"], enable, len(enable))
        where = added(f"{name}$where", "$and", address, writes, len(address))
        cells[name] = {**cell, "connections": there | {"WR_DATA": words, "WR_ADDR": where}}
    return {**module, "cells": cells}


def _renamed(cell: Cell, names: dict[Bit, Bit]) -> Cell:
    connections = {
        port: [names.get(bit, bit) for bit in bits] for port, bits in cell["connections"].items()
    }
    return {**cell, "connections": connections}


def both(module: Cell, selector: str, registers: int | str) -> str:
    """The JSON of a module `both` whose output `trigger` says that the two units differ.

    Parameters
    ----------
    module
        A flattened one in Yosys's JSON, with a selector of one bit for each mutant.
    selector
        That of the mutant in question; the others are 0.
    registers
        A number: of those that the mutant reaches the ones within as many registers of it are
        there, the others are taken out as memories are, any common state and equal next ones; of
        those that it cannot reach the BEFORE just before them, the others are any inputs.
        "reached": all those, and no others. "all": all.
    """
    ports = module["ports"]
    selectors = {name: facts["bits"][0] for name, facts in ports.items() if "mutant_" in name}
    off: dict[Bit, Bit] = dict.fromkeys(selectors.values(), "0")
    chosen = selectors[selector]
    cells: dict[str, Cell] = module["cells"]
    memories = {name for name, cell in cells.items() if cell["type"].startswith("$mem")}
    flops = {name for name, cell in cells.items() if cell["type"] == "$dff"}
    limit = registers if isinstance(registers, int) else len(flops)
    reached, touched, beyond = _reached(cells, chosen, memories, flops, limit)
    out = memories | beyond
    if registers != "all":
        near = _before(cells, reached) if isinstance(registers, int) and registers else set()
        out |= flops - reached - near
    taken_out = {name: cells[name] for name in cells if name in out}
    fresh = _unused(module)
    twin: dict[Bit, Bit] = off | {bit: fresh + k for k, bit in enumerate(touched)} | {chosen: "1"}

    compared = _bits(
        {"connections": {n: p["bits"] for n, p in ports.items()}},
        (name for name, port in ports.items() if port["direction"] == "output"),
    )
    for cell in taken_out.values():
        compared += _bits(cell, _given(cell) - set(CLOCKS))
    pairs = [bit for bit in dict.fromkeys(compared) if bit in touched]
    left, right = [off.get(b, b) for b in pairs] or ["0"], [twin[b] for b in pairs] or ["0"]

    kept = {n: _renamed(cell, off) for n, cell in cells.items() if n not in taken_out}
    kept |= {f"{name}$twin": _renamed(cells[name], twin) for name in sorted(reached)}
    trigger, width = fresh + len(touched), format(len(left), "032b")
    signed = {"A_SIGNED": "0", "B_SIGNED": "0"}
    kept = _needed(kept, [*left, *right]) | {
        "$differs": {
            "type": "$ne",
            "parameters": signed | {"A_WIDTH": width, "B_WIDTH": width, "Y_WIDTH": "1"},
            "attributes": {},
            "port_directions": {"A": "input", "B": "input", "Y": "output"},
            "connections": {"A": left, "B": right, "Y": [trigger]},
        }
    }
    driven = {bit for cell in kept.values() for bit in _bits(cell, _outputs(cell))}
    held = {bit for c in kept.values() if c["type"] == "$dff" for bit in c["connections"]["Q"]}
    used = [bit for cell in kept.values() for bit in _bits(cell, _given(cell))]
    free = [bit for bit in dict.fromkeys(used) if isinstance(bit, int) and bit not in driven]
    found = {
        "ports": {
            "any": {"direction": "input", "bits": free},
            "trigger": {"direction": "output", "bits": [trigger]},
        },
        "cells": kept,
        "netnames": _power_up(module["netnames"], twin, driven, held),
    }
    return json.dumps({"modules": {"both": found}})


def _reached(
    cells: dict[str, Cell], mutant: Bit, memories: set[str], flops: set[str], limit: int
) -> tuple[set[str], dict[Bit, None], set[str]]:
    """What a mutant reaches: cells and their bits up to as many registers behind it, and the
    registers that come next."""
    readers: dict[Bit, list[str]] = {}
    for name, cell in cells.items():
        for bit in _bits(cell, _given(cell)) if name not in memories else ():
            readers.setdefault(bit, []).append(name)
    found: set[str] = set()
    touched: dict[Bit, None] = {mutant: None}
    edge, depth = [mutant], 0
    while True:
        following: set[str] = set()
        while edge:
            for name in readers.get(edge.pop(), ()):
                if name in flops:
                    following.add(name)
                elif name not in found:
                    found.add(name)
                    edge += _bits(cells[name], _outputs(cells[name]))
                    touched |= dict.fromkeys(_bits(cells[name], _outputs(cells[name])))
        beyond = following - found
        if not beyond or depth == limit:
            return found, touched, beyond
        found, depth = found | beyond, depth + 1
        for name in sorted(beyond):
            edge += _bits(cells[name], _outputs(cells[name]))
            touched |= dict.fromkeys(_bits(cells[name], _outputs(cells[name])))


def _before(cells: dict[str, Cell], reached: set[str]) -> set[str]:
    """The registers from which a value gets to these cells through BEFORE registers at most."""
    drivers = {bit: name for name, cell in cells.items() for bit in _bits(cell, _outputs(cell))}
    found: set[str] = set()
    edge = reached
    for _ in range(BEFORE):
        seen, registers = set(edge), set[str]()
        waiting = [bit for name in edge for bit in _bits(cells[name], _given(cells[name]))]
        while waiting:
            name = drivers.get(waiting.pop())
            if name is None or name in seen or cells[name]["type"].startswith("$mem"):
                continue
            seen.add(name)
            if cells[name]["type"] == "$dff":
                registers.add(name)
            else:
                waiting += _bits(cells[name], _given(cells[name]))
        found |= registers
        edge = registers
    return found - reached


def _needed(cells: dict[str, Cell], wanted: list[Bit]) -> dict[str, Cell]:
    """The cells that these bits depend on."""
    drivers = {bit: name for name, cell in cells.items() for bit in _bits(cell, _outputs(cell))}
    found: dict[str, Cell] = {}
    waiting = list(wanted)
    while waiting:
        name = drivers.get(waiting.pop())
        if name is not None and name not in found:
            found[name] = cells[name]
            waiting += _bits(cells[name], _given(cells[name]))
    return dict(sorted(found.items()))


def _power_up(
    nets: dict[str, Any], twin: dict[Bit, Bit], driven: set[Bit], held: set[Bit]
) -> dict[str, Any]:
    """The bits of the registers that have a value at power-up, of those that stand twice too.

    What stands twice and is no register's any more, since the mutant is at its output, has none.
    """
    found = {}
    for name, net in nets.items():
        values = reversed(net["attributes"].get("init", ""))
        for place, (bit, value) in enumerate(zip(net["bits"], values)):
            second = twin.get(bit, bit)
            ones = [("", bit)] * (bit in driven) + [("$twin", second)] * (second in held)
            for copy, one in ones:
                if value in "01" and (not copy or one != bit):
                    found[f"{name}{copy}${place}"] = {"attributes": {"init": value}, "bits": [one]}
    return found
