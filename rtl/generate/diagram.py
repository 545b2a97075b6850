"""`python -m rtl.generate.diagram`: the block diagram of docs/architecture.md as SVG.

Boxes are the parts of the generated accelerator, by the names of their instances; a part that has
no place here, or a place without a part, is an error: the picture cannot fall behind the design.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from cli.command import run_command
from cli.errors import UserError
from cli.files import write_if_changed
from cli.options import Parser

from amaranth.hdl import Fragment

from rtl.accelerator import Accelerator
from rtl.interface.config import Config

EXAMPLES = """\
examples:
  python -m rtl.generate.diagram
  python -m rtl.generate.diagram --out build/diagram.svg
"""
OUT = Path("docs/diagram.svg")
CAPTION = "Parts of the accelerator, by the names of their instances, options aside"
WIDTH, HEIGHT = 1000, 680

#: Parts by their path: left, top, width, height, and what they hold. An outline has parts inside.
PLACES: dict[str, tuple[int, int, int, int, str]] = {
    "engine": (16, 64, 660, 500, ""),
    "engine.loader": (36, 100, 180, 62, "command stream: CRC, rules"),
    "engine.sequencer": (36, 218, 180, 52, "loops over tiles"),
    "engine.tiles": (36, 326, 180, 52, "the next tile, its row ready?"),
    "engine.issuer": (36, 434, 180, 62, "two addresses a cycle"),
    "engine.weights": (276, 100, 160, 62, "weight tiles, two halves"),
    "engine.x8": (276, 192, 160, 52, "normalised, int8"),
    "engine.query_bank": (276, 274, 76, 46, ""),
    "engine.key_bank": (360, 274, 76, 46, ""),
    "engine.value_bank": (276, 328, 76, 46, ""),
    "engine.context_bank": (360, 328, 76, 46, ""),
    "engine.matmul": (496, 150, 160, 84, "N x M array: an outer product a cycle"),
    "engine.epilogue": (496, 318, 160, 84, "N lanes: bias, requantize, table, residual"),
    "engine.softmax": (276, 480, 380, 62, "row maxima, 2^x, sums, row scales; p"),
    "embedding": (740, 100, 244, 52, "asks for rows, fills weight halves"),
    "rows": (740, 178, 244, 46, "borders of the rows"),
    "tokens": (740, 248, 244, 46, "s_axis_tokens: ids, types, mask"),
    "normalizer": (740, 318, 244, 148, ""),
    "normalizer.x16": (756, 350, 212, 46, "the residual stream, int16"),
    "normalizer.layernorm": (756, 408, 212, 46, "two passes over a row tile"),
    "logits": (740, 490, 156, 46, "m_axis_logits, after END"),
    "lengths": (908, 490, 76, 46, "of texts"),
    "control": (740, 560, 116, 46, "start, end"),
    "watchdog": (868, 560, 116, 46, "no hang"),
    "registers": (740, 618, 244, 46, "s_axi, interrupt, counters"),
}

#: Streams from outside: label, its place, and a path to their part.
STREAMS: tuple[tuple[str, int, int, str], ...] = (
    ("s_axis_model", 126, 22, "M126 28V96"),
    ("s_axis_rows, m_axis_request", 862, 22, "M724 28V201H736"),
)

#: What goes from part to part: path, label, place of the label.
ARROWS: tuple[tuple[str, str, int, int], ...] = (
    ("M126 162V214", "operations", 132, 192),
    ("M126 270V322", "tiles", 132, 300),
    ("M126 378V430", "", 0, 0),
    ("M216 131H272", "", 0, 0),
    ("M216 465H246V218H272", "addresses", 252, 420),
    ("M246 324H272", "", 0, 0),
    ("M246 464V511H272", "", 0, 0),
    ("M436 131H466V172H492", "", 0, 0),
    ("M436 204H492", "A, B", 440, 199),
    ("M436 297H458V215H492", "", 0, 0),
    ("M480 480V226H492", "p", 485, 300),
    ("M576 234V314", "columns", 582, 300),
    ("M496 360H440", "int8", 446, 376),
    ("M540 402V476", "scores", 546, 440),
    ("M612 476V406", "scales", 618, 440),
    ("M656 362H752", "sums", 694, 357),
    ("M756 384H660", "residual", 694, 400),
    ("M862 396V404", "", 0, 0),
    ("M756 432H686V262H446V230H440", "X8", 640, 257),
    ("M740 126H706V84H356V96", "rows of the embedding", 440, 79),
    ("M862 178V156", "", 0, 0),
    ("M656 392H666V513H736", "logits", 694, 508),
)

STYLE = """
text{font:13px system-ui,sans-serif;fill:#1c2026}.s{font-size:11px;fill:#525965}
.o{fill:none;stroke:#8a93a0;stroke-dasharray:5 4}.b{fill:#f4f6f8;stroke:#2563a8}
.a{fill:none;stroke:#525965;stroke-width:1.4;marker-end:url(#t)}#t path{fill:#525965}
.p{fill:#ffffff}
@media(prefers-color-scheme:dark){text{fill:#e3e6ea}.s{fill:#a9b0ba}.b{fill:#1c2026;stroke:#6ea8e6}
.a{stroke:#a9b0ba}#t path{fill:#a9b0ba}.p{fill:#14171b}}
"""


def parts(config: Config) -> set[str]:
    """Paths of the accelerator's parts and of the parts of those that are drawn as outlines."""
    found: set[str] = set()
    outlines = {path.rpartition(".")[0] for path in PLACES} - {""}

    def walk(fragment: Fragment, above: str) -> None:
        for inner, name, _ in fragment.subfragments:
            path = f"{above}{name}"
            found.add(path)
            if path in outlines:
                walk(inner, f"{path}.")

    walk(Fragment.get(Accelerator(config), None), "")
    return found


def diagram(config: Config) -> str:
    """The text of the SVG.

    Raises
    ------
    ValueError
        The parts of the design are not those of PLACES; the message names them.
    """
    there = parts(config)
    if wrong := there ^ set(PLACES):
        raise UserError(
            f"{', '.join(sorted(wrong))}: the design and the diagram differ in these parts; give "
            "each part a place in rtl/generate/diagram.py, or take its place away"
        )
    return drawn()


def drawn() -> str:
    """The text of the SVG, without a look at the design."""
    body = []
    for path, (left, top, width, height, text) in PLACES.items():
        outline = any(other.startswith(f"{path}.") for other in PLACES)
        body.append(_box(path.rpartition(".")[2], left, top, width, height, text, outline))
    for path, label, x, y in ARROWS:
        body.append(f'<path class="a" d="{path}"/>')
        if label:
            body.append(f'<text class="s" x="{x}" y="{y}">{escape(label)}</text>')
    for label, x, y, path in STREAMS:
        body.append(f'<path class="a" d="{path}"/>')
        body.append(f'<text x="{x}" y="{y}" text-anchor="middle">{escape(label)}</text>')
    title = "Block diagram of the accelerator: its parts by name, and what goes between them"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{title}"><title>{title}</title><style>{STYLE}</style><defs><marker id="t" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8Z"/></marker></defs><rect class="p" width="{WIDTH}" '
        f'height="{HEIGHT}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _box(name: str, left: int, top: int, width: int, height: int, text: str, outline: bool) -> str:
    """A part: its name, and what it holds in lines that fit."""
    shape = (
        f'<rect class="{"o" if outline else "b"}" x="{left}" y="{top}" width="{width}" '
        f'height="{height}" rx="6"/>'
    )
    if outline:
        return f'{shape}<text x="{left + 10}" y="{top + 20}">{escape(name)}</text>'
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if 5.7 * len(longer) > width - 14 and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    shown = [line for line in lines if line]
    y = top + height / 2 + 4.5 - 7.5 * len(shown)
    middle = left + width / 2
    names = name.split("_") if 7.4 * len(name) > width - 6 else [name]
    y -= 7 * (len(names) - 1)
    found = [
        f'<text x="{middle:g}" y="{y + 15 * place:g}" text-anchor="middle">{escape(part)}</text>'
        for place, part in enumerate(names)
    ]
    found += [
        f'<text class="s" x="{middle:g}" y="{y + 15 * (len(names) + place):g}" '
        f'text-anchor="middle">{escape(line)}</text>'
        for place, line in enumerate(shown)
    ]
    return shape + "".join(found)


def parser() -> Parser:
    result = Parser("rtl.generate.diagram", "Draw the accelerator's parts as SVG.", EXAMPLES)
    result.add_argument(
        "--out", type=Path, default=OUT, metavar="FILE", help=f"the picture (default: {OUT})"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    changed = write_if_changed(options.out, diagram(Config()))
    print(f"{'wrote' if changed else 'unchanged:'} {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
