"""The UVM view of `tb.generate --uvm`: its text without UVM, and the view beside its bench with it.

UVM is not among the packages: UVM_HOME names a folder of it (src/uvm_pkg.sv) that Verilator reads.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyslang
import pytest

from golden.encoder import run
from golden.identity import identity_of
from golden.model import Model
from rtl.compile.program import compile_model
from rtl.dma.bus import Bus
from rtl.generate.sheet import with_dma
from rtl.registers.map import registers
from sim.design import SOURCES, Design, described, generated, kept
from tb.generate.folder import Bench, bench_of, encoders, fitted, write_bench
from tb.generate.uvm import uvm_files
from tests.tb.plain import CONFIG, STALLS, edited, play
from tests.tb.test_generate_command import STUB
from tests.tiers import quick

pytestmark = pytest.mark.slow

HOME = os.environ.get("UVM_HOME", "")
NO_UVM = "UVM_HOME names no folder with src/uvm_pkg.sv: UVM is not among the packages"
with_uvm = pytest.mark.skipif(not (Path(HOME) / "src/uvm_pkg.sv").is_file(), reason=NO_UVM)
BUSES = {
    "streams": None,
    "memory": Bus(burst=8, outstanding=4),
    "cores": Bus(data_bits=128, burst=8, outstanding=4, cores=2),
}
MODULES = {"streams": "accelerator", "memory": "accelerator_dma", "cores": "accelerator_dma"}
Views = Callable[[str], tuple[Bench, Path]]


def design(kind: str) -> Design:
    bus, module = BUSES[kind], MODULES[kind]
    if bus is None:
        return generated(module, CONFIG)
    facts = f"{SOURCES} {CONFIG} {bus}"
    return kept(f"view-{kind}", facts, lambda: described(with_dma(CONFIG, bus), module, CONFIG))


@cache
def texts(kind: str) -> dict[str, str]:
    """The files of the view by their names."""
    sheet = json.loads(design(kind).sheet)
    files = uvm_files(sheet, CONFIG, encoders(CONFIG, []), BUSES[kind])
    return {path.removeprefix(f"uvm/{MODULES[kind]}_"): text for path, text in files.items()}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Views:
    """By the kind of the accelerator, its bench with the view and the folder with both."""

    @cache
    def written(kind: str) -> tuple[Bench, Path]:
        found, bus = design(kind), BUSES[kind]
        known = json.loads(found.sheet), found.verilog
        made = bench_of("accelerator", CONFIG, stalls=STALLS, design=known, bus=bus, uvm=True)
        folder = tmp_path_factory.mktemp(kind) / "bench"
        write_bench(made, folder)
        return made, folder

    return written


def models() -> dict[str, Model]:
    """The models of the bench by their hash."""
    names = ("three-heads", "pre-norm")
    found = [fitted(name, CONFIG, lambda model: compile_model(model, CONFIG)) for name in names]
    return {identity_of(model).hex(): model for model in found}


def entries(text: str) -> list[tuple[str, list[int], list[list[int]]]]:
    """Of a table of answers: hash, words of the tokens, packets of logits."""
    words = iter(text.split())
    assert next(words) == "answers"
    found = []
    for _ in range(int(next(words))):
        model = next(words)
        tokens = [int(next(words), 16) for _ in range(int(next(words)))]
        count = int(next(words))
        packets = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(count)]
        found.append((model, tokens, packets))
    assert list(words) == ["end"]
    return found


@pytest.mark.slow
def test_the_table_has_the_answers_of_golden() -> None:
    """Of every packet of tokens that the bench sends, sequence by sequence."""
    known, sent = models(), encoders(CONFIG, [])
    table = entries(texts("streams")["uvm/answers.txt"])
    assert len(table) == len(sent) == 4
    assert {model for model, *_ in table} == set(known)
    for (model, tokens, logits), of in zip(table, sent):
        words = of.inference.tokens.tolist()
        assert tokens == [*words[:-1], words[-1] | 1 << 26]
        ends = [place + 1 for place, word in enumerate(tokens) if word >> 26 & 1]
        assert logits == [
            run(
                known[model],
                [word & 0xFFFFFF for word in tokens[since:to]],
                [word >> 24 & 1 for word in tokens[since:to]],
                [word >> 25 & 1 for word in tokens[since:to]],
            ).tolist()
            for since, to in zip([0, *ends], ends)
        ]
    assert max(len(logits) for *_, logits in table) > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick(["streams", "memory"]))
def test_the_register_model_has_the_map(kind: str) -> None:
    """Addresses, fields, access and reset; volatile is what hardware changes."""
    text = texts(kind)["registers_pkg.sv"]
    assert f"package {MODULES[kind]}_registers_pkg;" in text
    assert re.findall(r"class (\w+) extends uvm_reg_block", text) == ["bert2rtl"]
    placed = re.findall(r"default_map\.add_reg\(this\.(\w+), 'h(\w+)\)", text)
    map_ = registers(CONFIG, bus=BUSES[kind])
    assert [(name, int(at, 16)) for name, at in placed] == [(x.name, x.address) for x in map_]
    for register in map_:
        (body,) = re.findall(rf"class bert2rtl__{register.name} .*?endclass", text, re.DOTALL)
        fields = re.findall(
            r"this\.(\w+)\.configure\(this, (\d+), (\d+), \"(\w+)\", (\d), 'h(\w+), 1, ", body
        )
        assert [
            (name, int(low), int(low) + int(width) - 1, access.lower(), int(reset, 16))
            for name, width, low, access, _, reset in fields
        ] == [(x.name, x.low, x.high, x.access, x.reset) for x in register.fields]
        for (*_, volatile, _), field in zip(fields, register.fields):
            assert field.access == "wo" or int(volatile) == (not field.constant)


def test_the_interface_has_the_ports() -> None:
    """All of the accelerator but those of the trace, with their widths."""
    view, verilog = texts("streams")["if.sv"], design("streams").verilog
    shown = re.findall(r"input wire (?:\[(\d+):0\] )?(\w+)", view)
    top = verilog.partition("module accelerator(")[2].partition("endmodule")[0]
    ports = re.findall(
        r"^  (?:input|output) +wire (?:\[(\d+):0\] )?(\w+),?(?:  //.*)?$", top, re.MULTILINE
    )
    own = [(int(high or 0), name) for high, name in ports if not name.startswith("trace_")]
    assert len(own) > 40
    # Of the interface and of the probe.
    assert sorted((int(high or 0), name) for high, name in shown) == sorted(2 * own)


def slang_says(files: list[Path], flags: str, *, whole: bool) -> int:
    """Errors of slang: of the syntax, or of all."""
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    assert driver.parseCommandLine(f"slang {flags} {' '.join(map(str, files))}")
    assert driver.processOptions()
    if not driver.parseAllSources():
        return -1
    found = driver.createCompilation()
    diagnostics = found.getAllDiagnostics() if whole else found.getParseDiagnostics()
    for diagnostic in diagnostics:
        driver.diagEngine.issue(diagnostic)
    return int(driver.diagEngine.numErrors)


@pytest.mark.parametrize("kind", quick(BUSES))
def test_slang_parses_every_file(kind: str, tmp_path: Path) -> None:
    files = {name: text for name, text in texts(kind).items() if name.endswith(".sv")}
    assert len(files) == 4
    used = {name for text in files.values() for name in re.findall(r"`(uvm_\w+)", text)}
    macros = tmp_path / "uvm_macros.svh"
    macros.write_text("".join(f"`define {name}(A, B = 0, C = 0) ;\n" for name in sorted(used)))
    for name, text in files.items():
        path = tmp_path / name
        for damaged in (False, True):
            path.write_text("".join(text.rsplit(";", 1)) if damaged else text)
            assert (slang_says([path], f"-I{tmp_path}", whole=False) != 0) == damaged, name


@with_uvm
@pytest.mark.slow
@pytest.mark.parametrize("kind", BUSES)
def test_slang_elaborates_it_with_uvm(kind: str, views: Views, tmp_path: Path) -> None:
    made, folder = views(kind)
    flags = f"-DUVM_NO_DPI -I{HOME}/src --timescale 1ns/1ps --top {made.example}"
    wrong = edited(folder, tmp_path / "bench", (made.view[2], "current.started", "current.begun"))
    for place in (folder, wrong):
        names = [*(place / "bench.f").read_text().split(), *made.view]
        files = [Path(HOME) / "src/uvm_pkg.sv", *(place / name for name in names)]
        assert (slang_says(files, flags, whole=True) == 0) == (place == folder)


SAYS = "PASS: 3 values compared in 9 cycles"
GOOD = "UVM_ERROR :    0\nUVM_FATAL :    0"


@pytest.mark.parametrize("simulator", ["questa", "vcs", "xcelium", "xsim"])
def test_scripts_go_by_what_uvm_says(simulator: str, views: Views, tmp_path: Path) -> None:
    """With stand-ins for the tools: PASS, code 0 and neither UVM_ERROR nor UVM_FATAL."""
    made, source = views("streams")
    folder, tools, log = edited(source, tmp_path / "a b"), tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    last = {"questa": "vsim", "vcs": "simv", "xcelium": "xrun", "xsim": "xsim"}[simulator]
    for said, code in (
        (f"{SAYS}\n{GOOD}", 0),
        (f"{SAYS}\n{GOOD}".replace("UVM", "# UVM"), 0),
        (GOOD, 1),
        (SAYS, 1),
        (f"{SAYS}\n{GOOD}".replace("ERROR :    0", "ERROR :    1"), 1),
        (f"{SAYS}\n{GOOD}".replace("FATAL :    0", "FATAL :   10"), 1),
    ):
        for tool in ("vlib", "vlog", "vsim", "vcs", "xrun", "xvlog", "xelab", "xsim"):
            path, body = tools / tool, f"echo '{said}'"
            more = '[ -e build_uvm_vcs/simv ] || cp "$0" build_uvm_vcs/simv' * (tool == "vcs")
            path.write_text(STUB.format(log=log, last=last, body=body, more=more))
            path.chmod(0o755)
        done = subprocess.run(
            [folder / f"run_uvm_{simulator}.sh", "--stalls", "9", "--", "+answers=mine"],
            capture_output=True,
            text=True,
            env=os.environ | {"PATH": f"{tools}:/usr/bin:/bin"},
        )
        assert done.returncode == code, (said, done.stdout, done.stderr)
    called = log.read_text()
    names = ["-f bench.f", *made.view, made.example]
    assert [word for word in ("stalls=9", "answers=mine", *names) if word not in called] == []
    switch = {"vcs": "-ntb_opts uvm", "xcelium": "-uvm ", "xsim": "-L uvm "}.get(simulator, "vlog")
    assert switch in called


def test_verilator_is_told_where_uvm_is(views: Views) -> None:
    _, folder = views("streams")
    for home in ("", "nowhere"):
        done = subprocess.run(
            [folder / "run_uvm_verilator.sh"],
            capture_output=True,
            text=True,
            env=os.environ | {"UVM_HOME": home, "WORK": str(folder.parent / "work")},
        )
        assert done.returncode == 2
        assert done.stderr == (
            f"error: UVM_HOME is '{home}': name a folder with UVM, which has src/uvm_pkg.sv\n"
        )


COUNTS = re.compile(
    r"SCOREBOARD\] (\d+) inferences compared \((\d+) packets, (\d+) logits\), "
    r"(\d+) unchecked, (\d+) failed, (\d+) not read, (\d+) unfinished"
)


CASES = Path(__file__).with_name("uvm_cases.sv")
TABLE = """answers 2
00000000000000aa 2 02000001 06000002  1  2 5 -7
00000000000000aa 3 06000001 02000002 06000003  2  1 9  1 8
end
"""
BEGIN = "start model aa tokens 2 2000001 6000002"
COMPARED, UNCHECKED, FAILED, UNREAD, UNFINISHED = range(5)
BOTH = [
    ("start refused model aa tokens 2 2000001 6000002 abort start", FAILED, 0),
    (f"{BEGIN} read 20 302 1 start", FAILED, 0),
    (f"{BEGIN} start", UNFINISHED, 0),
    (f"{BEGIN} read 20 1 1 start", UNFINISHED, 0),
    (f"{BEGIN} read 20 2 0 start", UNFINISHED, 0),
    # The mirror: what hardware never changes.
    ("read 0 54523242 1", None, 0),
    ("read 0 54523243 1", None, 1),
    ("read 8 4 1 read 8 8 1", None, 1),
    ("read 40 1 1 write 40 0 0 read 40 0 1", None, 0),
    ("write 40 0 0 read 40 1 1", None, 1),
    ("write 40 0 0 reset read 40 1 1", None, 0),
    ("write 40 0 2 read 40 1 1", None, 0),
    ("read 24 7 1 read 24 9 1 read 44 1 1 read 1c 0 1", None, 0),
]
STREAMED = [
    *BOTH,
    (f"{BEGIN} logit 5 0 logit -7 1 start", COMPARED, 0),
    (f"{BEGIN} logit 5 0 logit -7 1 read 20 2 1 reset", COMPARED, 0),
    (f"{BEGIN} logit 5 0 refused logit -7 1 reset", COMPARED, 0),
    ("start tokens 2 fa000001 2000002 model aa logit 5 0 logit -7 1 start", COMPARED, 0),
    ("start model aa tokens 3 6000001 2000002 2000003 logit 9 1 logit 8 1 start", COMPARED, 0),
    (f"{BEGIN} logit 6 0 logit -7 1 start", COMPARED, 1),
    (f"{BEGIN} logit 5 0 logit 7 0 start", COMPARED, 2),
    (f"{BEGIN} logit 5 1 logit -7 1 start", COMPARED, 1),
    (f"{BEGIN} logit 5 0 logit -7 1 logit 0 1 start", COMPARED, 1),
    (f"{BEGIN} logit 5 0 logit -7 1 read 20 302 1 start", COMPARED, 1),
    (f"{BEGIN} logit 5 0 start", UNFINISHED, 1),
    (f"{BEGIN} logit 5 0 reset", UNFINISHED, 0),
    (f"{BEGIN} read 20 2 1 start", UNFINISHED, 1),
    ("start model aa tokens 1 6000001 logit 5 0 logit -7 1 start", UNCHECKED, 0),
    ("start model aa tokens 2 2000001 4000002 logit 5 0 logit -7 1 start", UNCHECKED, 0),
    ("start model ab tokens 2 2000001 6000002 logit 5 0 logit -7 1 start", UNCHECKED, 0),
    ("start tokens 2 2000001 6000002 logit 5 0 logit -7 1 start", UNCHECKED, 0),
    ("model aa tokens 2 2000001 6000002 logit 5 0 logit 7 1 start", None, 0),
]
READ = [
    *BOTH,
    (f"{BEGIN} interrupt logit 5 0 logit -7 0 start", COMPARED, 0),
    (f"{BEGIN} logit 0 0 read 20 2 1 logit 5 0 logit -7 0 logit 0 0 start", COMPARED, 0),
    (f"{BEGIN} interrupt logit 5 0 logit -6 0 start", COMPARED, 1),
    (f"{BEGIN} interrupt logit 5 0 logit -7 0 logit 1 0 start", COMPARED, 1),
    (f"{BEGIN} interrupt logit 5 0 start", UNREAD, 0),
    (f"{BEGIN} read 20 2 1 start", UNREAD, 0),
    ("start model aa tokens 1 6000001 interrupt logit 5 0 start", UNCHECKED, 0),
]


@with_uvm
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", BUSES)
def test_sound_and_with_other_tables(kind: str, views: Views, tmp_path: Path) -> None:
    """One build: the table of the bench, one with a wrong logit, without an entry, and cut; then
    cases that no bench plays."""
    made, source = views(kind)
    top = f"module {made.example};"
    cases = CASES.read_text().replace("{{module}}", made.module)
    more = f"{cases}{top}\n  import {made.module}_cases_pkg::*;"
    folder = edited(source, tmp_path / "bench", (made.view[-1], top, more))
    done = play(folder, "uvm_verilator", timeout=3000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    text = made.files["uvm/answers.txt"]
    table = entries(text)
    logits = [len(packet) for *_, packets in table for packet in packets]
    cores = 1 if BUSES[kind] is None else BUSES[kind].cores
    counted = (len(table), len(logits), sum(logits), 0, 0, 0, 0)
    found = [tuple(map(int, counts)) for counts in COUNTS.findall(done.stdout)]
    assert found == [counted] * cores

    program = [folder / "build_uvm_verilator" / made.example]

    def with_table(changed: str, *words: str) -> str:
        path = tmp_path / "answers.txt"
        path.write_text(changed)
        command = [*program, f"+answers={path}", *words]
        again = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
        return again.stdout + again.stderr

    *lines, last, end = text.splitlines()
    head, _, logit = last.rpartition(" ")
    said = with_table("\n".join([*lines, f"{head} {int(logit) + 1}", end, ""]))
    place = sum(len(packet) for packet in table[-1][2]) - 1
    wrong = f"logit {place} of {tmp_path}/answers.txt, entry {len(table) - 1} is {logit}, golden"
    assert said.count(f"{wrong} says {int(logit) + 1}") == cores
    assert re.search(rf"^UVM_ERROR : +{cores}$", said, re.MULTILINE)

    said = with_table("\n".join([f"answers {len(table) - 1}", *lines[1:], end, ""]))
    found = [tuple(map(int, counts)) for counts in COUNTS.findall(said)]
    assert [(compared, unchecked) for compared, _, _, unchecked, *_ in found] == [
        (len(table) - 1, 1)
    ] * cores
    assert (
        said.count(f"{len(table) - 1} inferences were compared, fewer than {len(table)}") == cores
    )

    said = with_table(text.removesuffix("end\n"))
    assert "answers.txt is missing, cut or no table of answers" in said
    assert re.search(r"^UVM_FATAL : +1$", said, re.MULTILINE)

    played = STREAMED if BUSES[kind] is None else READ
    (tmp_path / "cases.txt").write_text("".join(f"{case} end\n" for case, *_ in played))
    test = f"+UVM_TESTNAME={made.module}_cases_test"
    said = with_table(TABLE, test, f"+cases={tmp_path}/cases.txt")
    shown = re.findall(r"^CASE ([\d ]+) errors (\d+)$", said, re.MULTILINE)
    found = {case: line for (case, *_), line in zip(played, shown)}
    assert found == {
        case: (" ".join(str(int(place == outcome)) for place in range(5)), str(errors))
        for case, outcome, errors in played
    }
