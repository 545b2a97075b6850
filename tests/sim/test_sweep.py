"""Many inferences as a table: the rows by hand, played, and as texts a second in batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden.random import random_model
from golden.store import save
from quant.calibrate import ensure
from quant.quantized_model import QuantizedModel
from quant.texts.corpora import rotten_tomatoes
from rtl.compile.fit import fitting
from rtl.compile.program import compile_model
from sim.cycles import __main__ as command
from sim.cycles import batches
from sim.cycles.model import predict
from sim.phases import work
from tests import zoo
from tests.ending import refusal
from tests.quant import tiny

SMALL = ["--shape", "2,16,32", "--lanes", "4"]
SHAPE = zoo.shape("bert-tiny", layers=1, hidden=16, head_size=8, ffn=32, positions=32)
MODEL = random_model(SHAPE, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(MODEL, tmp_path / "model", {})
    return tmp_path / "model"


def found(path: Path, *arguments: object, status: int = 0) -> Any:
    """The JSON of a command."""
    assert command.main([*map(str, arguments), "--json", str(path)]) == status
    return json.loads(path.read_text())


def test_every_combination_is_a_row(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--quantized", folder, "--row-latency", 33, "--stream-ahead", 2]
    lists = ["--lanes", "8,4", "--tokens", "5,20", "--stream-bytes", "1,8", "--columns", "16"]
    rows = found(tmp_path / "out.json", *options, *lists)
    shown = capsys.readouterr().out.splitlines()
    combinations = [(n, length, rate) for n in (8, 4) for length in (5, 20) for rate in (1, 8)]
    assert len(rows) == len(combinations)
    for row, line, (n, length, rate) in zip(rows, shown[2:], combinations):
        program = compile_model(MODEL, fitting(SHAPE, n, 20, columns=16))
        due = predict(program, length, stream_bytes=rate, stream_ahead=2, row_latency=33)
        assert (row["lanes"], row["tokens"], row["stream_bytes"]) == (n, length, rate)
        assert row["total_cycles"] == due.cycles
        assert row["columns"] == 16
        assert line.split()[:4] == [str(n), "16", str(length), str(rate)]
        assert f"{due.cycles:,}" in line.split()


def test_one_of_each_is_a_table_of_phases(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = found(tmp_path / "one.json", "--quantized", folder, "--tokens", "5")
    assert one["tokens"] == 5
    assert "layer.0.attend" in capsys.readouterr().out
    two = found(tmp_path / "two.json", "--quantized", folder, "--tokens", "5,9")
    assert two[0] == one
    assert "layer.0.attend" not in capsys.readouterr().out


def test_the_figures_of_a_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two layers of 16 and 32 channels: four projections, feed-forward, scores and context."""
    options = (*SMALL, "--tokens", "10,6")
    whole, _ = found(tmp_path / "whole.json", *options, "--whole-last-layer")
    line = capsys.readouterr().out.splitlines()[2].split()
    layer = 10 * (4 * 16 * 16 + 2 * 16 * 32 + 2 * 10 * 16)
    assert whole["layers"]["ideal_cycles"] == 2 * layer / 16
    macs = 2 * layer / whole["total_cycles"]
    assert line[-3:] == [str(16 + 5 * 4 + 15), f"{macs:.0f}", f"{macs / 51:.3f}"]
    cut, _ = found(tmp_path / "cut.json", *options)
    # Of the last layer K and V of all tokens, the rest of the first.
    last = 10 * 2 * 16 * 16 + 2 * 16 * 16 + 2 * 16 * 32 + 2 * 10 * 16
    assert cut["layers"]["ideal_cycles"] == (layer + last) / 16
    assert cut["total_cycles"] < whole["total_cycles"]


def test_words_behind_a_shape(tmp_path: Path) -> None:
    """A gate multiplies as much as the network's first half; tables cost cycles alone."""

    def one(words: str) -> Any:
        shape = ["--shape", f"3,16,32{words}", "--lanes", "4", "--whole-last-layer"]
        return found(tmp_path / "one.json", *shape, "--tokens", "200")

    plain = one("")
    assert one(",gated")["macs"] - plain["macs"] == 3 * 200 * 16 * 32
    for word in (",bias", ",rotary"):
        made = one(word)
        assert (made["model"], made["macs"]) == (f"3,16,32{word}", plain["macs"])
        assert made["total_cycles"] > plain["total_cycles"]
    unseen = sum(max(0, q - 64) + max(0, 200 - 65 - q) for q in range(200))
    assert plain["macs"] - one(",local")["macs"] == 2 * 2 * 16 * unseen
    assert one(",rotary,gated,local")["macs"] < one(",gated,rotary")["macs"]


def test_with_dma_a_row_a_length(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["dma", "--quantized", folder, "--lanes", "4", "--row-latency", "40"]
    rows = found(tmp_path / "out.json", *options, "--tokens", "4,8")
    lines = capsys.readouterr().out.splitlines()[2:]
    for row, line, length in zip(rows, lines, (4, 8)):
        assert row == found(tmp_path / "one.json", *options, "--tokens", length)
        assert (row["latency"], row["data_bits"]) == (40, 64)
        assert line.split()[:4] == ["4", "4", str(length), "8"]


def test_a_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each layer writes Q, K, V, context and four rows more of 16 channels, and 32 hidden ones.

    Then the Verilog takes another cycle than the model.
    """
    path = tmp_path / "out.json"
    options = (*SMALL, "--play", "--stream-bytes", "2", "--row-latency", "7")
    rows = found(path, *options, "--tokens", "16,3")
    for row, tokens in zip(rows, (16, 3)):
        played = row["played"]
        assert (played["mismatches"], played["problem"]) == (0, "")
        assert played["cycles"] == row["total_cycles"]
        # Of the last layer K and V alone are of all tokens.
        assert played["values"] > tokens * (8 * 16 + 32) + tokens * 2 * 16
    printed = capsys.readouterr().out
    assert printed.count("0 differ; as predicted, equal bit for bit") == 2

    def one_more(*arguments: Any, **memory: Any) -> Any:
        due = predict(*arguments, **memory)
        return replace(due, stalls=due.stalls | {"norm": due.stalls["norm"] + 1})

    monkeypatch.setattr("sim.verdict.predict", one_more)
    row = found(path, *options, "--tokens", "3", status=1)
    assert row["played"]["problem"].startswith("not as predicted: norm ")
    assert row["played"]["problem"] in capsys.readouterr().out


def test_a_batch_is_the_sum_of_its_inferences() -> None:
    lengths = [5, 3, *[20] * 6, 1, 4]
    told = batches.measure(MODEL, lengths, 4, 32, stream_bytes=2, row_latency=30)
    program = compile_model(MODEL, fitting(SHAPE, 4, 32))
    assert program.row_tiles == 32  # of 128 tokens, the least that is made
    # Row tiles 2, 1, 6 times 5, 1, 1: the 5s and the 2 fill one, three are left.
    packed = [[5, *[20] * 6], [3, 1, 4]]

    def cycles(program: Any, each: Any) -> int:
        streams = {"stream_bytes": 2, "row_latency": 30}
        return sum(predict(program, one, **streams).cycles for one in each)

    assert told["batches"] == 2
    assert told["batched"] == cycles(program, packed)
    assert told["alone"] == cycles(compile_model(MODEL, fitting(SHAPE, 4, 20)), lengths)
    everything = compile_model(MODEL, fitting(SHAPE, 4, 20), whole_last_layer=True)
    assert told["whole"] == cycles(everything, lengths)
    assert told["whole"] > told["alone"] > told["batched"]
    real, whole = told["utilisation"]
    assert real == pytest.approx(sum(work(program, n) for n in lengths) / 16 / told["batched"])
    padded = [8, 4, *[20] * 6, 4, 4]
    assert whole == pytest.approx(sum(work(program, n) for n in padded) / 16 / told["batched"])


def test_the_whole_last_layer_and_a_buffer() -> None:
    told = batches.measure(MODEL, [5, 3], 4, 32, whole_last_layer=True)
    program = compile_model(MODEL, fitting(SHAPE, 4, 32), whole_last_layer=True)
    assert told["alone"] == told["whole"]
    assert told["batched"] == predict(program, [5, 3]).cycles
    sooner = [
        batches.measure(MODEL, [20] * 4, 4, 80, stream_bytes=1, stream_ahead=n)["batched"]
        for n in (1, 9, 99)
    ]
    assert sooner[0] > sooner[1] > sooner[2]


def test_texts_a_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped model on five sentences: their lengths, and a row a batch and rate."""
    options = ["texts", "--data", "rotten-tomatoes", "--texts", "5", "--tokens", "30"]
    lists = ["--lanes", "8", "--batch", "64,128", "--stream-bytes", "1,8"]
    classifier = QuantizedModel.load(ensure(), None)
    rows = found(tmp_path / "out.json", *options, *lists)
    texts = rotten_tomatoes("test")[:5]
    lengths = [len(classifier.tokens(text.text, max_tokens=30).ids) for text in texts]
    made = [(row["memory"], row["stream_bytes"]) for row in rows]
    assert made == [(64, 1), (128, 1), (64, 8), (128, 8)]
    assert {(row["tokens"], row["texts"]) for row in rows} == {(sum(lengths), 5)}
    told = batches.measure(classifier.model, lengths, 8, 64, stream_bytes=8)
    assert rows[2]["batched"] == told["batched"]
    line = capsys.readouterr().out.splitlines()[4].split()
    assert line[:5] == ["8", "8", "8", "64", "5"]
    assert line[8] == f"{5e8 / told['batched']:,.0f}"


def test_texts_a_second_need_no_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sim.options.ensure", lambda *_: pytest.fail("calibrated"))
    model, data = tiny.write(tmp_path / "model"), tmp_path / "texts.txt"
    data.write_text("good film\nbad\n")
    options = ["texts", "--batch", "16", "--model", str(model), "--tokens", "8", "--data"]
    (row,) = found(tmp_path / "out.json", *options, data)
    assert (row["texts"], row["tokens"]) == (2, 7)
    assert command.main([*options, "gone.csv"]) == 2
    assert "gone.csv" in capsys.readouterr().err


@pytest.mark.slow
def test_bert_base(tmp_path: Path) -> None:
    options = "--shape 12,768,3072 --lanes 64 --whole-last-layer"
    whole = found(tmp_path / "out.json", *options.split())
    products = 12 * 128 * (4 * 768 * 768 + 2 * 768 * 3072 + 2 * 128 * 768)
    assert whole["layers"]["ideal_cycles"] == products / 4096
    assert products / 4096 < whole["total_cycles"] < products / 4096 / 0.97


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--lanes 4,5", "invalid choice: 5 (choose from 4, 8, 16, 32, 64)"),
        ("--lanes 4,", "'' is not a whole number"),
        ("--tokens 5,0", "0 is out of range: it must be 1 or more"),
        ("--shape 12,768", "'12,768' is no shape: give layers, hidden size and feed-forward"),
        ("--shape 2,16,32,gate", "'2,16,32,gate' is no shape: give layers, hidden size and feed"),
        ("--shape 2,16,32 --model models/bert-tiny-imdb", "--model needs a model, --shape is none"),
        ("--shape 2,16,0", "0 is out of range"),
        ("dma --play", "unrecognized arguments: --play"),
        ("dma --stream-ahead 9", "unrecognized arguments: --stream-ahead 9"),
        ("dma --burst 3", "burst is 3"),
        ("texts --shape 2,16,32", "unrecognized arguments: --shape 2,16,32"),
        ("texts --texts 0", "0 is out of range"),
        ("text --lanes 4", "'text' is no mode: before the options may stand texts or dma"),
        ("--tokens 513", "--tokens is 513: the model takes 1..512"),
    ],
)
def test_what_is_refused(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(command.main, line.split(), capsys)
