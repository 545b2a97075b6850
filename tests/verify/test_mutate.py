"""Mutants: the benches kill what they should, and what changes no output is not counted."""

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from random import Random

from cli.errors import Different

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.generate.verilog import netlist
from rtl.interface.config import Config
from rtl.interface.options import mechanisms_of
from sim.design import described
from sim.simulators import SimulatorError
from tb.record import Record
from tests.ending import refusal
from tests.tiers import quick
from verify.mutate import __main__ as command
from verify.mutate import bench
from verify.mutate.netlist import (
    PARTS,
    ROOT,
    SILENT,
    SURVIVED,
    drawn,
    sourced,
    with_selector,
)
from verify.mutate.player import RECORD, played, player

CONFIG = Config(lanes=4)


@pytest.mark.parametrize("unit", quick(["requantize", "activation", "matmul"], 0))
def test_a_bench_kills_what_changes_an_output(unit: str, tmp_path: Path) -> None:
    figures = tmp_path / "mutate.json"
    given = [unit, "--count", "40", "--seed", "1", "--jobs", "1", "--json", str(figures)]
    assert command.main(given) == 0
    (found,) = json.loads(figures.read_text())
    assert found["killed"] + len(found["survivors"]) == found["sampled"]
    assert found["sampled"] + len(found["silent"]) == 40
    assert found["sampled"] >= 30
    assert found["percent"] >= 95


@pytest.mark.slow
def test_the_bench_of_layernorm_sees_every_bit_of_large_sums_of_squares() -> None:
    """Of 2^28 to 2^36, in each lane; rows of a larger sum are constant, and their n is 0."""
    whole, some = drawn(sourced("layernorm", CONFIG), "layernorm", 600, 1)
    lines = (ROOT / "rtl/datapath/norm_lane.py").read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if "s2.eq(Mux(" in text)
    source = f"rtl/datapath/norm_lane.py:{line}"
    add = next(m for m in some if m.port == "Y" and m.cell.startswith("$") and source in m.sources)
    mutants = [
        dataclasses.replace(
            add, mode="cnot1", module=f"layernorm.lane{lane}", bit=bit, other=leading
        )
        for leading in range(28, 37)
        for lane, bit in enumerate(Random(leading).sample(range(leading), 4))
    ]
    job = bench.prepared("layernorm", CONFIG, whole, mutants)
    outcomes = bench.play(job, len(mutants), 1)
    assert [m.command for m, by in zip(mutants, outcomes) if by != RECORD] == []


@pytest.mark.slow
def test_a_bench_that_looks_away_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "recorded", lambda *given: Record("0\n" * 100, ["quiet"]))
    assert command.main(["activation", "--count", "40", "--seed", "1", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("survived: ") > 30
    assert f"seed 1: 0 / {shown.count('survived: ')} killed, 0.0 %; " in shown


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["accelerator", "attention"])
def test_inferences_and_cases_kill_mutants_of_the_accelerator(unit: str, tmp_path: Path) -> None:
    figures = tmp_path / "mutate.json"
    command.main([unit, "--count", "12", "--seed", "1", "--json", str(figures)])
    (found,) = json.loads(figures.read_text())
    assert found["sampled"] + len(found["silent"]) == 12
    assert found["killed"] >= 9
    assert {kind.split("/")[0] for kind in found["kills"]} <= {"traced", "fuzz"}
    assert not any(f"/{part}.py" in text for part in PARTS for text in found["survivors"])


class Flags(wiring.Component):
    """A register that is 1 and stays so, and one that says where it is known."""

    i: In(1)
    o: Out(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        always, once = Signal(init=1), Signal(init=1)
        m.d.sync += [always.eq(always | self.i), once.eq(self.i)]
        m.d.comb += self.o.eq(Cat(always, once))
        return m


def test_what_changes_no_output_is_silent() -> None:
    """A register that is 1 as its mutant is; all else at the outputs of registers shows.

    The record is a reset, and both registers read in the cycle behind it.
    """
    whole, found = drawn(netlist(Flags(), "flags", sources=True), "flags", 60, 1)
    mutants = [mutant for mutant in found if mutant.port == "Q"]
    design = described(Flags(), "flags", CONFIG), with_selector(whole, mutants)
    unread, read = (
        {
            (mutant.mode, mutant.wire): job.outcome(number)
            for number, mutant in enumerate(mutants, 1)
        }
        for job in (player(*design, "1\nc\n"), player(*design, "1\n1c\n"))
    )
    assert {mode for mode, _ in read} >= {"inv", "const0", "const1"}
    assert unread == {of: SILENT if of == ("const1", "o[0]") else SURVIVED for of in unread}
    assert {of for of, by in read.items() if by == RECORD} >= {
        (mode, f"o[{bit}]") for mode in ("inv", "const0") for bit in (0, 1)
    }
    assert read["const1", "o[0]"] == SILENT
    assert read["const1", "o[1]"] == SURVIVED
    with pytest.raises(Different, match="fails without a mutant: o is not as recorded in cycle 1"):
        player(*design, "1\n14\n")


@pytest.mark.parametrize(
    ("does", "mutant", "message"),
    [
        ("kill -9 $$", 1, "mutant 1 ended with -9"),
        ("echo no library >&2; exit 127", 1, "mutant 1 ended with 127: no library"),
        ("true", 1, "mutant 1 ended with 0"),
        ("echo differs 3; exit 1", 1, "mutant 1 ended with 1: differs 3"),
        ("echo it did not converge; exit 1", 0, "mutant 0 ended with 1: it did not converge"),
        ("echo it did not converge; exit 1", 1, ""),
        ("echo differs 0", 1, ""),
    ],
)
def test_a_player_that_dies_kills_no_mutant(
    does: str, mutant: int, message: str, tmp_path: Path
) -> None:
    """But one whose logic does not settle is killed."""
    program = tmp_path / "player"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    with pytest.raises(SimulatorError, match=message) if message else nullcontext():
        assert played(program, "", mutant) == (0, [])


def test_units_are_built_with_the_options_of_the_hardware() -> None:
    given = "accelerator --precise --bias-heads 2 --gated --rotary-pairs 8"
    options = command._parser().parse_args(given.split())
    found = bench.configuration("accelerator", 4, **mechanisms_of(options))
    assert found == Config(
        lanes=4, tokens=24, hidden=10, ffn=16, labels=4, precise=True, bias_heads=2, gated=True,
        rotary_pairs=8,
    )  # fmt: skip
    none = mechanisms_of(command._parser().parse_args(["position_bias"]))
    assert bench.configuration("position_bias", 4, **none).bias_heads == 3


@pytest.mark.slow
def test_attention_is_the_engine_of_the_accelerator() -> None:
    config = bench.configuration("attention", 4)
    assert config == bench.configuration("accelerator", 4)
    text = sourced("accelerator", config)
    inside = {m.module for m in drawn(text, "accelerator", 60, 1, bench.ENGINE)[1]}
    everywhere = {m.module for m in drawn(text, "accelerator", 60, 1)[1]}
    assert {name.split(".")[1] for name in inside} == {"engine"}
    assert "accelerator.engine.loader" in inside
    assert everywhere - inside


@pytest.mark.slow
def test_the_same_seed_draws_the_same_mutants() -> None:
    text = sourced("activation", CONFIG)
    first, second = (drawn(text, "activation", 30, seed)[1] for seed in (5, 5))
    assert first == second
    assert first != drawn(text, "activation", 30, 6)[1]
    assert len({mutant.command for mutant in first}) == 30
    # Source lines are those of the checkout, wherever it lies.
    assert all(s.startswith(("rtl/", "amaranth/")) for m in first for s in m.sources)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no bench of 'nothing' can be played: choose of requantize, activation"),
        (["softmax", "--count", "0"], "0 is out of range: it must be 1 to 65535"),
        (["softmax", "--lanes", "5"], "argument --lanes: invalid choice: 5"),
        (["accelerator", "--rotary-pairs", "2000"], "rotary_pairs is 2000: it must lie in 0..1024"),
    ],
)
def test_what_cannot_be_played_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(command.main, arguments, capsys)
