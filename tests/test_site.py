"""`make docs`: a site without a warning; its links lead somewhere, and it fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
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


PROSE = (
    ("m, 2^15 &lt;= m &lt; 2^16", "m, 2<sup>15</sup> ≤ m &lt; 2<sup>16</sup>"),
    ("2^(s-1), 2^-15 and 2^address", "2<sup>s−1</sup>, 2<sup>−15</sup> and 2<sup>address</sup>"),
    ("H^2 * 2^30 &gt;= H*S2", "H<sup>2</sup> · 2<sup>30</sup> ≥ H·S2"),
    ("(x + 2^(s-1)) &gt;&gt; s", "(x + 2<sup>s−1</sup>) ≫ s"),
    ("r * 2^-(16+e), 2^((a - b)/256)", "r · 2<sup>−(16+e)</sup>, 2<sup>(a − b)/256</sup>"),
    ("|n| &lt;= sqrt(H-1), E[x]^2", "|n| ≤ √(H-1), E[x]<sup>2</sup>"),
    ("a -&gt; b, x - 1, -127..127", "a -&gt; b, x - 1, -127..127"),
)


@pytest.mark.parametrize(("said", "shown"), PROSE)
def test_formulas_of_sentences_are_set_and_code_is_not(said: str, shown: str) -> None:
    assert hooks.on_page_content(f"<p>{said}</p>") == f"<p>{shown}</p>"
    for tag in ("code", "pre", "math", "script"):
        literal = f"<p><{tag} title='a &lt;= 2^3'>{said}</{tag}></p>"
        assert hooks.on_page_content(literal) == literal


def test_no_sentence_of_the_site_spells_a_formula_in_ascii(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        prose = hooks.LITERAL.sub("", page[page.index("<article") : page.index("</article>")])
        assert not re.findall(r".*\w\^[\w(-].*|.*&[lg]t;=.*", prose), path


def test_the_overview_has_the_section_of_the_readme(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    for said in (
        'id="what-it-has-beside-the-alternatives"',
        "FINN",
        "hls4ml",
        "ITA",
        "HLS project",
    ):
        assert said in page
    assert 'href="results.html#beside-published-accelerators"' in page
    with pytest.raises(PluginError, match=r"index\.md: README\.md has no section 'Nothing'"):
        hooks.on_page_markdown(
            "<!-- README: Nothing -->", SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
        )


def test_members_of_a_component_are_a_list(site: Path) -> None:
    doc = (
        "Sum.\n\nMembers\n-------\nstart, busy\n    See `Control`,\n    or not.\no : Out, 8\n\n"
        "Raises\n------\nValueError\n    Always.\n"
    )
    expected = "- `start, busy`: See `Control`, or not.\n- `o` (Out, 8)\n\nRaises\n------\n"
    assert expected in hooks.MEMBERS.sub(hooks.members, doc)
    page = (site / "reference" / "rtl.html").read_text(encoding="utf-8")
    assert page.count("<strong>Members</strong>") > 20
    assert "<summary>Members" not in page


def test_pages_lead_on_code_is_copied_and_the_folder_is_searched(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    unlinked = [path for path in pages if 'rel="next"' not in path.read_text(encoding="utf-8")]
    assert [path.name for path in unlinked] == ["sim.html"], "the last page alone has no next one"
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert '"content.code.copy"' in page
        assert re.search(r'<script src="[./]*iframe-worker\.js">', page), path
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = ")
    assert not [path for path in site.rglob("*") if path.suffix in (".py", ".pyc", ".toml")]


def test_the_first_commands_are_not_cut_in_a_window_of_1280_pixels() -> None:
    """Those that a stranger copies; what is longer elsewhere scrolls."""
    for name in ("index.md", "tutorial.md"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        code = [line for line in text.split("\n") if line.startswith("    ")]
        assert len(code) >= 3
        assert max(len(line) - 4 for line in code) <= hooks.HELP_COLUMNS


def test_a_copied_block_of_commands_runs() -> None:
    """What stands behind a command for its reader is a comment."""
    command = re.compile(r"^    (?:python3?|make|\.venv/bin/\S+) .*\S {2,}[^# ].*", re.MULTILINE)
    for path in [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / name for name in hooks.ELSEWHERE.values()),
    ]:
        assert not command.findall(path.read_text(encoding="utf-8")), path


def test_what_scrolls_is_what_the_theme_lets_scroll(site: Path) -> None:
    style = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    theme = "".join(path.read_text("utf-8") for path in site.rglob("assets/**/*.min.*s"))
    for name in re.findall(r"\.(md-[\w-]+)", style):
        assert re.search(rf"\.?{name}(?![\w-])", theme), name


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
