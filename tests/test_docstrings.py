"""Docstrings name parameters and attributes that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
SECTION = r"^{} *\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)"
NAMES = re.compile(r"^[A-Za-z_][\w*]*(?:, [A-Za-z_][\w*]*)*(?= :|$)", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def listed(docstring: str, section: str) -> set[str]:
    """The names of a numpydoc section: its lines without indentation."""
    found = re.search(SECTION.format(section), docstring, re.MULTILINE | re.DOTALL)
    return {n for line in NAMES.findall(found[1]) for n in line.split(", ")} if found else set()


def parameters(function: Function) -> set[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one is not None}


def members(node: ast.ClassDef) -> set[str]:
    """What a class body or its methods assign, and its methods."""
    names = {item.name for item in node.body if isinstance(item, Function | ast.ClassDef)}
    for item in ast.walk(node):
        match item:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {one.id for one in targets if isinstance(one, ast.Name)}
    return names


def wrong(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, Function | ast.ClassDef):
            continue
        said = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            init = next((f for f in node.body if getattr(f, "name", "") == "__init__"), None)
            known = parameters(init) if isinstance(init, Function) else members(node)
            if node.bases and not isinstance(init, Function):
                continue  # what it inherits is not seen here
            named = listed(said, "Parameters") - known
            named |= listed(said, "Attributes") - members(node) - known
        else:
            named = listed(said, "Parameters") - parameters(node)
        yield from (f"{node.lineno}: {node.name} has no {name}" for name in sorted(named))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_docstrings_name_what_there_is(package: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{one}"
        for path in sorted(package.rglob("*.py"))
        for one in wrong(ast.parse(path.read_text()))
    ]
    assert found == []
