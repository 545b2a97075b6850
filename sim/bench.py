"""A cocotb bench on a design, on either simulator.

    run_bench("softmax", "icarus", Config(lanes=4))

generates the unit, builds it (cached) and runs tb/bench_softmax.py on it. Every run has a folder of
its own, so several commands may run the same build at once.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from cli.errors import Different
from cli.progress import stage

from rtl.interface.config import Config
from sim.builds import built
from sim.design import Design, generated
from sim.simulators import TIMESCALE, clean_environment, runner, tail


class BenchError(Different):
    """A bench failed, or ran no test; the message holds what failed and the end of the log."""


@dataclass(frozen=True, kw_only=True)
class PassedTest:
    """One test of a bench that passed; benches clock at 10 ns a cycle.

    ``name`` is the function in the bench, with its parameters: `stalls/idle=0.5`.
    """

    name: str
    seconds: float
    simulated_ns: float


def _passed(results: Path, log: Path, title: str) -> list[PassedTest]:
    if not results.exists():
        raise BenchError(f"{title}: the simulation ended without results:\n{tail(log)}")
    passed, failed = [], list[str]()
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            continue
        name = case.get("name", "")
        problems = [problem for tag in ("failure", "error") for problem in case.findall(tag)]
        failed += [f"{name}: {problem.get('message', '')}" for problem in problems]
        facts = {p.get("name"): p.get("value") for p in case.iter("property")}
        if not problems:
            simulated = round(float(facts["sim_time_duration"] or 0), 3)
            seconds = float(case.get("time", 0))
            passed.append(PassedTest(name=name, seconds=seconds, simulated_ns=simulated))
    if failed:
        told = "\n".join([f"{len(failed)} failed", *failed])
        raise BenchError(f"{title}: {told}\n{tail(log)}")
    if not passed:
        raise BenchError(f"{title}: no test ran\n{tail(log)}")
    return passed


def run_bench(
    unit: str | Design,
    simulator: str = "icarus",
    config: Config | None = None,
    *,
    bench: str | Path | None = None,
    testcases: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    probes: Sequence[str] = (),
    waves: Path | None = None,
    variant: str = "",
) -> list[PassedTest]:
    """Run a cocotb bench on a unit; returns its tests, all of them passed.

    ValueError for an unknown unit or simulator or a refused configuration, SimulatorError where the
    simulator is missing or refuses the design, BenchError where a test failed or none ran.

    unit
        Name in rtl.generate.units.UNITS, or a design of its own.
    bench
        Module of the bench, or its file; `tb.bench_<unit>` when left out.
    testcases
        Functions of the bench to run, all their parameters included; all when empty.
    env
        Settings of the bench, which it finds in its environment as BERT2RTL_ and the name: CASE,
        SEEN, VECTORS, RECORD, EXHAUSTIVE. It also gets UNIT_SHEET, the path of the unit's JSON
        (ports, configuration, latency). Variables of the user's environment reach no bench.
    waves
        Record every signal in this FST file.
    probes, variant
        As in `sim.builds.built`.
    """
    design = generated(unit, config or Config()) if isinstance(unit, str) else unit
    module = bench.stem if isinstance(bench, Path) else bench or f"tb.bench_{design.name}"
    importable = [bench.resolve().parent] if isinstance(bench, Path) else []
    title = f"{module} on {design.name} ({design.configuration}, {simulator})"
    names = "|".join(map(re.escape, testcases))
    test_args, plusargs = [], []
    if waves is not None:
        waves.parent.mkdir(parents=True, exist_ok=True)
        if simulator == "verilator":
            test_args = ["--trace-file", str(waves.resolve())]
        else:
            plusargs = [f"+dumpfile_path={waves.resolve()}"]
    with (
        built(design, simulator, probes=probes, waves=waves is not None, variant=variant) as folder,
        tempfile.TemporaryDirectory(prefix="bert2rtl-bench-") as temporary,
        clean_environment(*importable),
    ):
        here = Path(temporary)
        settings = {**(env or {}), "UNIT_SHEET": str(folder / "unit.json")}
        log = here / "log.txt"
        stage(f"simulating {design.name} ({design.configuration}) with {simulator}")
        # A failed test and a simulator that died both end here; the results file tells which.
        with suppress(RuntimeError, SystemExit):
            runner(simulator).test(
                test_module=module,
                hdl_toplevel=design.name,
                hdl_toplevel_lang="verilog",
                build_dir=folder / "obj",
                test_dir=here,
                results_xml=str(here / "results.xml"),
                test_filter=rf"\.({names})(/|$)" if testcases else None,
                seed=1,
                extra_env={f"BERT2RTL_{name}": value for name, value in settings.items()},
                test_args=test_args,
                plusargs=plusargs,
                waves=waves is not None,
                timescale=TIMESCALE,
                log_file=log,
            )
        return _passed(here / "results.xml", log, title)
