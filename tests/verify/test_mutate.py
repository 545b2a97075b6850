"""Mutation testing: the benches kill what they should, and equivalence is proved, not assumed."""

import dataclasses
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.generate.verilog import netlist
from rtl.interface.config import Config
from rtl.interface.options import mechanisms_of
from sim.design import Port, described
from sim.machine.unit import NativePorts, library
from tests.ending import refusal
from tests.tiers import quick
from verify.mutate import __main__ as command
from verify.mutate import bench, score
from verify.mutate.equal import equivalents
from verify.mutate.netlist import (
    PARTS,
    ROOT,
    SELECTOR,
    SELECTOR_BITS,
    Mutant,
    YosysError,
    drawn,
    sourced,
    with_selector,
)
from verify.mutate.reduced import never, without_encoder
from verify.mutate.signals import signals
from verify.mutate.survivors import Known, known

CONFIG = Config(lanes=4)


@pytest.mark.parametrize("unit", quick(["requantize", "activation", "matmul"], 0))
def test_a_bench_kills_what_is_not_known(
    unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "mutate.json"
    code = command.main(
        [unit, "--count", "40", "--seed", "1", "--jobs", "1", "--json", str(figures)]
    )
    assert code == 0, capsys.readouterr()
    (found,) = json.loads(figures.read_text())
    assert found["killed"] + len(found["equivalent"]) + len(found["known"]) == 40
    assert found["percent"] >= 95


@pytest.mark.slow
def test_the_bench_of_layernorm_sees_every_bit_of_large_sums_of_squares() -> None:
    """Of 2^28 to 2^36, in each lane; rows of a larger sum are constant, and their n is 0."""
    whole, some = drawn(sourced("layernorm", CONFIG), "layernorm", 600, 1)
    entry = Known("layernorm", "", at=("norm_lane.s2.eq",), port="Y")
    add = next(mutant for mutant in some if entry.covers("layernorm", mutant))
    mutants = [
        dataclasses.replace(
            add, mode="cnot1", module=f"layernorm.lane{lane}", bit=bit, other=leading
        )
        for leading in range(28, 37)
        for lane, bit in enumerate(Random(leading).sample(range(leading), 4))
    ]
    job = bench.prepared("layernorm", CONFIG, whole, mutants)
    unseen = [m.fault for m, by in zip(mutants, bench.play(job, len(mutants), 1)) if not by]
    assert unseen == []


@pytest.mark.slow
def test_a_bench_that_looks_away_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = bench.Exercise("quiet", lambda ports: ports.tick(), {})
    monkeypatch.setattr(bench, "exercises", lambda unit: {"quiet": quiet})
    # What is proved is not asked here.
    monkeypatch.setattr(score, "equivalents", lambda *given: [False for _ in given[2]])
    assert command.main(["activation", "--count", "40", "--seed", "1", "--jobs", "1"]) == 1
    shown, error = capsys.readouterr()
    assert shown.count("NEW: ") == 40
    assert "error: 40 new survivors; first: " in error


@pytest.mark.slow
def test_inferences_and_cases_kill_mutants_of_the_accelerator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(score, "equivalents", lambda *given: [False for _ in given[2]])
    figures = tmp_path / "mutate.json"
    command.main(["accelerator", "--count", "12", "--seed", "1", "--json", str(figures)])
    (found,) = json.loads(figures.read_text())
    assert found["mutants"] == 12
    assert found["killed"] >= 9
    assert {kind.split("/")[0] for kind in found["kills"]} <= {"traced", "edges", "fields", "fuzz"}
    assert not any(f"/{part}.py" in text for part in PARTS for text in found["new"])


class Small(wiring.Component):
    """Logic with a part that never matters, a counter and a register behind another."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, early = Signal(3), Signal(4)
        with m.If(count == 4):
            m.d.sync += count.eq(0)
        with m.Elif(self.i[0]):
            m.d.sync += count.eq(count + 1)
        absorbed = Signal(2)
        m.d.comb += absorbed.eq(self.i[:2] & (self.i[:2] | self.i[2:]))
        m.d.sync += early.eq(self.i + count)
        m.d.sync += self.o.eq(early ^ absorbed)
        return m


@pytest.mark.slow
def test_a_proof_agrees_with_what_a_small_unit_shows() -> None:
    """Of a unit of ten bits long random inputs show every mutant that can be shown."""
    whole, mutants = drawn(netlist(Small(), "tiny", sources=True), "tiny", 80, 1)
    proved = equivalents(whole, "tiny", mutants)
    sound = described(Small(), "tiny", CONFIG)
    selector = Port(is_input=True, width=SELECTOR_BITS)
    verilog = with_selector(whole, mutants)
    design = dataclasses.replace(sound, verilog=verilog, ports=sound.ports | {SELECTOR: selector})
    program = library(design, "-mutants", bench.FLAGS)
    words = {"i": np.random.default_rng(1).integers(0, 16, 5000)}
    shown = []
    for number in range(len(mutants) + 1):
        ports = NativePorts(program, design, **{SELECTOR: number})
        shown.append(ports.stream(words, ("o",))["o"])
        ports.close()
    unseen = [bool(np.array_equal(shown[0], word)) for word in shown[1:]]
    wrong = [str(m) for m, p, u in zip(mutants, proved, unseen) if p and not u]
    assert wrong == [], "proved to be equivalent, and yet seen"
    assert any(proved)
    assert not all(proved)
    missed = [str(m) for m, p, u in zip(mutants, proved, unseen) if u and not p]
    assert len(missed) <= 2, missed  # a bound on the counter that induction has to find


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


@pytest.mark.slow
def test_a_mutant_at_the_output_of_a_register_that_powers_up_as_one() -> None:
    """Its own value is not what the register has then; the register behind is what it was."""
    whole, mutants = drawn(netlist(Flags(), "flags", sources=True), "flags", 60, 1)
    outputs = [mutant for mutant in mutants if mutant.port == "Q"]
    proved = {
        (mutant.mode, mutant.wire)
        for mutant, same in zip(outputs, equivalents(whole, "flags", outputs), strict=True)
        if same
    }
    assert {mutant.mode for mutant in outputs} >= {"inv", "const0", "const1"}
    assert proved == {("const1", "o[0]")}


class Written(wiring.Component):
    """A memory that is given words, or 0 instead, and writes them where bit 0 of `i` is set."""

    i: In(4)
    o: Out(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.ram = ram = Memory(shape=4, depth=4, init=[])
        write, read = ram.write_port(), ram.read_port()
        with m.If(self.i[0]):
            m.d.comb += write.data.eq(self.i)
        m.d.comb += [write.en.eq(self.i[0]), write.addr.eq(self.i[2:] & self.i[:1].replicate(2))]
        m.d.comb += [read.en.eq(1), read.addr.eq(self.i[2:]), self.o.eq(read.data)]
        return m


@pytest.mark.slow
def test_what_a_memory_is_given_and_does_not_write_is_nothing() -> None:
    whole, mutants = drawn(netlist(Written(), "written", sources=True), "written", 200, 1)
    (choice,) = {mutant.cell for mutant in mutants if "mux" in mutant.cell}
    (gate,) = {mutant.cell for mutant in mutants if mutant.port == "B"} - {choice}
    unseen = [
        (choice, "S", "const1"),
        (choice, "A", "const1"),
        (choice, "B", "const1"),
        (gate, "B", "const1"),
    ]
    seen = [
        (choice, "Y", "inv"),
        (choice, "S", "const0"),
        (gate, "Y", "const1"),
        ("ram", "WR_EN", "const1"),
    ]
    asked = [
        dataclasses.replace(mutants[0], cell=cell, port=port, mode=mode, bit=0, other=-1)
        for cell, port, mode in unseen + seen
    ]
    assert equivalents(whole, "written", asked) == [True] * len(unseen) + [False] * len(seen)


@pytest.mark.slow
def test_attention_is_drawn_without_what_the_encoder_alone_has() -> None:
    """No sums with X16; the rules stay, and what is a unit of its own is left out."""
    plain = bench.configuration("attention", 4)
    whole = sourced("attention", plain)
    small = without_encoder(whole, plain)
    assert "total_0" in whole
    assert "total_0" not in small
    _, mutants = drawn(small, "attention", 300, 1, flat=True)
    assert len(mutants) == 300
    parts = [mutant.path("attention") for mutant in mutants]
    for name in ("rules", "attend", "control", "tokens", "issuer"):
        assert any(name in path for path in parts), name
    for name in PARTS:
        assert not any(name in path for path in parts), name
        assert not any(f"{name}.py" in mutant.nameless_files for mutant in mutants), name
    rms = dataclasses.replace(plain, rms_norm=True)
    assert without_encoder(sourced("attention", rms), rms) == small
    with pytest.raises(YosysError, match="has no sequencer with the port i__payload"):
        without_encoder(sourced("activation", CONFIG), CONFIG)


def test_flags_whose_bits_other_opcodes_use_stay() -> None:
    """CHAINED is the bit of WIDE and of BIAS, SHIFTS that of ROTARY."""
    plain = Config(lanes=4, windows=True, gated=True, rms_norm=True)
    assert never(plain) == {"residual", "logits", "chained", "shifts"}
    for other in ({"precise": True}, {"bias_heads": 3}):
        assert never(dataclasses.replace(plain, **other)) == {"residual", "logits", "shifts"}
    assert never(dataclasses.replace(plain, rotary_pairs=10)) == {"residual", "logits", "chained"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanisms",
    [{"rotary_pairs": 10}, {"precise": True, "bias_heads": 3}, {"windows": True, "gated": True}],
)
def test_attention_runs_without_what_the_encoder_alone_has(mechanisms: dict[str, Any]) -> None:
    config = bench.configuration("attention", 4, **mechanisms)
    small = without_encoder(sourced("attention", config), config)
    bench.prepared("attention", config, *drawn(small, "attention", 1, 1, flat=True))


@pytest.mark.slow
def test_the_bench_kills_mutants_of_attention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(score, "equivalents", lambda *given: [False for _ in given[2]])
    figures = tmp_path / "mutate.json"
    command.main(["attention", "--count", "20", "--seed", "1", "--json", str(figures)])
    (found,) = json.loads(figures.read_text())
    assert found["mutants"] == 20
    assert found["killed"] >= 14


def test_units_are_built_with_the_options_of_the_hardware() -> None:
    given = "accelerator --precise --bias-heads 2 --windows --rms-norm --gated --rotary-pairs 8"
    options = command._parser().parse_args(given.split())
    found = bench.configuration("accelerator", 4, **mechanisms_of(options))
    assert found == Config(
        lanes=4, tokens=24, hidden=10, ffn=16, labels=4, precise=True, bias_heads=2, windows=True,
        rms_norm=True, gated=True, rotary_pairs=8,
    )  # fmt: skip
    none = mechanisms_of(command._parser().parse_args(["position_bias"]))
    assert bench.configuration("position_bias", 4, **none).bias_heads == 3


@pytest.mark.slow
def test_the_same_seed_draws_the_same_mutants() -> None:
    text = sourced("activation", CONFIG)
    first, second = (drawn(text, "activation", 30, seed)[1] for seed in (5, 5))
    assert first == second
    assert first != drawn(text, "activation", 30, 6)[1]
    assert len({mutant.fault for mutant in first}) == 30
    # Source lines are those of the checkout, wherever it lies.
    assert all(s.startswith(("rtl/", "amaranth/")) for m in first for s in m.sources)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no bench of 'nothing' can be played: choose of requantize, activation"),
        (["softmax", "--count", "0"], "0 is out of range: it must be 1 to 65535"),
        (["softmax", "--lanes", "5"], "argument --lanes: invalid choice: 5"),
        (["softmax", "--known", "no.toml"], "argument --known: no.toml does not exist"),
        (["attention", "--rotary-pairs", "2000"], "rotary_pairs is 2000: it must lie in 0..1024"),
    ],
)
def test_what_cannot_be_played_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(command.main, arguments, capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "it must hold lists of entries by unit"),
        ("x = 3", r"x is no list of entries: write x = \[\{ \.\.\. \}\]"),
        ("x = [{ at = 'y' }]", "entry 1 of x has too much or lacks why"),
        ("x = [{ why = 'y', lines = 'z' }]", "has too much or lacks lines"),
        ("x = [{ why = 'y', bits = '3-z' }]", "entry 1 of x: .*: write bits as 3,5-8"),
    ],
)
def test_a_list_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        known(path)


def test_an_entry_covers_what_it_names_and_nothing_else() -> None:
    entry = Known("rsqrt", "why", module=("rsqrt.lane*",), port="A", bits=(3,), by=(5,))
    mutant = Mutant(
        mode="cnot1", module="rsqrt.lane2", cell="$1", port="A", bit=3, other=5, wire="", sources=()
    )
    assert entry.covers("rsqrt", mutant)
    for change in ({"module": "rsqrt.table"}, {"port": "B"}, {"bit": 4}, {"other": 4}):
        assert not entry.covers("rsqrt", dataclasses.replace(mutant, **change)), change
    assert not entry.covers("softmax", mutant)


def test_an_entry_names_bits_of_signals() -> None:
    entry = Known("rsqrt", "why", wire=("lane.m_*",), places=(40, 41))
    mutant = Mutant(
        mode="inv", module="rsqrt", cell="$1", port="A", bit=3, other=-1, wire="", sources=()
    )
    for wire in ("lane.m_0[40]", "lane.m_12[41]"):
        assert entry.covers("rsqrt", dataclasses.replace(mutant, wire=wire)), wire
    for wire in ("", "lane.m_0[4]", "lane.m_0[42]", "lane.n_0[40]", "lane.m_0", "lane.m_0[40][1]"):
        assert not entry.covers("rsqrt", dataclasses.replace(mutant, wire=wire)), wire


def test_an_entry_names_what_a_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Known("rsqrt", "why", at=("attend.end.eq attend.head_size", "attend.width"))
    mutant = Mutant(
        mode="inv", module="rsqrt", cell="$1", port="A", bit=3, other=-1, wire="", sources=()
    )
    for done, covered in (
        ("attend.end.eq attend.head_size n", True),
        ("attend.end.eq tokens n", False),
        ("attend.end", False),
        ("attend.width", True),
        ("other.width", False),
    ):
        monkeypatch.setattr(Mutant, "signals", ("other.x", done))
        assert entry.covers("rsqrt", mutant) is covered, done


def test_lines_tell_their_signals(tmp_path: Path) -> None:
    """Made, driven in a list, over several lines, of a condition, and else the function."""
    path = tmp_path / "unit.py"
    path.write_text(
        "class Unit:\n"
        "    def elaborate(self):\n"
        "        super().__init__()\n"
        "        self.a = b = Signal()\n"
        "        with m.If(self.i.valid & ~b):\n"
        "            m.d.sync += [\n"
        "                self.o[3].eq(self.a + b),\n"
        "                parts[0].low.eq(\n"
        "                    Mux(b, 1, self.i.low)\n"
        "                ),\n"
        "            ]\n"
    )
    found = signals(path)
    assert [found[line] for line in (3, 4, 5, 7, 8, 9)] == [
        "elaborate",
        "b",
        "if b i i.valid",
        "o.eq a b",
        "parts[0].low.eq Mux b i i.low",
        "parts[0].low.eq Mux b i i.low",
    ]


def test_every_known_survivor_names_what_a_line_does() -> None:
    """What was renamed or drives otherwise since has to be looked at again."""
    stands = [
        f"{path.stem}.{done}"
        for path in ROOT.glob("rtl/**/*.py")
        for done in set(signals(path).values())
    ]
    for entry in known():
        for one in entry.at:
            what, *read = one.split()
            assert any(
                done.split()[0] == what and set(read) <= set(done.split()[1:]) for done in stands
            ), one
    assert sum(len(entry.at) for entry in known()) > 30
