"""What quant.inspect says of a checkpoint."""

import json
from pathlib import Path

import pytest

from quant.inspect import main
from tests.quant import tiny


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, out = tiny.write(tmp_path / "model"), tmp_path / "out.json"
    assert main([str(directory), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["difference"] < 1e-9
    assert "equal to transformers' own model" in printed
    tiny.write(tmp_path / "model", {"model_type": "umt5"})
    assert main([str(directory)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
