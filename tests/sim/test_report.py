"""Tables line up, and figures are written whole or not at all."""

import json

import pytest

from sim.report import table, write_json


def test_numbers_stand_to_the_right_and_nothing_is_a_dash():
    text = table(["unit", "cycles", "share"], [["softmax", 12345, 0.98765], ["x", None, 1.0]])
    assert text.splitlines() == [
        "unit     cycles   share",
        "-------  ------  ------",
        "softmax  12,345  0.9877",
        "x             -       1",
    ]


def test_figures_that_cannot_be_written_leave_the_old_ones(tmp_path):
    path = tmp_path / "new" / "report.json"
    write_json(path, {"cycles": 5})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"cycles": object()})
    assert json.loads(path.read_text()) == {"cycles": 5}
    assert [file.name for file in path.parent.iterdir()] == ["report.json"]
