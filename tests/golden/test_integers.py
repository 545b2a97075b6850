"""No float in golden/: not in the source, not in a run. golden/fast is an engine, not the
specification, and is excluded by name."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
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
SOURCES = sorted(
    path for path in FOLDER.rglob("*.py") if path.relative_to(FOLDER).parts[0] != "fast"
)

# NumPy functions and attributes whose result is a float for integers, and the float types.
FLOATING = {
    "arccos", "arctan", "average", "cbrt", "corrcoef", "cos", "cosh", "cov", "deg2rad", "divide",
    "double", "exp", "exp2", "expm1", "fft", "floating", "frexp", "geomspace", "half", "hypot",
    "inexact", "inf", "interp", "ldexp", "linalg", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logspace", "longdouble", "mean", "median", "nan", "nanmean", "normal",
    "percentile", "pi", "quantile", "reciprocal", "rint", "sin", "single", "sinh", "sqrt", "std",
    "tan", "tanh", "true_divide", "uniform", "var", "longfloat", "spacing", "sinc", "trapezoid",
}  # fmt: skip
FLOAT_DTYPE = re.compile(r"[<>=|]?[efdgFDG]\d*|(float|complex)\d*|half|single|double|longdouble")
FLOAT_NAMES = {"float", "complex", "Fraction", "Decimal"}


def floats_in(source: str) -> Iterator[str]:
    """What in a source can make a float, with its line."""
    for node in ast.walk(ast.parse(source)):
        found = None
        match node:
            case ast.Constant(value=float() | complex()):
                found = f"literal {node.value}"
            case ast.Constant(value=str() as text) if FLOAT_DTYPE.fullmatch(text):
                found = f"dtype {text!r}"
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                found = "true division"
            case ast.BinOp(op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
                found = "negative power"
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
                found = name if name in FLOATING or name.startswith(("float", "complex")) else None
            case ast.Attribute(attr="mean" | "std" | "var" | "normal" | "uniform" | "random"):
                found = node.attr
            case ast.Name(id=name) if name in FLOAT_NAMES:
                found = name
            case ast.ImportFrom(module="math"):
                names = {alias.name for alias in node.names} - {"isqrt"}
                found = f"math.{names.pop()}" if names else None
            case ast.Import(names=[ast.alias(name="math" | "fractions" | "decimal")]):
                found = "import of a module that makes floats"
        if found:
            yield f"line {getattr(node, 'lineno', '?')}: {found}"


def test_the_sources_are_all_there() -> None:
    stems = {path.stem for path in SOURCES}
    assert stems >= {"requantize", "softmax", "layernorm", "attention", "encoder", "random"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_source_has_no_float(path: Path) -> None:
    assert list(floats_in(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = 0.5",
        "x = 1e3",
        "y = x / 2",
        "x /= 2",
        "x = 2 ** -3",
        "x = np.sqrt(y)",
        "x = np.float32",
        "x = y.astype('float64')",
        "x = y.astype(float)",
        "x = np.zeros(3, dtype='f')",
        "x = y.mean()",
        "from math import sqrt",
        "import math",
        "x = np.linalg.norm(y)",
    ],
)
def test_the_scan_finds(source: str) -> None:
    assert list(floats_in(source))


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


def test_the_watch_finds_a_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same watch on a function of golden that is given a float."""
    from golden.requantize import saturate

    found: set[str] = set()
    before = sys.gettrace()
    sys.settrace(watch_floats(found))
    try:
        saturate(np.array([0.5]), 8)
    finally:
        sys.settrace(before)
    assert found == {"saturate: x", "saturate: return value"}
