"""The bench of the accelerator, with DMA or without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from golden.model import Model
from rtl.dma.bus import Bus
from rtl.dma.registers import ALIGNMENT, KEPT, fifo_words
from rtl.interface.command import MAGIC
from rtl.interface.config import Config, ceil_div
from rtl.interface.registers import ADDRESS, DMA_REGISTERS
from tb.expected import Writes
from tb.generate import tops
from tb.generate.inference import Inference
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
    found = [0]
    for run in runs:
        shape, lengths = run.model.shape, lengths_of(run.inference.tokens)
        tiles = sum(ceil_div(length, config.lanes) for length in lengths)
        width = max(shape.hidden, shape.ffn, shape.heads * (shape.head_size + config.lanes))
        found.append(4 * tiles * (max(lengths) + config.tile_columns) * width)
    return max(found)


def trace_checks(ports: dict[str, Any], runs: Sequence[Run]) -> list[Expected]:
    """What every trace port that there is must show."""
    found = {}
    for enable, address, names in TRACE_PORTS:
        for name in names:
            port = f"trace_{name}"
            if port in ports:
                found[name] = Expected(port, format_of(ports[port]), enable, address or "")
    for number, run in enumerate(runs if found else ()):
        last = {writes.port: writes for writes in run.inference.writes}
        for writes in run.inference.writes:
            required = None
            if writes.port in ("norm", "norm8") and writes is last[writes.port]:
                # When the logits are out, the last norm's further row tiles may be given up.
                required = writes.index[:, 0, 0] < found[writes.port].format.length
            found[writes.port].add(number, writes, required)
    return list(found.values())


def stream_check(
    port: str, form: Format, passes: str, axes: tuple[str, ...], words: Iterable[Writes]
) -> Expected:
    """What passes on a stream: the words of each inference."""
    found = Expected(port, form, passes)
    for number, writes in enumerate(words):
        found.add(number, writes, axes=axes)
    return found


def passing(tensor: str, values: np.ndarray, index: np.ndarray) -> Writes:
    """Words of one value each, and their places [words, axes]."""
    column, sound = values.reshape(-1, 1), np.ones((values.size, 1), bool)
    return Writes("", tensor, np.zeros(values.size, int), column, sound, index[:, None])


def result_check(port: str, passes: str, runs: Sequence[Run]) -> Expected:
    """What the logits must be."""
    words = (run.inference.result for run in runs)
    return stream_check(port, Format(1, 32, True), passes, ("label",), words)


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


def accelerator_files(
    sheet: Mapping[str, Any], config: Config, runs: Sequence[Run], stalls: int, bus: Bus | None
) -> dict[str, str]:
    """The bench of the accelerator, with DMA where there is a bus, and its vectors, by path."""
    ports = sheet["ports"]
    checks = trace_checks(ports, runs)
    surroundings = _streams if bus is None else partial(_memory, bus=bus, ports=ports)
    files, around, moves, more = surroundings(config, runs)
    traced = bool(checks)
    checks += more
    module, names = sheet["module"], Names()
    files |= {f"vectors/{x.port}.mem": expected_text(x, names) for x in checks}
    files["vectors/tensors.mem"] = names.text()
    used = ("control", "status", "cycles", "interrupt_pending")
    enables = dict.fromkeys(x.enable for x in checks if x.enable.startswith("trace_"))
    files[f"bench/{module}_bench.sv"] = tops.filled(
        "accelerator.sv",
        module=module,
        top=f"{module}_bench",
        unit=tops.instance(module, ports),
        checks="\n".join(tops.check(x, ports, len(names)) for x in checks),
        compared=" + ".join(f"compared_{x.port}" for x in checks),
        enables="".join(f" || {name} === 1'b1" for name in enables),
        wires=tops.wires(ports, "s_axi_"),
        inferences=len(runs),
        silence=silence(config, ROW_LATENCY) + (0 if traced else untraced_silence(config, runs)),
        stalls=stalls,
        pauses="every stream with pauses of its own" if bus is None else "a memory with pauses",
        compared_ports="every trace port and the logits" if traced else "the logits",
        address_bits=ports["s_axi_awaddr"]["width"],
        around=around,
        moves=moves,
        **{name: f"{ADDRESS[name]:x}" for name in used},
    )
    return files


def rows_words(rows: np.ndarray, lanes: int) -> list[int]:
    """Rows of the table, int8, in words of N bytes."""
    return [int.from_bytes(w.tobytes(), "little") for w in rows.reshape(-1, lanes).view(np.uint8)]


def example_files(sheet: Mapping[str, Any], config: Config, run: Run) -> dict[str, str]:
    """A small bench on the streams in plain Verilog and its vectors, by their names in a folder."""
    inference, ports = run.inference, tops.plain(sheet["ports"])
    lanes, width, bits = config.lanes, config.stream_width, ports["s_axi_awaddr"]["width"]
    vectors = {
        "model": (stream_words(inference.stream, width), 8 * width),
        "tokens": (inference.tokens.tolist(), 32),
        "rows": (rows_words(inference.rows, lanes), 8 * lanes),
        "logits": (
            (inference.result.values.reshape(-1).astype(np.int64) & 0xFFFFFFFF).tolist(),
            32,
        ),
    }
    used = ("id", "control", "status", "cycles", "interrupt_pending")
    text = tops.filled(
        "example.v",
        module=sheet["module"],
        wires=tops.wires(ports, "s_axi_"),
        unit=tops.instance(sheet["module"], ports),
        address_bits=bits,
        columns=width,
        lanes=lanes,
        model_words=len(vectors["model"][0]),
        tokens=len(inference.tokens),
        rows=len(inference.rows),
        row_words=inference.rows.shape[1] // lanes,
        logits=inference.result.values.size,
        magic=f"{MAGIC:x}",
        patience=10 * (64 * len(inference.stream) + silence(config, 0)),
        **{name: f"{bits}'h{ADDRESS[name]:02x}" for name in used},
    )
    files = {f"{name}.mem": hexadecimal(*content) for name, content in vectors.items()}
    return files | {"example.v": text}


Surroundings = tuple[dict[str, str], str, str, list[Expected]]
"""Vectors by path, the text around the unit, what moves there, and what is compared there."""


def _streams(config: Config, runs: Sequence[Run]) -> Surroundings:
    """Sources and sinks of the streams."""
    lanes, wide = config.lanes, 8 * config.stream_width
    all_rows = [run.inference.rows[asked_rows(run)] for run in runs]
    sources = {  # words of each packet, their width, number of the stream, what begins a packet
        "model": ([stream_words(run.inference.stream, wide // 8) for run in runs], wide, 1, "go"),
        "tokens": ([run.inference.tokens.tolist() for run in runs], 32, 2, "go"),
        "rows": (
            [rows_words(row, lanes) for rows in all_rows for row in rows],
            8 * lanes,
            4,
            "asked[ROW_LATENCY-2]",
        ),
    }
    sinks = {
        "request": (32, 3, "m_axis_request_tdata"),
        "logits": (33, 5, "{m_axis_logits_tlast, m_axis_logits_tdata}"),
    }
    shared, files, streams = tops.named("clk", "rst", "stalls"), {}, []
    for name, (packets, width, number, go) in sources.items():
        files[f"vectors/{name}.mem"], words = packets_text(packets, width)
        port = f"s_axis_{name}"
        given = {"FILE": f'{{DIR, "/{name}.mem"}}', "NAME": f'"{port}"', "WIDTH": width}
        joined = {pin: f"{port}_t{pin}" for pin in ("valid", "ready", "data", "last")}
        joined |= {"go": go, "moved": f"{name}_moved", "idle": f"{name}_idle"}
        given |= {"WORDS": words, "STREAM": number}
        streams.append(tops.part("bench_source", name, given, shared | joined))
    for name, (width, number, data) in sinks.items():
        port = f"m_axis_{name}"
        given = {"NAME": f'"{port}"', "WIDTH": width, "STREAM": number}
        joined = {pin: f"{port}_t{pin}" for pin in ("valid", "ready")}
        joined |= {"cycle": "cycle", "data": data}
        streams.append(tops.part("bench_sink", name, given, shared | joined))
    around = tops.filled("streams.sv", row_latency=ROW_LATENCY, streams="\n".join(streams))
    ends, requests = [], []
    for run in runs:
        last, rows = run.inference.ends.astype(int), asked_rows(run)
        ends.append(passing("m_axis_logits_tlast", last, np.arange(last.size)[:, None]))
        pairs = np.stack(np.divmod(np.arange(rows.size), 2), 1)
        requests.append(passing("embedding.rows", rows, pairs))
    taken, asked = Format(1, 1, False), Format(1, 32, False)
    axes = ("token", "position")
    checks = [
        result_check("m_axis_logits_tdata", "logits_passes", runs),
        stream_check("m_axis_logits_tlast", taken, "logits_passes", ("word",), ends),
        stream_check("m_axis_request_tdata", asked, "request_passes", axes, requests),
    ]
    moves = "model_moved || tokens_moved || rows_moved || request_passes || logits_passes"
    return files, around, moves, checks


def _memory(
    config: Config, runs: Sequence[Run], *, bus: Bus, ports: Mapping[str, Any]
) -> Surroundings:
    """A memory with streams and rows."""
    memory, jobs = Memory(bus), []
    for run, first in zip(runs, np.cumsum([0, *(len(x.inference.tokens) for x in runs)])):
        inference = run.inference
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
    addresses = {register.name: f"{register.address:x}" for register in DMA_REGISTERS}
    used = (*KEPT, "token", "token_last", "token_room", "logits_waiting")
    given = {
        "FILE": '{DIR, "/memory.mem"}',
        "WIDTH": bus.data_bits,
        "ADDRESS": bus.address_bits,
        "BASE": f"64'h{memory.base:x}",
        "BEATS": memory.beats,
        "BURST": bus.burst,
        "OUTSTANDING": bus.outstanding,
        "LATENCY": MEMORY_LATENCY,
    }
    joined = tops.named("clk", "rst", "stalls", "cycle", moved="memory_moved", idle="memory_idle")
    joined |= {
        name.removeprefix("m_axi_"): name for name in tops.pins(ports) if name.startswith("m_axi_")
    }
    around = tops.filled(
        "memory.sv",
        memory=tops.part("bench_memory", "memory", given, joined),
        tokens_words=tokens_words,
        fifo_words=fifo_words(config.tokens),
        logit_address=addresses["logit"],
        **{name: addresses[name] for name in used},
    )
    checks = [result_check("logit", "logit_passes", runs)]
    return files, around, "memory_moved || logit_passes", checks
