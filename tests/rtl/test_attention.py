"""The attention unit against golden.attention, in Amaranth's simulator: context in, context out."""

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.attention import attention
from rtl.attention import Attention
from rtl.compile.program import compile_attention
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.case import Inference, attention_inference
from tb.scenarios import SMALL, SMALL_LIMITS, family
from tests.tiers import quick

NAMES = ("bert-tiny", "no-pooler", "three-heads", "post-norm-mean")


def rtl_attention(config: Config, inference: Inference) -> tuple[Error, np.ndarray]:
    """Error code and the words of `o`, [words, lanes]."""
    unit, n = Attention(config), config.lanes
    padded = inference.stream + bytes(-len(inference.stream) % n)
    model = [int.from_bytes(padded[i : i + n], "little") for i in range(0, len(padded), n)]
    assert inference.activations is not None
    streams = (
        (unit.model, model),
        (unit.tokens, inference.tokens.tolist()),
        (unit.i, [int.from_bytes(word.tobytes(), "little") for word in inference.activations]),
    )
    code, words = Error.NONE, []

    def source(port: Any, payloads: list[int]) -> Any:
        async def send(ctx: Any) -> None:
            width = port.payload.shape().size - 1
            for place, word in enumerate(payloads):
                last = place == len(payloads) - 1
                ctx.set(port.payload.as_value(), word | last << width)
                ctx.set(port.valid, 1)
                await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)

        return send

    async def testbench(ctx: Any) -> None:
        nonlocal code
        ctx.set(unit.start, 1)
        ctx.set(unit.o.ready, 1)
        await ctx.tick()
        ctx.set(unit.start, 0)
        for _ in range(30_000):
            if ctx.get(unit.o.valid):
                words.append(list(ctx.get(unit.o.payload.data)))
                ended = ctx.get(unit.o.payload.last)
            if ctx.get(unit.done):
                code = Error(ctx.get(unit.error))
                assert ended
                return
            await ctx.tick()
        raise AssertionError("the unit hangs")

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(testbench)
    for port, payloads in streams:
        sim.add_testbench(source(port, payloads), background=True)
    sim.run()
    return code, np.array(words)


@pytest.mark.parametrize(("lanes", "tokens"), quick([(4, 7), (8, 11)]))
@pytest.mark.parametrize("name", quick(NAMES, 2))
def test_context(name: str, lanes: int, tokens: int) -> None:
    config = Config(lanes=lanes, **SMALL_LIMITS | {"hidden": 48})
    model = family(name, SMALL[name], seed=lanes)
    rng = np.random.default_rng(tokens)
    x8 = rng.integers(-128, 128, (tokens, model.shape.hidden), dtype=np.int8)
    attend = np.arange(tokens) % 3 != 1
    inference = attention_inference(compile_attention(model, config, 0), model, 0, x8, attend)
    code, words = rtl_attention(config, inference)
    assert code is Error.NONE
    rows = -(-tokens // lanes)
    context = words.reshape(rows, -1, lanes).swapaxes(1, 2).reshape(rows * lanes, -1)[:tokens]
    expected = attention(x8, model.layers[0].attention, model.shape.heads, attend)
    np.testing.assert_array_equal(context, expected)
