"""`make docs`: a site without a warning; its links lead somewhere, and it fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.exceptions import PluginError

from docs import hooks
from tests.cli.test_commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.thorough  # ten seconds for the site, and as much for each that fails


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


class Links(HTMLParser):
    """What a page refers to, what it loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("src", "href") and value:
                (self.links if tag == "a" else self.loaded).append(value)


def test_every_link_leads_somewhere_and_nothing_is_fetched(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) >= 17
    wrong = []
    for path, found in pages.items():
        for target in found.links + found.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in found.loaded:
                    wrong.append(f"{path.name} loads {target}")
                continue
            file = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            anchors = pages[file].anchors if file in pages else {parts.fragment}
            if not file.is_file() or unquote(parts.fragment) not in anchors | {""}:
                wrong.append(f"{path.name}: {target}")
    assert not wrong, "\n".join(wrong)


def test_formulas_are_set(site: Path) -> None:
    written = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
    page = (site / "numerics.html").read_text(encoding="utf-8")
    blocks = re.findall(r"^```math\n(.*?)^```$", written, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    shown = re.findall(r"<math.*?</math>", page, re.DOTALL)
    lines = [block.count("\\\\") + 1 for block in blocks]
    assert [one.count("<mtr>") for one in shown] == lines
    assert "\\mathrm" not in page


def test_every_command_and_the_docstrings_are_there(site: Path) -> None:
    page = (site / "commands.html").read_text(encoding="utf-8")
    absent = [name for name in COMMANDS if f">{name}<" not in page and name not in page]
    assert not absent
    assert page.count("usage: python -m") > 20
    for name, said in (("golden", "requantize"), ("rtl", "Softmax"), ("sim", "predict")):
        assert said in (site / "reference" / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line", ["[x](nowhere.md)", "[x](index.md#nowhere)", "[x](/absolute.md)", "![x](no.png)"]
)
def test_a_link_that_leads_nowhere_ends_the_build(line: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nhooks: []\nplugins: []\nextra_css: []\n"
        "nav: [index.md]\n"
    )
    page.write_text("# Title\n\n[well](index.md#title)\n")
    assert build(config, tmp_path / "site").returncode == 0
    page.write_text(f"# Title\n\n{line}\n")
    assert build(config, tmp_path / "site").returncode != 0


def test_a_formula_that_cannot_be_set_is_named() -> None:
    assert "<math" in hooks.formula("a^2", "x.md")
    for tex in (r"\nosuchname{x}", "a & b", r"\begin{aligned} a &= b \\ c \end{aligned} & d"):
        with pytest.raises(PluginError, match=r"x\.md: a formula holds what cannot be set"):
            hooks.formula(tex, "x.md")
