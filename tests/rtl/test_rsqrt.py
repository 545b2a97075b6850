"""Rsqrt against golden.rsqrt, in Amaranth's simulator."""

import pytest

from rtl.datapath.rsqrt import Rsqrt
from tb import rsqrt
from tb.amaranth_ports import simulate
from tb.pipelined import check_stream


@pytest.mark.parametrize("seed", [1, 2])
def test_equals_golden(seed: int) -> None:
    simulate(Rsqrt(), lambda ports: check_stream(ports, *rsqrt.cases(seed)))
