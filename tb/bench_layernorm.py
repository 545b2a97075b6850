"""LayerNorm against golden.layernorm, every read and write in the cycle that its policy says."""

from tb import layernorm
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.layernorm import check_layernorm, level_operation, random_operation


def sizes(ports: CocotbPorts) -> tuple[int, int, int]:
    """Lanes, hidden and row tiles."""
    lanes = ports.config["lanes"]
    return lanes, ports.config["hidden"], -(-ports.config["tokens"] // lanes)


@unit_test(busy=[0.0, 0.3], spread=[0, 80], channels=[1, 8, 45])
async def operations(ports: CocotbPorts, busy: float, spread: int, channels: int) -> None:
    lanes, hidden, _ = sizes(ports)
    work = [
        random_operation(lanes, min(channels, hidden), tiles, seed=tiles, busy=busy, spread=spread)
        for tiles in (3, 4, 1)
    ]
    await check_layernorm(ports, work)


@unit_test()
async def rms_norms(ports: CocotbPorts) -> None:
    """RMSNorms in turn with LayerNorms; the largest values of n."""
    lanes, hidden, most = sizes(ports)
    few, tiles = min(hidden, 45), min(3, most)
    work = [random_operation(lanes, few, tiles, seed, spread=20) for seed in range(3)]
    work = layernorm.of_rms(work)
    work += [layernorm.rms_extremes(lanes, min(hidden, 1023))] if lanes * tiles >= 6 else []
    await check_layernorm(ports, work)


@unit_test()
async def extremes(ports: CocotbPorts) -> None:
    await check_layernorm(ports, layernorm.extreme_operations(*sizes(ports)[:2]))


@unit_test()
async def many_tiles(ports: CocotbPorts) -> None:
    lanes, hidden, most = sizes(ports)
    # Every bit of the number of tiles is set in one.
    shapes = (min(66, hidden), max(most - 1, 1)), (2, most)
    await check_layernorm(ports, [random_operation(lanes, *s, seed=8, spread=20) for s in shapes])


@unit_test()
async def rows_that_hardly_vary(ports: CocotbPorts) -> None:
    """Beside zero, and far from it."""
    lanes, hidden, most = sizes(ports)
    near = level_operation(lanes, min(33, hidden), min(30, most), seed=3, furthest=500)
    far = level_operation(lanes, hidden, min(12, most), seed=4, furthest=32766)
    await check_layernorm(ports, [near, far])


@unit_test()
async def roundings_that_hang_on_the_last_bits(ports: CocotbPorts) -> None:
    await check_layernorm(ports, layernorm.rounding_edges(ports.config["lanes"]))


@unit_test()
async def rows_of_the_full_range(ports: CocotbPorts) -> None:
    await check_layernorm(ports, [layernorm.wide_rows(*sizes(ports)[:2])])


@unit_test()
async def rows_and_parameters_of_every_size(ports: CocotbPorts) -> None:
    lanes, hidden, _ = sizes(ports)
    await check_layernorm(ports, layernorm.broad(lanes, min(hidden, 24)))


@unit_test()
async def outputs_that_hang_on_a_bit_of_epsilon(ports: CocotbPorts) -> None:
    lanes, hidden, most = sizes(ports)
    await check_layernorm(ports, layernorm.epsilons(lanes, min(hidden, 8), most))


@unit_test()
async def outputs_shifted_little(ports: CocotbPorts) -> None:
    await check_layernorm(ports, layernorm.small_shifts(ports.config["lanes"], 12))


@unit_test()
async def port_taken_for_long(ports: CocotbPorts) -> None:
    """No read for long where a pass 2 is about to begin: its constants must survive."""
    work = random_operation(ports.config["lanes"], 6, 4, seed=5)
    work.busy = lambda t: 40 <= t < 120 or t % 90 > 50
    await check_layernorm(ports, [work])


@unit_test(cycles=[30, 90, 131])
async def reset_in_the_middle(ports: CocotbPorts, cycles: int) -> None:
    first, second = (random_operation(ports.config["lanes"], 20, 3, seed) for seed in (1, 2))
    await ports.interrupt(check_layernorm(ports, [first]), cycles)
    await check_layernorm(ports, [second])


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    given = vectors("layernorm")
    work = [layernorm.from_vector(vector, ports.config["lanes"]) for vector in given]
    await check_layernorm(ports, work)
