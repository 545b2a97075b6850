"""A passive UVM view of the accelerator: registers, monitor, scoreboard, golden's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtl.control.axi import ADDRESS
from rtl.dma.bus import Bus
from rtl.dma.registers import DMA_REGISTERS
from rtl.interface.command import DESCRIPTOR_BYTES
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.registers.export import uvm_package
from rtl.registers.map import TOP
from tb.generate import tops
from tb.generate.machines import Run
from tb.packing import ENDS

ANSWERS = "uvm/answers.txt"
MODEL_AT = 20
"""Where the model's hash lies in the header of a command stream."""


def answers_text(runs: Sequence[Run]) -> str:
    """The table of the scoreboard: golden's logits by the model's hash and the words of the tokens.

    A packet of tokens is there once. The format stands above `_answers` in uvm_package.sv.
    """
    entries: dict[str, str] = {}
    for run in runs:
        inference = run.inference
        assert inference.result is not None
        words = inference.tokens.tolist()
        words[-1] |= ENDS
        model = inference.stream[MODEL_AT : MODEL_AT + 8].hex()
        asked = " ".join([model, str(len(words)), *(f"{word:08x}" for word in words)])
        packets: list[list[int]] = [[]]
        logits = inference.result.values.reshape(-1).tolist()
        for logit, ends in zip(logits, inference.ends.tolist()):
            packets[-1].append(logit)
            if ends:
                packets.append([])
        assert packets.pop() == [], "the last logit ends no packet"
        told = [str(len(packets))]
        told += [f"{len(packet)} {' '.join(map(str, packet))}" for packet in packets]
        entries[asked] = "  ".join(told)
    lines = [f"{asked}  {told}\n" for asked, told in entries.items()]
    return "".join([f"answers {len(lines)}\n", *lines, "end\n"])


def uvm_files(
    sheet: Mapping[str, Any], config: Config, runs: Sequence[Run], bus: Bus | None
) -> dict[str, str]:
    """The files of the view by path, sources in the order in which a simulator reads them.

    sheet, runs
        Of the bench beside it.
    """
    module, ports = sheet["module"], tops.plain(sheet["ports"])
    names = [*tops.pins(ports)]
    listed = [f"    input wire {name}" for name in ("clk", "rst")]
    listed += [
        f"    input wire [{facts['width'] - 1}:0] {name}"
        for name, facts in tops.pins(ports).items()
    ]
    addresses = {name: ADDRESS[name] for name in ("control", "status")}
    if bus is None:
        surroundings = tops.filled(
            "uvm_streams.sv", module=module, model_width=8 * config.stream_width
        )
    else:
        used = ("model_address", "model_address_high", "token", "token_last", "logit")
        addresses |= {x.name: x.address for x in DMA_REGISTERS if x.name in used}
        surroundings = tops.filled("uvm_memory.sv", module=module, data_bits=bus.data_bits)
    package = tops.filled(
        "uvm_package.sv",
        module=module,
        top=TOP,
        cores=1 if bus is None else bus.cores,
        lanes=config.lanes,
        streams=f"1'b{int(bus is None)}",
        header_bytes=DESCRIPTOR_BYTES,
        model_at=MODEL_AT,
        addresses=",".join(f" {name.upper()} = 8'h{at:02x}" for name, at in addresses.items()),
        last_error=max(Error).value,
        surroundings=surroundings,
    )
    return {
        f"uvm/{module}_registers_pkg.sv": uvm_package(config, f"{module}_registers_pkg", bus),
        f"uvm/{module}_if.sv": tops.filled(
            "uvm_interface.sv",
            module=module,
            ports=",\n".join(listed),
            names=", ".join(["rst", *names]),
        ),
        f"uvm/{module}_uvm_pkg.sv": package,
        f"uvm/{module}_example.sv": tops.filled(
            "uvm_example.sv",
            module=module,
            example=f"{module}_uvm_example",
            bench=f"{module}_bench",
            inferences=len(runs),
        ),
        ANSWERS: answers_text(runs),
    }
