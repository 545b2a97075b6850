"""What holds for all tests."""

import gc
import os
from contextlib import suppress
from importlib import import_module

# Two test processes have two cores: a second thread of BLAS would wait, and waits busily.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

with suppress(ImportError):  # so that calibrations start no process that imports it, 7 s each
    import_module("torch")

# A look for cyclic garbage goes over all that Amaranth, Numba and torch have made by then, which
# at Python's thresholds is a tenth of the time of a test that simulates or compiles.
gc.set_threshold(100_000, 50, 100)
