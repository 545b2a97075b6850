"""What quant.inspect says of a checkpoint, against the model that calibration makes of it."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from golden import store
from quant.foreign.checkpoint import Checkpoint, load
from quant.inspect import main, needs, parameters, reaches, smallest
from quant.quantize.encoder import shape_of
from quant.quantize.observers import Observer
from quant.quantize.stand_in import stand_in
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.config import LANES, Config
from sim.cycles.model import predict
from tests.quant import test_rotary, tiny
from tests.quant.test_position_bias import OWN, write_own


def test_cycles_and_bytes_are_those_of_the_calibrated_model(
    shipped: Checkpoint, quantized_directory: Path
) -> None:
    """Of its words, which calibration has not changed: no copies, no shifts, tables of 8 bits."""
    model = store.load(quantized_directory)[0]
    for lanes, tokens in ((4, 9), (32, 40)):
        found = needs(shipped, stand_in(shipped), lanes, tokens)
        program = compile_model(model, replace(found.config))
        assert found.cycles == predict(program, tokens).cycles
        assert found.stream_bytes == len(program.stream())
        assert found.row_bytes == embedding_table(model, lanes).nbytes
        assert (found.config.hidden, found.config.ffn, found.config.labels) == (128, 512, 2)


@pytest.mark.parametrize("head", [(), ("tanh",), ("relu", "gelu")])
def test_heads_and_heads_of_the_attention_of_any_width(
    head: tuple[str, ...], tmp_path: Path
) -> None:
    checkpoint = load(tiny.write(tmp_path))
    widths = [12, *[29] * len(head), 3]
    arrays = {name: a for name, a in checkpoint.arrays.items() if not name.startswith("head.")}
    for j, (inputs, outputs) in enumerate(pairwise(widths)):
        arrays[f"head.{j}.weight"] = np.zeros((outputs, inputs), np.float32)
        arrays[f"head.{j}.bias"] = np.zeros(outputs, np.float32)
    changed = replace(
        checkpoint, spec=replace(checkpoint.spec, head_activations=head), arrays=arrays
    )
    model = stand_in(changed)
    assert [layer.weight.shape for layer in model.head] == list(zip(widths[1:], widths))
    for lanes in LANES:
        config = smallest(model, lanes, 16)
        compile_model(model, config)  # it takes the model
        for name in ("hidden", "ffn", "labels"):  # and nothing less does, but for V's padding
            if (value := getattr(config, name)) in (12, 20, 29, 3):
                with pytest.raises(ValueError, match=f"{name}={value}"):
                    compile_model(model, replace(config, **{name: value - 1}))


def test_what_no_accelerator_takes(shipped: Checkpoint) -> None:
    model = stand_in(shipped)
    wide = replace(model, shape=replace(shape_of(shipped.spec), vocabulary=2))
    assert smallest(wide, 4, 512) == Config(lanes=4, tokens=512, hidden=128, ffn=512, labels=2)
    with pytest.raises(ValueError, match=r"tokens is 8193: it must lie in 1\.\.8192"):
        smallest(model, 8, 8193)
    with pytest.raises(ValueError, match="600 tokens: the model takes 512 at most at 8 lanes"):
        smallest(model, 8, 600)


def test_channels_that_reach_far_are_named() -> None:
    rows = np.full((3, 10), 0.5, np.float32)
    rows[1, 7], rows[2, 2] = -20.0, 5.0
    names = {"layer.0.ffn.norm": rows, "layer.0.ffn.sum": rows, "layer.1.q": rows[:, :3]}
    names |= {
        "layer.2.ffn.up": rows[:, :4],
        "layer.3.ffn.up": rows,
        "layer.3.ffn.gate": rows[:, :5],
    }
    observers = {}
    for name, values in names.items():
        observers[name] = Observer()
        observers[name].observe(values)
    found = reaches(observers)
    assert [(r.tensor, r.channels) for r in found] == [
        ("layer.0.ffn.norm", ((7, 40.0), (2, 10.0))),
        ("layer.1.q", ((2, 10.0),)),
        ("layer.2.ffn.up", ((2, 10.0),)),
        ("layer.3.ffn.gate", ((2, 10.0),)),
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
    assert found["tokens"] == 16  # the model takes no more
    assert [entry["config"]["lanes"] for entry in found["needs"]] == list(LANES)
    assert (
        found["parameters"] == parameters(load(directory)) == sum(v.size for v in values.values())
    )
    assert {"tensor": "layer.1.ffn.norm"}.items() <= found["reaches"][0].items()
    assert found["reaches"][0]["channels"][0][0] == 5
    assert "layer.1.ffn.norm: 5 (" in printed
    assert "--lanes 4 --tokens 16 --hidden 12 --ffn 20 --labels 3" in printed
    assert main([str(directory), "--texts", "0"]) == 0
    assert "reach" not in capsys.readouterr().out
    texts.write_text("QED KLM NOP")
    assert main([str(directory), "--data", str(texts)]) == 0
    said = "warning: 60% of the tokens are unknown to the tokenizer: with --data FILE give texts"
    assert said in capsys.readouterr().err
    texts.write_text("good QED KLM")
    assert main([str(directory), "--data", str(texts)]) == 0
    assert "unknown" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"is_causal": True}, "layer.0.attention: whether the mask is causal then depends"),
        ({"model_type": "umt5"}, "cannot run: layer.0.scores: a bias of each"),
    ],
)
def test_what_does_not_map_is_refused_in_one_line(
    config: dict, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tiny.write(tmp_path, config=config)
    assert main([str(directory)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert message in said.err


def test_a_position_bias_needs_an_accelerator_with_its_heads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, figures = write_own(tmp_path / "model", OWN), tmp_path / "figures.json"
    assert main([str(folder), "--texts", "0", "--json", str(figures)]) == 0
    said = capsys.readouterr().out
    assert "scores with a bias by relative positions" in said
    assert re.search(
        r"parameters: .*attention 21\b", said
    )  # of 8 buckets none is a key behind at the distance 0
    assert " --bias-heads 3\n" in said
    found = json.loads(figures.read_text())
    assert {entry["config"]["bias_heads"] for entry in found["needs"]} == {3}
    model = stand_in(load(folder))
    config = smallest(model, 4, 16)
    compile_model(model, config)
    with pytest.raises(ValueError, match="bias_heads"):
        compile_model(model, replace(config, bias_heads=2))


@pytest.mark.parametrize(
    ("case", "options", "needed"),
    [
        ("gated", "--gated", {"gated": True}),
        ("RMSNorms", "--rms-norm", {"rms_norm": True}),
        ("turned", "--rotary-pairs 2", {"rotary_pairs": 2}),
        ("two bases, one head of K", "--rotary-pairs 4", {"rotary_pairs": 4}),
        ("all", "--windows --rms-norm --gated --rotary-pairs 4", {"rotary_pairs": 4}),
    ],
)
def test_mechanisms_need_an_accelerator_that_has_them(
    case: str,
    options: str,
    needed: dict[str, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, figures = tiny.TRANSFORMER | test_rotary.OWN[case], tmp_path / "figures.json"
    tensors = test_rotary.own_tensors(config)
    folder = tiny.write(tmp_path / "model", config, tensors)
    assert main([str(folder), "--texts", "0", "--json", str(figures)]) == 0
    assert f" {options}\n" in capsys.readouterr().out
    found = json.loads(figures.read_text())
    ((name, value),) = needed.items()
    assert {entry["config"][name] for entry in found["needs"]} == {value}
    sinusoids = 16 * 12 if config.get("sinusoids", True) else 0
    assert found["parameters"] == sinusoids + sum(tensor.size for tensor in tensors.values())
    model = stand_in(load(folder))
    least = smallest(model, 4, 16)
    compile_model(model, least)
    with pytest.raises(ValueError, match=name):
        compile_model(model, replace(least, **{name: type(value)(value - 1)}))


def test_windows_need_an_accelerator_that_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_own(tmp_path / "model", {"window": [[None, 0], [3, 1]]})
    figures = tmp_path / "figures.json"
    assert main([str(folder), "--texts", "0", "--json", str(figures)]) == 0
    said = capsys.readouterr().out
    assert (
        "windows, layer 0: keys up to the query's own; layer 1: 3 keys before and 1 behind the "
        "query's own\n" in said
    )
    assert " --windows\n" in said
    found = json.loads(figures.read_text())
    assert found["spec"]["windows"] == [[None, 0], [3, 1]]
    assert {entry["config"]["windows"] for entry in found["needs"]} == {True}
    model = stand_in(load(folder))
    config = smallest(model, 4, 16)
    compile_model(model, config)
    with pytest.raises(ValueError, match="windows"):
        compile_model(model, replace(config, windows=False))
