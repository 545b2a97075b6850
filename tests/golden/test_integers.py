"""No float in a run of golden/, which is the specification; golden/fast is an engine."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import golden
from golden import store
from golden.encoder import run
from golden.random import random_model
from tests import zoo

FOLDER = Path(golden.__file__).parent


def watch_floats(found: set[str]) -> Callable:
    """A tracer that looks at every local of every golden function when the function returns."""

    def on_event(frame: FrameType, event: str, argument: object) -> Callable | None:
        if Path(frame.f_code.co_filename).parent != FOLDER:
            return None
        if event == "return":
            for name, value in [*frame.f_locals.items(), ("return value", argument)]:
                members = value if isinstance(value, tuple) else (value,)
                for member in members:
                    kind = getattr(getattr(member, "dtype", None), "kind", "i")
                    if isinstance(member, float) or kind not in "iub":
                        found.add(f"{frame.f_code.co_name}: {name}")
        return on_event

    return on_event


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("pooling", ["first", "mean", "none"])
def test_a_run_has_no_float(norm: str, pooling: str, tmp_path: Path) -> None:
    shape = zoo.shape("bert-tiny", norm=norm, pooling=pooling)
    found: set[str] = set()
    trace: dict[str, np.ndarray] = {}
    before = sys.gettrace()
    sys.settrace(watch_floats(found))
    try:
        model = random_model(shape, 0)
        store.save(model, tmp_path, {})
        model, _ = store.load(tmp_path)
        run(model, [1, 2, 3], [0, 1, 0], [1, 0, 1], trace)
    finally:
        sys.settrace(before)
    assert not found
    assert len(trace) > 30
    assert {name for name, value in trace.items() if value.dtype.kind not in "iu"} == set()
