"""What `make docs` adds to the pages of docs/: hooks of MkDocs, named in mkdocs.yml.

    driver.md, contributing.md, changes.md    documents that lie elsewhere in the repository
    commands.md                               --help of every command
    reference/PACKAGE.md                      docstrings
    ```math blocks                            MathML, which browsers show without a script

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
    "sim": ("activity", "bench", "cycles.model", "harness.fast", "phases", "play"),
}
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
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
    text = MATH.sub(lambda match: formula(match[1], place), markdown)
    parts = FENCE.split(text)
    return "".join(
        part if FENCE.fullmatch(part) else LINK.sub(lambda m: link(m, source, place), part)
        for part in parts
    )


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
        "`python -m NAME`, in the virtual environment. What `--help` says of each.",
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
            with patch.dict(os.environ, {"COLUMNS": "96"}), redirect_stdout(said):
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
    """Docstrings are plain text: `type][t` in a formula is no reference to something called t."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            lines = obj.docstring.value.split("\n")
            obj.docstring.value = "\n".join(
                line if line.startswith("    ") or "`" in line else line.replace("][", "]\\[")
                for line in lines
            )


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
