"""Imports run one way: golden is the specification, sim the top, and nothing but train needs torch.

golden <- quant, rtl;  golden, rtl <- tb;  golden, quant <- train;  all but train <- sim
sim <- verify, boards
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ALLOWED = {
    "bert2rtl": {"cli"},
    "cli": set(),
    "golden": set(),
    "quant": {"cli", "golden"},
    "rtl": {"cli", "golden"},
    "tb": {"cli", "golden", "rtl"},
    "train": {"cli", "golden", "quant"},
    "sim": {"cli", "golden", "quant", "rtl", "tb"},
    "verify": {"cli", "golden", "quant", "rtl", "tb", "sim"},
    "boards": {"cli", "golden", "quant", "rtl", "sim"},
    "setup": {"cli", "sim"},
}
# A program that nothing imports may use what is above its package: two tokenize a text, the
# next puts the bench and what is expected of it into the package, the last counts cycles.
PROGRAMS = {
    "rtl/compile/__main__.py": {"quant", "tb"},
    "tb/generate/__main__.py": {"quant", "sim"},
    "rtl/generate/__main__.py": {"tb", "sim"},
    "quant/inspect.py": {"rtl", "sim"},
}
# Distributions of pyproject.toml by the name under which they are imported.
TRAINING = {"torch", "transformers", "sklearn", "PIL"}
THIRD_PARTY = {
    "bert2rtl": set(),
    "cli": {"tqdm", "distributed", "numpy", "jinja2", "markupsafe"},
    "golden": {"numpy", "numba", "onnx", "onnxruntime"},
    "quant": {"numpy", "numba", "PIL", "safetensors", "scipy", "tokenizers", "tqdm"}
    | {"huggingface_hub", "markupsafe", "onnx", "pyarrow", "transformers"},
    "rtl": {"numpy", "amaranth", "systemrdl", "wavedrom"}
    | {"peakrdl_cheader", "peakrdl_ipxact", "peakrdl_uvm"},
    "tb": {"numpy", "amaranth", "cocotb"},
    "train": {"numpy", "safetensors", "scipy", "tokenizers", "tqdm", "onnxruntime"} | TRAINING,
    "sim": {"numpy", "amaranth", "cocotb", "cocotb_tools", "tqdm", "markupsafe"},
    "verify": {"numpy", "amaranth", "tqdm"},
    "boards": {"numpy", "litedram", "litex", "litex_boards", "migen"},
    "setup": set(),
}
# The rooms of rtl/ and quant/, lowest first; "rtl" itself holds the tops, which only assemble, and
# "quant" the commands.
ROOMS = (
    "quant.model",
    "quant.texts",
    "quant.images",
    "quant.foreign",
    "quant.quantize",
    "quant.measure",
    "quant.page",
    "quant",
    "quant.export",
    "rtl.primitives",
    "rtl.interface",
    "rtl.datapath",
    "rtl.control",
    "rtl.dma",
    "rtl",
    "rtl.registers",
    "rtl.compile",
    "rtl.generate",
)


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, str, int]]:
    """(top-level name, full name, line) of every import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the import in full"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            yield name.partition(".")[0], name, node.lineno


def test_every_package_of_the_project_is_under_the_rule():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(ALLOWED)
    for package in ALLOWED:
        assert modules(package), f"{package}/ is empty"


def test_a_wheel_has_every_package_but_the_set_up():
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel = hatch["targets"]["wheel"]
    assert set(ALLOWED) - {"setup"} <= set(wheel["only-include"])
    moved = {path.split("/")[0] for path in wheel["only-include"]} - {"bert2rtl"}
    assert wheel["sources"] == {name: f"bert2rtl/{name}" for name in moved}


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_one_way(package):
    ours = set(ALLOWED)
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {package} may not import {name}"
        for path in modules(package)
        for top, name, line in imports(path)
        if top
        in ours - {package} - ALLOWED[package] - PROGRAMS.get(str(path.relative_to(ROOT)), set())
    ]
    assert not wrong, "\n".join(wrong)


def test_the_documents_state_these_arrows():
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("| folder | holds | may import |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\w+)/ \| .* \| ([\w, ]*)\|$", table, re.MULTILINE)
    stated = {
        package: {name for name in used.replace(" ", "").split(",") if name}
        for package, used in rows
    }
    assert stated == ALLOWED


def test_nothing_imports_a_program():
    used = set().union(*project_imports().values())
    assert used & {named(ROOT / path) for path in PROGRAMS} == set()


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_use_only_the_libraries_of_their_layer(package):
    known = set(sys.stdlib_module_names) | set(ALLOWED) | THIRD_PARTY[package]
    known |= {"driver"} if package == "boards" else set()
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {package} may not import {name}"
        for path in modules(package)
        for top, name, line in imports(path)
        if top not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_the_specification_needs_numpy_only():
    # The compiled engine is beside the specification, not in it.
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules("golden")
        if "fast" not in path.relative_to(ROOT).parts
        for top, name, line in imports(path)
        if top not in sys.stdlib_module_names and top not in {"golden", "numpy"}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_set_up_asks_only_the_part_of_sim_that_needs_nothing():
    used = {name for path in modules("setup") for top, name, _ in imports(path) if top == "sim"}
    assert used <= {"sim.verilator"}
    for path in (ROOT / "sim" / "__init__.py", ROOT / "sim" / "verilator.py"):
        outside = {name for top, name, _ in imports(path) if top not in sys.stdlib_module_names}
        assert outside <= {"cli.machine"}
    used = {top for top, _, _ in imports(ROOT / "cli" / "machine.py")}
    assert used <= set(sys.stdlib_module_names)


def named(path: Path) -> str:
    """The module in a file; a package's own name for its __init__.py."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def project_imports() -> dict[str, set[str]]:
    """For each module of the project, the modules of the project that it imports."""
    files = {named(path): path for package in ALLOWED for path in modules(package)}
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & set(files)
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & set(files)
                graph[name] |= inner or {node.module} & set(files)
    return graph


def room(name: str) -> str:
    """The room of rtl/ or quant/ that a module lies in."""
    return next((r for r in sorted(ROOMS, reverse=True) if f"{name}.".startswith(f"{r}.")), "")


def test_no_file_imports_itself_round_a_circle():
    graph = project_imports()
    assert len(graph) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_the_rooms_of_rtl_and_quant_stand_one_above_the_other():
    graph = {name: used for name, used in project_imports().items() if room(name)}
    assert {room(name) for name in graph} == set(ROOMS)
    wrong = [
        f"{name} may not import {other}"
        for name, used in graph.items()
        for other in used
        if room(other).partition(".")[0] == room(name).partition(".")[0]
        and ROOMS.index(room(other)) > ROOMS.index(room(name))
    ]
    assert not wrong, "\n".join(wrong)
