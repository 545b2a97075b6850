"""Reciprocal against golden.reciprocal, in Amaranth's simulator."""

import numpy as np

from golden.reciprocal import reciprocal
from rtl.datapath.reciprocal import Reciprocal
from tb import reciprocal as bench
from tb.amaranth_ports import simulate
from tb.pipelined import check_stream, run_pipelined


def test_equals_golden() -> None:
    simulate(Reciprocal(), lambda ports: check_stream(ports, *bench.cases(1)))


def test_every_mantissa_of_the_smallest_intervals() -> None:
    """One whole table interval at each end and in the middle of the mantissas."""
    for start in (128, 190, 255):
        values = np.arange(start << 12, (start + 1) << 12)
        found = run_pipelined(Reciprocal(), {"i": values}, ("r", "e"))
        r, e = reciprocal(values)
        np.testing.assert_array_equal(found["r"], r)
        np.testing.assert_array_equal(found["e"], e)
