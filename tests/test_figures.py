"""docs/measurements.toml: the pages and the estimates hold to it."""

from __future__ import annotations

from pathlib import Path

from docs import figures
from docs.figures import load, page, shown
from rtl.interface.config import Config
from rtl.interface.options import options_of
from sim.estimate.points import POINTS, RESOURCES

ROOT = Path(__file__).resolve().parent.parent
MEASUREMENTS = {one.name: one for one in load()}


def test_the_page_is_made_of_the_file() -> None:
    assert figures.PAGE.read_text(encoding="utf-8") == page(list(MEASUREMENTS.values()))


def test_the_output_in_the_readme_is_the_recorded_one() -> None:
    run = MEASUREMENTS["sim.review"]
    (row,) = run.rows
    value = {column: shown(cell) for column, cell in zip(run.columns, row)}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{value['cycles']} cycles from the start to the last logit: " in readme
    assert f": {value['time at 100 MHz']} ms at 100 MHz, {value['texts']} texts a" in readme
    assert f"Ideal {value['ideal cycles']} cycles for {value['products']} MACs" in readme


def test_the_estimates_are_fitted_to_the_recorded_synthesis() -> None:
    written, points = {}, {}
    for lanes, choices, *cells in MEASUREMENTS["synthesis.accelerator"].all:
        written[lanes, choices] = cells[:4]
    for point in POINTS:
        lanes = point.config.lanes
        choices = " ".join(options_of(point.config, Config(lanes=lanes)))
        points[lanes, choices] = [point.resources[name] for name in RESOURCES]
    assert written == points
