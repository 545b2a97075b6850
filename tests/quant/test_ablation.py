import json
from pathlib import Path

import pytest

from quant import ablation
from quant.quantize.observers import METHODS
from quant.quantize.options import REMEDIES, Options

pytestmark = pytest.mark.slow


def test_every_choice_has_its_row() -> None:
    names = [row.name for row in ablation.rows()]
    assert names[0] == "contract"
    assert ablation.rows()[0].options == Options(remedies=())
    assert len(set(names)) == len(names) == 7 + len(METHODS) - 1 + 2 * len(REMEDIES) + 1
    remedies = [row.name for row in ablation.rows(["remedies"])]
    assert remedies == ["contract", *names[7 + len(METHODS) - 1 :]]
    assert {row.options.remedies for row in ablation.rows(["numerics"])} == {()}


@pytest.mark.slow
def test_the_table_on_real_reviews(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ablation.json"
    options = ["--samples", "12", "--tokens", "48", "--json", str(file)]
    assert ablation.main(options) == 0
    rows = {row["variant"]: row for row in json.loads(file.read_text())["rows"]}
    printed = capsys.readouterr().out
    for name, row in rows.items():
        assert name in printed
        assert 0 < row["mean_difference"] <= row["largest_difference"]
    contract = rows["contract"]["mean_difference"]
    assert contract < 0.05
    assert rows["residual stream 8 bit"]["mean_difference"] > contract
