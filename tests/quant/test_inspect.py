"""What quant.inspect says of a checkpoint."""

import json
from pathlib import Path

import pytest

from quant.foreign.checkpoint import load
from quant.inspect import description, main, parts
from tests.quant import tiny, zoo


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, out = tiny.write(tmp_path / "model"), tmp_path / "out.json"
    assert main([str(directory), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["parameters"] == sum(v.size for v in tiny.tensors().values())
    assert found["difference"] < 1e-9
    assert "equal to transformers' own model" in printed
    tiny.write(tmp_path / "model", {"model_type": "umt5"})
    assert main([str(directory)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("case", "absent"),
    [
        ("RMSNorms", 0),
        ("turned", 16 * 12),
        ("buckets", 3),  # no key behind at distance 0
        ("causal", 0),
    ],
)
def test_the_parameters_of_a_plain_encoder(case: str, absent: int, tmp_path: Path) -> None:
    checkpoint = load(zoo.own(tmp_path, case))
    own = sum(tensor.size for tensor in zoo.own_tensors(zoo.OWN[case]).values())
    assert sum(parts(checkpoint).values()) == own + 16 * 12 - absent
    assert "maps to the encoder" in description(checkpoint)
