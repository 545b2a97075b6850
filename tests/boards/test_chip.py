"""The model of the SDRAM chip against an account that looks back over all commands."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from boards.gateware.chip import Chip
from boards.simulation.chip import ChipModel, library
from sim.simulators import SimulatorError
from tests.boards.rig import SMALL

MHZ = 100
PERIOD = 10
NOP, ACTIVATE, READ, WRITE, PRECHARGE, REFRESH, MODE = 0, 0b100, 0b010, 0b011, 0b101, 0b110, 0b111
ALL = 1 << 10
CHIP = replace(SMALL, row_bits=3, column_bits=2, power_up=100, refresh=8 * 900, ras_max=2_500)


@dataclass(frozen=True)
class Command:
    """What is on the pins at an edge."""

    edge: int
    code: int
    bank: int = 0
    address: int = 0


def account(chip: Chip, commands: list[Command], end: int) -> set[tuple[str, int]]:
    """Rule and edge of all that is wrong with commands that follow a sound initialisation.

    Every rule is asked of the whole list: nothing is kept from one command to the next.
    """
    found: set[tuple[str, int]] = set()

    def before(c: Command, *codes: int) -> list[Command]:
        return [b for b in commands if b.edge < c.edge and b.code in codes]

    def closes(c: Command, bank: int) -> bool:
        return c.code == PRECHARGE and (c.bank == bank or bool(c.address & ALL))

    def opened_by(bank: int, edge: int) -> Command | None:
        """The ACTIVATE whose row is open in a bank before an edge."""
        last = None
        for c in commands:
            if c.edge < edge and c.code == ACTIVATE and c.bank == bank:
                last = c
            if c.edge < edge and closes(c, bank):
                last = None
        return last

    def closed_at(bank: int, edge: int) -> list[int]:
        """Edges of the PRECHARGEs that closed an open row, and of the first of all."""
        every = [c.edge for c in commands if c.edge < edge and closes(c, bank)]
        return [e for i, e in enumerate(every) if i == 0 or opened_by(bank, e)]

    def near(c: Command, edge: int, nanoseconds: float) -> bool:
        return (c.edge - edge) * PERIOD < nanoseconds

    for c in commands:

        def wrong(rule: str, c: Command = c) -> None:
            found.add((rule, c.edge))

        if any(near(c, b.edge, chip.rfc) for b in before(c, REFRESH)):
            wrong("tRFC")
        if any(near(c, b.edge, max(chip.mrd, 2 * PERIOD)) for b in before(c, MODE)):
            wrong("tMRD")
        banks = [c.bank] if c.code == ACTIVATE else range(4)
        if c.code in (ACTIVATE, REFRESH, MODE):
            for bank in banks:
                if opened_by(bank, c.edge):
                    wrong("open")
                same = [b for b in before(c, ACTIVATE) if b.bank == bank]
                if any(near(c, b.edge, chip.rc) for b in same):
                    wrong("tRC")
                if any(near(c, e, chip.rp) for e in closed_at(bank, c.edge)):
                    wrong("tRP")
        if c.code == ACTIVATE:
            others = [b for b in before(c, ACTIVATE) if b.bank != c.bank]
            if any(near(c, b.edge, chip.rrd) for b in others):
                wrong("tRRD")
        if c.code in (READ, WRITE):
            row = opened_by(c.bank, c.edge)
            if row is None:
                wrong("closed")
            elif near(c, row.edge, chip.rcd):
                wrong("tRCD")
        if c.code == PRECHARGE:
            for bank in range(4):
                row = opened_by(bank, c.edge)
                if row is None or not closes(c, bank):
                    continue
                if near(c, row.edge, chip.ras):
                    wrong("tRAS")
                writes = [b for b in before(c, WRITE) if b.bank == bank and b.edge > row.edge]
                if any(near(c, b.edge, chip.wr) for b in writes):
                    wrong("tWR")
    found |= too_late(chip, commands, end)
    return found


def too_late(chip: Chip, commands: list[Command], end: int) -> set[tuple[str, int]]:
    """Rows that stay open for too long, and rows that are not refreshed in time."""
    found = set()
    for c in commands:
        if c.code == ACTIVATE:
            until = [
                b.edge
                for b in commands
                if b.edge > c.edge
                and (
                    (b.code == PRECHARGE and (b.bank == c.bank or b.address & ALL))
                    or (b.code == ACTIVATE and b.bank == c.bank)
                )
            ]
            over = c.edge + int(chip.ras_max // PERIOD) + 1
            if min([*until, end]) > over:
                found.add(("tRAS max", over))
    mode = next(c.edge for c in commands if c.code == MODE)
    times = [mode] * chip.rows + [c.edge for c in commands if c.code == REFRESH and c.edge > mode]
    for i, edge in enumerate(times):
        over = edge + int(chip.refresh // PERIOD) + 1
        next_time = times[i + chip.rows] if i + chip.rows < len(times) else end
        # The row is the next in turn only once the one before it was refreshed.
        turn = times[i + chip.rows - 1] if i + chip.rows - 1 < len(times) else end
        if next_time > max(over, turn) and turn < end:
            found.add(("refresh", max(over, turn)))
    return found


def initialisation() -> list[Command]:
    commands = [Command(12, PRECHARGE, address=ALL)]
    commands += [Command(20 + 8 * i, REFRESH) for i in range(8)]
    return [*commands, Command(90, MODE, address=CHIP.cas << 4)]


def drawn(rng: random.Random, count: int, hurry: float) -> list[Command]:
    """Commands in any order, most of them such as a controller would give, at any distance."""
    commands, edge = initialisation(), 100
    open_banks: set[int] = set()
    for _ in range(count):
        edge += 1 + (0 if rng.random() < hurry else rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 40]))
        code = rng.choice([ACTIVATE, ACTIVATE, READ, READ, WRITE, PRECHARGE, PRECHARGE, REFRESH])
        bank = rng.randrange(4)
        if rng.random() < 0.9:  # sensible for the state
            if code in (READ, WRITE) and open_banks:
                bank = rng.choice(sorted(open_banks))
            elif code == ACTIVATE and len(open_banks) < 4:
                bank = rng.choice(sorted(set(range(4)) - open_banks))
            elif code == REFRESH and open_banks:
                code = PRECHARGE
        if code == PRECHARGE:
            address = rng.choice([0, ALL])
            open_banks = set() if address else open_banks - {bank}
        else:
            address = rng.randrange(4)
            open_banks |= {bank} if code == ACTIVATE else set()
        commands.append(Command(edge, code, bank, address))
    return commands


def played(commands: list[Command], end: int) -> set[tuple[str, int]]:
    """What the model says of them; DQ aside."""
    model = ChipModel(CHIP, MHZ)
    at = {c.edge: c for c in commands}
    for edge in range(end):
        c = at.get(edge, Command(edge, NOP))
        early = edge <= 90
        o = 0 if c.code == WRITE else None
        model.clock(c.code, c.bank, c.address, mask=3 if early else 0, o=o)
    found = {(v.rule, v.edge) for v in model.violations if v.rule != "contention"}
    model.close()
    return found


RULES = {
    "tRC",
    "tRAS",
    "tRAS max",
    "tRCD",
    "tRP",
    "tRRD",
    "tRFC",
    "tWR",
    "refresh",
    "open",
    "closed",
}


def test_the_model_finds_what_the_account_finds() -> None:
    seen: set[str] = set()
    for seed in range(60):
        rng = random.Random(seed)
        commands = drawn(rng, count=60, hurry=rng.choice([0.05, 0.3, 0.7]))
        end = commands[-1].edge + rng.choice([1, 300, 1_000])
        expected = account(CHIP, commands, end)
        assert played(commands, end) == expected, f"seed {seed}"
        seen |= {rule for rule, _ in expected}
    assert seen == RULES


def test_a_sound_list_is_innocent() -> None:
    assert played(initialisation(), 700) == set()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("power-up", lambda c: [Command(9, PRECHARGE, address=ALL), *c[1:]]),
        ("initialisation", lambda c: c[1:]),  # no PRECHARGE of all banks
        ("initialisation", lambda c: [*c[:8], *c[9:], Command(99, ACTIVATE)]),  # 7 refreshes
        ("initialisation", lambda c: [*c[:-1], Command(99, ACTIVATE)]),  # no mode
        ("tRP", lambda c: [c[0], Command(14, REFRESH), *c[2:]]),
        ("tRFC", lambda c: [*c[:2], Command(26, REFRESH), *c[3:]]),
        ("tRFC", lambda c: [*c[:-1], Command(82, MODE, address=CHIP.cas << 4)]),
        ("tMRD", lambda c: [*c, Command(91, ACTIVATE)]),
        ("mode", lambda c: [*c[:-1], Command(90, MODE, address=CHIP.cas << 4 | 3)]),  # bursts of 8
        ("mode", lambda c: [*c[:-1], Command(90, MODE, address=2 << 4)]),
        ("mode", lambda c: [*c[:-1], Command(90, MODE, 1, CHIP.cas << 4)]),  # extended register
        ("address", lambda c: [*c, Command(99, ACTIVATE, address=8)]),
        ("address", lambda c: [*c, Command(99, ACTIVATE), Command(109, READ, address=4)]),
        ("unmodelled", lambda c: [*c, Command(99, ACTIVATE), Command(109, READ, address=ALL)]),
        ("unmodelled", lambda c: [*c, Command(99, 0b001)]),  # burst stop
    ],
)
def test_an_initialisation_that_is_not_one_is_reported(rule, change) -> None:
    assert {rule for rule, _ in played(change(initialisation()), 150)} == {rule}


def ready() -> ChipModel:
    """A chip with row 0 of bank 0 open."""
    model = ChipModel(CHIP, MHZ)
    at = {c.edge: c for c in [*initialisation(), Command(95, ACTIVATE)]}
    for edge in range(100):
        c = at.get(edge, Command(edge, NOP))
        model.clock(c.code, c.bank, c.address, mask=3 if edge <= 90 else 0)
    return model


def test_a_word_comes_after_the_cas_latency_and_stays_for_a_cycle() -> None:
    model = ready()
    assert model.clock(WRITE, 0, 2, o=0xBEEF) is None
    # READ is sampled at one edge, the word three edges later: it is driven from the second on.
    answers = [model.clock(READ, 0, 2)] + [model.clock(NOP) for _ in range(4)]
    assert answers == [None, None, 0xBEEF, None, None]
    assert model.violations == []
    assert model.peek(2) == 0xBEEF


def test_a_masked_word_is_not_driven() -> None:
    model = ready()
    answers = [model.clock(READ, 0, 1), model.clock(NOP, mask=3), model.clock(NOP)]
    assert answers == [None, None, None]


def test_a_chip_that_was_mistreated_gives_no_right_word() -> None:
    model = ready()
    model.clock(WRITE, 0, 3, o=0x1234)
    model.clock(READ, 1, 0)  # no row is open there
    assert [v.rule for v in model.violations] == ["closed"]
    answers = [model.clock(READ, 0, 3)] + [model.clock(NOP) for _ in range(2)]
    assert answers[-1] == 0x1234 ^ 0xFFFF


@pytest.mark.parametrize(("wait", "rules"), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 0), (5, 0)])
def test_both_may_not_drive_the_data_pins(wait: int, rules: int) -> None:
    """The word lies on DQ at the third edge after READ; a cycle of rest follows."""
    model = ready()
    model.clock(READ, 0, 0)
    for _ in range(wait):
        model.clock(NOP)
    model.clock(WRITE, 0, 0, o=1)
    assert [v.rule for v in model.violations] == ["contention"] * rules


def test_a_write_that_nobody_drives_is_reported() -> None:
    model = ready()
    model.clock(WRITE, 0, 0)
    assert [v.rule for v in model.violations] == ["undriven"]


def test_a_clock_that_is_disabled_is_reported() -> None:
    model = ready()
    model.clock(NOP, enable=0)
    assert [v.rule for v in model.violations] == ["unmodelled"]


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("boards.simulation.chip.BUILDS", tmp_path)
    with pytest.raises(SimulatorError, match="no-such-compiler is missing: run `make setup` first"):
        library("no-such-compiler")
