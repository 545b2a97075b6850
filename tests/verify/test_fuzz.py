"""The fuzzer: no case fails, deliberate faults are found, a failure can be played again."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from rtl.compile.edit import Edit
from rtl.interface.mechanisms import needs
from rtl.interface.operation import Error
from sim.design import described
from sim.machine.inference import START, Action, Event, Packets
from sim.machine.machine import Machine, library
from sim.machine.result import Result
from tests.damage import mutated
from tests.ending import refusal
from tests.sim.played import NOT_OPTIMISED
from tests.tiers import quick
from verify.fuzz import __main__ as command
from verify.fuzz.account import account
from verify.fuzz.cases import KINDS, TURNS, built
from verify.fuzz.clients import CONTROL
from verify.fuzz.judge import judge
from verify.fuzz.play import Judged, play, program, shown
from verify.fuzz.subject import POOL, Case, config, subjects

#: What is played on an accelerator of its own that has each option.
EVERY: dict[str, Any] = {
    **dict.fromkeys(("precise", "gated"), True),
    "bias_heads": 2,
    "rotary_pairs": 8,
}


@pytest.mark.parametrize(
    ("lanes", "columns", "choices", "cases"),
    quick(
        [
            (4, None, EVERY, 200),
            (4, 16, EVERY, 500),
            (4, None, {}, 500),
            (8, None, {}, 500),
            (4, 8, {}, 500),
            (4, 32, {}, 2000),
        ]
    ),
)
def test_no_case_fails(
    lanes: int, columns: int | None, choices: dict[str, Any], cases: int
) -> None:
    limits = config(lanes, columns, **choices)
    windowed = [layer.window for s in subjects(limits) for layer in s.model.layers]
    assert any(windowed)
    norms = [norm.rms for s in subjects(limits) for _, norm in s.model.norms()]
    assert any(norms)
    needed = needs(*(s.model for s in subjects(limits)))
    assert all(bool(value) == bool(getattr(limits, name)) for name, value in needed.items())
    found = list(play({limits: program(limits)}, 1, {limits: range(cases)}))
    assert {outcome.kind for outcome in found} == set(KINDS)
    assert [(command.reproducer(1, o), o.wrong) for o in found if o.wrong] == []
    # Both ends of the account are played: sound inferences, and every code but those of no case.
    codes = {Error(code) for outcome in found for code in outcome.codes}
    assert codes >= set(Error) - {Error.TIMEOUT, Error.BUS, Error.ADDRESS}


@pytest.mark.slow
def test_a_deliberate_fault_is_found() -> None:
    """verify.mutate asks the same of the bits of the netlist, with these cases among its tests."""
    fault = ("self.pending.eq(some | self.asked.valid)", "self.pending.eq(some)")
    unit = mutated("rows", fault, unit="accelerator", config=config(4))
    path = library(described(unit, "accelerator", config(4)), "-0", NOT_OPTIMISED)
    numbers = {config(4): range(40 * len(TURNS))}
    assert any(outcome.wrong for outcome in play({config(4): path}, 1, numbers))


def test_start_in_every_cycle_around_the_end() -> None:
    """It is refused while the inference runs, or begins the next one; neither is a failure."""
    limits = config(4, **EVERY)
    rng, subject = Random(1), subjects(limits)[0]
    first, second = (subject.sound(rng.randrange(POOL)) for _ in range(2))

    def played(*events: Event) -> tuple[list[str], Result]:
        case = Case(0, "registers", (first.but(events=events), second))
        with Machine(program(limits), limits, odd=True) as machine:
            facts = shown(machine, case)
        return judge(case, facts), facts[0][1]

    wrong, alone = played()
    assert wrong == []
    begun = []
    for cycle in range(alone.took - 12, alone.took + 1):
        wrong, run = played(Event(cycle, Action.WRITE, CONTROL, 15, START))
        assert wrong == [], cycle
        begun.append(run.status < 0)
    assert not begun[0]
    assert any(begun)


def test_a_case_stands_alone() -> None:
    together = [built(3, config(4), number) for number in range(20)]
    assert built(3, config(4), 17) == together[17]
    assert built(4, config(4), 17) != together[17]


def test_one_case_is_played_again(capsys: pytest.CaptureFixture[str]) -> None:
    plain, wide, whole = (
        command.reproducer(1, Judged(limits, 7, "field", [], ()))
        for limits in (config(4), config(4, 8), config(4, **EVERY))
    )
    assert plain == "python -m verify.fuzz --seed 1 --lanes 4 --case 7"
    assert wide == "python -m verify.fuzz --seed 1 --lanes 4 --columns 8 --case 7"
    assert whole == (
        "python -m verify.fuzz --seed 1 --lanes 4 --precise --bias-heads 2 --gated "
        "--rotary-pairs 8 --case 7"
    )
    assert command.main(whole.split()[3:]) == 0
    assert "1 case in " in capsys.readouterr().out


@pytest.mark.parametrize(("cases", "shares"), [(1, [1, 0]), (5, [3, 2])])
def test_as_many_cases_as_asked_are_played(cases, shares, monkeypatch):
    asked = {}
    monkeypatch.setattr(command, "program", lambda limits: None)
    monkeypatch.setattr(command, "play", lambda _p, _s, numbers, *_: asked.update(numbers) or ())
    assert command.main(["--cases", str(cases), "--lanes", "4,8"]) == 0
    assert [len(numbers) for numbers in asked.values()] == shares


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lanes", "5"], "invalid choice: 5 (choose from 4, 8, 16, 32, 64)"),
        (["--lanes", "²"], "'²' is not a whole number"),
        (["--lanes", "4,4"], "'4,4': give each value once"),
        (["--cases", "0"], "0 is out of range: it must be 1 or more"),
        (["--case", "3", "--cases", "9"], "--cases: not allowed with argument --case"),
        (["--case", "-1"], "-1 is out of range: it must be 0 to 4294967295"),
        (["--coverage", "c.dat"], "--coverage is of one accelerator: give one number of --lanes"),
        *((["--columns", n], f"columns is {n}: with 4 lanes choose one of 4, 8, 16, 32")
          for n in ("12", "64")),
    ],
)  # fmt: skip
def test_what_cannot_be_played_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(command.main, arguments, capsys)


@pytest.mark.slow
def test_coverage_is_that_of_all_cases(tmp_path: Path) -> None:
    """The same whatever the number of processes; most points are reached."""
    found = []
    for jobs in ("1", "2"):
        file = tmp_path / f"{jobs}.dat"
        given = ["--cases", "250", "--lanes", "4", "--jobs", jobs, "--coverage", str(file)]
        assert command.main(given) == 0
        first, *points = file.read_text().splitlines()
        assert first == "# SystemC::Coverage-3"
        found.append(sorted(points))
    assert found[0] == found[1]
    assert all(any(f"v_{kind}/" in p for p in points) for kind in ("line", "branch", "toggle"))
    assert sum(not p.endswith("' 0") for p in points) > 0.6 * len(points)


@pytest.mark.parametrize("lanes", [4, 64])
def test_the_account_of_sound_streams_and_of_one_mistake_each(lanes: int) -> None:
    for subject in subjects(config(lanes)):
        for number in range(POOL):
            run = subject.sound(number)
            verdict = account(run.model, run.tokens, run.row_words, subject.config)
            assert verdict.codes == {Error.NONE}
            assert sum(verdict.packets) == len(run.logits or ())
    subject = subjects(config(lanes))[0]
    run = subject.sound(0)

    def codes(stream: bytes) -> set[Error]:
        model = Packets.whole(stream, lanes)
        return set(account(model, run.tokens, run.row_words, subject.config).codes)

    pieces = Edit(subject.program)
    assert bytes(pieces) == subject.stream
    for kept, code in ((slice(1, -1), Error.FORMAT), (slice(-1, None), Error.TRUNCATED)):
        cut = Edit(subject.program)
        del cut[kept]
        assert codes(bytes(cut)) == {code}
    assert codes(subject.stream + bytes(lanes)) == {Error.OVERRUN}
    for place in (Random(1).randrange(len(subject.stream)), len(subject.stream) - 1):
        broken = bytearray(subject.stream)
        broken[place] ^= 1
        assert codes(bytes(broken)) == {Error.CRC}
    for name, value, code in (("labels", 0, Error.LIMIT), ("version", 9, Error.FORMAT)):
        changed = Edit(subject.program)
        changed[0][name] = value
        assert codes(bytes(changed)) == {code}
