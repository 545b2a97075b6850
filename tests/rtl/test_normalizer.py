# amaranth: UnusedElaboratable=no
"""The normalizer against golden.layernorm, while the epilogue uses the ports of X16 at random."""

from typing import Any

import numpy as np
import pytest

from golden.layernorm import layernorm
from golden.linear import WIDE_MAX, halves, operand, wide_operand
from golden.model import Norm
from rtl.datapath.normalizer import Normalizer
from rtl.interface.config import Config
from tb.amaranth_ports import simulate
from tests.tiers import quick

CONFIG = Config(lanes=4, tokens=20, hidden=16, ffn=16)
N = CONFIG.lanes


def random_norm(rng: np.random.Generator, channels: int, precise: bool) -> Norm:
    shifts = rng.integers(1, 9, channels).astype(np.uint8)
    return Norm(
        gamma=rng.integers(-20_000, 20_000, channels, dtype=np.int16),
        beta=rng.integers(-(1 << 24), 1 << 24, channels, dtype=np.int32),
        shift=int(rng.integers(12, 15)) - 2 * precise,  # so that some of them saturate
        epsilon=int(rng.integers(1, 1 << 20)),
        operand_shifts=np.full(channels, 8, np.uint8) if precise else shifts,
    )


@pytest.mark.parametrize("traffic", quick([0.7, 0.0, 0.3]))
@pytest.mark.parametrize(
    ("channels", "rows", "columns", "precise"),
    quick(
        [
            (1, 1, N, False),
            (7, 3, N, False),
            (16, 5, 4 * N, False),
            (7, 3, 2 * N, True),
            (16, 5, N, False),
            (16, 1, N, False),
            (7, 3, 2 * N, False),
            (16, 5, N, True),
        ],
        2,
    ),
)
def test_sums_and_norms(
    channels: int, rows: int, columns: int, precise: bool, traffic: float
) -> None:
    """Three sums: plain (x stays), residual (x is replaced) and CHAINED behind it, one tile.

    Every sum is written row tile by row tile, with foreign reads between; all of it must be
    normalised exactly as it was written, and what the NORM writes must be read back.
    """
    unit = Normalizer(
        Config(lanes=N, tokens=20, hidden=16, ffn=16, columns=columns, precise=precise)
    )
    ways = columns // N
    rng = np.random.default_rng([channels, rows])
    sums = rng.integers(-(1 << 15), 1 << 15, (3, rows * N, channels), dtype=np.int16)
    norms = [random_norm(rng, channels, precise) for _ in range(4)]
    # (norm, flags); the second sum has two norms, of which the second reads the first's output.
    plan = [("plain", norms[0]), ("residual", norms[1]), ("chained", norms[2]), ("first", norms[3])]
    saturated: list[bool] = []
    written: dict[str, dict[int, tuple[list[int], list[int]]]] = {name: {} for name, _ in plan}

    async def exercise(ports: Any) -> list[list[int]]:
        ctx = ports.ctx
        writes: list[tuple[int, int, list[int], int]] = []  # cycle, address, word, row_tile_done
        ahead: set[int] = set()
        state = {"norm": -1, "cycle": 0, "finished": 0}
        reads: dict[int, int] = {}
        checked: list[list[int]] = []
        x: dict[int, list[int]] = {}

        async def cycle() -> None:
            now = state["cycle"]
            write = next((w for w in writes if w[0] == now), None)
            ctx.set(unit.x.write_en, int(write is not None))
            ctx.set(unit.x.write_lanes, (1 << N) - 1)
            ctx.set(unit.row_tile_done, int(write is not None and write[3]))
            if write is not None:
                ctx.set(unit.x.write_address, write[1])
                ctx.set(unit.x.write_data, write[2])
                x[write[1]] = write[2]
            read = bool(x) and rng.random() < traffic
            ctx.set(unit.x.busy, int(read or now + unit.ahead in ahead))
            ctx.set(unit.x.read_en, int(read))
            if read:
                address = int(rng.choice(list(x)))
                ctx.set(unit.x.read_address, address)
                reads[now + 2] = address
            if now in reads:
                checked.append([reads[now], *ctx.get(unit.x.read_data)])
            if ctx.get(unit.trace.norm_en):
                at = ctx.get(unit.trace.norm_address)
                word, word8 = list(ctx.get(unit.trace.norm)), list(ctx.get(unit.trace.norm8))
                name = plan[ctx.get(unit.progress.norms)][0]
                assert at not in written[name]
                written[name][at] = (word, word8)
                row, channel = divmod(at, channels)
                assert ctx.get(unit.x8.en) == 1 << row % ways
                assert ctx.get(unit.x8.address) == row // ways * channels + channel
                stored = [ctx.get(unit.x8.data[lane]) for lane in range(N)]
                if precise:
                    high, low = halves(wide_operand(np.array(word)))
                    assert [half.high for half in stored] == word8 == high.tolist()
                    assert [half.low for half in stored] == low.tolist()
                    saturated.append(max(word) > WIDE_MAX)
                else:
                    assert stored == word8
            await ctx.tick()
            state["cycle"] += 1

        async def begin(name: str, norm: Norm) -> None:
            while not ctx.get(unit.free):
                await cycle()
            for channel in range(channels):
                ctx.set(unit.parameter.en, 1)
                ctx.set(unit.parameter.address, channel)
                ctx.set(unit.parameter.gamma, int(norm.gamma[channel]))
                ctx.set(unit.parameter.beta, int(norm.beta[channel]))
                ctx.set(unit.parameter.operand_shift, int(norm.operand_shifts[channel]) % 8)
                await cycle()
            ctx.set(unit.parameter.en, 0)
            payload = unit.norm.payload
            ctx.set(payload.channels, channels)
            ctx.set(payload.shift, norm.shift)
            ctx.set(payload.epsilon, norm.epsilon)
            ctx.set(payload.flags.residual, int(name == "residual"))
            ctx.set(payload.flags.chained, int(name == "chained"))
            ctx.set(payload.flags.first_tile, int(name == "first"))
            ctx.set(unit.norm.valid, 1)
            await cycle()
            ctx.set(unit.norm.valid, 0)

        async def finish(count: int) -> None:
            for _ in range(20_000):
                if ctx.get(unit.progress.norms) == count:
                    return
                await cycle()
            raise AssertionError(f"NORM {count} has not finished")

        async def add(number: int, tiles: int) -> None:
            """Write a sum, with pauses; the words of a row tile column by column."""
            at = state["cycle"] + unit.ahead + 1
            for row in range(tiles):
                for channel in range(channels):
                    at += 1 + int(rng.random() < traffic) * int(rng.integers(1, 30))
                    word = sums[number, row * N : row * N + N, channel].tolist()
                    writes.append(
                        (at, row * channels + channel, word, int(channel == channels - 1))
                    )
                    ahead.add(at)
            while state["cycle"] <= at:
                await cycle()

        ctx.set(unit.batch.ready, 1)
        ctx.set(unit.batch.row_tiles, rows)
        ctx.set(unit.batch.gathered, 1)
        await begin(*plan[0])
        await add(0, rows)
        await finish(1)
        x.clear()
        await begin(*plan[1])
        await add(1, rows)
        await begin(*plan[2])
        await finish(3)
        # What is read of X16 now is what the residual NORM has written.
        result = []
        for address in range(rows * channels):
            ctx.set(unit.x.read_en, 1)
            ctx.set(unit.x.read_address, address)
            await ctx.tick()
            ctx.set(unit.x.read_en, 0)
            await ctx.tick()
            result.append(list(ctx.get(unit.x.read_data)))
        x.clear()
        state["cycle"] += 1
        await begin(*plan[3])
        await add(2, 1)
        await finish(4)
        return result

    x = np.array(simulate(unit, exercise)).reshape(rows, channels, N).swapaxes(1, 2)
    replaced = layernorm(sums[1], norms[1])
    np.testing.assert_array_equal(x.reshape(-1, channels), replaced)
    expected = {
        "plain": layernorm(sums[0], norms[0]),
        "residual": replaced,
        "chained": layernorm(replaced, norms[2]),
        "first": layernorm(sums[2], norms[3])[:N],
    }
    for name, wanted in expected.items():
        words = np.array([written[name][at] for at in range(len(wanted) // N * channels)])
        shown = words.reshape(-1, channels, 2, N).transpose(2, 0, 3, 1).reshape(2, -1, channels)
        np.testing.assert_array_equal(shown[0], wanted, err_msg=name)
        shifts = dict(plan)[name].operand_shifts
        np.testing.assert_array_equal(shown[1], operand(wanted, shifts), err_msg=name)
        assert len(written[name]) == len(words)
    assert any(saturated) == precise
