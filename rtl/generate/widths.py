"""Operators whose operands have the width of their result, so that no tool warns about them.

Yosys writes `$signed(a) + $signed(2'h1)` where Amaranth adds a bit pair to a long number. Verilog
extends the short operand as it is meant, yet linters call such lines suspicious, since in what a
person wrote they often are. Here the extension is made explicit in the RTLIL before it is written,
and the sign bits that it takes are counted, not listed, in the Verilog: shorter to read, and a
simulator repeats a bit in two instructions where it puts together a list in one a bit.
"""

from __future__ import annotations

import re

_CELL = re.compile(
    r"^  cell (?P<type>\$\w+) (?P<name>\S+)\n(?P<body>(?:    .*\n)*?)  end\n", re.MULTILINE
)
_PARAMETER = re.compile(r"^    parameter \\(\w+) (\S+)\n", re.MULTILINE)
_CONNECT = re.compile(r"^    connect \\(\w+) (.+)\n", re.MULTILINE)

_CONCATENATION = re.compile(r"\{ [^{}]* \}")
_LISTED = re.compile(
    r"(?<=[{,] )(?P<term>(?:\\\S+ |[A-Za-z_][\w$]*)(?:\[\d+(?::\d+)?\])?)"
    r"(?:, (?P=term)){2,}(?=,| \})"
)

ARITHMETIC = {"$add", "$sub"}
COMPARISONS = {"$eq", "$ne", "$lt", "$le", "$gt", "$ge"}
SHIFTS = {"$shr", "$sshr", "$shl", "$sshl"}
INDICES = {"$shift", "$shiftx"}


def explicit_widths(rtlil: str) -> str:
    """The same design with every operand of a sum or comparison as wide as the operation.

    Operands of + and - get the width of the result, those of comparisons that of the wider one.
    What is shifted gets at least the width of the result; bits that nobody reads go after it.
    """
    return _CELL.sub(_widened, rtlil)


def repeated(verilog: str) -> str:
    """The same Verilog with `{ s, s, s, a }` written as `{ {3{s}}, a }`."""
    return _CONCATENATION.sub(lambda found: _LISTED.sub(_counted, found[0]), verilog)


def _counted(match: re.Match[str]) -> str:
    return f"{{{match[0].count(', ') + 1}{{{match['term']}}}}}"


def _width(value: str) -> int:
    """The value of a parameter: a decimal, or bits behind their number."""
    return int(value.partition("'")[2], 2) if "'" in value else int(value)


def _extended(operand: str, width: int, target: int, signed: bool) -> str:
    if target < width:
        return f"{operand} [{target - 1}:0]"
    if target == width:
        return operand
    ahead = target - width
    bits = f"{operand} [{width - 1}] " * ahead if signed else f"{ahead}'{'0' * ahead} "
    return f"{{ {bits}{operand} }}"


def _widened(match: re.Match[str]) -> str:
    kind, name = match["type"], match["name"]
    if kind == "$pmux":
        return _gated(name, match["body"])
    if kind not in ARITHMETIC | COMPARISONS | SHIFTS | INDICES | {"$logic_not"}:
        return match[0]
    facts = {key: _width(value) for key, value in _PARAMETER.findall(match["body"])}
    ports = dict(_CONNECT.findall(match["body"]))
    if kind == "$logic_not" and facts["A_WIDTH"] > 1:
        width = facts["A_WIDTH"]
        facts |= {"A_SIGNED": 0, "B_SIGNED": 0, "B_WIDTH": width}
        ports["B"] = f"{width}'{'0' * width}"
        return _cell("$eq", name, facts, ports)
    if kind in ARITHMETIC or kind in COMPARISONS:
        operands = facts["A_WIDTH"], facts["B_WIDTH"]
        target = facts["Y_WIDTH"] if kind in ARITHMETIC else max(operands)
        if operands == (target, target):
            return match[0]
        signed = bool(facts["A_SIGNED"] and facts["B_SIGNED"])
        for port in "AB":
            ports[port] = _extended(ports[port], facts[f"{port}_WIDTH"], target, signed)
            facts[f"{port}_WIDTH"] = target
        return _cell(kind, name, facts, ports)
    if kind in SHIFTS and facts["A_WIDTH"] < facts["Y_WIDTH"]:
        signed, target = bool(facts["A_SIGNED"]), facts["Y_WIDTH"]
        ports["A"] = _extended(ports["A"], facts["A_WIDTH"], target, signed)
        facts["A_WIDTH"] = target
        return _cell(kind, name, facts, ports)
    if kind in SHIFTS | INDICES and facts["Y_WIDTH"] < facts["A_WIDTH"]:
        whole, short = f"{name}$whole", ports["Y"]
        top, ports["Y"] = facts["Y_WIDTH"] - 1, whole
        facts["Y_WIDTH"] = facts["A_WIDTH"]
        return (
            f"  wire width {facts['A_WIDTH']} {whole}\n"
            f"{_cell(kind, name, facts, ports)}"
            f"  connect {short} {whole} [{top}:0]\n"
        )
    return match[0]


def _gated(name: str, body: str) -> str:
    """A multiplexer of which at most one condition holds, as (s0 & b0) | (s1 & b1) | ...

    Where none holds, and a value is wanted then, the whole is any ? ... : a. A `case` would need a
    comment that says that the conditions exclude each other, which is no Verilog.
    """
    facts = {key: _width(value) for key, value in _PARAMETER.findall(body)}
    ports = dict(_CONNECT.findall(body))
    width, count = facts["WIDTH"], facts["S_WIDTH"]
    lines: list[str] = []

    def cell(kind: str, y: str, sizes: dict[str, int], **ends: str) -> str:
        if y != ports["Y"]:
            lines.append(f"  wire width {sizes.get('Y_WIDTH', width)} {y}\n")
        lines.append(_cell(kind, f"{name}$cell{len(lines)}", sizes, {**ends, "Y": y}))
        return y

    binary = {"A_SIGNED": 0, "A_WIDTH": width, "B_SIGNED": 0, "B_WIDTH": width, "Y_WIDTH": width}
    always = _NOTHING.fullmatch(ports["A"]) is not None
    joined = ""
    for k in range(count):
        bits = f"{ports['S']} [{k}] " * width
        value = f"{ports['B']} [{(k + 1) * width - 1}:{k * width}]"
        gated = cell("$and", f"{name}$gated{k}", binary, A=f"{{ {bits}}}", B=value)
        if joined:
            last = always and k + 1 == count
            whole = ports["Y"] if last else f"{name}$joined{k}"
            gated = cell("$or", whole, binary, A=joined, B=gated)
        joined = gated
    if not always:
        whole = {"A_SIGNED": 0, "A_WIDTH": count, "Y_WIDTH": 1}
        some = cell("$reduce_or", f"{name}$any", whole, A=ports["S"])
        cell("$mux", ports["Y"], {"WIDTH": width}, A=ports["A"], B=joined, S=some)
    elif count == 1:
        lines.append(f"  connect {ports['Y']} {joined}\n")
    return "".join(lines)


_NOTHING = re.compile(r"\d+'[0x]+")


def _cell(kind: str, name: str, facts: dict[str, int], ports: dict[str, str]) -> str:
    lines = [f"  cell {kind} {name}"]
    lines += [f"    parameter \\{key} {value}" for key, value in facts.items()]
    lines += [f"    connect \\{port} {signal}" for port, signal in ports.items()]
    return "\n".join([*lines, "  end", ""])
