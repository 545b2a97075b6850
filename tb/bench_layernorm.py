"""LayerNorm against golden.layernorm, every read and write in the cycle that its policy says."""

from typing import Any

import cocotb

from tb.cocotb_ports import WITHOUT_VECTORS, start, vectors
from tb.layernorm import (
    broad,
    check_layernorm,
    epsilons,
    extreme_operations,
    from_vector,
    level_operation,
    of_rms,
    random_operation,
    rms_extremes,
    rounding_edges,
    small_shifts,
    wide_rows,
)


@cocotb.test()
@cocotb.parametrize(busy=[0.0, 0.3], spread=[0, 80], channels=[1, 8, 45])
async def operations(dut: Any, busy: float, spread: int, channels: int) -> None:
    ports = await start(dut)
    lanes, channels = ports.config["lanes"], min(channels, ports.config["hidden"])
    work = [
        random_operation(lanes, channels, tiles, seed=tiles, busy=busy, spread=spread)
        for tiles in (3, 4, 1)
    ]
    await check_layernorm(ports, work)


@cocotb.test()
async def rms_norms(dut: Any) -> None:
    """On hardware with RMSNorms, in turn with LayerNorms; the largest values of n."""
    ports = await start(dut)
    if not ports.config["rms_norm"]:
        return
    lanes, hidden = ports.config["lanes"], ports.config["hidden"]
    tiles = min(3, -(-ports.config["tokens"] // lanes))
    work = of_rms(
        [random_operation(lanes, min(hidden, 45), tiles, seed, spread=20) for seed in range(3)]
    )
    work += [rms_extremes(lanes, min(hidden, 1023))] if lanes * tiles >= 6 else []
    await check_layernorm(ports, work, rms=True)


@cocotb.test()
async def extremes(dut: Any) -> None:
    ports = await start(dut)
    await check_layernorm(ports, extreme_operations(ports.config["lanes"], ports.config["hidden"]))


@cocotb.test()
async def many_tiles(dut: Any) -> None:
    ports = await start(dut)
    lanes, tokens = ports.config["lanes"], ports.config["tokens"]
    channels = min(66, ports.config["hidden"])
    most = -(-tokens // lanes)
    sizes = (
        (max(most - 1, 1), channels),
        (most, 2),
    )  # every bit of the number of tiles is set in one
    work = [random_operation(lanes, few, tiles, seed=8, spread=20) for tiles, few in sizes]
    await check_layernorm(ports, work)


@cocotb.test()
async def rows_that_hardly_vary(dut: Any) -> None:
    ports = await start(dut)
    lanes, channels = ports.config["lanes"], min(33, ports.config["hidden"])
    tiles = min(30, -(-ports.config["tokens"] // lanes))
    work = level_operation(lanes, channels, tiles, seed=3, furthest=500)
    await check_layernorm(ports, [work])


@cocotb.test()
async def rows_that_hardly_vary_far_from_zero(dut: Any) -> None:
    ports = await start(dut)
    lanes, hidden = ports.config["lanes"], ports.config["hidden"]
    tiles = min(12, -(-ports.config["tokens"] // lanes))
    work = level_operation(lanes, hidden, tiles, seed=4, furthest=32766)
    await check_layernorm(ports, [work])


@cocotb.test()
async def roundings_that_hang_on_the_last_bits(dut: Any) -> None:
    ports = await start(dut)
    await check_layernorm(ports, rounding_edges(ports.config["lanes"]))


@cocotb.test()
async def rows_of_the_full_range(dut: Any) -> None:
    ports = await start(dut)
    await check_layernorm(ports, [wide_rows(ports.config["lanes"], ports.config["hidden"])])


@cocotb.test()
async def rows_and_parameters_of_every_size(dut: Any) -> None:
    ports = await start(dut)
    await check_layernorm(ports, broad(ports.config["lanes"], min(ports.config["hidden"], 24)))


@cocotb.test()
async def outputs_that_hang_on_a_bit_of_epsilon(dut: Any) -> None:
    ports = await start(dut)
    tiles = -(-ports.config["tokens"] // ports.config["lanes"])
    work = epsilons(ports.config["lanes"], min(ports.config["hidden"], 8), tiles)
    await check_layernorm(ports, work)


@cocotb.test()
async def outputs_shifted_little(dut: Any) -> None:
    ports = await start(dut)
    await check_layernorm(ports, small_shifts(ports.config["lanes"], 12))


@cocotb.test()
async def port_taken_for_long(dut: Any) -> None:
    """No read for long where a pass 2 is about to begin: its constants must survive."""
    ports = await start(dut)
    work = random_operation(ports.config["lanes"], 6, 4, seed=5)
    work.busy = lambda t: 40 <= t < 120 or t % 90 > 50
    await check_layernorm(ports, [work])


@cocotb.test()
@cocotb.parametrize(cycles=[30, 90, 131])
async def reset_in_the_middle(dut: Any, cycles: int) -> None:
    ports = await start(dut)
    lanes = ports.config["lanes"]
    await ports.interrupt(check_layernorm(ports, [random_operation(lanes, 20, 3, seed=1)]), cycles)
    await check_layernorm(ports, [random_operation(lanes, 20, 3, seed=2)])


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    work = [from_vector(vector, ports.config["lanes"]) for vector in vectors("layernorm")]
    await check_layernorm(ports, work)
