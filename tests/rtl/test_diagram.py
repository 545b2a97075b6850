"""The block diagram shows the parts of the design, and the committed picture is what is drawn."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from cli.command import Exit

import pytest

from rtl.generate import diagram
from rtl.interface.config import Config

pytestmark = pytest.mark.slow

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "diagram.svg"


def test_the_committed_picture_is_that_of_the_design() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == diagram.diagram(Config())


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [4, 32])
def test_the_parts_are_those_of_every_configuration(lanes: int) -> None:
    assert diagram.parts(Config(lanes=lanes)) == set(diagram.PLACES)


@pytest.mark.parametrize("name", ["engine.softmax", "normalizer.layernorm", "watchdog"])
def test_a_part_without_a_place_is_named(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "diagram.svg"
    monkeypatch.delitem(diagram.PLACES, name)
    assert diagram.main(["--out", str(out)]) == Exit.REFUSED
    error = capsys.readouterr().err
    assert error.startswith(f"error: {name}: ")
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_place_without_a_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(diagram.PLACES, "engine.sotfmax", (0, 0, 9, 9, ""))
    with pytest.raises(ValueError, match=r"engine\.sotfmax: the design and the diagram differ"):
        diagram.diagram(Config())


def boxes() -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of the parts that are no outlines."""
    outlines = {path.rpartition(".")[0] for path in diagram.PLACES}
    return [
        (left, top, left + width, top + height)
        for path, (left, top, width, height, _) in diagram.PLACES.items()
        if path not in outlines
    ]


def test_boxes_do_not_overlap_and_names_fit() -> None:
    found = boxes()
    for place, (left, top, right, bottom) in enumerate(found):
        assert 0 <= left < right <= diagram.WIDTH
        assert 0 <= top < bottom <= diagram.HEIGHT
        for other in found[place + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, ((left, top), other)


def points(path: str) -> list[tuple[int, int]]:
    """The corners of a path of M, H and V."""
    found: list[tuple[int, int]] = []
    for letter, first, second in re.findall(r"([MHV])(\d+)(?: (\d+))?", path):
        at = found[-1] if found else (0, 0)
        new = {
            "M": (int(first), int(second or 0)),
            "H": (int(first), at[1]),
            "V": (at[0], int(first)),
        }
        found.append(new[letter])
    return found


def test_arrows_end_at_parts_and_cross_none() -> None:
    for path, _, _, _ in diagram.ARROWS:
        corners = points(path)
        last = corners[-1]
        assert any(
            left - 8 <= last[0] <= right + 8 and top - 8 <= last[1] <= bottom + 8
            for left, top, right, bottom in boxes()
        ), path
        for (x0, y0), (x1, y1) in pairwise(corners):
            for left, top, right, bottom in boxes():
                inside = (
                    max(x0, x1) > left + 1
                    and min(x0, x1) < right - 1
                    and max(y0, y1) > top + 1
                    and min(y0, y1) < bottom - 1
                )
                assert not inside, (path, (left, top))


def test_the_picture_is_well_formed_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(COMMITTED.read_text(encoding="utf-8"))
    assert root.attrib["role"] == "img"
    assert "Block diagram" in root.attrib["aria-label"]
    assert "http" not in COMMITTED.read_text(encoding="utf-8").replace(root.tag[1:27], "")
