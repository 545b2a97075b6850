"""What is made of the register map, beside the gateware's own constants and the documents."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from systemrdl import RDLCompileError

from rtl.control.axi import REGISTERS
from rtl.dma.bus import Bus
from rtl.dma.registers import DMA_REGISTERS
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.registers import __main__ as command
from rtl.registers.export import HEADER, PAGE, c_header, html, markdown
from rtl.registers.map import SOURCE, registers
from tests.damage import changed

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Config(lanes=16, tokens=24, hidden=32, ffn=48, labels=8)


def macros(text: str) -> dict[str, int]:
    """The names that a header defines as numbers."""
    found = re.findall(r"^#define BERT2RTL__(\w+) (0x[0-9a-f]+|\d+)$", text, re.MULTILINE)
    assert len({name for name, _ in found}) == len(found)
    return {name: int(value, 0) for name, value in found}


def test_the_header_names_what_the_gateware_has() -> None:
    known = macros(c_header(CONFIG))
    offsets = {name: value for name, value in known.items() if name.endswith("_offset")}
    assert offsets == {f"{r.name.upper()}_offset": r.address for r in REGISTERS}
    writable = {"rw", "wo", "w1c"}
    assert [(r.address, r.name, r.writable) for r in REGISTERS] == [
        (r.address, r.name, any(one.access in writable for one in r.fields))
        for r in registers(CONFIG)
    ]
    errors = {n: v for n, v in known.items() if n.startswith("STATUS__ERROR__")}
    assert errors == {f"STATUS__ERROR__{code.name}": code.value for code in Error}
    wanted = {
        "ID__ID_reset": MAGIC,
        "VERSION__VERSION_reset": VERSION,
        "LANES__LANES_reset": 16,
        "COLUMNS__COLUMNS_reset": 16,
        "TOKENS__TOKENS_reset": 24,
        "HIDDEN__HIDDEN_reset": 32,
        "FFN__FFN_reset": 48,
        "LABELS__LABELS_reset": 8,
        "CONTROL__START_bm": 1,
        "CONTROL__ABORT_bm": 2,
        "STATUS__BUSY_bm": 1,
        "STATUS__DONE_bm": 2,
        "STATUS__ERROR_bm": 0xF00,
        "STATUS__ERROR_bp": 8,
        "STATUS__ERROR_bw": 4,
        "INTERRUPT_ENABLE__ENABLE_reset": 1,
        "INTERRUPT_PENDING__PENDING_bm": 1,
    }
    assert wanted.items() <= known.items()


def test_only_the_limits_depend_on_the_configuration() -> None:
    one, two = macros(c_header(CONFIG)), macros(c_header(Config()))
    assert one.keys() == two.keys()
    assert {name for name in one if one[name] != two[name]} == {
        f"{limit}__{limit}_reset"
        for limit in ("LANES", "COLUMNS", "TOKENS", "HIDDEN", "FFN", "LABELS")
    }


@pytest.mark.parametrize("compiler", ["gcc -std=c99", "gcc -std=c17", "g++ -std=c++17"])
def test_the_header_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    words = compiler.split()
    assert shutil.which(words[0])
    (tmp_path / HEADER).write_text(c_header(CONFIG))
    source = tmp_path / ("main.c" if words[0] == "gcc" else "main.cpp")
    fields = "".join(f' printf(" %zu", offsetof(bert2rtl_t, {r.name}));' for r in REGISTERS)
    source.write_text(
        f'#include "{HEADER}"\n#include <stddef.h>\n#include <stdio.h>\n'
        f"int main(void) {{{fields} return 0; }}\n"
    )
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", str(tmp_path / "main")]
    done = subprocess.run([*words, *flags, str(source)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True).stdout
    assert [int(word) for word in shown.split()] == [r.address for r in REGISTERS]


def test_the_documents_show_the_map() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert text.count(markdown(Config())) == 1


def test_the_documents_show_the_map_of_the_memory_side() -> None:
    rows = markdown(Config(), Bus()).splitlines()
    assert rows[: -len(DMA_REGISTERS)] == markdown(Config()).splitlines()
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert text.count("\n".join([*rows[:2], *rows[-len(DMA_REGISTERS) :]]) + "\n") == 1


def test_the_map_of_the_memory_side_is_that_of_the_gateware() -> None:
    """Addresses, names and access; what the fields do is in tests/sim/test_dma.py."""
    kinds = {(True, True): "rw", (True, False): "wo", (False, True): "ro"}
    known = registers(CONFIG, bus=Bus(data_bits=256))
    assert [(r.address, r.name, *(one.access for one in r.fields)) for r in known] == [
        *((r.address, r.name, *(one.access for one in r.fields)) for r in registers(CONFIG)),
        *((r.address, r.name, kinds[r.writable, r.readable]) for r in DMA_REGISTERS),
    ]
    offsets = macros(c_header(CONFIG, Bus(data_bits=256)))
    assert offsets["ROW_BYTES_offset"] == 0x94
    assert offsets["BUS_BYTES__BUS_BYTES_reset"] == 32
    assert "ROW_BYTES_offset" not in macros(c_header(CONFIG))


def test_the_documents_name_the_errors_as_the_map_does() -> None:
    (error,) = [
        field.values
        for register in registers(Config())
        for field in register.fields
        if field.values
    ]
    rows = "".join(f"| {value} | {name} | {text} |\n" for value, (name, text) in error.items())
    assert (ROOT / "docs" / "architecture.md").read_text().count(rows) == 1


def test_every_field_is_explained() -> None:
    for register in registers(Config()):
        assert register.text, register.name
        for field in register.fields:
            assert field.text, (register.name, field.name)
            assert all(name and text for name, text in field.values.values())


def test_a_map_that_is_none(tmp_path: Path) -> None:
    text = SOURCE.read_text()
    source = tmp_path / "other.rdl"
    for old, new in (("error[11:8]", "error[1:1]"), ("} id @", "} 4id @"), ("encode = ", "is = ")):
        source.write_text(changed(text, (old, new)))
        with pytest.raises(RDLCompileError):
            registers(Config(), source)


def test_the_command_writes_header_and_page(tmp_path: Path, capsys) -> None:
    for _ in range(2):
        assert command.main(["--lanes", "16", "-o", str(tmp_path / "new")]) == 0
        header, page = tmp_path / "new" / HEADER, tmp_path / "new" / PAGE
        assert capsys.readouterr().out.splitlines() == [str(header), str(page)]
        assert header.read_text() == c_header(Config(lanes=16))
        assert sorted((tmp_path / "new").iterdir()) == sorted([header, page])
        header.write_text("damaged")


@pytest.mark.parametrize("bus", [None, Bus()])
def test_the_page_is_read_from_a_file(bus: Bus | None) -> None:
    """All of the map is in it, and nothing that a browser would have to fetch."""
    shown = html(Config(), bus)
    for fetched in ("<script", "src=", "fetch(", "@import", "url(", "http"):
        assert fetched not in shown
    for register in registers(Config(), bus=bus):
        assert f'<h2 id="{register.name}">0x{register.address:02X} {register.name}</h2>' in shown
        assert f'href="#{register.name}"' in shown
        for field in register.fields:
            cells = (field.bits, field.name, field.access)
            assert "".join(f"<td>{cell}</td>" for cell in cells) in shown
            assert all(f"{value} {name}: " in shown for value, (name, _) in field.values.items())


def test_what_the_command_refuses(tmp_path: Path, capsys) -> None:
    for arguments in (["--lanes", "5"], ["--tokens", "0"], ["--ffn", "5000"]):
        assert command.main([*arguments, "-o", str(tmp_path / "new")]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"error: {arguments[0][2:]} is {arguments[1]}: ")
        assert shown.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
