"""ActivationTable against golden.activation."""

from tb.activation import check_activation, check_vectors, random_table
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors


@unit_test()
async def all_codes_in_all_lanes(ports: CocotbPorts) -> None:
    await check_activation(ports, ports.config["lanes"], random_table(1))


@unit_test()
async def a_table_rewritten(ports: CocotbPorts) -> None:
    for seed in (2, 3):
        await check_activation(ports, ports.config["lanes"], random_table(seed))


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    await check_vectors(ports, ports.config["lanes"], vectors("activation"))
