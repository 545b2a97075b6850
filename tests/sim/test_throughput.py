"""Texts a second, held to the cycle model and to counts by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from golden.model import Shape
from golden.random import random_model
from rtl.compile.fit import fitting
from rtl.compile.program import compile_model
from sim import throughput
from sim.cycles.model import predict
from sim.phases import work
from sim.throughput import Measurement, Setting, measure

SHAPE = Shape(
    layers=1, hidden=16, heads=2, head_size=8, ffn=32, labels=2, vocabulary=30, positions=32,
    types=2,
)  # fmt: skip
MODEL = random_model(SHAPE, 1)


def test_a_measurement_is_the_sum_of_its_inferences() -> None:
    classifier: Any = SimpleNamespace(model=MODEL)
    lengths = [5, 3, *[20] * 6, 1, 4]
    found = measure(classifier, "some", lengths, Setting(4, 2), 32)
    program = compile_model(MODEL, fitting(SHAPE, 4, 32))
    assert program.row_tiles == 32  # of 128 tokens, the least that is made
    # Row tiles 2, 1, 6 times 5, 1, 1: the 5s and the 2 fill one, three are left.
    batches = [[5, *[20] * 6], [3, 1, 4]]
    assert found.batches == 2
    assert found.batched == sum(predict(program, b, stream_bytes=2).cycles for b in batches)
    alone = compile_model(MODEL, fitting(SHAPE, 4, 20))
    assert found.alone == sum(predict(alone, n, stream_bytes=2).cycles for n in lengths)
    everything = compile_model(MODEL, fitting(SHAPE, 4, 20), whole_last_layer=True)
    assert found.whole == sum(predict(everything, n, stream_bytes=2).cycles for n in lengths)
    assert found.whole > found.alone > found.batched
    real, whole = found.utilisation
    assert real == pytest.approx(sum(work(program, n) for n in lengths) / 16 / found.batched)
    # No inference can follow the one before sooner than the stream, with the tokens there, is read.
    early = [predict(program, b, stream_bytes=2, tokens_there=True).stream_end for b in batches]
    assert found.overlap == pytest.approx(1 - sum(early) / found.batched)
    assert 0 < found.overlap < 0.05
    padded = [8, 4, *[20] * 6, 4, 4]
    assert whole == pytest.approx(sum(work(program, n) for n in padded) / 16 / found.batched)


def test_the_whole_last_layer_is_an_option() -> None:
    classifier: Any = SimpleNamespace(model=MODEL)
    found = measure(classifier, "some", [5, 3], Setting(4, 2), 32, whole_last_layer=True)
    program = compile_model(MODEL, fitting(SHAPE, 4, 32), whole_last_layer=True)
    assert found.alone == found.whole
    assert found.batched == predict(program, [5, 3], stream_bytes=2).cycles


def test_a_buffer_hides_more_of_a_narrow_stream() -> None:
    classifier: Any = SimpleNamespace(model=MODEL)
    found = [measure(classifier, "some", [20] * 4, Setting(4, 1), 80, ahead=n) for n in (1, 9, 99)]
    program = compile_model(MODEL, fitting(SHAPE, 4, 80))
    assert [one.batched for one in found] == [
        predict(program, [20] * 4, stream_bytes=1, stream_ahead=n).cycles for n in (1, 9, 99)
    ]
    assert found[0].batched > found[1].batched > found[2].batched


def test_the_report() -> None:
    one = Measurement(
        "texts", Setting(16, 2), 10, 250, 3_000_000, 2_000_000, 500_000, 3, (0.5, 0.75), 0.0125
    )
    text = throughput.report([one], 256)
    values = ["texts", "25.0", "16", "2", "333", "500", "2,000", "6.00", "4.00"]
    values += ["3", "50.0%", "75.0%", "1.25%"]
    assert [line.split() for line in text.splitlines()][2] == values
    assert "token memory of 256" in text
