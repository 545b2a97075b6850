from xml.etree import ElementTree

import numpy as np
import pytest

from quant.page import svg

X = np.linspace(-1, 1, 9)
CHARTS = {
    "lines": svg.lines(X, {"a": X, "b <&>": X**2}, "x <in>", "y"),
    "step": svg.lines(X, {"a": np.zeros(9)}, "x", "y", step=True),
    "histogram": svg.histogram(np.linspace(-2, 2, 5), np.array([0, 10, 1000, 1]), 1.5, "h"),
    "heat": svg.heat_map(np.eye(2), ["<s>", "b"], ["a", "b"], "heat"),
    "confusion": svg.confusion(np.array([[3, 1], [0, 0]]), ["no", "yes"], "c"),
}


@pytest.mark.parametrize("name", sorted(CHARTS))
def test_charts_are_wellformed_and_inside_their_box(name: str) -> None:
    root = ElementTree.fromstring(CHARTS[name])
    assert root.tag == "svg"
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        assert "nan" not in str(element.attrib).lower()
        if element.tag == "rect":
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
            assert 0 <= x <= x + float(element.attrib["width"]) <= width
            assert 0 <= y <= y + float(element.attrib["height"]) <= height


def test_ticks_are_round_and_cover() -> None:
    assert svg.ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    np.testing.assert_allclose(svg.ticks(-0.31, 0.29), [-0.2, 0, 0.2], atol=1e-12)
    assert "-0" not in [f"{tick:g}" for tick in svg.ticks(-0.31, 0.29)]
    assert svg.ticks(3, 3) == [3]


def test_clipping_points_are_drawn_at_their_place() -> None:
    root = ElementTree.fromstring(CHARTS["histogram"])
    dashed = [p for p in root.iter("path") if "stroke-dasharray" in p.attrib]
    places = [float(p.attrib["d"].split()[0].removeprefix("M")) for p in dashed]
    middle = (svg.MARGIN_LEFT + 320 - svg.MARGIN_RIGHT) / 2
    assert sum(places) / 2 == pytest.approx(middle, abs=0.1)
    assert len(dashed) == 2
