"""The register port of the Verilog beside the SystemRDL map: every field, read and written."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rtl.control.axi import ADDRESS_BITS, REGISTERS
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.registers.map import SOURCE, Field, Register, registers
from sim.design import generated
from tests.damage import changed

# All limits differ, so that none can stand in another's place.
CONFIG = Config(lanes=4, tokens=24, hidden=32, ffn=48, labels=8)
MAP = registers(CONFIG)
BENCH = Path(__file__).with_name("registers.v")
WRITE, READ, FORCE, RELEASE, RESET, END = range(6)
OKAY, SLVERR = 0, 2
ONES = 0xFFFFFFFF
MOST = 4096  # operations

# What hardware changes, with the net of the accelerator that holds it.
NETS = {
    "busy": "control__busy",
    "done": "ended",
    "error": "control__code",
    "failed": "control__failed",
}
CHANGED = [
    (
        field.name,
        NETS.get(field.name, f"registers__value__{field.name}"),
        field.high - field.low + 1,
    )
    for register in MAP
    for field in register.fields
    if field.access == "ro" and not field.constant
]
NUMBER = {name: number for number, (name, _, _) in enumerate(CHANGED)}


def compiled(config: Config, folder: Path) -> Path:
    """The bench around the accelerator of a configuration."""
    (folder / "accelerator.v").write_text(generated("accelerator", config).verilog)
    holds = "\n".join(f"  reg [{width - 1}:0] hold_{net};" for _, net, width in CHANGED)
    forces = "\n".join(
        f"          {number}: begin hold_{net} = data; force dut.{net} = hold_{net}; end"
        for number, (_, net, _) in enumerate(CHANGED)
    )
    releases = "\n".join(f"          release dut.{net};" for _, net, _ in CHANGED)
    text = BENCH.read_text().replace("HOLDS", holds)
    text = text.replace("FORCES", forces).replace("RELEASES", releases)
    (folder / "bench.v").write_text(
        text.replace("LAST", str(MOST - 1)).replace("WORD", str(8 * config.lanes))
    )
    command = ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", "bench.v", "accelerator.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "bench.vvp"


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled bench."""
    return compiled(CONFIG, tmp_path_factory.mktemp("registers"))


class Program:
    """Operations for the bench; what each must answer follows from a map alone."""

    def __init__(self, known: tuple[Register, ...]) -> None:
        self.known = {register.name: register for register in known}
        self.lines: list[str] = []

    def add(
        self, kind: int, address: int, data: int, wanted: int, strobe: int, answer: int
    ) -> None:
        self.lines.append(f"{kind:02x}{address:02x}{strobe:02x}{answer:02x}{data:08x}{wanted:08x}")

    def read(self, name: str, **fields: int) -> None:
        """Fields that are not named have their reset value; bits of no field are 0."""
        register = self.known[name]
        assert set(fields) <= {field.name for field in register.fields}
        wanted = 0
        for one in register.fields:
            value = 0 if one.access == "wo" else fields.get(one.name, one.reset)
            wanted |= value << one.low
        self.add(READ, register.address, 0, wanted, 0, OKAY)

    def write(self, name: str, data: int, *, strobe: int = 15, answer: int = OKAY) -> None:
        self.add(WRITE, self.known[name].address, data, 0, strobe, answer)

    def step(self, kind: int, number: int = 0, data: int = 0) -> None:
        self.add(kind, number, data, 0, 0, OKAY)


def bits(one: Field) -> int:
    return (1 << (one.high - one.low + 1)) - 1


def plain(program: Program, draw: random.Random) -> None:
    """Reset values, and writes that must have no effect."""
    for register in program.known.values():
        program.read(register.name)
    for register in program.known.values():
        if all(one.access == "ro" for one in register.fields):
            for strobe in range(16):
                data = draw.choice((0, ONES, draw.getrandbits(32)))
                program.write(register.name, data, strobe=strobe, answer=SLVERR)
            program.read(register.name)


def addresses(program: Program, draw: random.Random) -> None:
    """The two low bits of an address do not count; beside the map is nothing."""
    mapped = {register.address: register for register in program.known.values()}
    for address in range(1 << ADDRESS_BITS):
        register = mapped.get(address & ~3)
        wanted = 0
        for one in register.fields if register else ():
            wanted |= (0 if one.access == "wo" else one.reset) << one.low
        program.add(READ, address, 0, wanted, 0, OKAY)
        if register is None:
            program.add(WRITE, address, draw.getrandbits(32), 0, draw.randrange(16), SLVERR)


def shown(program: Program, draw: random.Random) -> None:
    """What hardware holds is read in its place, every bit both 0 and 1."""
    for register in program.known.values():
        changed = {one.name: one for one in register.fields if one.name in NUMBER}
        patterns = [dict.fromkeys(changed, ONES), dict.fromkeys(changed, 0)]
        patterns += [{name: draw.getrandbits(32) for name in changed} for _ in range(4)]
        patterns += [{other: ONES * (other == name) for other in changed} for name in changed]
        for pattern in patterns if changed else ():
            for name, value in pattern.items():
                program.step(FORCE, NUMBER[name], value)
            values = {name: value & bits(changed[name]) for name, value in pattern.items()}
            program.read(register.name, **values)
            program.write(register.name, 0, answer=SLVERR)
            program.read(register.name, **values)
        program.step(RELEASE)
        program.step(RESET)


def written(one: Field, value: int, data: int) -> int:
    """What a field holds after a write of `data` to its register."""
    given = data >> one.low & bits(one)
    return {"rw": given, "w1c": value & ~given}.get(one.access, value)


def stored(program: Program, draw: random.Random) -> None:
    """A field holds what was written with the strobe of its byte; w1c loses the ones written."""
    for register in program.known.values():
        state = {one.name: one.reset for one in register.fields}
        if not {one.access for one in register.fields} & {"rw", "w1c"}:
            continue
        for strobe in [*range(16), *range(16)]:
            data = draw.choice((0, ONES, draw.getrandbits(32)))
            acts = [one for one in register.fields if strobe >> one.low // 8 & 1]
            state |= {one.name: written(one, state[one.name], data) for one in acts}
            program.write(register.name, data, strobe=strobe, answer=OKAY if acts else SLVERR)
            program.read(register.name, **state)
        for data in (0, ONES):
            program.write(register.name, data)
            program.step(RESET)
            program.read(register.name)


def acting(program: Program, draw: random.Random) -> None:
    """start and abort act once, with the strobe of their byte; what they write is never read."""
    control = program.known["control"]
    start, abort = (1 << one.low for one in control.fields)
    other = ONES ^ start ^ abort
    ended = {"done": 1, "error": Error.ABORTED}
    for data in (0, other, start, start | other, abort, start | abort):
        for strobe in range(16):
            acts = strobe & 1
            begins = acts and data & (start | abort) == start
            program.write("control", data, strobe=strobe, answer=OKAY if acts else SLVERR)
            program.read("control")
            program.read("status", **({"busy": 1} if begins else {}))
            program.read("interrupt_pending")
            if begins:
                program.write("control", data, strobe=strobe, answer=SLVERR)
                program.write("control", abort | data & other, strobe=strobe)
                program.read("status", **ended)
                program.read("control")
                program.read("interrupt_pending", pending=1)
                program.step(RESET)
                program.read("status")


def cleared(program: Program, draw: random.Random) -> None:
    """A field of access w1c is set by an end, and cleared by a 1 in its place alone."""
    register = program.known["interrupt_pending"]
    (pending,) = register.fields
    one = 1 << pending.low
    for _ in range(2):
        program.write("control", 1)
        program.write("control", 2)
        for data in (0, ONES ^ one):
            program.write(register.name, data)
            program.read(register.name, pending=1)
        for strobe in range(0, 16, 2):
            program.write(register.name, ONES, strobe=strobe, answer=SLVERR)
            program.read(register.name, pending=1)
        for _ in range(2):  # the second finds nothing to clear
            program.write(register.name, draw.choice((one, ONES)))
            program.read(register.name, pending=0)
        program.read("status", done=1, error=Error.ABORTED)
    program.write("control", 1)
    program.write("control", 2)
    program.read(register.name, pending=1)
    program.write("control", 1)
    program.read(register.name, pending=0)
    program.step(RESET)


Parts = tuple[Callable[[Program, random.Random], None], ...]
PARTS: Parts = (
    plain,
    addresses,
    shown,
    stored,
    acting,
    cleared,
)


def played(
    simulation: Path, folder: Path, known: tuple[Register, ...], parts: Parts = PARTS
) -> tuple[int, str]:
    """How many operations the bench played, and what it says beside that."""
    program = Program(known)
    for part in parts:
        part(program, random.Random(part.__name__))
    program.step(END)
    file = folder / "operations.hex"
    file.write_text("\n".join(program.lines + program.lines[-1:] * (MOST - len(program.lines))))
    command = ["vvp", "-n", str(simulation), f"+operations={file}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said, _, last = done.stdout.strip().rpartition("\n")
    words = last.split()
    assert words[:1] == ["played"], done.stdout
    assert int(words[1]) == len(program.lines) - 1
    assert (words[3] == "0") == (said == ""), done.stdout
    return int(words[1]), said


@pytest.mark.slow
def test_every_field_is_what_the_map_says(simulation: Path, tmp_path: Path) -> None:
    count, said = played(simulation, tmp_path, MAP)
    assert said == ""
    assert count > 1000
    assert {one.access for register in MAP for one in register.fields} == {
        "ro",
        "rw",
        "wo",
        "w1c",
    }


OTHERS = [
    ("error[11:8]", "error[12:9]"),
    ("enable[0:0] = 1", "enable[0:0] = 0"),
    ("onwrite = woclr;", ""),
    ("stall_idle @ 0x2C", "stall_idle @ 0x50"),
    ("busy[0:0]", "busy[2:2]"),
    ("cycles[31:0]", "cycles[30:0]"),
    ("version[31:0] = 7", "version[31:0] = 8"),
    ("hidden[31:0] = HIDDEN", "hidden[31:0] = TOKENS"),
    ("enable[0:0] = 1", "enable[3:3] = 1"),
    ("sw = rw; hw = r; } enable", "sw = r; hw = r; } enable"),
    ("sw = rw; hw = r; } enable", "sw = rw; onwrite = woclr; hw = r; } enable"),
    ("default sw = w;", "default sw = rw;"),
    ("start[0:0]", "start[4:4]"),
    ("pending[0:0]", "pending[1:1]"),
]


def test_every_other_map_is_one() -> None:
    """Those that `make test` does not play, too."""
    text = SOURCE.read_text()
    assert all(text.count(old) == 1 for old, _ in OTHERS)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_another_map_is_not_that_of_the_verilog(
    old: str, new: str, simulation: Path, tmp_path: Path
) -> None:
    source = tmp_path / "other.rdl"
    source.write_text(changed(SOURCE.read_text(), (old, new)))
    assert played(simulation, tmp_path, registers(CONFIG, source))[1] != ""


@pytest.mark.slow
def test_neighbours_do_not_stand_in_each_other_s_place(tmp_path: Path) -> None:
    config = replace(CONFIG, lanes=8, labels=6)  # with 4 lanes these are the version
    bench, known = compiled(config, tmp_path), registers(config)
    assert played(bench, tmp_path, known)[1] == ""
    text, source = SOURCE.read_text(), tmp_path / "other.rdl"
    for one, two in pairwise(known):
        places = f" {one.name} @ 0x{one.address:02X};", f" {two.name} @ 0x{two.address:02X};"
        assert all(text.count(place) == 1 for place in places)
        swapped = text.replace(places[0], f" {one.name} @ 0x{two.address:02X};")
        source.write_text(swapped.replace(places[1], f" {two.name} @ 0x{one.address:02X};"))
        other = registers(config, source)
        assert [r.name for r in other] != [r.name for r in known]
        assert played(bench, tmp_path, other, (plain, shown))[1] != "", (one.name, two.name)


def test_the_gateware_has_no_register_more() -> None:
    writable = {"rw", "wo", "w1c"}
    assert [(r.address, r.name, r.writable) for r in REGISTERS] == [
        (r.address, r.name, any(one.access in writable for one in r.fields)) for r in MAP
    ]


def test_the_error_codes_have_their_names() -> None:
    (status,) = [register for register in MAP if register.name == "status"]
    (error,) = [one for one in status.fields if one.name == "error"]
    assert {value: name for value, (name, _) in error.values.items()} == {
        code.value: code.name for code in Error
    }
