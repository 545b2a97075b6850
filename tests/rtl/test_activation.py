# amaranth: UnusedElaboratable=no
"""ActivationTable against golden.activation, in Amaranth's simulator."""

import pytest

from rtl.datapath.activation import ActivationTable
from tb.activation import check_activation, random_table
from tb.amaranth_ports import simulate
from tb.ports import Ports


@pytest.mark.parametrize("lanes", [1, 4])
def test_all_codes_in_all_lanes(lanes: int) -> None:
    table = random_table(lanes)
    simulate(ActivationTable(lanes), lambda ports: check_activation(ports, lanes, table))


def test_a_rewritten_table() -> None:
    async def exercise(ports: Ports) -> None:
        for seed in (2, 3):
            await check_activation(ports, 2, random_table(seed))

    simulate(ActivationTable(2), exercise)


def test_lanes_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"ActivationTable: lanes is -1: it must lie in 1\.\.64"):
        ActivationTable(-1)
