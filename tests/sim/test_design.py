"""Verilog is generated once for each content of its sources, whoever else asks at that time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim import design
from sim.design import generated
from tests.tiers import quick

CONFIG = Config(lanes=4)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "VERILOG", tmp_path)


def made(capsys: pytest.CaptureFixture[str]) -> int:
    """How often Verilog was generated since the last time."""
    return capsys.readouterr().err.count("generating the Verilog")


@pytest.mark.slow
def test_the_second_time_it_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = generated("requantize", CONFIG)
    assert made(capsys) == 1
    assert generated("requantize", CONFIG) == first
    assert made(capsys) == 0
    generated("requantize", Config(lanes=8))
    generated("activation", CONFIG)
    assert made(capsys) == 2
    monkeypatch.setattr(design, "SOURCES", "other sources")
    assert generated("requantize", CONFIG) == first
    assert made(capsys) == 1
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".json"]) == 3


@pytest.mark.parametrize("content", [None, *quick(["", "{", "[]", '{"key": 1}', "null"], 0)])
def test_a_damaged_file_is_made_again(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None: the key is right, the Verilog is missing."""
    first, path = generated("requantize", CONFIG), tmp_path / "requantize-4.json"
    entry = json.loads(path.read_text())
    del entry["verilog"]
    path.write_text(json.dumps(entry) if content is None else content)
    assert generated("requantize", CONFIG) == first
    assert made(capsys) == 2


@pytest.mark.parametrize(("room", "kind"), [*((r, "py") for r in design.ROOMS), ("rtl", "v")])
def test_every_source_counts(room: str, kind: str, tmp_path: Path) -> None:
    """One more line in any room, one file more, one file less: other Verilog may come."""
    for name in design.ROOMS:
        shutil.copytree(design.ROOT / name, tmp_path / name)
    before = design.digest_of(tmp_path, design.ROOMS)
    assert before == design.SOURCES
    deepest = max(
        (tmp_path / room).rglob(f"*.{kind}"),
        key=lambda path: (len(path.parts), path.stat().st_size),
    )
    deepest.write_text(deepest.read_text() + "\n")
    changed = design.digest_of(tmp_path, design.ROOMS)
    (tmp_path / room / f"new.{kind}").write_text("")
    added = design.digest_of(tmp_path, design.ROOMS)
    assert len({before, changed, added}) == 3


@pytest.mark.slow
def test_two_at_once_get_the_same_and_one_makes_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sim import design\n"
        "from rtl.interface.config import Config\n"
        f"design.VERILOG = Path({str(tmp_path)!r})\n"
        "print(hash(design.generated('softmax', Config(lanes=4)).verilog))\n"
    )
    line = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = {"PYTHONHASHSEED": "0"}
    running = [subprocess.Popen(line, env=env, **pipes) for _ in range(2)]
    told = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    assert told[0][0] == told[1][0]
    assert sum(err.count("generating the Verilog") for _, err in told) == 1
