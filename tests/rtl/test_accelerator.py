"""The accelerator against golden.encoder, in Amaranth's simulator: token ids in, logits out."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.encoder import run
from golden.model import Model
from rtl.accelerator import Accelerator
from rtl.compile.program import Program, Step, compile_model, embedding_table
from rtl.control.axi import ADDRESS
from rtl.control.watchdog import patience
from rtl.interface.command import Flag
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.case import token_words
from tb.scenarios import SMALL, SMALL_LIMITS, family, sequence
from tests.damage import replaced
from tests.tiers import quick

Input = tuple[np.ndarray, np.ndarray, np.ndarray]


def joined(steps: Sequence[Step], config: Config) -> bytes:
    """The stream of these steps, with right CRCs."""
    return Program(config, 0, 0, tuple(steps)).stream()


def rtl_run(
    model: Model,
    config: Config,
    given: Input,
    whole_last_layer: bool = False,
    stream: bytes = b"",
    dut: Any = None,
) -> tuple[Error, list[int], int]:
    """Error code, logits and the register `cycles`."""
    dut, n = dut or Accelerator(config), config.lanes
    stream = stream or compile_model(model, config, whole_last_layer=whole_last_layer).stream()
    words = [int.from_bytes(stream[i : i + n], "little") for i in range(0, len(stream), n)]
    table = embedding_table(model, n)
    queue: deque[int] = deque()
    logits: list[int] = []
    answers: dict[str, int] = {}

    def source(name: str, payloads: list[int]) -> Any:
        port = getattr(dut, f"s_axis_{name}")

        async def send(ctx: Any) -> None:
            for place, word in enumerate(payloads):
                ctx.set(port.tdata, word)
                ctx.set(port.tlast, place == len(payloads) - 1)
                ctx.set(port.tvalid, 1)
                await ctx.tick().until(port.tready)
            ctx.set(port.tvalid, 0)

        return send

    async def rows(ctx: Any) -> None:
        while True:
            if not queue:
                await ctx.tick()
                continue
            row = table[queue.popleft()].reshape(-1, n)
            for place, word in enumerate(row):
                ctx.set(dut.s_axis_rows.tdata, int.from_bytes(word.tobytes(), "little"))
                ctx.set(dut.s_axis_rows.tlast, place == len(row) - 1)
                ctx.set(dut.s_axis_rows.tvalid, 1)
                await ctx.tick().until(dut.s_axis_rows.tready)
            ctx.set(dut.s_axis_rows.tvalid, 0)

    async def testbench(ctx: Any) -> None:
        for name, value in (
            ("awaddr", ADDRESS["control"]),
            ("wdata", 1),
            ("wstrb", 1),
            ("awvalid", 1),
            ("wvalid", 1),
            ("bready", 1),
        ):
            ctx.set(getattr(dut.s_axi, name), value)
        await ctx.tick()
        ctx.set(dut.s_axi.awvalid, 0)
        ctx.set(dut.s_axi.wvalid, 0)
        ctx.set(dut.m_axis_request.tready, 1)
        ctx.set(dut.m_axis_logits.tready, 1)
        for _ in range(60_000):
            if ctx.get(dut.m_axis_request.tvalid):
                queue.append(ctx.get(dut.m_axis_request.tdata))
            if ctx.get(dut.m_axis_logits.tvalid):
                word = ctx.get(dut.m_axis_logits.tdata)
                logits.append(word - (1 << 32) if word >> 31 else word)
            if ctx.get(dut.interrupt):
                break
            await ctx.tick()
        for name in ("status", "cycles"):
            ctx.set(dut.s_axi.araddr, ADDRESS[name])
            ctx.set(dut.s_axi.arvalid, 1)
            ctx.set(dut.s_axi.rready, 1)
            await ctx.tick()
            ctx.set(dut.s_axi.arvalid, 0)
            answers[name] = ctx.get(dut.s_axi.rdata)
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(testbench)
    for send in (source("model", words), source("tokens", token_words(*given).tolist()), rows):
        sim.add_testbench(send, background=True)
    sim.run()
    assert answers["status"] & 3 == 2, "the inference has not ended"
    return Error(answers["status"] >> 8 & 15), logits, answers["cycles"]


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(["pre-norm", "every-token"]))
def test_logits(name: str) -> None:
    config = Config(lanes=4, **SMALL_LIMITS)
    model = family(name, SMALL[name], seed=7)
    given = sequence(model, 6, 1)
    error, logits, cycles = rtl_run(model, config, given)
    assert error is Error.NONE
    assert logits == run(model, *given).reshape(-1).tolist()
    assert cycles > 500


@pytest.mark.slow
def test_a_whole_last_layer_gives_the_same_logits_later() -> None:
    config = Config(lanes=4, **SMALL_LIMITS)
    model = family("no-pooler", SMALL["no-pooler"])
    given = sequence(model, 6, 2)
    _, pruned, cycles = rtl_run(model, config, given)
    _, whole, more = rtl_run(model, config, given, whole_last_layer=True)
    assert whole == pruned == run(model, *given).tolist()
    assert more > cycles


@pytest.mark.slow
def test_a_table_without_wide_has_no_low_halves() -> None:
    """Of its results a LINEAR with WIDE reads 0, not what a table before it has left."""
    config = Config(lanes=4, precise=True, **SMALL_LIMITS)
    model = family("bert-tiny", SMALL["bert-tiny"], precise=True)
    first, second = model.layers
    low, second_low = (
        np.where(layer.ffn.up.table == -128, 0, 127).astype(np.int8) for layer in model.layers
    )

    def with_low(table: np.ndarray | None) -> Model:
        layers = [
            replace(layer, ffn=replace(layer.ffn, up=replace(layer.ffn.up, table_low=own)))
            for layer, own in ((first, low), (second, table))
        ]
        return replace(model, layers=tuple(layers))

    given = sequence(model, 5, 4)
    expected, left = (run(with_low(table), *given).tolist() for table in (None, second_low))
    assert expected != left
    steps = [
        replace(step, flags=step.flags | (Flag.WIDE if step.name == "layer.1.ffn.sum" else 0))
        for step in compile_model(with_low(None), config).steps
    ]
    error, logits, _ = rtl_run(model, config, given, stream=joined(steps, config))
    assert error is Error.NONE
    assert logits == expected


@pytest.mark.slow
def test_no_valid_key() -> None:
    model = family("pre-norm", SMALL["pre-norm"])
    ids, types, attend = sequence(model, 5, 3)
    error, logits, _ = rtl_run(model, Config(lanes=4, **SMALL_LIMITS), (ids, types, 0 * attend))
    assert error is Error.NO_KEY
    assert logits == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", ["is_[Opcode.NORM] & (waiting | (flags.chained & (~stored | read)))", "of_x8 & ("]
)
def test_what_no_rule_refuses_ends_with_timeout(rule: str) -> None:
    """The watchdog catches a second NORM before a sum, and X8 read while its NORM waits."""
    model = family("pre-norm", SMALL["pre-norm"])
    config = Config(lanes=4, **SMALL_LIMITS)
    steps = list(compile_model(model, config).steps)
    place = next(i for i, step in enumerate(steps) if step.name == "layer.0.ffn.norm")
    steps.insert(place, steps[place])
    if "of_x8" in rule:
        steps[place] = next(step for step in steps if step.name == "layer.0.q")
        steps[place], steps[place + 1] = steps[place + 1], steps[place]
    stream = joined(steps, config)
    given = sequence(model, 3, 1)
    assert rtl_run(model, config, given, stream=stream)[0] is Error.FORMAT
    with replaced("rules", (rule, f"0 & {rule}")):
        faulty = import_module("rtl.accelerator").Accelerator(config)
        error, logits, cycles = rtl_run(model, config, given, stream=stream, dut=faulty)
    assert error is Error.TIMEOUT
    assert logits == []
    assert cycles > patience(config)
