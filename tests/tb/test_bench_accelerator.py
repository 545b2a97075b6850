"""The bench of the accelerator: families, lengths, stalls, failures and resets.

Registers and memories begin with X on Icarus, with anything on Verilator.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.model import Layer, Window
from rtl.compile.program import compile_model
from rtl.generate.verilog import PLAIN
from rtl.interface.command import Flag
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.bench import BenchError, run_bench
from sim.design import Design, described, generated
from tb.case import Case, Inference, accelerator_inference, write_case
from tb.packing import token_words
from tb.scenarios import (
    FAMILIES,
    SMALL,
    SMALL_LIMITS,
    batches,
    damaged_streams,
    family,
    inferences,
    limits,
    refused_streams,
    refused_tokens,
    sequences,
)
from tests.damage import mutated
from tests.tb.power_up import at_random, unknown
from tests.tiers import quick

LIMITS = Config(lanes=4, **SMALL_LIMITS)
#: With every option of the hardware, of which models need any: one build for all of them. With one
#: option each the accelerator is played in tests/sim/test_cycles.py.
EVERY = dataclasses.replace(
    LIMITS,
    precise=True,
    bias_heads=3,
    windows=True,
    rms_norm=True,
    gated=True,
    rotary_pairs=6,
)


@functools.cache
def accelerator(config: Config, simulator: str) -> Design:
    """Its Verilog, made once."""
    design = generated("accelerator", config)
    return unknown(design) if simulator == "icarus" else at_random(design, seed=1)


def play(
    folder: Path, simulator: str, config: Config, found: Sequence[Inference], **settings: Any
) -> list[dict[str, Any]]:
    """Play the inferences; their reports."""
    path, report = folder / "case.npz", folder / "report.json"
    write_case(path, Case(inferences=tuple(found), **settings))
    env = {"CASE": str(path), "REPORT": str(report)}
    design = accelerator(config, simulator)
    run_bench(design, simulator, config, testcases=["case"], env=env, variant="power-up")
    facts: list[dict[str, Any]] = json.loads(report.read_text())["inferences"]
    assert len(facts) == len(found)
    for inference, entry in zip(found, facts):
        assert entry["first_difference"] is None
        if inference.error is Error.NONE and inference.interruption is None:
            assert set(entry["compared"]) == {w.tensor for w in inference.writes or ()}
            assert all(entry["compared"].values())
    return facts


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(SMALL))
def test_small_families_on_icarus(name: str, tmp_path: Path) -> None:
    """Odd lengths, L = 1, holes in the mask, two types, back to back, stalls on all streams."""
    model = family(name, SMALL[name])
    program = compile_model(model, LIMITS)
    found = inferences(model, program, [11, 1, 6]) + batches(model, program, 1, seed=1)
    play(tmp_path, "icarus", LIMITS, found, idle=0.3, stall=0.5, row_latency=7)


@pytest.mark.slow
def test_small_families_batched_and_whole(tmp_path: Path) -> None:
    """More of it on Verilator: with the last layer's first row tile and with all of it."""
    found = []
    for name in SMALL:
        model = family(name, SMALL[name])
        for whole in (False, True):
            program = compile_model(model, LIMITS, whole_last_layer=whole)
            found += inferences(model, program, [11, 1, 6], seed=whole, name=name)
            found += batches(model, program, 2, seed=1 + 2 * whole)
    play(tmp_path, "verilator", LIMITS, found, idle=0.3, stall=0.5, row_latency=7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulator", "settings"),
    [
        ("icarus", {"row_latency": 1}),
        ("verilator", {"row_latency": 60, "interval": 4}),
        ("verilator", {"idle": 0.8, "stall": 0.0}),
        ("verilator", {"idle": 0.0, "stall": 0.9}),
    ],
    ids=str,
)
def test_models_in_turn(simulator: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Model switches between back to back inferences of different lengths."""
    found = []
    for name in ("bert-tiny", "pre-norm", "post-norm-mean"):
        model = family(name, SMALL[name], seed=5)
        program = compile_model(model, LIMITS)
        found += inferences(model, program, [5, 8], name=name)
    play(tmp_path, simulator, LIMITS, found[::2] + found[1::2], seed=3, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_wide_operands(simulator: str, tmp_path: Path) -> None:
    """Models with operands of 16 bits and without them in turn."""
    found = []
    for place, name in enumerate(("bert-tiny", "pre-norm", "post-norm-mean", "every-token")):
        model = family(name, SMALL[name], seed=place, precise=place != 2)
        assert model.precise == (place != 2)
        program = compile_model(model, EVERY)
        found += inferences(model, program, [5, 8], name=name)
        found += batches(model, program, 1, seed=place)
    play(tmp_path, simulator, EVERY, found[::2] + found[1::2], seed=3, idle=0.2, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_position_bias(simulator: str, tmp_path: Path) -> None:
    """Models with one and without in turn, alone and in batches, of which one is refused after."""
    found = []
    for place, name in enumerate(("three-heads", "post-norm-mean")):
        model = family(name, SMALL[name], seed=place, biased=name == "three-heads")
        program = compile_model(model, EVERY)
        found += inferences(model, program, [11, 1], name=name)
        found += batches(model, program, 1, seed=place)
    play(tmp_path, simulator, EVERY, found[::2] + found[1::2], seed=3, idle=0.2, stall=0.3)


MIXED = (Window(None, 0), Window(5, 2), None)
"""The windows of three layers."""


def limited(layer: Layer, window: Window | None) -> Layer:
    return dataclasses.replace(layer, window=window)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_attention_windows(simulator: str, tmp_path: Path) -> None:
    """Causal in one layer, a window in another and none in a third, alone and in batches.

    With FIRST_TILE and without, masks with holes, so that queries see no key, and a model that has
    no windows in turn.
    """
    model = family("bert-tiny", dataclasses.replace(SMALL["bert-tiny"], layers=3))
    whole, ends = (
        dataclasses.replace(model, layers=tuple(map(limited, model.layers, windows)))
        for windows in (MIXED, MIXED[::-1])
    )
    plain = family("post-norm-mean", SMALL["post-norm-mean"])
    found = []
    for name, one, lengths in (
        ("whole", whole, [21, 1]),
        ("ends", ends, [9]),
        ("none", plain, [6]),
    ):
        program = compile_model(one, EVERY, whole_last_layer=one is whole)
        found += inferences(one, program, lengths, name=name)
        found += batches(one, program, 1, seed=1)
    play(tmp_path, simulator, EVERY, found[::2] + found[1::2], seed=3, idle=0.2, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, 16])
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_gated_feed_forwards(
    columns: int | None, precise: bool, simulator: str, tmp_path: Path
) -> None:
    """Layers with a gate and without, one after the other, alone and in batches.

    With FIRST_TILE and without, with LayerNorms and RMSNorms; with operands of 16 bits products are
    wide or not, by their tables.
    """
    config = dataclasses.replace(EVERY, columns=columns)
    found = []
    for name, seed, gated in (
        ("bert-tiny", 0, True),
        ("pre-norm", 2, True),
        ("post-norm-mean", 2, False),
        ("every-token", 5, True),
    ):
        shape = dataclasses.replace(SMALL[name], layers=3)
        rms = name == "pre-norm"
        model = family(name, shape, seed=seed, precise=precise, gated=gated, rms=rms)
        assert {layer.ffn.gate is not None for layer in model.layers} == {False, gated}
        assert any(norm.rms for _, norm in model.norms()) == rms
        program = compile_model(model, config, whole_last_layer=name == "pre-norm")
        found += inferences(model, program, [5, 9], name=name)
        found += batches(model, program, 1, seed=seed)
    play(tmp_path, simulator, config, found[::2] + found[1::2], seed=3, idle=0.2, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "simulator",
    ["icarus", pytest.param("verilator", marks=pytest.mark.slow)],
)
def test_rotary_positions(simulator: str, tmp_path: Path) -> None:
    """Models with them and one without, alone and in batches, one beside a position bias.

    With FIRST_TILE and without, heads that share K and V, and heads that end within a column tile.
    """
    found = []
    for place, name in enumerate(("bert-tiny", "pre-norm", "no-pooler", "shared-keys")):
        model = family(name, SMALL[name], seed=place, rotary=True, biased=name == "pre-norm")
        assert (model.rotary is None) == (name == "no-pooler")
        program = compile_model(model, EVERY, whole_last_layer=place == 3)
        found += inferences(model, program, [11, 1], name=name)
        found += batches(model, program, 1, seed=place)
    play(tmp_path, simulator, EVERY, found[::2] + found[1::2], seed=3, idle=0.2, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(("precise", "bias_heads"), [(False, 0), (True, 0), (False, 3), (True, 5)])
def test_more_columns(simulator: str, precise: bool, bias_heads: int, tmp_path: Path) -> None:
    """Models, batches and bad streams on 4 x 16, whose memories hold anything at first."""
    config = dataclasses.replace(LIMITS, columns=16, precise=precise, bias_heads=bias_heads)
    found = []
    for place, name in enumerate(("three-heads", "pre-norm", "every-token")):
        biased = bool(bias_heads) and place != 1
        model = family(name, SMALL[name], seed=place, precise=precise, biased=biased)
        program = compile_model(model, config)
        found += inferences(model, program, [5, 8], name=name)
        found += batches(model, program, 2, seed=place)
    (sound,) = inferences(model, program, [5], seed=9)
    for name, stream, error in refused_streams(program):
        found.append(sound.damaged(name, error, stream=stream))
    square = compile_model(model, dataclasses.replace(config, columns=None)).stream()
    found.append(sound.damaged("of a square array", Error.FORMAT, stream=square))
    play(tmp_path, simulator, config, [*found, found[1]], seed=3, idle=0.2, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "flag"),
    [
        ("gated", Flag.GATED),
        ("rotary", Flag.ROTARY),
        pytest.param("precise", Flag.WIDE, marks=pytest.mark.slow),
        pytest.param("biased", Flag.BIAS, marks=pytest.mark.slow),
        pytest.param("windowed", Flag.WINDOW, marks=pytest.mark.slow),
        pytest.param("rms", Flag.RMS, marks=pytest.mark.slow),
    ],
)
def test_bad_streams_of_a_choice(choice: str, flag: Flag, tmp_path: Path) -> None:
    """Damaged and refused ones, on hardware that has it and on hardware that has not."""
    model = family("bert-tiny", SMALL["bert-tiny"], **{choice: True})
    program = compile_model(model, EVERY)
    assert flag in {flag for step in program.steps for flag in step.flags}
    sound = inferences(model, program, [5, 9, 3])
    bad = [
        sound[place % 3].damaged(name, error, stream=stream)
        for found in (
            damaged_streams(program, np.random.default_rng(4)),
            refused_streams(program),
        )
        for place, (name, stream, error) in enumerate(found)
    ]
    play(tmp_path, "verilator", EVERY, between(sound, bad), idle=0.1, stall=0.2)
    plain = family("three-heads", SMALL["three-heads"])
    after = inferences(plain, compile_model(plain, LIMITS), [5])
    refused = sound[0].damaged(choice, Error.FORMAT)
    play(tmp_path, "verilator", LIMITS, [refused, *after], idle=0.1, stall=0.2)


@pytest.fixture(scope="module")
def small() -> tuple[Any, Any, list[Inference]]:
    """A model that does not fill the limits, its program and three sound inferences."""
    model = family("three-heads", dataclasses.replace(SMALL["three-heads"], positions=20))
    program = compile_model(model, LIMITS)
    return model, program, inferences(model, program, [5, 9, 3])


def between(sound: Sequence[Inference], bad: Sequence[Inference]) -> list[Inference]:
    """After every third bad inference, and at the end, a sound one."""
    found: list[Inference] = []
    for place, inference in enumerate(bad):
        found.append(inference)
        if place % 3 == 2 or place == len(bad) - 1:
            found.append(sound[place // 3 % len(sound)])
    return found


@pytest.mark.slow
def test_damaged_streams(small: Any, tmp_path: Path) -> None:
    _, program, sound = small
    rng = np.random.default_rng(4)
    bad = [
        sound[place % 3].damaged(name, error, stream=stream)
        for place, (name, stream, error) in enumerate(damaged_streams(program, rng))
    ]
    assert {i.error for i in bad} == {Error.CRC, Error.TRUNCATED, Error.OVERRUN}
    play(tmp_path, "verilator", LIMITS, between(sound, bad), idle=0.1, stall=0.2)


@pytest.mark.slow
def test_refused_streams_and_tokens(small: Any, tmp_path: Path) -> None:
    model, program, sound = small
    assert program.tokens < LIMITS.tokens
    bad = [
        sound[0].damaged(name, error, stream=stream)
        for name, stream, error in refused_streams(program)
    ]
    bad += [
        sound[0].damaged(name, error, tokens=words)
        for name, words, error in refused_tokens(model, program, sound[0])
    ]
    assert {i.error for i in bad} == {
        Error.FORMAT,
        Error.LIMIT,
        Error.TOKEN,
        Error.NO_KEY,
        Error.LENGTH,
    }
    play(tmp_path, "verilator", LIMITS, between(sound, bad), idle=0.1, stall=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param("icarus", marks=pytest.mark.slow),
        "verilator",
    ],
)
def test_logits_of_more_tokens_than_there_is_room_for(simulator: str, tmp_path: Path) -> None:
    """5 labels of a row tile each in 16 words: three row tiles fit, a batch of four is refused."""
    model = family("every-token", SMALL["every-token"])
    program = compile_model(model, LIMITS)
    assert (program.tokens, program.row_tiles, LIMITS.row_tiles) == (12, 3, 6)
    sound = inferences(model, program, [12, 9])
    for lengths in ([3, 5], [1, 2, 3]):  # each ends within a row tile
        parts = sequences(model, lengths, 2)
        sound.append(accelerator_inference(program, model, *parts, lengths=lengths))
    bad = []
    for lengths in ([12, 1], [1, 2, 3, 4], [12, 12]):
        words = token_words(*sequences(model, lengths, 1), lengths)
        bad.append(sound[0].damaged(f"{lengths}", Error.LIMIT, tokens=words))
    play(tmp_path, simulator, LIMITS, sound + between(sound, bad), idle=0.1, stall=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["abort", "reset"])
@pytest.mark.parametrize(
    ("simulator", "moments"),
    [
        ("icarus", 4),
        ("verilator", 60),
    ],
)
def test_interrupted_at_any_moment(
    kind: Any, simulator: str, moments: int, small: Any, tmp_path: Path
) -> None:
    model, program, sound = small
    sound = [*sound, *batches(model, program, 2)]
    rng = np.random.default_rng(6)
    bad = [
        dataclasses.replace(sound[place % 5], name=f"{kind} in {after}", interruption=(kind, after))
        for place, after in enumerate(map(int, np.sort(rng.integers(1, 3000, moments))))
    ]
    facts = play(tmp_path, simulator, LIMITS, between(sound, bad), idle=0.1, stall=0.2)
    assert sum(entry["interrupted"] == kind for entry in facts) >= 2 * moments // 3


def aborted_around_the_end(sound: Inference, moments: range) -> list[Inference]:
    """The inference, aborted so many cycles after its start; sound ones in between."""
    return between(
        [sound],
        [
            dataclasses.replace(sound, name=f"abort in {after}", interruption=("abort", after))
            for after in moments
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("stall", [0.0, 0.7])
def test_aborted_around_the_logits(stall: float, small: Any, tmp_path: Path) -> None:
    """Before the first logit is offered: ABORTED and none. After it: NONE and all of them."""
    sound = small[2][2]
    (whole,) = play(tmp_path, "verilator", LIMITS, [sound], stall=stall)
    moments = range(whole["cycles"] - 40, whole["cycles"] + 6)
    found = aborted_around_the_end(sound, moments)
    facts = play(tmp_path, "verilator", LIMITS, found, stall=stall)
    codes = [(entry["error"], len(entry["result"])) for entry in facts if entry["interrupted"]]
    assert set(codes) == {("ABORTED", 0), ("NONE", len(whole["result"]))}
    if not stall:
        assert codes == sorted(codes)  # never ABORTED again once a logit has been on its way


@pytest.mark.slow
def test_a_packet_that_an_abort_cuts_off_is_seen(small: Any, tmp_path: Path) -> None:
    """A control that ends with NONE at once when an abort comes while logits leave."""
    sound = small[2][2]
    (whole,) = play(tmp_path, "icarus", LIMITS, [sound])
    fault = ("with m.If(self.finished):", "with m.If(self.finished | self.abort):")
    unit = mutated("control", fault, unit="accelerator", config=LIMITS)
    faulty = described(unit, "accelerator", LIMITS, lowering=PLAIN)
    path = tmp_path / "case.npz"
    moments = range(whole["cycles"] - 9, whole["cycles"])
    write_case(path, Case(inferences=tuple(aborted_around_the_end(sound, moments))))
    with pytest.raises(BenchError, match=r"abort in \d+\): .*result"):
        run_bench(
            faulty, "icarus", LIMITS, testcases=["case"], env={"CASE": str(path)}, variant="cut-off"
        )


@pytest.mark.slow
def test_a_silent_source_is_ended_by_abort(small: Any, tmp_path: Path) -> None:
    """The stream stops without `last`: in a run, and in the drain after a failure."""
    _, program, sound = small
    stream, n = program.stream(), LIMITS.lanes
    broken = bytearray(stream)
    broken[40] ^= 1
    whole = len(stream) // n
    cuts = [(stream, cut, Error.ABORTED) for cut in (3, 30, 200, whole - 1)]
    cuts += [(stream, whole, Error.OVERRUN), (broken, 12, Error.ABORTED)]
    cuts += [(broken, cut, Error.CRC) for cut in (30, whole)]
    bad = [
        sound[0].damaged(
            f"silent after {cut} words",
            error,
            stream=bytes(data[: cut * n]),
            complete=False,
            interruption=("abort", 2500),
        )
        for data, cut, error in cuts
    ]
    facts = play(tmp_path, "verilator", LIMITS, between(sound, bad))
    codes = [entry["error"] for entry in facts if entry["interrupted"]]
    assert codes == [error.name for _, _, error in cuts]


@pytest.mark.slow
def test_a_wrong_expectation_is_seen(small: Any, tmp_path: Path) -> None:
    """The bench can fail: one bit of one expected value of one tensor is another."""
    sound = small[2][0]
    for place, writes in list(enumerate(sound.writes))[::12]:
        values = writes.values.copy()
        word, lane = map(int, np.argwhere(writes.valid)[-1])
        values[word, lane] ^= 1
        changed = list(sound.writes)
        changed[place] = dataclasses.replace(writes, values=values)
        path = tmp_path / "case.npz"
        wrong = dataclasses.replace(sound, writes=tuple(changed))
        write_case(path, Case(inferences=(wrong,)))
        with pytest.raises(BenchError) as caught:
            run_bench(
                accelerator(LIMITS, "icarus"),
                "icarus",
                LIMITS,
                testcases=["case"],
                env={"CASE": str(path)},
                variant="power-up",
            )
        message = str(caught.value)
        assert ": 1 of" in message
        assert f"values differ; first {writes.tensor}[tile" in message
        assert f"lane {lane}, write {word}" in message


@pytest.mark.slow
def test_bert_tiny_on_verilator(tmp_path: Path) -> None:
    shape = FAMILIES["bert-tiny"]
    config = Config(lanes=8)
    model = family("bert-tiny", shape)
    program = compile_model(model, config)
    found = inferences(model, program, [21, 1])
    whole = compile_model(model, config, whole_last_layer=True)
    found += inferences(model, whole, [10])
    play(tmp_path, "verilator", config, found, idle=0.02, stall=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("name", FAMILIES)
def test_families_on_verilator(name: str, lanes: int, tmp_path: Path) -> None:
    shape = FAMILIES[name]
    config = limits([shape], lanes, 50)
    model = family(name, shape)
    program = compile_model(model, config)
    found = inferences(model, program, [50, 1, lanes + 1])
    whole = compile_model(model, config, whole_last_layer=True)
    found += inferences(model, whole, [2 * lanes + 3 if lanes < 24 else 45])
    play(tmp_path, "verilator", config, found, idle=0.05, stall=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_small_families_on_verilator(lanes: int, tmp_path: Path) -> None:
    """Sizes below and around the lanes, all families in turn on one configuration."""
    config = Config(lanes=lanes, tokens=40, hidden=96, ffn=64, labels=8)
    found = []
    for seed, (name, shape) in enumerate(SMALL.items()):
        model = family(name, shape, seed)
        for whole in (False, True):
            program = compile_model(model, config, whole_last_layer=whole)
            lengths = [1, 2, lanes - 1, lanes, lanes + 1, program.tokens]
            lengths = sorted({x for x in lengths if x <= program.tokens})
            found += inferences(model, program, lengths, seed, name)
    order = np.random.default_rng(lanes).permutation(len(found))
    play(tmp_path, "verilator", config, [found[i] for i in order], idle=0.1, stall=0.3)
