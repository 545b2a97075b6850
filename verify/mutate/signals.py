"""Which signal a line of the description makes or drives."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def signals(path: Path) -> dict[int, str]:
    """For each line of a Python file what its statement makes, or drives and of what.

    `sums` where a signal is made; `sums.eq sums p` where it is driven, with the names that it is
    driven by (`self.` and what selects of a signal left away); of a condition `if` and its names;
    elsewhere the function's name.
    """
    found: dict[int, str] = {}
    # Outer nodes first, so that what lies within writes over them.
    for node in _outer_first(ast.parse(path.read_text(encoding="utf-8"))):
        name = _name(node)
        if name:
            first, last = node.lineno, node.end_lineno or node.lineno
            if isinstance(node, ast.With):
                last = node.body[0].lineno - 1
            found |= dict.fromkeys(range(first, last + 1), name)
    return found


def _outer_first(tree: ast.AST) -> list[ast.stmt | ast.expr]:
    found = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr))]
    return sorted(found, key=lambda node: (node.lineno, -(node.end_lineno or node.lineno)))


def _name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[*_, target]) | ast.AnnAssign(target=target):
            return _plain(target)
        case ast.Call(func=ast.Attribute(value=target, attr="eq"), args=values):
            return " ".join([f"{_plain(target)}.eq", *_read(values)])
        case ast.With(items=[ast.withitem(context_expr=ast.Call(args=[condition]))]):
            return " ".join(["if", *_read([condition])])
    return ""


def _read(values: list[ast.expr]) -> list[str]:
    """Every name in some expressions once."""
    nodes = [node for value in values for node in ast.walk(value)]
    names = [_plain(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))]
    return sorted(set(names) - {"self"})


def _plain(target: ast.expr) -> str:
    while isinstance(target, ast.Subscript):
        target = target.value
    return ast.unparse(target).removeprefix("self.")
