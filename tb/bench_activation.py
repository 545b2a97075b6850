"""ActivationTable against golden.activation."""

from tb.activation import check_activation, check_vectors, random_table
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors


@unit_test()
async def tables_one_after_the_other(ports: CocotbPorts) -> None:
    for seed in (1, 2, 3):
        await check_activation(ports, ports.config["lanes"], random_table(seed))


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    await check_vectors(ports, ports.config["lanes"], vectors("activation"))
