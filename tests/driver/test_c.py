"""The C driver alone: as it compiles, its constants, and what has no twin in Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from golden.identity import IDENTITY_BYTES
from rtl.compile import image
from rtl.interface.command import DESCRIPTOR_BYTES, MAGIC, VERSION
from rtl.interface.operation import Error
from rtl.interface.registers import ADDRESS, DMA_REGISTERS, REGISTERS
from rtl.registers import registers
from sim.machine.board import MemoryBoard
from tests.driver.conftest import COMPILERS, CONFIG
from tests.driver.drivers import (
    BUSY,
    NOT_OPEN,
    PLENTY,
    STILL_BUSY,
    CDriver,
    Parts,
    fail,
    infers,
    is_right,
    load,
    words_of,
)
from tests.driver.headers import HEADER_AT, NUMBERS
from tests.driver.library import DRIVER, STRICT
from verify.fuzz.subject import Subject

SOURCES = "".join((DRIVER / f"bert2rtl.{end}").read_text() for end in "hc")
README = (DRIVER / "README.md").read_text()


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O3"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_driver_compiles_as_it_stands(compiler: str, level: str, tmp_path: Path) -> None:
    """With its own access to memory; its header in C++ as well."""
    (tmp_path / "one.cpp").write_text(f'#include "{DRIVER}/bert2rtl.h"\n')
    for command in (
        [compiler, *STRICT, level, "-ffreestanding", "-c", DRIVER / "bert2rtl.c", "-o", "driver.o"],
        ["g++", *STRICT[1:], "-fsyntax-only", "one.cpp"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    """It compiles on a platform that has what it asks for."""
    (example,) = re.findall(r"```c\n(.*?)```", README, re.DOTALL)
    (tmp_path / "example.c").write_text(example)
    (tmp_path / "platform.h").write_text(
        "#define ACCELERATOR 0x40000000u\n#define IMAGE 0x80000000u\n#define LABELS 2\n"
        "extern const uint8_t image[];\nextern const uint64_t image_bytes;\n"
        "extern const uint32_t tokens[], token_count;\n"
    )
    command = ["gcc", *STRICT, f"-I{DRIVER}", "-I.", "-fsyntax-only", "example.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The constants of the driver, as a compiler has them."""
    folder = tmp_path_factory.mktemp("constants")
    names = re.findall(r"^    ([A-Z]\w+) = ", SOURCES, re.MULTILINE)
    lines = "".join(f'    printf("{name} %d\\n", {name});\n' for name in names)
    text = f'#include <stdio.h>\n#include "bert2rtl.c"\nint main(void)\n{{\n{lines}return 0;\n}}\n'
    (folder / "constants.c").write_text(text)
    command = ["gcc", *STRICT, f"-I{DRIVER}", "constants.c", "-o", "constants"]
    subprocess.run(command, cwd=folder, check=True)
    answer = subprocess.run([folder / "constants"], capture_output=True, text=True, check=True)
    return {name: int(value) for name, value in map(str.split, answer.stdout.splitlines())}


def test_it_is_the_register_map(constants: dict[str, int]) -> None:
    assert {r.name: constants[f"B2RTL_{r.name.upper()}"] for r in REGISTERS} == ADDRESS
    for register in DMA_REGISTERS:  # B2RTL_TOKEN is an error
        name = "TOKEN_WORD" if register.name == "token" else register.name.upper()
        assert constants[f"B2RTL_{name}"] == register.address
    assert constants["B2RTL_ID_VALUE"] == MAGIC
    assert constants["B2RTL_VERSION_VALUE"] == VERSION
    shared = {"NONE": "OK"}
    errors = {e.name: constants[f"B2RTL_{shared.get(e.name, e.name)}"] for e in Error}
    assert errors == {error.name: error.value for error in Error}
    model = constants["B2RTL_HASH_AT"], constants["B2RTL_HASH_BYTES"]
    assert model == (HEADER_AT["MODEL_AT"], IDENTITY_BYTES)
    sizes = constants["HEADER_BYTES"], constants["B2RTL_IMAGE_HEADER_BYTES"]
    assert sizes == (DESCRIPTOR_BYTES, image.HEADER.size)
    numbers = {name: at for name, at in (HEADER_AT | NUMBERS).items() if name != "MODEL_AT"}
    assert {name: constants[name] for name in numbers} == numbers
    driver_codes = [value for value in constants.values() if value < 0]
    assert sorted(driver_codes) == list(range(-19, 0))


def test_it_has_every_field_of_the_map(constants: dict[str, int]) -> None:
    """One bit: its mask; more bits: mask and shift; a whole register: its offset alone."""
    made = registers(CONFIG)
    expected = {f"B2RTL_{r.name.upper()}": r.address for r in made}
    single = {"interrupt_enable": "_BIT", "interrupt_pending": "_BIT"}
    for register in made:
        for field in register.fields:
            if field.high - field.low == 31:
                continue
            name = f"B2RTL_{register.name.upper()}" + single.get(
                register.name, f"_{field.name.upper()}"
            )
            mask = (1 << field.high + 1) - (1 << field.low)
            if field.high == field.low:
                expected[name] = mask
            else:
                expected |= {f"{name}_MASK": mask, f"{name}_SHIFT": field.low}
    about = ("B2RTL_CONTROL", "B2RTL_STATUS", "B2RTL_INTERRUPT", *expected)
    found = {n: v for n, v in constants.items() if n.startswith(about[:3]) or n in about}
    assert found == expected
    assert len(expected) == 20 + 2 + 4 + 2 + 2


def test_a_device_that_is_not_open(c_driver: CDriver, board: MemoryBoard) -> None:
    board.show(ADDRESS["id"], 0)
    assert c_driver.open() == -1
    before = board.accesses
    for name in ("start", "result", "wait", "abort", "enable_interrupt", "failed_sequence"):
        assert c_driver.call(name, 1) == NOT_OPEN
    assert c_driver.wait_interrupt(board.complaint, 3) == NOT_OPEN
    assert c_driver.counters() == (NOT_OPEN, dict.fromkeys(c_driver.counters()[1], 0xDEAD))
    assert c_driver.check(b"") == (NOT_OPEN, 0)
    assert c_driver.use(b"") == c_driver.call("use_image", Parts()) == NOT_OPEN
    assert c_driver.send([1]) == c_driver.call("read_logits", None, 0, None) == NOT_OPEN
    assert c_driver.acknowledge() == 0
    assert board.accesses == before


@pytest.mark.parametrize(("polls", "reads"), [(0, 1), (1, 1), (2, 2), (77, 77)])
def test_the_bound_of_a_wait(
    polls: int, reads: int, c_driver: CDriver, board: MemoryBoard, subject: Subject
) -> None:
    load(c_driver, board, subject)
    assert c_driver.start() == 0
    before = board.accesses[0]
    assert c_driver.wait(polls) == STILL_BUSY
    assert board.accesses[0] - before == reads
    before, slept = board.accesses[0], []

    def sleep() -> None:
        slept.append(1)
        if len(slept) > polls:
            board.reset()  # else the wait never ends

    assert c_driver.wait_interrupt(sleep, polls) == STILL_BUSY
    assert (len(slept), board.accesses[0] - before) == (polls, polls + 1)
    run = subject.sound(1)
    assert c_driver.send(words_of(run)) == c_driver.wait(PLENTY) == 0
    assert is_right(c_driver, board, run)


def test_the_sequence_that_failed(c_driver: CDriver, board: MemoryBoard, subject: Subject) -> None:
    load(c_driver, board, subject)
    word = 1 << 25
    for number in range(3):
        words = [word, word, word | 1 << 26, word | 1 << 26, word, word | 1 << 26]
        words[(2, 3, 5)[number]] |= subject.model.shape.vocabulary
        assert c_driver.send(words) == c_driver.start() == 0
        assert c_driver.call("failed_sequence") == BUSY
        assert c_driver.wait() == Error.TOKEN
        assert c_driver.call("failed_sequence") == number
    fail(Error.CRC, c_driver, board, subject)
    assert c_driver.wait() == Error.CRC
    assert c_driver.call("failed_sequence") == 0
    board.reset()
    infers(c_driver, board, subject, subject.sound(1))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_a_row_that_is_given_is_written_as_the_table_has_it(lanes: int, c_driver: CDriver) -> None:
    """Every value of 16 bits, limited; a row of any width, with zeros behind its last channel."""
    values = range(-32768, 32768)
    written = c_driver.write_row(lanes, values)
    assert written[-4:] == bytes([99] * 4)
    words = memoryview(written[:-4]).cast("b", (65536 // lanes, 2, lanes)).tolist()
    found = [255 * h + low for high, lows in words for h, low in zip(high, lows, strict=True)]
    assert found == [max(-32512, min(x, 32512)) for x in values]
    assert not any(half == -128 for word in words for halves in word for half in halves)
    odd = c_driver.write_row(lanes, [300] * (lanes + 1))[2 * lanes : -4]
    assert odd == bytes([1, *[0] * (lanes - 1), 45, *[0] * (lanes - 1)])


def test_every_code_has_a_sentence(c_driver: CDriver) -> None:
    codes = [*range(-19, 0), *Error]
    texts = {code: c_driver.library.b2rtl_text(code).decode() for code in codes}
    assert len(set(texts.values())) == len(codes)
    assert "unknown code" not in texts.values()
    for code in (*range(max(Error) + 1, 16), -20, 1 << 31 - 1, -(1 << 31)):
        assert c_driver.library.b2rtl_text(code) == b"unknown code"
