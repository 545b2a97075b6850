# amaranth: UnusedElaboratable=no
"""The SDRAM controller against a plain array, and a chip that checks how it is used."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boards.gateware.sdram
from boards.gateware.chip import Chip, Cycles
from boards.simulation.memory import Memory, library, main, measured
from tests.boards.rig import SMALL, controller, drawn, play
from tests.damage import faulty

SOURCE = Path(boards.gateware.sdram.__file__)


@pytest.mark.parametrize(
    ("seed", "megahertz", "pause", "changes"),
    [
        (1, 100, 0.0, {}),
        (2, 133, 0.3, {}),
        (3, 50, 0.6, {}),
        (4, 80, 0.1, {"cas": 2, "clock": 10.0}),
    ],
)
def test_words_come_as_from_a_plain_array(
    seed: int, megahertz: float, pause: float, changes: dict[str, Any]
) -> None:
    chip = replace(SMALL, **changes)
    requests = drawn(random.Random(seed), chip, count=40, longest=50)
    unit = controller(chip, megahertz)
    played = play(unit, requests, chip=chip, megahertz=megahertz, seed=seed, pause=pause)
    assert not played.wrong
    assert not played.violations
    assert played.words == sum(words for write, _, words in requests if not write) > 100


def test_rows_in_order_cost_two_cycles_each_and_the_refresh() -> None:
    chip = replace(SMALL, column_bits=7, refresh=8 * 7_810)
    played = play(controller(chip), [(False, 128 * i, 128) for i in range(30)], chip=chip)
    assert not played.wrong
    assert not played.violations
    # Power-up and eight refreshes come first, and then every 780 cycles another.
    cycles = Cycles.of(chip, 100)
    refresh = cycles.rp + cycles.rfc + cycles.rcd + cycles.rrd + 10
    lost = 2 * 30 + refresh * (played.refreshes - 8) + refresh
    assert played.words == 30 * 128
    assert played.cycles <= played.words + lost
    assert played.words / played.cycles > 0.9


def test_words_are_written_one_a_cycle() -> None:
    """But for the cycles of rows and refreshes, as above."""
    chip = replace(SMALL, column_bits=7, refresh=8 * 7_810)
    requests = [(True, 128 * i, 128) for i in range(30)]
    played = play(controller(chip), [*requests, (False, 0, 1)], chip=chip)
    assert not played.wrong
    assert not played.violations
    assert 30 * 128 / played.cycles > 0.9


def test_without_requests_the_rows_are_refreshed() -> None:
    played = play(controller(), [(True, 0, 5), (False, 0, 5)], idle=3_000)
    assert not played.wrong
    assert not played.violations
    assert played.refreshes >= 8 + 3_000 // 150


# The controller believes in a chip that is quicker than the one that is there.
STRICTER = {
    "tRC": {"rc": 81},  # a row of one word is open for 5 cycles and closed for 3
    "tRAS": {"ras": 60},
    "tRCD": {"rcd": 31},
    "tRP": {"rp": 31},
    "tRRD": {"rrd": 21},
    "tRFC": {"rfc": 81},
    "tWR": {"wr": 31},
    "tMRD": {"mrd": 31},
    "power-up": {"power_up": 600},
    "refresh": {"refresh": 8 * 1_480},
    "tRAS max": {"ras_max": 1_000},
    "mode": {"cas": 2},
}
#: Requests that come next to each limit: other rows of one bank, a row of one word after a write.
CLOSE = [
    *((True, 64 * i, 1) for i in range(6)),
    *((False, 64 * i, 1) for i in range(6)),
    *((False, 16 * i, 1) for i in range(12)),
    (False, 0, 255),
]


def test_the_requests_of_the_faults_are_innocent() -> None:
    played = play(controller(), CLOSE, idle=1_400)
    assert not played.wrong
    assert not played.violations


@pytest.mark.parametrize("rule", STRICTER)
def test_a_time_that_is_a_cycle_short_is_reported(rule: str) -> None:
    idle = {"refresh": 1_400, "tRAS max": 300}.get(rule, 0)
    played = play(controller(), CLOSE, real=replace(SMALL, **STRICTER[rule]), idle=idle)
    assert played.broken == {rule}
    # Whoever breaks a rule gets no right word, but those that were read before it.
    if rule not in ("tRAS max", "refresh"):
        assert played.wrong


# Rule, a piece of the controller's source that stands there once, what it becomes.
FAULTS = [
    ("initialisation", "REFRESHES = 8", "REFRESHES = 7"),
    ("initialisation", "Mux(initialised, 0, 0b11)", "0"),
    ("mode", "address.eq(self.chip.cas << 4)", "address.eq(self.chip.cas << 4 | 3)"),
    ("open", "m.d.comb += [command.eq(PRECHARGE), bank.eq(b)]", "pass"),
    ("closed", "m.d.comb += [command.eq(ACTIVATE), bank.eq(b), address.eq(segment.row)]", "pass"),
    ("open", "command.eq(PRECHARGE), address.eq(ALL_BANKS)", "command.eq(PRECHARGE)"),
    ("undriven", "pins.oe.eq(writes)", "pins.oe.eq(0)"),
    ("contention", "until_write.eq(chip.cas + 1)", "until_write.eq(chip.cas - 1)"),
    ("contention", "until_write.eq(chip.cas + 1)", "until_write.eq(chip.cas)"),
    ("unmodelled", "pins.enable.eq(1)", "pins.enable.eq(~due)"),
    ("unmodelled", "address.eq(now.column)", "address.eq(now.column | ALL_BANKS)"),
    ("address", "address.eq(now.column)", "address.eq(now.column + 16)"),
    ("refresh", "m.d.sync += due.eq(1)", "m.d.sync += due.eq(~initialised)"),
]
WRONG_WORDS = [
    ("a word too early", "self.latency = 1 + chip.cas + 1", "self.latency = chip.cas + 1"),
    ("one row for all", "row[segment.bank] == segment.row", "1"),
    ("no credit", "can_read = credit != 0", "can_read = 1"),
    (
        "rows do not go on",
        "place.eq(Cat(segment.bank, segment.row) + 1)",
        "place.eq(Cat(segment.bank, segment.row))",
    ),
]


def controlled_by(old: str, new: str) -> Any:
    """The controller with a piece of its source replaced."""
    module = faulty("boards/gateware/sdram", (old, new))
    return module.Sdram(SMALL, 100, length_bits=8)


@pytest.mark.parametrize(("rule", "old", "new"), FAULTS)
def test_a_fault_of_the_controller_is_reported(rule: str, old: str, new: str) -> None:
    requests = [(False, 64 * i, 20) if i % 2 else (True, 64 * i, 20) for i in range(8)]
    idle = 1_400 if rule == "refresh" else 0
    played = play(controlled_by(old, new), requests, patience=400, idle=idle)
    assert rule in played.broken


@pytest.mark.parametrize(("old", "new"), [fault[1:] for fault in WRONG_WORDS])
def test_a_fault_of_the_data_path_gives_wrong_words(old: str, new: str) -> None:
    requests = [(True, 0, 200), (False, 100, 100), (False, 0, 100), (False, 64, 60)]
    assert play(controlled_by(old, new), requests, patience=400, pause=0.4).wrong


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row_bits": 14}, "Chip: row_bits is 14: it must lie in 1..13"),
        ({"column_bits": 0}, "Chip: column_bits is 0: it must lie in 1..9"),
        ({"bank_bits": 1}, "Chip: bank_bits is 1: it must lie in 2..2"),
        ({"cas": 4}, "Chip: cas is 4: it must lie in 2..3"),
        ({"rp": 0}, "Chip: rp is 0: it must be above 0"),
        ({"refresh": float("inf")}, "Chip: refresh is inf: it must be above 0"),
    ],
)
def test_a_chip_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Chip(**changes)
    assert str(refused.value) == message


@pytest.mark.parametrize("megahertz", [0.5, 134, 1000])
def test_a_clock_that_the_chip_does_not_take_is_refused(megahertz: float) -> None:
    with pytest.raises(ValueError, match=rf"^the SDRAM's clock is {megahertz:g} MHz: it must lie"):
        Cycles.of(Chip(), megahertz)


def test_a_clock_too_slow_to_refresh_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no time, it must be"):
        Cycles.of(Chip(refresh=1_000_000), 20)


def test_times_are_rounded_to_the_safe_side() -> None:
    # 12.5 ns a cycle: 70 / 12.5 = 5.6, 45 / 12.5 = 3.6, 21 / 12.5 = 1.68, 15 / 12.5 = 1.2 ...
    assert Cycles.of(Chip(), 80) == Cycles(
        rc=6, ras=4, rcd=2, rp=2, rrd=2, rfc=6, wr=2, mrd=2, power_up=16_000, interval=624
    )
    # Whole cycles stay whole, and the mode register takes two however slow the clock is.
    exact = Chip(rc=60, ras=40, rcd=20, rp=20, rrd=20, rfc=60, wr=20, mrd=20)
    assert Cycles.of(exact, 50).rc == 3
    assert Cycles.of(exact, 50).mrd == 2


@pytest.mark.slow
def test_verilog_reads_at_85_percent_and_every_rule_is_kept(capsys: Any) -> None:
    assert main([]) == 0
    assert "no complaint of the chip" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_verilog_gives_the_words_of_a_plain_array(seed: int) -> None:
    chip, rng, numbers = Chip(), random.Random(seed), np.random.default_rng(seed)
    memory = Memory(library(chip, 80), chip, 80)
    requests = drawn(rng, chip, count=3_000, longest=1_500)
    # Each read finds what was written: all of the places are written first.
    requests = [(True, a, n) for _, a, n in requests] + requests
    requests = [(w, a, min(n, (1 << chip.address_bits) - a)) for w, a, n in requests]
    plain, give, right = np.zeros(1 << chip.address_bits, np.uint16), [], []
    for write, address, words in requests:
        if write:
            give.append(numbers.integers(0, 1 << 16, words, np.uint16))
            plain[address : address + words] = give[-1]
        else:
            right.append(plain[address : address + words].copy())
    _, read = memory.play(requests, np.concatenate(give))
    assert not memory.violations
    assert np.array_equal(read, np.concatenate(right))
    memory.close()


@pytest.mark.slow
def test_the_measurement_sees_a_chip_that_is_slower() -> None:
    chip = Chip()
    memory = Memory(library(chip, 80), replace(chip, rcd=26), 80)
    with pytest.raises(Exception, match=r"is 0x|the chip complains of tRCD"):
        measured(memory, chip, 128, seed=1)
    memory.close()
