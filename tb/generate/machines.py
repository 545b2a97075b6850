"""The bench of the accelerator, with DMA or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from golden.model import Model
from rtl.compile.image import HEADER, Image, image_bytes, rows_offset
from rtl.control.axi import ADDRESS
from rtl.dma.bus import Bus
from rtl.dma.registers import ALIGNMENT, DMA_REGISTERS, KEPT, fifo_words
from rtl.interface.command import MAGIC
from rtl.interface.config import Config, ceil_div
from tb.case import Inference
from tb.expected import Writes
from tb.generate import tops
from tb.generate.memories import (
    Expected,
    Format,
    Memory,
    Names,
    expected_text,
    format_of,
    hexadecimal,
    packets_text,
)
from tb.packing import lengths_of, stream_words
from tb.trace import TRACE_PORTS

ROW_LATENCY = 20
MEMORY_LATENCY = 20


@dataclass(frozen=True)
class Run:
    """One inference of a bench, and the model that says which rows it asks for."""

    model: Model
    inference: Inference


def silence(config: Config, streams: int) -> int:
    """Cycles after which a unit that shows nothing hangs: some passes over the longest operand."""
    longest = max(config.tokens, config.hidden, config.ffn)
    return 16 * longest + 64 * config.lanes + 16 * streams + 1000


def untraced_silence(config: Config, runs: Sequence[Run]) -> int:
    """The cycles more of a unit without trace ports, which shows nothing while it computes: more
    than any operation of these inferences takes."""
    found = 0
    for run in runs:
        lengths = lengths_of(run.inference.tokens)
        tiles = sum(ceil_div(length, config.lanes) for length in lengths)
        shape = run.model.shape
        width = max(shape.hidden, shape.ffn, shape.heads * (shape.head_size + config.lanes))
        found = max(found, 4 * tiles * (max(lengths) + config.tile_columns) * width)
    return found


def trace_checks(ports: dict[str, Any], runs: Sequence[Run]) -> list[Expected]:
    """What every trace port that there is must show."""
    found = {}
    for enable, address, names in TRACE_PORTS:
        for name in names:
            if f"trace_{name}" in ports:
                where = "" if address is None else address
                form = format_of(ports[f"trace_{name}"])
                found[name] = Expected(f"trace_{name}", form, enable, where)
    for number, run in enumerate(runs):
        assert run.inference.writes is not None
        last = {writes.port: writes for writes in run.inference.writes}
        for writes in run.inference.writes:
            required = np.ones(len(writes.address), bool)
            if not found:
                continue
            if writes.port in ("norm", "norm8") and writes is last[writes.port]:
                # When the logits are out, the last norm's further row tiles may be given up.
                required = writes.index[:, 0, 0] < found[writes.port].format.length
            found[writes.port].add(number, writes, required)
    return list(found.values())


def result_check(port: str, passes: str, runs: Sequence[Run]) -> Expected:
    """What the logits must be."""
    found = Expected(port, Format(1, 32, True), passes)
    for number, run in enumerate(runs):
        assert run.inference.result is not None
        found.add(number, run.inference.result, axes=("label",))
    return found


def ends_check(port: str, passes: str, runs: Sequence[Run]) -> Expected:
    """That `last` ends each packet of logits alone."""
    found = Expected(port, Format(1, 1, False), passes)
    for number, run in enumerate(runs):
        values = run.inference.ends.astype(int)[:, None]
        count = len(values)
        sound = np.ones((count, 1), bool)
        index = np.arange(count)[:, None, None]
        writes = Writes("result", port, np.zeros(count, int), values, sound, index)
        found.add(number, writes, axes=("word",))
    return found


def asked_rows(run: Run) -> np.ndarray:
    """The rows of the embedding table that an inference asks for, in order [2 L].

    Of each token its own, then its position's; the table holds the tokens, then the positions of
    type 0, then those of type 1.
    """
    shape, words = run.model.shape, run.inference.tokens.astype(np.int64)
    token, kind = words & 0xFFFFFF, words >> 24 & 1
    places = [np.arange(length) for length in lengths_of(run.inference.tokens)]
    position = np.concatenate(places) + shape.position_offset
    return np.stack([token, shape.vocabulary + kind * shape.positions + position], 1).reshape(-1)


def request_check(runs: Sequence[Run]) -> Expected:
    """The row numbers that must be asked for."""
    found = Expected("m_axis_request_tdata", Format(1, 32, False), "request_passes")
    for number, run in enumerate(runs):
        rows = asked_rows(run)
        index = np.stack(np.divmod(np.arange(len(rows)), 2), 1)[:, None]
        writes = Writes(
            "request",
            "embedding.rows",
            np.zeros(len(rows), int),
            rows[:, None],
            np.ones((len(rows), 1), bool),
            index,
        )
        found.add(number, writes, axes=("token", "position"))
    return found


def accelerator_files(
    sheet: Mapping[str, Any],
    config: Config,
    runs: Sequence[Run],
    stalls: int,
    bus: Bus | None = None,
) -> dict[str, str]:
    """The bench of the accelerator, with DMA where there is a bus, and its vectors, by path."""
    ports = sheet["ports"]
    checks = trace_checks(ports, runs)
    surroundings = _streams if bus is None else partial(_memory, bus=bus)
    files, around, moves, more = surroundings(config, runs)
    traced = bool(checks)
    checks += more
    driven = [
        name for name in ports if name.startswith("s_axi_") and ports[name]["direction"] == "input"
    ]
    module, names = sheet["module"], Names()
    files |= {f"vectors/{x.port}.mem": expected_text(x, names) for x in checks}
    files["vectors/tensors.mem"] = names.text()
    enables = dict.fromkeys(x.enable for x in checks if x.enable.startswith("trace_"))
    files[f"bench/{module}_bench.sv"] = tops.filled(
        "accelerator.sv",
        module=module,
        top=f"{module}_bench",
        unit=tops.instance(module, ports),
        checks="\n".join(tops.check(x, ports, len(names)) for x in checks),
        compared=tops.sum_of(checks),
        enables="".join(f" || {name} === 1'b1" for name in enables),
        passed="It ends with PASS, or by $fatal.",
        wires=tops.wires(ports, driven),
        inferences=len(runs),
        silence=silence(config, ROW_LATENCY) + (0 if traced else untraced_silence(config, runs)),
        stalls=stalls,
        pauses="every stream with pauses of its own" if bus is None else "a memory with pauses",
        compared_ports="every trace port and the logits" if traced else "the logits",
        cores=1 if bus is None else bus.cores,
        address_bits=ports["s_axi_awaddr"]["width"],
        around=around,
        moves=moves,
        control=f"{ADDRESS['control']:x}",
        status=f"{ADDRESS['status']:x}",
        cycles=f"{ADDRESS['cycles']:x}",
        pending=f"{ADDRESS['interrupt_pending']:x}",
    )
    return files


def example_files(
    sheet: Mapping[str, Any], config: Config, run: Run, bus: Bus | None
) -> dict[str, str]:
    """A small bench in plain Verilog and its vectors, by their names in a folder."""
    inference, ports = run.inference, tops.plain(sheet["ports"])
    assert inference.result is not None
    lanes, width = config.lanes, config.stream_width
    tokens = inference.tokens.tolist()
    logits = inference.result.values.reshape(-1).tolist()
    address = {name: f"{ports['s_axi_awaddr']['width']}'h{at:02x}" for name, at in ADDRESS.items()}
    driven = [
        name for name in ports if name.startswith("s_axi_") and ports[name]["direction"] == "input"
    ]
    files = {
        "tokens.mem": hexadecimal(tokens, 32),
        "logits.mem": hexadecimal([value & 0xFFFFFFFF for value in logits], 32),
    }
    if bus is None:
        stream = stream_words(inference.stream, width)
        words = inference.rows.reshape(-1, lanes).view(np.uint8)
        files["model.mem"] = hexadecimal(stream, 8 * width)
        files["rows.mem"] = hexadecimal(
            (int.from_bytes(word.tobytes(), "little") for word in words), 8 * lanes
        )
        row_words = inference.rows.shape[1] // lanes
        what = f"{len(tokens)} tokens"
        surroundings = tops.filled(
            "example_streams.v",
            columns=width,
            lanes=lanes,
            model_words=len(stream),
            tokens=len(tokens),
            rows=len(inference.rows),
            row_words=row_words,
            logits=len(logits),
        )
        before = after = ""
    else:
        rows, row_bytes = inference.rows.tobytes(), inference.rows.shape[1]
        image = image_bytes(Image(stream=inference.stream, rows=rows, row_bytes=row_bytes))
        size = bus.data_bytes
        padded = image + bytes(-len(image) % size)
        beats = [padded[at : at + size][::-1].hex() for at in range(0, len(padded), size)]
        files["memory.mem"] = "".join(f"{beat}\n" for beat in beats)
        what = f"{len(tokens)} tokens" + (" on the first of the cores" if bus.cores > 1 else "")
        surroundings = tops.filled(
            "example_memory.v",
            data_bits=bus.data_bits,
            data_bytes=size,
            beats=len(beats),
            id_bits=bus.id_bits,
            tokens=len(tokens),
        )
        bits = ports["s_axi_awaddr"]["width"]
        own = {register.name: f"{bits}'h{register.address:02x}" for register in DMA_REGISTERS}
        address |= own
        sizes = {
            "model_address": HEADER.size,
            "model_bytes": len(inference.stream),
            "rows_address": rows_offset(len(inference.stream)),
            "row_bytes": row_bytes,
        }
        before = "".join(
            f"    write_register({address[name]}, 32'd{value});  // {name}\n"
            for name, value in sizes.items()
        )
        before += (
            f"    for (k = 0; k < {len(tokens) - 1}; k = k + 1)\n"
            f"      write_register({address['token']}, tokens[k]);\n"
            f"    write_register({address['token_last']}, tokens[k]);\n"
        )
        after = (
            f"    read_register({address['logits_waiting']});\n"
            "    for (k = value; k > 0; k = k - 1) begin\n"
            f"      read_register({address['logit']});\n"
            "      compare(value);\n"
            "    end\n"
        )
    text = tops.filled(
        "example.v",
        module=sheet["module"],
        what=what,
        wires=tops.wires(ports, driven),
        address_bits=ports["s_axi_awaddr"]["width"],
        surroundings=surroundings,
        logits=len(logits),
        id_value=f"{MAGIC:x}",
        before=before,
        after=after,
        line="[0]" if ports["interrupt"]["width"] > 1 else "",
        patience=10 * (64 * len(inference.stream) + silence(config, 0)),
        unit=tops.instance(sheet["module"], ports),
        id=address["id"],
        control=address["control"],
        status=address["status"],
        cycles=address["cycles"],
        pending=address["interrupt_pending"],
    )
    return files | {"example.v": text}


Surroundings = tuple[dict[str, str], str, str, list[Expected]]
"""Vectors by path, the text around the unit, what moves there, and what is compared there."""


def _streams(config: Config, runs: Sequence[Run]) -> Surroundings:
    """Sources and sinks of the streams."""
    lanes, wide = config.lanes, config.stream_width
    packed = []
    for run in runs:
        rows = run.inference.rows[asked_rows(run)]
        words = rows.reshape(len(rows), -1, lanes).view(np.uint8)
        packed += [[int.from_bytes(word.tobytes(), "little") for word in row] for row in words]
    streams = {
        "model": ([stream_words(run.inference.stream, wide) for run in runs], 8 * wide),
        "tokens": ([run.inference.tokens.tolist() for run in runs], 32),
        "rows": (packed, 8 * lanes),
    }
    files, counts = {}, {}
    for name, (packets, width) in streams.items():
        files[f"vectors/{name}.mem"], counts[f"{name}_words"] = packets_text(packets, width)
    around = tops.filled(
        "streams.sv",
        row_latency=ROW_LATENCY,
        model_width=8 * wide,
        rows_width=8 * lanes,
        **counts,
    )
    checks = [
        result_check("m_axis_logits_tdata", "logits_passes", runs),
        ends_check("m_axis_logits_tlast", "logits_passes", runs),
        request_check(runs),
    ]
    moves = "model_moved || tokens_moved || rows_moved || request_passes || logits_passes"
    return files, around, moves, checks


def _memory(config: Config, runs: Sequence[Run], *, bus: Bus) -> Surroundings:
    """A memory with streams and rows; core c plays the inferences from the c-th on."""
    memory, jobs = Memory(bus), []
    for run, first in zip(runs, np.cumsum([0, *(len(x.inference.tokens) for x in runs)])):
        inference = run.inference
        assert inference.result is not None
        words = stream_words(inference.stream, config.stream_width)
        stream = b"".join(word.to_bytes(config.stream_width, "little") for word in words)
        rows = inference.rows.view(np.uint8)
        model = memory.place(stream, min(config.stream_width, ALIGNMENT))
        table = memory.place_rows(rows, asked_rows(run), config.lanes)
        counts = (len(stream), table, rows.shape[1], first, len(inference.tokens))
        job = model
        for value, bits in zip((*counts, len(inference.result.address)), (32, 64, 32, 32, 32, 32)):
            job = job << bits | int(value)
        jobs.append(job)
    tokens, tokens_words = packets_text([run.inference.tokens.tolist() for run in runs], 32)
    files = {
        "vectors/memory.mem": memory.text(),
        "vectors/jobs.mem": hexadecimal([*jobs, (1 << 296) - 1], 296),
        "vectors/tokens.mem": tokens,
    }
    checks, taken = [], ""
    for core in range(bus.cores):
        name = "logit" if bus.cores == 1 else f"logit_{core}"
        order = [runs[(place + core) % len(runs)] for place in range(len(runs))]
        checks.append(result_check(name, f"logit_passes && core == {core}", order))
        if name != "logit":
            taken += f"  wire [31:0] {name} = logit;\n"
    addresses = {register.name: f"{register.address:x}" for register in DMA_REGISTERS}
    used = (*KEPT, "token", "token_last", "token_room", "logits_waiting")
    around = tops.filled(
        "memory.sv",
        data_bits=bus.data_bits,
        bus_address_bits=bus.address_bits,
        base=f"{memory.base:x}",
        beats=memory.beats,
        burst=bus.burst,
        id_bits=bus.id_bits,
        outstanding=bus.outstanding,
        latency=MEMORY_LATENCY,
        tokens_words=tokens_words,
        fifo_words=fifo_words(config.tokens),
        logit_address=addresses["logit"],
        logits=taken,
        **{name: addresses[name] for name in used},
    )
    return files, around, "memory_moved || logit_passes", checks
