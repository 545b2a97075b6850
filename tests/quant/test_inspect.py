"""What quant.inspect says of a checkpoint."""

import json
from pathlib import Path

import numpy as np
import pytest

from quant.foreign.checkpoint import load
from quant.inspect import description, main, parts, reaches
from quant.quantize.observers import Observer
from tests.quant import tiny, zoo


def test_channels_that_reach_far_are_named() -> None:
    rows = np.full((3, 10), 0.5, np.float32)
    rows[1, 7], rows[2, 2] = -20.0, 5.0
    names = {"layer.0.ffn.norm": rows, "layer.0.ffn.sum": rows, "layer.1.q": rows[:, :3]}
    names |= {"layer.2.ffn.up": rows[:, :4], "layer.3.ffn.up": rows}
    names |= {"layer.3.ffn.gate": rows[:, :5]}
    observers = {}
    for name, values in names.items():
        observers[name] = Observer()
        observers[name].observe(values)
    found = reaches(observers)
    assert [(one["tensor"], one["channels"]) for one in found] == [
        ("layer.0.ffn.norm", [(7, 40.0), (2, 10.0)]),
        ("layer.1.q", [(2, 10.0)]),
        ("layer.2.ffn.up", [(2, 10.0)]),
        ("layer.3.ffn.gate", [(2, 10.0)]),
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = tiny.tensors()
    values["bert.encoder.layer.1.output.LayerNorm.weight"][5] = 90.0
    directory, out = tiny.write(tmp_path / "model", arrays=values), tmp_path / "out.json"
    texts = tmp_path / "texts.txt"
    texts.write_text("good film\nbad a film !\n")
    options = ["--data", str(texts), "--texts", "2", "--json", str(out)]
    assert main([str(directory), *options]) == 0
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["parameters"] == sum(v.size for v in values.values())
    assert found["reaches"][0]["tensor"] == "layer.1.ffn.norm"
    assert found["reaches"][0]["channels"][0][0] == 5
    assert found["difference"] < 1e-9
    assert "equal to transformers' own model" in printed
    assert main([str(directory), "--texts", "0"]) == 0
    assert "reach" not in capsys.readouterr().out
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
