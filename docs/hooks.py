"""Pages and formulas that `make docs` adds to docs/: hooks of MkDocs, named in mkdocs.yml.

    driver.md, contributing.md, changes.md    documents that lie elsewhere in the repository
    commands.md                               --help of every command
    reference/PACKAGE.md                      docstrings
    <!-- README: HEADING -->                  that section of README.md
    ```math blocks                            MathML, which browsers show without a script
    2^15 <= m in a sentence                   superscripts and signs, as in those blocks

Links to files that are no pages are shown as text, since the site holds no source.
"""

from __future__ import annotations

import importlib
import io
import os
import posixpath
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent

#: Pages made of documents outside docs/.
ELSEWHERE = {
    "driver.md": "driver/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
}
#: Packages, and those of their modules that a reader of the site uses; None for all.
REFERENCE: dict[str, tuple[str, ...] | None] = {
    "golden": None,
    "rtl": None,
    "tb": ("case", "trace", "activity", "compare", "scenarios"),
    "quant": (
        "calibrate",
        "classify",
        "evaluate",
        "foreign.checkpoint",
        "quantize.decode",
        "quantize.quantizers",
    ),
    "sim": ("activity", "bench", "cycles.model", "machine.volume", "phases", "play"),
}
SECTION = re.compile(r"^<!-- README: (.*) -->$", re.MULTILINE)
#: Of the texts of --help: what a window of 1,280 pixels shows between the lists of contents.
HELP_COLUMNS = 100
#: Members of a component in a docstring, and one of them: `names : what they are` and its text.
MEMBERS = re.compile(r"^Members\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^(\S.*?)(?: : (.*))?$((?:\n(?:    .*)?$)*)", re.MULTILINE)
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
#: Parts of a page that are shown as they are, and tags; what lies between them is prose.
LITERAL = re.compile(r"<(pre|code|math|script|svg)\b.*?</\1>|<[^>]*>", re.DOTALL)
POWER = re.compile(r"(?<=[\w)\]])\^(?:\(((?:[^()]|\([^()]*\))+)\)|(-?\w+|-\([^()]+\)))")
#: Other signs of prose, as HTML spells them.
SIGNS = {
    re.compile(r"&lt;="): "≤",
    re.compile(r"&gt;="): "≥",
    re.compile(r"&lt;&lt;"): "≪",
    re.compile(r"&gt;&gt;"): "≫",
    re.compile(r"\bsqrt\("): "√(",
    re.compile(r"(?<=[\w)>])( ?)\*\1(?=[\w(])"): r"\1·\1",
}
FENCE = re.compile(r"^(```.*?^```$|(?: {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {page: (ROOT / path).read_text(encoding="utf-8") for page, path in ELSEWHERE.items()}
    made["commands.md"] = commands()
    made |= {f"reference/{package}.md": reference(package) for package in REFERENCE}
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Set the formulas, and make links fit the site; code stays as it is."""
    place = page.file.src_uri
    source = ELSEWHERE.get(place, f"docs/{place}")
    text = SECTION.sub(lambda match: section(match[1], place), markdown)
    text = MATH.sub(lambda match: formula(match[1], place), text)
    parts = FENCE.split(text)
    return "".join(
        part if FENCE.fullmatch(part) else LINK.sub(lambda m: link(m, source, place), part)
        for part in parts
    )


def section(heading: str, place: str) -> str:
    """The section of README.md that has this heading, with its links as those of a page.

    Raises
    ------
    PluginError
        There is none.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise PluginError(f"{place}: README.md has no section {heading!r}")
    return LINK.sub(lambda match: link(match, "README.md", place), found[0])


def on_page_content(html: str, **_: Any) -> str:
    """Set the formulas of sentences and table cells as those of the blocks are."""
    done, end = [], 0
    for literal in LITERAL.finditer(html):
        done += [signs(html[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join([*done, signs(html[end:])])


def signs(prose: str) -> str:
    """Text of HTML with superscripts, and the signs of mathematics for their ASCII spellings."""
    prose = POWER.sub(lambda m: f"<sup>{(m[1] or m[2]).replace('-', '−')}</sup>", prose)
    for pattern, shown in SIGNS.items():
        prose = pattern.sub(shown, prose)
    return prose


def formula(tex: str, place: str) -> str:
    """A block of TeX as MathML.

    Raises
    ------
    PluginError
        Some of it is no TeX that is known.
    """
    # The converter knows the lines of align*, the renderers of Markdown those of aligned.
    lines = " ".join(tex.split()).replace("{aligned}", "{align*}")
    found = convert(lines, display="block")
    wanted = tex.count("\\\\") + 1 if "{aligned}" in tex else 0
    if "\\" in found or ">&<" in found or found.count("<mtr>") != wanted:
        raise PluginError(f"{place}: a formula holds what cannot be set: {tex}")
    return f'<div class="formula">{found}</div>'


def link(match: re.Match[str], source: str, place: str) -> str:
    """A link of a document in the repository as one of the site's."""
    image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    pages = {document: page for page, document in ELSEWHERE.items()}
    if path == "README.md":
        page = "index.md"
    elif path in pages:
        page = pages[path]
    elif path.startswith("docs/"):
        page = path.removeprefix("docs/")
    elif (ROOT / path).exists():
        return f"{text} (`{path}`)" if path not in text else text
    else:
        return match[0]  # MkDocs says that it leads nowhere
    return f"{image}[{text}]({posixpath.relpath(page, posixpath.dirname(place) or '.')}{anchor})"


def commands() -> str:
    """`--help` of every command that can be asked here."""
    parts = [
        "# Commands",
        "`python -m NAME`, in the virtual environment. The text of `--help` of each.",
    ]
    absent = []
    packages = [path.parent for path in sorted(ROOT.glob("*/__init__.py"))]
    for path in (path for package in packages for path in sorted(package.rglob("*.py"))):
        inside = path.relative_to(ROOT)
        if inside.parts[0] == "tests" or "\nif __name__ ==" not in path.read_text("utf-8"):
            continue
        module = ".".join(inside.with_suffix("").parts)
        name = module.removesuffix(".__main__")
        said = io.StringIO()
        try:
            with patch.dict(os.environ, {"COLUMNS": str(HELP_COLUMNS)}), redirect_stdout(said):
                with suppress(SystemExit):
                    importlib.import_module(module).main(["--help"])
        except ModuleNotFoundError:
            absent.append(f"`{name}`")
            continue
        parts.append(f"## {name}\n\n```text\n{said.getvalue().rstrip()}\n```")
    if absent:
        parts.append(f"Not installed where this site was built: {', '.join(absent)}.")
    return "\n\n".join(parts) + "\n"


class Plain(Extension):
    """Docstrings are plain text: `type][t` in a formula is no reference to something called t.

    Members of a component become a list.
    """

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = MEMBERS.sub(members, obj.docstring.value)
            lines = obj.docstring.value.split("\n")
            obj.docstring.value = "\n".join(
                line if line.startswith("    ") or "`" in line else line.replace("][", "]\\[")
                for line in lines
            )


def members(section: re.Match[str]) -> str:
    """The section as a list in Markdown, an entry a member."""
    entries = ["**Members**\n"]
    for names, kind, text in MEMBER.findall(section[1]):
        said = " ".join(text.split())
        entries.append(f"- `{names}`{f' ({kind})' if kind else ''}{f': {said}' if said else ''}")
    return "\n".join(entries) + "\n\n"


def reference(package: str) -> str:
    """A page of docstrings."""
    chosen = REFERENCE[package]
    if chosen is None:
        folder = ROOT / package
        files = [path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("__")]
        names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    else:
        names = [f"{package}.{name}" for name in chosen]
    first = (ROOT / package / "__init__.py").read_text(encoding="utf-8").strip().strip('"')
    return f"# {package}\n\n{first}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"
