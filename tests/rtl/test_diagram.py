"""The block diagram shows the parts of the design, and the committed picture is what is drawn."""

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


def test_the_picture_is_well_formed_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(COMMITTED.read_text(encoding="utf-8"))
    assert root.attrib["role"] == "img"
    assert "Block diagram" in root.attrib["aria-label"]
    assert "http" not in COMMITTED.read_text(encoding="utf-8").replace(root.tag[1:27], "")
