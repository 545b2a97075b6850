"""The C driver alone: it compiles as it stands, and its constants are those of the hardware."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtl.control.axi import ADDRESS, REGISTERS
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.operation import Error
from rtl.registers.map import registers
from tests.driver.conftest import COMPILERS, LANES
from verify.driver import DRIVER, STRICT
from verify.fuzz.subject import config


def test_it_is_c_and_cpp(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(
        f'#include "{DRIVER}/bert2rtl.h"\nint used(void);\nint used(void) {{ return B2RTL_OK; }}\n'
    )
    (tmp_path / "one.cpp").write_text(f'#include "{DRIVER}/bert2rtl.h"\n')
    for command in (["gcc", *STRICT, "one.c"], ["g++", *STRICT[1:], "one.cpp"]):
        done = subprocess.run([*command, "-fsyntax-only"], cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("source", ["bert2rtl.c", "bert2rtl_dma.c"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_driver_compiles_as_it_stands(compiler: str, source: str, tmp_path: Path) -> None:
    """With its own access to memory, at every level of optimisation."""
    for level in ("-O0", "-Os", "-O3"):
        command = [compiler, *STRICT, level, "-ffreestanding", "-c", str(DRIVER / source)]
        done = subprocess.run([*command, "-o", str(tmp_path / "o")], capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The constants of the header, as a compiler has them."""
    tmp_path = tmp_path_factory.mktemp("constants")
    text = (DRIVER / "bert2rtl.h").read_text()
    names = [
        line.split()[0]
        for line in text.splitlines()
        if line.startswith("    B2RTL_") and " = " in line
    ]
    lines = "".join(f'    printf("{name} %d\\n", {name});\n' for name in names)
    source = tmp_path / "constants.c"
    source.write_text(
        f'#include <stdio.h>\n#include "bert2rtl.h"\nint main(void)\n{{\n{lines}    return 0;\n}}\n'
    )
    program = tmp_path / "constants"
    subprocess.run(["gcc", *STRICT, f"-I{DRIVER}", str(source), "-o", str(program)], check=True)
    answer = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in map(str.split, answer.splitlines())}


def test_it_is_the_register_map(constants: dict[str, int]) -> None:
    assert {r.name: constants[f"B2RTL_{r.name.upper()}"] for r in REGISTERS} == ADDRESS
    assert constants["B2RTL_ID_VALUE"] == MAGIC
    assert constants["B2RTL_VERSION_VALUE"] == VERSION
    shared = {"NONE": "OK"}
    errors = {e.name: constants[f"B2RTL_{shared.get(e.name, e.name)}"] for e in Error}
    assert errors == {error.name: error.value for error in Error}
    driver_codes = [value for value in constants.values() if value < 0]
    assert sorted(driver_codes) == list(range(-19, 0))


def test_it_has_every_field_of_the_systemrdl(constants: dict[str, int]) -> None:
    """One bit: its mask; more bits: mask and shift; a whole register: its offset alone."""
    made = registers(config(LANES))
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
