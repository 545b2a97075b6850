import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from golden import encoder, store
from golden.fast import Engine
from golden.identity import identity_of
from quant import calibrate, which
from quant.foreign.checkpoint import load
from quant.measure.compare import TensorError, compare
from quant.model import float_model
from quant.quantize import options as remedying
from quant.quantize import rounding
from quant.quantize.encoder import Quantized, quantize
from quant.quantize.observers import Observer, Observing
from quant.quantize.options import REMEDIES, Options
from quant.quantize.quantizers import CalibrationError
from quant.quantize.rewriting import REWRITINGS, rewrite
from quant.quantized_model import QuantizedModel
from tests.ending import figures, refusal
from tests.quant import tiny
from tests.quant.test_quantize import checkpoint, inputs

TEXTS = ["a good film!", "the bad film", "good good good", "a bads film", "the film"]


@pytest.fixture
def model(tmp_path):
    return tiny.write(tmp_path / "tiny")


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "texts.csv"
    rows = [f'"{text}",{i % 3}' for i, text in enumerate(TEXTS)]
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    return file


@pytest.fixture
def arguments(model, data, tmp_path):
    return ["--model", str(model), "--data", str(data), "--out", str(tmp_path / "out")]


def test_the_command_writes_a_model_that_loads(model, data, arguments, tmp_path, capsys):
    out = tmp_path / "out"
    found = figures(calibrate.main, arguments, tmp_path / "figures.json")
    printed = capsys.readouterr().out
    assert f"wrote {out}" in printed
    assert "bounds proven" in printed
    quantized, info = store.load(out)
    assert encoder.run(quantized, [2, 5, 3]).shape == (3,)
    assert info == found
    assert info["spec"]["labels"] == ["bad", "good", "mixed"]
    assert info["calibration"]["texts"] == len(TEXTS)
    assert info["calibration"]["data"] == str(data)
    assert len(info["checkpoint"]["sha256"]) == 64
    assert QuantizedModel.load(out, None).reader.resolved == load(model).resolved
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert calibrate.main(arguments) == 0
    assert before == {file.name: file.read_bytes() for file in out.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "tiny", "--data", "imbd"], "no data set or file named 'imbd': give"),
        (["--model", "tiny", "--out", "tiny"], "--out tiny is a checkpoint, whose tokenizer would"),
        (["--remedies", "centre,magic"], "'magic' is no remedy: allowed auto, none, all, centre,"),
        (["--remedies", ""], "'' is no remedy: allowed auto, none, all, centre"),
    ],
)
def test_refusals_are_one_line(arguments, message, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert message in refusal(calibrate.main, arguments, capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "taken"),
    [("none", []), ("all", list(REMEDIES)), ("split, centre", ["centre", "split"]), ("auto", None)],
)
def test_choices_are_those_asked_for(given, taken, arguments):
    for precise in ([], ["--precise"]):
        assert calibrate.main([*arguments, "--remedies", given, *precise]) == 0
        made, info = store.load(arguments[-1])
        assert made.precise == info["calibration"]["precise"] == bool(precise)
        assert info["tensors"]["layer.0.ffn.hidden"]["bits"] == (16 if precise else 8)
        if taken is None:
            assert info["trials"].keys() >= {"none", "+".join(REMEDIES)}
        else:
            assert (info["calibration"]["remedies"], info["trials"]) == (taken, {})


def test_tensors_of_a_rewritten_model_are_near_those_of_the_checkpoint():
    """Whatever was centred, balanced, split: the description leads back to the float model's."""
    source = checkpoint()
    source.arrays["layer.1.ffn.up.weight"][7] *= 12
    texts = inputs(20, 1, source.spec)
    quantized, errors = calibrate.calibrate(source, texts, Options(remedies=REMEDIES), {})
    assert quantized.info["tensors"]["layer.1.ffn.hidden"]["copies"]
    for name in ("q", "k", "v", "scores", "context", "ffn.hidden", "ffn.norm", "ffn.x8"):
        assert errors[f"layer.1.{name}"].sqnr > 25, name
    assert errors["pooled"].sqnr > 25


def test_interruption_writes_nothing(arguments, tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate, "check", interrupted)
    assert calibrate.main([*arguments, "--remedies", "none"]) == 130
    assert "warning: 5 texts are few" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_whose_scores_saturate_later_is_refused(shipped, texts):
    """Calibrated on one text, checked on others that reach further."""
    observers, _ = calibrate.observe_all(shipped, texts[:1])
    quantized = quantize(shipped.spec, shipped.arrays, observers, Options())
    layers = quantized.model.layers
    object.__setattr__(layers[1].attention, "score_s", layers[1].attention.score_s - 8)
    with pytest.raises(CalibrationError, match=r"layer.1.scores: .* the softmax of head \d by"):
        calibrate.check(shipped, quantized, texts[:2])


def test_a_machine_where_the_fast_engine_is_not_golden_is_refused(shipped, texts, monkeypatch):
    quantized = tiny.quantized(shipped, texts[:3], Options(remedies=()))
    whole = Engine.trace_batch

    def wrong(*arguments):
        traces = whole(*arguments)
        for trace in traces:
            trace["layer.1.context"][-1, -1] ^= 1
        return traces

    monkeypatch.setattr(Engine, "trace_batch", wrong)
    with pytest.raises(CalibrationError, match=r"layer.1.context: golden.fast gives other integ"):
        calibrate.check(shipped, quantized, texts[:3])


@pytest.mark.parametrize("pooling", ["first", "mean", "none"])
def test_the_check_is_that_of_golden_a_text_at_a_time(pooling):
    """Whatever goes together: the sums of every tensor, by plain golden and the float model."""
    source = checkpoint(
        task="token-classification" if pooling == "none" else "classification", pooling=pooling
    )
    texts = inputs(9, 1, source.spec)
    quantized = tiny.quantized(source, texts, Options(remedies=("split",)))
    expected: dict[str, TensorError] = {}
    for text in texts:
        floats: dict[str, Any] = {}
        integers: dict[str, Any] = {}
        float_model.run(source.spec, source.arrays, text.ids, text.types, trace=floats)
        encoder.run(quantized.model, text.ids, text.types, trace=integers)
        compare(expected, floats, integers, quantized.info["tensors"])
    found = calibrate.check(source, quantized, texts)
    assert found.keys() == expected.keys()
    for name, error in expected.items():
        assert (found[name].count, found[name].limits) == (error.count, error.limits), name
        assert found[name].sqnr == pytest.approx(error.sqnr, abs=1e-3), name
        assert found[name].largest == pytest.approx(error.largest, rel=1e-3), name


def assert_same(a, b):
    """Every integer, and every format."""
    assert identity_of(a.model) == identity_of(b.model)
    assert a.info["tensors"].keys() == b.info["tensors"].keys()


@pytest.mark.parametrize("remedies", [(), ("centre", "split"), ("balance", "shift"), REMEDIES])
def test_what_calibration_saves_changes_no_integer(remedies):
    """The rows of the texts alone, one observation for all rewritings, texts that go together:
    against the whole table, another observation, and a text at a time."""
    source = checkpoint()
    source.arrays["embedding.token"][5] *= 3  # which no text uses
    texts = [t for t in inputs(30, 1, source.spec) if 5 not in t.ids]
    assert len(texts) > 10
    options = Options(remedies=remedies)
    observers: dict[str, Observer] = {}
    for text in texts:
        doubles = {name: array.astype(np.float64) for name, array in source.arrays.items()}
        trace = Observing(observers, source.spec)
        float_model.run(source.spec, doubles, text.ids, text.types, trace=trace)
    arrays: Any = source.arrays
    if names := frozenset(remedies) & REWRITINGS:
        arrays = rewrite(source.spec, source.arrays, observers, names)
        observers = calibrate.observe_all(replace(source, arrays=arrays.arrays), texts)[0]
    watch = partial(rounding.watch, texts=texts)
    expected = quantize(source.spec, arrays, observers, options, watch)
    found = tiny.quantized(source, texts, options)
    (*others, plain), last = expected.model.head, found.model.head[-1]
    np.testing.assert_array_equal(last.bias - found.info["logit_correction"], plain.bias)
    corrected = replace(expected.model, head=(*others, replace(plain, bias=last.bias)))
    assert_same(found, replace(expected, model=corrected))


def test_remedies_are_chosen_on_the_first_tokens_as_if_there_were_no_others(monkeypatch):
    source = checkpoint()
    texts = inputs(20, 1, source.spec)
    monkeypatch.setattr(remedying, "TOKENS", len(texts[0].ids) + len(texts[1].ids) + 1)
    (some, _), (first, whole) = (calibrate.observe(source, x) for x in (texts[:3], texts))
    assert calibrate.choose(first, Options())[1] == calibrate.choose(some, Options())[1]
    made, _ = calibrate.quantize(whole, Options(remedies=REMEDIES))
    monkeypatch.undo()
    again, whole = calibrate.observe(source, texts)
    assert again is whole
    assert_same(made, calibrate.quantize(whole, Options(remedies=REMEDIES))[0])


def test_the_model_that_was_chosen_is_not_made_again(monkeypatch):
    source, whole, tried = checkpoint(), calibrate.quantize, []
    monkeypatch.setattr(calibrate, "quantize", lambda *of: (tried.append(of), whole(*of))[1])
    quantized, _ = calibrate.calibrate(source, inputs(20, 1, source.spec), Options(), {})
    assert len(tried) == len(quantized.info["trials"])


def test_golden_stays_close_on_texts_it_was_not_calibrated_on(classifier, texts):
    checkpoint = classifier.require_checkpoint()
    errors = calibrate.check(checkpoint, Quantized(classifier.model, classifier.info), texts[:4])
    assert errors["logits"].sqnr > 35
    for name, error in errors.items():
        assert error.sqnr > 22, name
        if name.endswith(".sum"):
            assert error.limits == 0, name


def test_of_two_that_need_it_at_once_one_calibrates(tmp_path, data, monkeypatch):
    monkeypatch.setattr(calibrate, "DEFAULT_DATA", str(data))
    monkeypatch.setattr(which, "BUILD", tmp_path)
    model, out = tiny.write(tmp_path / "x" / "tiny"), tmp_path / "tiny"
    sound, begun = calibrate.calibrate, []

    def slow(*arguments):
        begun.append(arguments)
        time.sleep(0.5)
        return sound(*arguments)

    monkeypatch.setattr(calibrate, "calibrate", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: calibrate.ensure(model), range(2)))
    assert [*found, calibrate.ensure(model)] == [out] * 3
    assert len(begun) == 1


@pytest.mark.slow
def test_the_processor_and_its_threads_do_not_matter(tmp_path):
    """The same integers with the BLAS kernels of another processor and another thread count."""
    models = []
    for kernels, threads in (("Prescott", "1"), ("Haswell", "2")):
        out = tmp_path / kernels
        environment = os.environ | {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": threads}
        arguments = ["--samples", "16", "--tokens", "96", "--out", str(out)]
        command = [sys.executable, "-m", "quant.calibrate", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        models.append(identity_of(store.load(out)[0]))
    assert models[0] == models[1]


WILD = [
    ("", 0.0),  # a model without any weight has no error
    ("LayerNorm.weight", 1e20),
    ("LayerNorm.weight", 1e-20),
    ("query", 1e25),
    ("word_embeddings", 1e30),
    ("intermediate", 1e19),
    ("classifier", 1e30),
    ("epsilon", 1.0),  # beyond the hardware
]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # beyond float32
@pytest.mark.parametrize(("part", "factor"), WILD)
def test_wild_weights_are_calibrated_or_refused_in_one_line(part, factor, tmp_path, capsys):
    epsilon = {"layer_norm_eps": 1e300} if part == "epsilon" else {}
    with np.errstate(over="ignore"):
        arrays = {
            name: array * np.float32(factor if part in name else 1)
            for name, array in tiny.tensors().items()
        }
    model = tiny.write(tmp_path / "model", epsilon, arrays)
    data, out = tmp_path / "a.txt", tmp_path / "out"
    data.write_text("good film\nbad film\nthe film !\n" * 4)
    code = calibrate.main(["--model", str(model), "--data", str(data), "--out", str(out)])
    errors = [line for line in capsys.readouterr().err.splitlines() if line[:6] == "error:"]
    assert (code, len(errors), (out / store.DESCRIPTION).exists()) in [(0, 0, True), (2, 1, False)]
    assert code == 0 or re.match(r"error: (layer|embedding|head|pooled)\S*: ", errors[0]), errors
    assert not epsilon or "embedding.norm: epsilon 1e+300 is inf LSB" in errors[0]


@pytest.mark.parametrize("remedies", [(), ("centre",), pytest.param(None, marks=pytest.mark.slow)])
def test_scores_beyond_16_bits_that_leave_the_softmax_right(shipped, texts, remedies):
    """Layer 0 reaches beyond 88.7: it is calibrated, and golden gives float's classes."""
    source = loud(shipped, 20)
    observers, _ = calibrate.observe_all(source, texts[:8])
    assert observers["layer.0.scores"].amplitude > 88.7
    quantized, errors = calibrate.calibrate(source, texts[:8], Options(remedies=remedies), {})
    assert errors["layer.0.scores"].limits > 0 or remedies != ()
    assert "100.00%" in quantized.info["verdict"]["summary"]


@pytest.mark.parametrize("remedies", [None, (), ("centre",)])
def test_scores_that_spoil_the_softmax_are_refused(shipped, texts, remedies):
    with pytest.raises(CalibrationError, match=r"layer.0.scores: 16 bits hold scores up to 88.7"):
        calibrate.calibrate(loud(shipped, 100), texts[:8], Options(remedies=remedies), {})


def loud(shipped, factor):
    """The shipped model with scores of layer 0 so many times as large."""
    names = [f"layer.0.q.{part}" for part in ("weight", "bias")]
    arrays = {name: shipped.arrays[name] * np.float32(factor) for name in names}
    return replace(shipped, arrays=shipped.arrays | arrays)
