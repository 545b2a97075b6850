"""The accelerator with DMA as files: its package, its options, and tools that read the Verilog."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rtl import registers
from rtl.compile.program import compile_model
from rtl.dma.bus import Bus
from rtl.dma.fetch import Fetch
from rtl.dma.registers import DmaRegisters
from rtl.dma.row_addresses import most_row_words
from rtl.generate.__main__ import main
from rtl.generate.sheet import generated, module_files
from rtl.generate.verilog import convert
from rtl.interface.config import LANES, Config, ceil_div
from sim.cycles import dma as cycles
from sim.cycles.dma import MemoryRows, StreamWords, row_numbers
from sim.cycles.model import Inference
from tb.generate.folder import bench_of, encoders, write_bench
from tb.generate.machines import MEMORY_LATENCY
from tb.packing import lengths_of
from tb.scenarios import SMALL_LIMITS
from tests.ending import refusal
from tests.sim.test_lint import TOOLS
from tests.tb.plain import passed, play


def said(text: str, top: str, folder: Path) -> dict[str, str]:
    """What the tools say of a Verilog text."""
    files = module_files(text)
    for name, module in files.items():
        (folder / name).write_text(module)
    paths = [folder / name for name in files]
    return {name: tool(paths, top) for name, tool in TOOLS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lanes", "data_bits", "address_bits"),
    [(4, 64, 32), *((lanes, bits, 32 + bits // 16) for lanes in LANES for bits in (32, 128, 512))],
)
def test_no_tool_has_anything_to_say_of_the_parts(
    lanes: int, data_bits: int, address_bits: int, tmp_path: Path
) -> None:
    config, bus = Config(lanes=lanes), Bus(data_bits=data_bits, address_bits=address_bits)
    for name, unit in (("fetch", Fetch(config, bus)), ("behind", DmaRegisters(config, bus))):
        assert said(convert(unit, name), name, tmp_path) == dict.fromkeys(TOOLS, "")


@pytest.mark.slow
@pytest.mark.parametrize("trace", [True, False])
def test_no_tool_has_anything_to_say_of_the_whole(trace: bool, tmp_path: Path) -> None:
    made = generated("accelerator", Config(lanes=4), prefix="my_", trace=trace, bus=Bus())
    assert made.module == "my_accelerator_dma"
    assert ("trace_active" in made.facts["ports"]) == trace
    assert said(made.verilog, made.module, tmp_path) == dict.fromkeys(TOOLS, "")


@pytest.mark.slow
def test_the_package(tmp_path: Path) -> None:
    options = ["accelerator", "--dma", "--data-bits", "128", "--lanes", "4", "--tokens", "8"]
    assert main([*options, "--trace", "-o", str(tmp_path)]) == 0
    assert "\n  sim:\n" in (tmp_path / "accelerator_dma.core").read_text()
    assert passed(play(tmp_path / "accelerator_dma_bench", "icarus", "--stalls", "7")) > 1000
    facts = json.loads((tmp_path / "rtl" / "accelerator_dma.json").read_text())
    assert facts["bus"] == Bus(data_bits=128).as_dict()
    assert facts["ports"]["m_axi_rdata"]["width"] == 128
    assert (
        "BERT2RTL__ROW_BYTES_offset 0x94"
        in (tmp_path / "software" / "accelerator_dma_registers.h").read_text()
    )
    sheet = (tmp_path / "accelerator_dma.md").read_text()
    for text in (
        "| data_bits | 128 |",
        "| 0x94 | row_bytes |",
        "AXI4 read master",
        "| 13 | ADDRESS |",
    ):
        assert text in sheet
    assert "toplevel: accelerator_dma" in (tmp_path / "accelerator_dma.core").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "data_bits"), [(4, 32), (8, 128)])
def test_its_bench_shows_the_cycles_that_are_predicted(
    columns: int, data_bits: int, tmp_path: Path
) -> None:
    config = Config(lanes=4, columns=columns, **SMALL_LIMITS)
    bus = Bus(data_bits=data_bits, burst=4)
    bench = bench_of("accelerator", config, bus=bus)
    write_bench(bench, tmp_path / "bench")
    done = play(tmp_path / "bench", "icarus")
    assert passed(done) > 1000
    wanted = []
    jobs = bench.files["vectors/jobs.mem"].split()
    for run, job in zip(encoders(config, []), jobs):
        model_address, model_bytes, rows_address, row_bytes = (
            int(job[at : at + size], 16) for at, size in ((2, 16), (18, 8), (26, 16), (42, 8))
        )
        program = compile_model(run.model, config)
        words = run.inference.tokens
        lengths = lengths_of(words)
        numbers = row_numbers(program, words & 0xFFFFFF, words >> 24 & 1, lengths)
        stream = model_address, model_bytes // config.stream_width
        fetch = cycles.Fetch(bus, config, MEMORY_LATENCY, stream)
        steps = ceil_div(most_row_words(config).bit_length(), 2)
        rows = MemoryRows(fetch, rows_address, row_bytes, numbers, steps)
        wanted.append(Inference(program, lengths, StreamWords(fetch), rows).predict().cycles)
    found = re.findall(r"^inference \d+: (\d+) cycles", done.stdout, re.MULTILINE)
    assert [int(cycles) for cycles in found] == wanted


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (
            main,
            ["accelerator", "--data-bits", "64"],
            "--data-bits is for the accelerator with --dma",
        ),
        (main, ["softmax", "--dma"], "--dma is for the accelerator: softmax reads no memory"),
        (main, ["accelerator", "--dma", "--data-bits", "48"], "data_bits is 48: choose one of"),
        (main, ["accelerator", "--dma", "--burst", "0"], "burst is 0: it must be a power of two"),
        (registers.main, ["--outstanding", "4"], "--outstanding is for the accelerator with --dma"),
    ],
)
def test_options_that_are_refused(
    command: object, options: list[str], message: str, tmp_path: Path, capsys
) -> None:
    assert message in refusal(command, [*options, "-o", str(tmp_path)], capsys)
    assert list(tmp_path.iterdir()) == []


def test_the_list_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("accelerator --dma  ")
    assert len({len(line) - len(line[18:].lstrip()) for line in lines}) == 1
