"""The flow from a component to a bench on either simulator, on a small design of its own."""

from __future__ import annotations

import fcntl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rtl.generate.verilog import VerilogError, convert
from sim import builds, simulators, verilator
from sim.bench import BenchError, run_bench
from sim.builds import built
from sim.design import Design
from sim.simulators import SimulatorError
from tests.tiers import quick

BENCH = Path(__file__).with_name("bench_accumulator.py")
EACH = pytest.mark.parametrize("simulator", simulators.SIMULATORS)
QUICK_ON_ICARUS = pytest.mark.parametrize("simulator", quick(sorted(simulators.SIMULATORS)))


@pytest.fixture(autouse=True)
def _own_builds(tmp_path_factory, monkeypatch):
    # One folder for the whole run: the second test on a simulator finds the build of the first.
    monkeypatch.setattr(builds, "BUILDS", tmp_path_factory.getbasetemp() / "builds")


@QUICK_ON_ICARUS
def test_all_tests_of_a_bench_run_with_their_parameters(accumulator, simulator):
    results = run_bench(accumulator(), simulator, bench=BENCH, probes=["part.o"])
    names = ["sums/sign=1", "sums/sign=-1", "sheet_is_given", "wrong_on_purpose", "probe"]
    assert [result.name for result in results] == names
    # Two cycles of reset and three values, at 10 ns, up to a falling edge.
    assert results[0].simulated_ns == 45


@QUICK_ON_ICARUS
def test_a_failing_test_raises_with_its_message(accumulator, simulator):
    with pytest.raises(BenchError, match=r"1 failed\nwrong_on_purpose: expected 7\b"):
        run_bench(accumulator(), simulator, bench=BENCH, env={"EXPECTED": "7"}, probes=["part.o"])


@pytest.mark.slow
@QUICK_ON_ICARUS
def test_what_a_user_exports_reaches_neither_build_nor_bench(
    accumulator, simulator, monkeypatch, tmp_path
):
    foreign = {"EXPECTED": "9", "UNIT_SHEET": "/no", "PYTHONHOME": "/no", "PYTHONPATH": "/no"}
    foreign |= {"BERT2RTL_EXPECTED": "9", "CXXFLAGS": "-Werror -nothing", "MAKEFLAGS": "-n"}
    foreign |= {"COCOTB_TEST_FILTER": "nothing", "PYTHONOPTIMIZE": "1", "VERILATOR_ROOT": "/no"}
    design = accumulator()
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    # A python3 that is none: the makefile of Verilator's runs one.
    (tmp_path / "python3").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    options = {"bench": BENCH, "probes": ["part.o"], "variant": "exported"}
    assert len(run_bench(design, simulator, **options)) == 5
    if simulator == "icarus":  # an assert is one in spite of PYTHONOPTIMIZE
        with pytest.raises(BenchError, match=r"1 failed\nwrong_on_purpose: expected 7\b"):
            run_bench(design, simulator, env={"EXPECTED": "7"}, **options)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@EACH
def test_a_bench_that_cannot_be_imported_raises(accumulator, simulator, tmp_path):
    broken = tmp_path / "bench_broken.py"
    broken.write_text("raise RuntimeError('broken bench')\n")
    with pytest.raises(BenchError, match="broken bench"):
        run_bench(accumulator(), simulator, bench=broken, probes=["part.o"])


@pytest.mark.slow
def test_a_faulty_design_of_a_variant_is_caught_and_leaves_the_sound_build_alone(accumulator):
    with built(accumulator(), "icarus") as sound:
        before = (sound / "stamp").stat().st_mtime_ns
    with pytest.raises(BenchError, match="sums/sign=1"):
        run_bench(accumulator(error=1), "icarus", bench=BENCH, variant="fault")
    with built(accumulator(), "icarus") as again:
        assert (again / "stamp").stat().st_mtime_ns == before


def test_a_changed_design_is_built_again(accumulator):
    with built(accumulator(), "icarus", variant="change") as folder:
        stamp = (folder / "stamp").read_text()
    with built(accumulator(error=2), "icarus", variant="change") as again:
        assert again == folder
        assert (folder / "stamp").read_text() != stamp


def test_a_bench_reads_the_sheet_of_its_design(accumulator):
    """Also where an older build has the same Verilog."""
    for sheet in ("{}", '{"lanes": 4}'):
        with built(replace(accumulator(), sheet=sheet), "icarus", variant="sheet") as folder:
            assert (folder / "unit.json").read_text() == sheet


@pytest.mark.slow
def test_a_build_that_another_command_replaced_is_made_again(accumulator, monkeypatch):
    """Between the build and its run another process may build other sources in the same folder."""
    build, replaced = builds.build, []

    def replaced_once(design, simulator, folder, *rest):
        build(design, simulator, folder, *rest)
        if not replaced:
            replaced.append(folder)
            with built(accumulator(error=1), simulator, variant="replaced"):
                pass

    monkeypatch.setattr(builds, "build", replaced_once)
    results = run_bench(
        accumulator(), "icarus", bench=BENCH, testcases=["sums"], variant="replaced"
    )
    assert [result.name for result in results] == ["sums/sign=1", "sums/sign=-1"]
    assert replaced


def test_a_build_is_not_replaced_while_it_is_run(accumulator):
    """Another process waits for its lock until the run is over."""
    with built(accumulator(), "icarus", variant="held") as folder:
        with (folder / "lock").open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (folder / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
@QUICK_ON_ICARUS
def test_waves_are_recorded_where_asked(accumulator, simulator, tmp_path):
    file = tmp_path / "waves" / "sums.fst"
    run_bench(accumulator(), simulator, bench=BENCH, testcases=["sums"], waves=file)
    # An FST starts with its header block, type 0, of 329 bytes.
    assert file.read_bytes()[:9] == bytes([0]) + (329).to_bytes(8, "big")


@EACH
def test_refused_verilog_raises_with_the_simulators_words(accumulator, simulator):
    design = accumulator()
    broken = design.verilog.replace("input  wire clk", "nonsense here clk", 1)
    with pytest.raises(SimulatorError, match=f"{simulator} could not build accumulator"):
        with built(Design(**(vars(design) | {"verilog": broken})), simulator, variant="broken"):
            pass


MAIN = """\
#include "Vtop.h"
#include <cstdio>
int main() {
    Vtop top;
    auto cycle = [&] { top.clk = 0; top.eval(); top.clk = 1; top.eval(); };
    top.rst = 1; top.i = 0; cycle();
    top.rst = 0; top.i = 100; cycle(); cycle();
    std::printf("%d\\n", top.o);
}
"""


@pytest.mark.slow
def test_a_program_of_our_own_drives_the_design(accumulator, tmp_path):
    """It is built once, and never replaced by another."""
    main = tmp_path / "main.cpp"
    programs = []
    for step in (100, 50):
        main.write_text(MAIN.replace("top.i = 100", f"top.i = {step}"))
        programs.append(builds.build_harness(accumulator(), main))
        before = programs[-1].stat().st_mtime_ns
        assert builds.build_harness(accumulator(), main) == programs[-1]
        assert programs[-1].stat().st_mtime_ns == before
    answers = [subprocess.run([p], capture_output=True, text=True).stdout for p in programs]
    assert answers == ["200\n", "100\n"]


def test_a_program_that_does_not_compile_is_told(accumulator, tmp_path):
    main = tmp_path / "main.cpp"
    main.write_text("int main() { return nothing; }\n")
    with pytest.raises(SimulatorError, match=r"(?s)accumulator with main\.cpp.*nothing"):
        builds.build_harness(accumulator(), main, variant="broken")


def test_an_unknown_simulator_is_refused(accumulator):
    with pytest.raises(ValueError, match="'modelsim': choose icarus or verilator"):
        run_bench(accumulator(), "modelsim", bench=BENCH)


def test_a_missing_simulator_is_named(accumulator, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(verilator, "TREE", tmp_path)
    for simulator in simulators.SIMULATORS:
        with pytest.raises(SimulatorError, match=f"{simulator} is not installed: run"):
            run_bench(accumulator(), simulator, bench=BENCH)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Verilator 5.036 2025-04-27 rev v5.036", (5, 36)),
        ("Verilator 5.006 2023-01-22 rev (Debian 5.006-3)", (5, 6)),
        ("Verilator 5.049 devel", (5, 49)),
        (" rev vUNKNOWN-built20260516-4e853d8", None),
    ],
)
def test_verilator_versions_are_read(text, version):
    assert verilator.parse_version(text) == version


def test_an_old_verilator_on_path_is_passed_over(monkeypatch, tmp_path):
    for text, used in (("5.035 x", False), ("5.036 x", True)):
        program = tmp_path / "verilator"
        program.write_text(f"#!/bin/sh\necho Verilator {text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert (verilator.on_path() == program) is used


def test_a_part_without_a_name_is_refused(component):
    with pytest.raises(VerilogError, match=r"has no name: accumulator\.U"):
        convert(component(named=False), "accumulator")
