"""The page of a run: whole, harmless, legible, and never a verdict that the run did not give."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cli.command import Exit
from cli.errors import Different
from cli.page import template

import pytest

from quant.calibrate import main as calibrate
from sim import play, run
from sim.activity import Lane, lanes, operations
from sim.cycles.model import Prediction, predict
from sim.page.report import failure_page, run_page, run_picture, stretches
from sim.play import Verified
from sim.reference import Reference
from tests.ending import exit_code, refusal
from tests.quant import tiny

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLOURS = set(re.findall(r"--([\w-]+):", template.COLOURS))
LANES, TOKENS = 4, 9
HOSTILE = (
    "good film! </script><script>alert(1)</script> <img src=x onerror=alert(1)> \"bad\" 'a' & the "
    "{{ figures }} \u202e\u05e1\u05e8\u05d8 \u05d8\u05d5\u05d1 \U0001f3ac\u200d\U0001f468 \x07"
)


@dataclass(frozen=True)
class Run:
    """A run of `sim.run` on Icarus, and what it was made of."""

    html: str
    report: dict[str, Any]
    text: Reference
    played: Verified
    options: list[str]

    @property
    def lanes(self) -> list[Lane]:
        return lanes(self.played.activity, self.played.program)

    @property
    def predicted(self) -> Prediction:
        return predict(self.played.program, len(self.text.tokens.ids))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("page")
    model, out, data = tiny.write(folder / "tiny"), folder / "out", folder / "texts.txt"
    data.write_text("good film\nthe bad film\n")
    assert calibrate(["--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    kept: dict[str, Any] = {}
    sound = run.run_page

    def keeping(text: Reference, played: Verified, figures: Any) -> str:
        kept.update(text=text, played=played)
        return sound(text, played, figures)

    options = ["--quantized", str(out), "--model", str(model), "--simulator", "icarus"]
    options += ["--lanes", str(LANES), "--tokens", str(TOKENS), "--review", HOSTILE]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(play, "RUNS", folder / "runs")
        patch.setattr(run, "run_page", keeping)
        assert run.main([*options, "--json", str(folder / "report.json")]) == 0
    report = json.loads((folder / "report.json").read_text())
    return Run((folder / "report.html").read_text(), report, options=options, **kept)


class Page(HTMLParser):
    """The elements of a page; every one that is opened must be closed in its order."""

    VOID = frozenset({"meta", "img", "input", "br"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


# What the record says is held against the accelerator's counters and against the cycle model, which
# takes no part in it.


@pytest.mark.slow
def test_every_cycle_of_the_array_is_told(one: Run) -> None:
    record, program = one.played.activity, one.played.program
    found = operations(record, program)
    predicted = [(p.number, p.first, p.last) for p in one.predicted.phases]
    assert [(o.number, o.first, o.last) for o in found] == predicted
    array = one.lanes[0]
    assert len(array.each) == one.report["cycles"]
    counted = {state.text: cycles for state, cycles in array.cycles().items()}
    active = {phase.name: phase.active for phase in one.predicted.phases}
    for operation in found:
        assert counted[operation.name] == active[operation.name.removesuffix(".attend")]
    for cause, cycles in one.report["stalls"].items():
        told = sum(n for text, n in counted.items() if text.startswith(f"{cause}: "))
        assert told == cycles, cause
    assert sum(counted.values()) == one.report["cycles"]
    idle = stretches(array, found)
    assert sum(s.cycles for s in idle) == one.report["cycles"] - one.report["active"]


@pytest.mark.slow
def test_the_other_units_did_what_the_program_asks(one: Run) -> None:
    tokens, hidden, heads, layers = len(one.text.tokens.ids), 12, 3, 2
    counted = {o.name: {s.text: n for s, n in o.cycles().items()} for o in one.lanes}
    tiles = -(-tokens // LANES)
    # The last layer computes the row tile of the first token alone.
    rows = (layers - 1) * tiles + 1
    assert counted["epilogue"]["writes a logit"] == 3
    assert counted["softmax"]["writes p of a key"] == heads * rows * tokens
    norms = counted["LayerNorm"]["writes a normalised channel of a row tile"]
    assert norms == (tiles + 2 * rows) * hidden
    for name, cycles in counted.items():
        assert sum(cycles.values()) == one.report["cycles"], name


# The page itself.


def test_the_page_is_whole_and_alone(one: Run) -> None:
    page = Page(one.html)
    text = " ".join("".join(page.text).split())
    assert "Every bit equal to the golden model." in text
    for said in one.report["verdicts"]:
        assert said["class"] in text
        for share in said["probabilities"].values():
            assert f"{100 * share:.2f} %" in text
    for phase in one.report["phases"]:
        if phase["cycles"]:
            assert phase["name"] in text
    assert f"{one.report['cycles']:,}" in text
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
        if tag == "img":
            assert attributes["alt"]
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"@import|url\(|fetch\(|https?://", one.html)
    identifiers = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    assert one.html.count("<svg") > 10
    assert one.html.count("<img") == 2 * 2 * 6  # six heads, two models, small and with words


def test_a_text_is_only_text(one: Run) -> None:
    page = Page(one.html)
    assert one.report["text"] == HOSTILE
    (quoted,) = re.findall(r"<blockquote.*?>(.*?)</blockquote>", one.html, re.DOTALL)
    assert unescape(quoted) == HOSTILE
    assert "script" not in [tag for tag, _ in page.elements]
    assert "alert(1)" not in re.sub(r"<blockquote.*?</blockquote>", "", one.html, flags=re.DOTALL)
    for attributes in (a for tag, a in page.elements if tag == "blockquote"):
        assert attributes["dir"] == "auto"  # right to left stays inside


def test_words_of_a_vocabulary_are_only_text(one: Run) -> None:
    words = ("</script>", "<b>", '"x"', "&amp;", "\u05d0", "{{ 1 }}", "\ud800", "#", "'")
    tokens = replace(one.text.tokens, words=words[: len(one.text.tokens.words)])
    page = Page(run_page(replace(one.text, tokens=tokens), one.played, one.report))
    tags, before = ([tag for tag, _ in p.elements] for p in (page, Page(one.html)))
    assert {tag: tags.count(tag) for tag in tags} == {tag: before.count(tag) for tag in before}
    assert "</script>" in "".join(page.text)


def test_the_picture_stands_alone(one: Run) -> None:
    picture = run_picture(one.played)
    root = ElementTree.fromstring(picture)
    assert f"{one.report['cycles']:,} cycles" in root.attrib["aria-label"]
    names = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {lane.name for lane in one.lanes} <= names
    shown = picture.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import", shown)
    assert set(re.findall(r"var\(--(\w+)\)", shown)) <= COLOURS
    classes = {name for e in root.iter() for name in e.attrib.get("class", "").split()}
    assert {name for name in classes if f".{name}" not in shown} <= {"timeline", "band"}


def test_the_committed_picture_is_of_the_run_in_the_readme() -> None:
    picture = (ROOT / "docs" / "run.svg").read_text(encoding="utf-8")
    told = re.search(r"([\d,]+) cycles from the start to the last logit", README)
    assert told
    assert f"What every unit did in {told[1]} cycles" in picture
    ElementTree.fromstring(picture)


# A run that fails.


def test_a_difference_leaves_no_verdict(
    one: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, report = tmp_path / "report.html", tmp_path / "report.json"
    page.write_text("Every bit equal to the golden model, says an earlier run.")

    def differs(*arguments: Any) -> Any:
        raise Different("3 values differ; first layer.0.p is <219>")

    monkeypatch.setattr(play, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(play, "play_accelerator", differs)
    assert exit_code(run.main, [*one.options, "--json", str(report)]) == Exit.DIFFERENT
    html = page.read_text()
    Page(html)
    assert "first layer.0.p is &lt;219&gt;" in html
    assert "Not equal to the golden model." in html
    for word in ("Every bit", "positive", "negative", "mixed", "probabilities", "class="):
        assert word not in html.replace('class="verdict poor"', "").replace('class="review"', "")
    assert unescape(html).count("<script>alert(1)") == 1
    assert "<script" not in html
    assert not report.exists()


@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_only_the_whole_model_has_a_page(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(run.main, ["--unit", "softmax", option, "build/x.html"], capsys)
    assert error.startswith(f"error: {option} shows a run of the whole model")


def test_a_failure_of_half_a_character_can_be_written() -> None:
    failure_page("half \ud83c", "different").encode()
