"""The text of a module: what it is, its ports by bundle, then what Yosys wrote of it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amaranth.lib import stream, wiring

from rtl.generate.hierarchy import Part
from rtl.generate.identifiers import free
from rtl.primitives.members import doc_of

WIDTH = 100
"""Of a line of comment."""

_HEAD = re.compile(r"\A(?:/\*.*?\*/)?\s*(?:\(\*.*?\*\)\s*)*module (\w+)\((.*?)\);\n", re.DOTALL)
_DECLARED = re.compile(
    r"^  (input|output|inout|wire|reg) ((?:\[\d+:0\] )?)(\w+)( = [^;]+)?;\n", re.M
)
_INSTANCE = re.compile(r"^  (?!module)(\w+) \w+ \(\n((?:    \..*\n)+)", re.MULTILINE)
_BIT = re.compile(r"\\(\w+)_reg\[(\d+)\] ")
_BLOCK = re.compile(r"  always @\(posedge (\w+)\)\n((?:    .*\n)+)")
_RUN = re.compile(
    r"^  always @\(posedge (?P<clock>\w+)\)\n(?:    .*\n)+"
    r"(?:  always @\(posedge (?P=clock)\)\n(?:    .*\n)+)*",
    re.MULTILINE,
)
_DANGLING = re.compile(r"^( +)if (\(.*\))\n(\1  if .*\n(?:\1  else .*\n)+)", re.MULTILINE)
_PARAMETERS = re.compile(r" #\(\n(?:    .*\n)+  \) ")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def texts(verilog: str, parts: Sequence[Part]) -> dict[str, str]:
    """The text of each module by its name, from what Yosys wrote of all of them."""
    found = {}
    for text in re.split(r"(?<=^endmodule\n)", verilog, flags=re.MULTILINE):
        head = _HEAD.match(text)
        if head is not None:
            found[head[1]] = text[head.end() :]
    order = {part.name: [port.name for port in part.ports] for part in parts}
    return {part.name: _joined(_module(found[part.name], part), order) for part in parts}


def _joined(text: str, order: Mapping[str, Sequence[str]]) -> str:
    """Every instance names the ports of its module in their order."""

    def sorted_(match: re.Match[str]) -> str:
        lines = {
            line[1]: line[0] for line in re.finditer(r"^    \.(\w+)\(.*\)(?=,?$)", match[2], re.M)
        }
        names = order.get(match[1], lines)
        return (
            f"{match[0][: match.start(2) - match.start()]}"
            + ",\n".join(lines[name] for name in names)
            + "\n"
        )

    return _INSTANCE.sub(sorted_, text)


def _module(body: str, part: Part) -> str:
    declared: dict[str, list[str]] = {}
    names = {port.name for port in part.ports}

    def declaration(match: re.Match[str]) -> str:
        kind, width, name, value = match[1], match[2], match[3], match[4] or ""
        if name not in names:
            return match[0]
        if kind in ("wire", "reg"):
            declared[name][1:] = kind, width, value
        else:
            declared[name] = [kind]
        return ""

    body = _DECLARED.sub(declaration, body)
    body = _PARAMETERS.sub(_decimal, _clocked(_whole_names(body)))
    ports = list(_ports(part, declared))
    return "\n".join([*_about(part), f"module {part.name}(", *ports, ");", body.lstrip("\n")])


def _decimal(parameters: re.Match[str]) -> str:
    return re.sub(r"\(32'd(\d+)\)", r"(\1)", parameters[0])


def _whole_names(body: str) -> str:
    """Single bits that Yosys made a register of, without the [] in their names."""
    taken, names = set(re.findall(r"\w+", body)), {}

    def named(match: re.Match[str]) -> str:
        if match[0] not in names:
            names[match[0]] = free(f"{match[1]}_{match[2]}", taken)
            taken.add(names[match[0]])
        return names[match[0]]

    return _BIT.sub(named, body)


def _clocked(body: str) -> str:
    """Registers of one clock, where they follow each other, in one block; no else dangles."""

    def joined(match: re.Match[str]) -> str:
        run = _DANGLING.sub(r"\1if \2 begin\n\3\1end\n", match[0])
        blocks = _BLOCK.findall(run)
        if len(blocks) == 1:
            return run
        inner = "".join(text for _, text in blocks)
        return f"  always @(posedge {blocks[0][0]}) begin\n{inner}  end\n"

    return _RUN.sub(joined, body)


def _ports(part: Part, declared: Mapping[str, Sequence[str]]) -> Iterator[str]:
    said: set[str] = set()
    about = dict(_bundles(part.component)) if part.component is not None else {}
    for number, port in enumerate(part.ports):
        comment = about.get(port.bundle, "")
        if port.bundle and comment not in said and comment:
            said.add(comment)
            yield from _comment(comment, "  ")
        way, kind, width, value = declared[port.name]
        comma = "," if number + 1 < len(part.ports) else ""
        note = f"  // {port.array}, element 0 lowest" if port.array else ""
        yield f"  {way:<6} {kind:<4} {width}{port.name}{value}{comma}{note}"


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - len(indent) - 3, break_long_words=False):
        yield f"{indent}// {line}"


def _about(part: Part) -> Iterator[str]:
    """The docstring up to its first section."""
    doc = inspect.getdoc(type(part.component)) if part.component is not None else None
    if doc:
        section = _SECTION.search(doc)
        text = doc[: section.start()] if section else doc
        yield from (f"// {line}".rstrip() for line in text.strip().splitlines())
    latency = getattr(part.component, "latency", None)
    if isinstance(latency, int):
        yield f"// Latency: {latency} cycles."


def _bundles(component: Any) -> Iterator[tuple[str, str]]:
    """The text of each member of a component, from its signature and its declaration."""
    if not isinstance(component, wiring.Component):
        return
    members = component.signature.members
    for group in _groups(members):
        first, text = members[group[0]], doc_of(members[group[0]])
        doc = ""
        if first.is_signature:
            bundle = first.signature
            kind = type(bundle.flip() if isinstance(bundle, wiring.FlippedSignature) else bundle)
            if not issubclass(kind, stream.Signature) and kind is not wiring.Signature:
                doc = (inspect.getdoc(kind) or "").partition("\n")[0]
        if doc or text:
            for name in group:
                yield name, f"{', '.join(group)}: {doc} {text}".replace(":  ", ": ").strip()


def _groups(members: Mapping[str, wiring.Member]) -> list[list[str]]:
    """The names of the members, those of one text together."""
    groups: list[list[str]] = []
    for name, member in members.items():
        if doc_of(member) is ...:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups
