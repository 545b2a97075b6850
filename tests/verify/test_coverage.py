"""Coverage: what Verilator wrote is read and summed, and holes are named."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rtl.interface.operation import Error
from sim.machine.job import Packets
from sim.machine.result import Result
from tb.trace import CAUSES
from tests.ending import refusal
from verify.coverage import __main__ as command
from verify.coverage import code, functional
from verify.coverage.code import Point
from verify.coverage.collect import Covered
from verify.coverage.functional import EXCLUDED, Bin, covered, everything, why_not
from verify.coverage.page import page
from verify.fuzz.subject import config, subjects


def line(page: str, at: int, what: str, count: int, instance: str = "TOP.top") -> str:
    """A point as Verilator writes it."""
    facts = {
        "f": "t.v",
        "l": at,
        "n": 5,
        "t": page,
        "page": f"v_{page}/top",
        "o": what,
        "h": instance,
    }
    keys = "".join(f"\x01{key}\x02{value}" for key, value in facts.items())
    return f"C '{keys}' {count}\n"


FILE = f"{code.FIRST_LINE}\n" + "".join(
    [line("toggle", 3, f"a[{bit}]:0->1", int(bit in (1, 4))) for bit in range(7)]
    + [line("toggle", 3, "b:1->0", 0, "TOP.top.x"), line("toggle", 3, "b:1->0", 2, "TOP.top.y")]
    + [line("branch", 8, "if", 0), line("branch", 8, "else", 9), line("line", 7, "block", 9)]
)


def test_points_are_summed_over_instances_and_files() -> None:
    points = code.read(FILE)
    assert points[Point("toggle", "top", 3, "b:1->0")] == 2
    assert Counter(point.kind for point in points) == {"toggle": 8, "branch": 2, "line": 1}
    twice = code.merged([points, points])
    assert twice[Point("line", "top", 7, "block, column 5")] == 18
    assert twice.keys() == points.keys()


def test_holes_are_named() -> None:
    assert code.holes(code.read(FILE)) == {
        "top": ["branch at line 8: if, column 5", "toggle a[0], [3:2], [6:5] 0->1"]
    }
    assert code.holes(code.read(FILE.replace("' 0\n", "' 1\n"))) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with ''"),
        ("<html>", "begins with '<html>'"),
        (FILE[:-40], r"line 13: .* is no point"),
        (FILE + "C 'x' y\n", r"line 14: .* is no point"),
        (FILE.replace("\x02", ""), r"line 2: .* is no point"),
    ],
)
def test_a_file_that_holds_no_coverage(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^some.dat.*{message}"):
        code.read(text, "some.dat")


def seen(run: Any, **changes: Any) -> Result:
    words = len(run.model.last), len(run.tokens.last)
    sound = Result(
        status=2, counters=(9, 5, 3, 0, 1, 0, 0), model_taken=words[0], tokens_taken=words[1]
    )
    return dataclasses.replace(sound, **changes)


def test_bins_of_an_inference() -> None:
    subject = subjects(config(4))[0]
    run = subject.sound(2)
    tokens = len(run.tokens.last)
    found = set(covered(run, seen(run), subject.config))
    assert {(one.cause, one.code, one.remainder) for one in found} == {
        ("idle", Error.NONE, tokens % 4),
        ("norm", Error.NONE, tokens % 4),
    }
    names = {one.what for one in found}
    assert {"HEADER", "EMBED", "END", "LINEAR TABLE", "LINEAR LOGITS", "NORM RESIDUAL"} <= names
    assert found <= set(everything(4))
    # A stream that was not taken to its end, one that breaks off, words of the run before.
    few = set(covered(run, seen(run, model_taken=20, status=2 | 9 << 8), subject.config))
    assert {one.what for one in few} < names
    assert {one.code for one in few} == {Error.ABORTED}
    damaged = dataclasses.replace(
        run, model=Packets.whole(run.model.data[:40] + b"\xff" + run.model.data[41:], 4)
    )
    assert {b.what for b in covered(damaged, seen(run), subject.config)} == {"HEADER"}
    for change in ({"end": "reset"}, {"status": -1}, {"model_rest": 1}, {"tokens_rest": 1}):
        assert not list(covered(run, seen(run, **change), subject.config))


def test_bins_that_are_missing_are_named_together() -> None:
    bins = [Bin("END", remainder, "norm", Error.NONE) for remainder in range(4)]
    assert functional.missing(bins, [bins[1]]) == ["NONE: END, norm, L mod N = 0, 2, 3"]
    assert functional.missing(bins, bins) == []


def test_what_no_inference_shows_is_left_out_for_one_reason() -> None:
    whats = sorted({one.what for one in everything(4)})
    every = [
        Bin(what, remainder, cause, code)
        for what in whats
        for remainder in range(4)
        for cause in CAUSES
        for code in Error
    ]
    covers = [{one for one in every if excluded.covers(one)} for excluded in EXCLUDED]
    assert all(covers)
    assert sum(map(len, covers)) == len(set.union(*covers)) == len(every) - len(everything(4))
    assert (
        why_not(Bin("END", 1, "idle", Error.CRC)) == "a good END is the last word of a good stream"
    )
    assert why_not(Bin("END", 1, "idle", Error.LIMIT)) == ""
    assert why_not(Bin("NORM", 1, "idle", Error.CRC)) == ""
    assert [str(one) for one in EXCLUDED][:3] == [
        "TIMEOUT",
        "BUS, ADDRESS",
        "weights, norm, softmax, drain x LENGTH, NO_KEY",
    ]


def one_of_each() -> Covered:
    """Every bin but one, and the points of FILE."""
    bins = Counter(dict.fromkeys(everything(4), 1))
    del bins[Bin("END", 3, "norm", Error.NONE)]
    return Covered(4, 10, code.read(FILE), bins)


def test_the_number_and_the_page() -> None:
    found = one_of_each()
    bins = len(everything(4))
    assert found.shares() == {
        "line": (1, 1),
        "branch": (1, 2),
        "toggle": (3, 8),
        "functional": (bins - 1, bins),
    }
    assert found.percent() == {
        "line": 100,
        "branch": 50,
        "toggle": 37.5,
        "functional": 100 * (bins - 1) / bins,
    }
    text = page(found, 1, code.holes(found.points), ["NONE: <END>"])
    assert "toggle a[0], [3:2], [6:5] 0-&gt;1" in text
    assert "NONE: &lt;END&gt;" in text
    for title, share in (
        ("lines", "100.00 %"),
        ("branches", "50.00 %"),
        ("toggles (both edges of every bit)", "37.50 %"),
        ("function (bins)", f"{100 * (bins - 1) / bins:.2f} %"),
    ):
        assert f"<dt>{title}</dt><dd>{share}</dd>" in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("change", "options", "code_and_message"),
    [
        ({}, [], (0, "")),
        ({}, ["--least", "37"], (0, "")),
        ({}, ["--least", "38"], (1, "toggle: 37.50 % are covered, --least asks for 38 %")),
        ({}, ["--least", "51"], (1, "branch: 50.00 % are covered, --least asks for 51 %")),
        ({"wrong": {7: "hang"}}, [], (1, "1 of 10 cases failed; case 7: hang")),
        ({"bins": Counter([Bin("END", 0, "norm", Error.NO_KEY)])}, [], (1, "although it is excl")),
    ],
)
def test_the_command(
    change: dict[str, Any],
    options: list[str],
    code_and_message: tuple[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    part = dataclasses.replace(one_of_each(), **change)
    monkeypatch.setattr(command, "collect", lambda *given: [part])
    figures, html = tmp_path / "coverage.json", tmp_path / "deep" / "coverage.html"
    ended = command.main([*options, "--json", str(figures), "--html", str(html)])
    said = capsys.readouterr()
    assert (ended, code_and_message[1] in said.err) == (code_and_message[0], True)
    assert said.err.count("\n") == ended
    for kind, percent in part.percent().items():
        assert re.search(rf"^{kind} .* {percent:.2f}\n", said.out, re.MULTILINE) or percent == 0
    assert html.read_text().startswith("<!doctype html>")
    written = json.loads(figures.read_text())
    assert {k: one["percent"] for k, one in written["covered"].items()} == {
        k: round(percent, 2) for k, percent in part.percent().items()
    }
    assert written["holes"]["code"]["top"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cases", "0"], "0 is out of range: it must be 1 or more"),
        (["--lanes", "5"], "argument --lanes: invalid choice: 5"),
        (["--least", "101"], "'101': give a percentage, 0 to 100"),
        (["--least", "much"], "'much': give a percentage, 0 to 100"),
        (["--least", "nan"], "'nan': give a percentage, 0 to 100"),
    ],
)
def test_what_cannot_be_covered_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(command.main, arguments, capsys)


@pytest.mark.slow
def test_the_accelerator_is_covered(tmp_path: Path) -> None:
    """A few cases reach most of it, and the same again whatever the number of processes."""
    options = ["--cases", "250", "--html", str(tmp_path / "page.html"), "--least", "60"]
    for jobs in (1, 2):
        figures = tmp_path / f"{jobs}.json"
        assert command.main([*options, "--jobs", str(jobs), "--json", str(figures)]) == 0
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
    shares = json.loads(figures.read_text())["covered"]
    assert all(share["covered"] for share in shares.values())
