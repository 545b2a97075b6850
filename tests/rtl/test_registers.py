"""The C header, the table and the documents that are made of the register map."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rtl import registers as command
from rtl.dma.bus import Bus
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.registers import DMA_REGISTERS, ERRORS, REGISTERS
from rtl.registers import HEADER, PAGE, c_header, errors, markdown

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
CONFIG = Config(lanes=16, tokens=24, hidden=32, ffn=48, labels=8)
BUS = Bus(data_bits=256)
LIMITS = {"LANES": 16, "COLUMNS": 16, "TOKENS": 24, "HIDDEN": 32, "FFN": 48, "LABELS": 8}


def macros(text: str) -> dict[str, int]:
    """The names that a header defines as numbers."""
    found = re.findall(r"^#define BERT2RTL__(\w+) (0x[0-9a-f]+|\d+)$", text, re.MULTILINE)
    assert len({name for name, _ in found}) == len(found)
    return {name: int(value, 0) for name, value in found}


def test_names_and_values_of_the_header() -> None:
    known = macros(c_header(CONFIG))
    status = {f"STATUS__ERROR__{code.name}": code.value for code in Error}
    assert {n: v for n, v in known.items() if n.startswith("STATUS__ERROR__")} == status
    wanted = {f"{name}__{name}_reset": value for name, value in LIMITS.items()} | {
        "ID__ID_reset": MAGIC,
        "VERSION__VERSION_reset": VERSION,
        "CONTROL__START_bm": 1,
        "CONTROL__ABORT_bm": 2,
        "STATUS__BUSY_bm": 1,
        "STATUS__DONE_bm": 2,
        "STATUS__ERROR_bm": 0xF00,
        "STATUS__ERROR_bp": 8,
        "STATUS__ERROR_bw": 4,
        "STATUS_offset": 0x20,
        "INTERRUPT_ENABLE__ENABLE_reset": 1,
        "INTERRUPT_PENDING__PENDING_bm": 1,
    }
    assert wanted.items() <= known.items()
    other = macros(c_header(Config()))
    assert known.keys() == other.keys()
    assert {name for name in known if known[name] != other[name]} == {
        f"{limit}__{limit}_reset" for limit in LIMITS
    }
    memory_side = macros(c_header(CONFIG, BUS))
    assert known.items() <= memory_side.items()
    assert memory_side["ROW_BYTES_offset"] == 0x94
    assert memory_side["BUS_BYTES__BUS_BYTES_reset"] == 32
    assert memory_side["TOKEN_ROOM__TOKEN_ROOM_reset"] == 512


@pytest.mark.parametrize("compiler", ["gcc -std=c99", "gcc -std=c17", "g++ -std=c++17"])
def test_the_header_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    words, known = compiler.split(), (*REGISTERS, *DMA_REGISTERS)
    assert shutil.which(words[0])
    (tmp_path / HEADER).write_text(c_header(CONFIG, BUS))
    source = tmp_path / ("main.c" if words[0] == "gcc" else "main.cpp")
    fields = "".join(f' printf(" %zu", offsetof(bert2rtl_t, {r.name}));' for r in known)
    source.write_text(
        f'#include "{HEADER}"\n#include <stddef.h>\n#include <stdio.h>\n'
        f"int main(void) {{{fields} return 0; }}\n"
    )
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", str(tmp_path / "main")]
    done = subprocess.run([*words, *flags, str(source)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True).stdout
    assert [int(word) for word in shown.split()] == [r.address for r in known]


def test_the_documents_show_map_and_errors() -> None:
    text, rows = DOCUMENT.read_text(), markdown(Config(), Bus()).splitlines(keepends=True)
    memory_side = rows[:2] + rows[-len(DMA_REGISTERS) :]
    assert "".join(rows[: -len(DMA_REGISTERS)]) == markdown(Config())
    assert set(ERRORS) == set(Error)
    for shown in (markdown(Config()), "".join(memory_side), errors()):
        assert text.count(shown) == 1


def test_the_command_writes_header_and_table(tmp_path: Path, capsys) -> None:
    for _ in range(2):
        assert command.main(["--lanes", "16", "-o", str(tmp_path / "new")]) == 0
        header, page = tmp_path / "new" / HEADER, tmp_path / "new" / PAGE
        assert capsys.readouterr().out.splitlines() == [str(header), str(page)]
        assert header.read_text() == c_header(Config(lanes=16))
        assert markdown(Config(lanes=16)) in page.read_text()
        header.write_text("damaged")
    assert command.main(["--lanes", "5", "-o", str(tmp_path / "other")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("error: lanes is 5: ")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "new"]
