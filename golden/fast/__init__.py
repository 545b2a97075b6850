"""golden on batches, as fast as float: the same integers by exact BLAS and compiled loops.

    from golden import fast
    logits = fast.run_batch(model, [ids, ...])

The functions beside this folder are the specification; tests hold both equal bit for bit. The float
arrays here are containers of integers, with the proof of exactness where each is used. Needs Numba,
which the specification does not: pip install 'bert2rtl[quant]'.
"""

from golden.fast.engine import Engine, run, run_batch, trace_batch

__all__ = ["Engine", "run", "run_batch", "trace_batch"]
