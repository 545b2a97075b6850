"""The drivers in Python run on 3.8, which images of PYNQ have; all else needs 3.11."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "driver").glob("*.py"))
OLDEST = (3, 8)

# What is new since then, of the kinds of work that a driver does. Syntax is the parser's to refuse.
METHODS = {
    *("removeprefix", "removesuffix", "bit_count", "is_relative_to", "with_stem", "hardlink_to"),
    *("add_note", "randbytes"),
}
NAMES = {
    *("pairwise", "batched", "cache", "lcm", "nextafter", "ulp", "cbrt", "sumprod", "chdir"),
    *("file_digest", "StrEnum", "UTC", "NoneType", "UnionType", "Annotated", "TypeAlias", "Self"),
    *("ParamSpec", "Concatenate", "TypeGuard", "Never", "assert_never", "override", "Required"),
    *("NotRequired", "Unpack", "LiteralString"),
}
BUILTINS = {"aiter", "anext", "ExceptionGroup", "BaseExceptionGroup", "EncodingWarning"}
MODULES = {"tomllib", "zoneinfo", "graphlib"}
KEYWORDS = {
    ("zip", "strict"),
    ("field", "kw_only"),
    ("write_text", "newline"),
    *(("dataclass", word) for word in ("kw_only", "slots", "match_args")),
    *((name, "key") for name in ("bisect", "bisect_left", "bisect_right", "insort")),
}
# Classes that 3.9 first wrote with what they hold, list[int].
GENERIC = {
    *("list", "dict", "tuple", "set", "frozenset", "type", "deque", "defaultdict", "OrderedDict"),
    *("Counter", "ChainMap", "Callable", "Iterator", "Iterable", "Sequence", "Mapping"),
    *("Generator", "MutableMapping", "MutableSequence", "Collection", "Container", "Pattern"),
    *("Match", "AbstractContextManager", "PathLike"),
}


STANDARD = sys.stdlib_module_names


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def evaluated(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module but its annotations, which `from __future__ import annotations` keeps
    as text."""
    lazy = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if lazy and field in ("annotation", "returns"):
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [child for child in children if isinstance(child, ast.AST)]


def too_new(text: str) -> list[str]:
    """What of a module Python 3.8 has not, with its line."""
    try:
        tree = ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{error.lineno}: {error.msg}"]
    return [
        f"{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for node in evaluated(tree)
        if _is_new(node)
    ]


def _is_new(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in BUILTINS
        case ast.Attribute(attr=name, value=ast.Name(id=module)) if module in STANDARD:
            return name in NAMES
        case ast.Attribute(attr=name):
            return name in METHODS
        case ast.Subscript(value=value):
            return _name(value) in GENERIC
        case ast.Call(func=function, keywords=words):
            return any((_name(function), word.arg) in KEYWORDS for word in words)
        case ast.Import(names=names):
            return any(alias.name in MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names):
            imported = {alias.name for alias in names}
            return module in MODULES or (module in STANDARD and bool(imported & NAMES))
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            # Of types or of two dicts, where it can be told.
            return any(
                isinstance(side, ast.Dict | ast.DictComp)
                or (isinstance(side, ast.Constant) and side.value is None)
                for side in (left, right)
            )
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_driver_has_nothing_newer_than_python_3_8(path: Path) -> None:
    assert too_new(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "match 1:\n    case 1: pass",
        "with (open('a') as a, open('b') as b): pass",
        "try: pass\nexcept* ValueError: pass",
        "type A = int",
        "def f[T](x: T): pass",
        "def f(x: list[int]): pass",
        "x: int | None = None",
        "def f() -> dict[str, int]: pass",
        "from __future__ import annotations\nA = list[int]",
        "from __future__ import annotations\nA = collections.abc.Sequence[int]",
        "from __future__ import annotations\nA = int | None",
        "for a, b in zip([1], [2], strict=True): pass",
        "'abc'.removeprefix('a')",
        "(5).bit_count()",
        "from functools import cache",
        "import functools\n@functools.cache\ndef f(): pass",
        "import functools\nfunctools.cache(f)",
        "import tomllib",
        "from typing import Self",
        "from dataclasses import dataclass\n@dataclass(kw_only=True)\nclass A: pass",
        "a = {} | b",
        "from itertools import pairwise",
    ],
)
def test_what_is_newer_is_found(text: str) -> None:
    assert too_new(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations\ndef f(x: list[int] | None) -> dict[str, int]: pass",
        "if (n := 1): pass\ndef f(a, /): print(f'{a=}')",
        "a | 4\nb = c[1]\nzip(a, b)",
    ],
)
def test_what_python_3_8_has_is_no_fault(text: str) -> None:
    assert too_new(text) == []


def test_an_old_python_imports_them() -> None:
    python = shutil.which("python3.8")
    done = python and subprocess.run([python, "-V"], capture_output=True)
    if not done or done.returncode:
        pytest.skip("no python3.8 on PATH")
    modules = ", ".join(f"driver.{path.stem}" for path in FILES)
    words = [python, "-B", "-c", f"import {modules}"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stderr == ""
