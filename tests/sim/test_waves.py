"""The views of a waveform name signals that are in it, in groups, and names for their values."""

from __future__ import annotations

from pathlib import Path

import pytest
from pywellen import Waveform

from rtl.compile.program import compile_model
from rtl.interface.config import Config
from rtl.interface.trace import Stall
from sim.bench import run_bench
from sim.design import generated
from sim.waves import groups, write_views
from tb.case import Case, write_case
from tb.scenarios import SMALL, SMALL_LIMITS, family, inferences

pytestmark = pytest.mark.slow
Recorded = tuple[Path, dict[int, str]]
LIMITS = Config(lanes=4, **SMALL_LIMITS)
STREAMS = ("s_axis_model", "s_axis_tokens", "m_axis_request", "s_axis_rows", "m_axis_logits")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A waveform of one inference of the accelerator, and the names of its operations."""
    folder = tmp_path_factory.mktemp("waves")
    model = family("three-heads", SMALL["three-heads"])
    program = compile_model(model, LIMITS)
    found = inferences(model, program, [5])
    case, waves = folder / "case.npz", folder / "accelerator.fst"
    write_case(case, Case(inferences=tuple(found)))
    run_bench(
        "accelerator",
        "icarus",
        LIMITS,
        testcases=["case"],
        env={"CASE": str(case)},
        waves=waves,
    )
    return waves, dict(enumerate(found[0].operations))


def test_every_signal_of_both_views_is_in_the_waveform(
    recorded: Recorded,
) -> None:
    waves, operations = recorded
    design = generated("accelerator", LIMITS)
    gtkwave, surfer = write_views(design, waves, operations)
    there = {variable.full_name for variable in Waveform(str(waves)).all_vars()}
    lines = gtkwave.read_text().splitlines()
    named = [line.partition("[")[0] for line in lines if line.startswith("accelerator.")]
    assert named == [
        line.removeprefix("variable_add ")
        for line in surfer.read_text().splitlines()
        if line.startswith("variable_add ")
    ]
    assert len(set(named)) == len(named)
    assert {f"accelerator.{port}" for port in design.ports} < set(named) <= there


def test_groups_are_opened_and_closed_by_name(recorded: Recorded) -> None:
    waves, operations = recorded
    gtkwave, surfer = write_views(generated("accelerator", LIMITS), waves, operations)
    lines = gtkwave.read_text().splitlines()
    begun = [lines[i + 1] for i, line in enumerate(lines) if line == "@800200"]
    ended = [lines[i + 1] for i, line in enumerate(lines) if line == "@1000200"]
    assert begun == ended
    names = [name.removeprefix("-") for name in begun]
    assert names[0] == "clock"
    assert {"phases", "stalls", *(f"stream {stream}" for stream in STREAMS)} < set(names)
    dividers = [x for x in surfer.read_text().splitlines() if x.startswith("divider_add ")]
    assert dividers == [f"divider_add {name}" for name in names]


def test_values_of_phases_and_stalls_have_names(recorded: Recorded) -> None:
    waves, operations = recorded
    gtkwave, _ = write_views(generated("accelerator", LIMITS), waves, operations)
    lines = gtkwave.read_text().splitlines()
    for signal, names in (
        ("trace_stall[2:0]", [f"{cause.value} {cause.name}" for cause in Stall]),
        ("trace_operation[7:0]", [f"{i} {name}" for i, name in operations.items()]),
    ):
        place = lines.index(f"accelerator.{signal}")
        assert lines[place - 2] == "@2024"
        table = Path(lines[place - 1].removeprefix("^1 "))
        assert table.read_text().splitlines() == names


def test_the_streams_of_another_unit_are_grouped_as_well() -> None:
    found = groups(generated("attention", LIMITS))
    assert found["stream i"] == ["i__payload", "i__valid", "i__ready"]
    assert "phases" not in found
    assert sum(len(signals) for signals in found.values()) == len(
        {signal for signals in found.values() for signal in signals}
    )
