from dataclasses import replace

import numpy as np
import pytest

from quant.calibrate import observe_all
from quant.model import float_model
from quant.quantize.rewriting import REWRITINGS, rewrite
from tests.quant.test_quantize import VARIED, checkpoint, inputs

NAMES = [frozenset({"centre"}), frozenset({"balance"}), REWRITINGS]


@pytest.mark.parametrize("choices", VARIED)
@pytest.mark.parametrize("names", NAMES)
def test_the_function_stays_and_frames_lead_back(choices: dict, names: frozenset[str]) -> None:
    source = checkpoint(**choices)
    spec = source.spec
    texts = inputs(12, 1, spec)
    rewritten = rewrite(spec, source.arrays, observe_all(source, texts)[0], names)
    exact = {name: array.astype(np.float64) for name, array in source.arrays.items()}
    for tokens in inputs(6, 2, spec):
        before: float_model.Trace = {}
        after: float_model.Trace = {}
        float_model.run(spec, exact, tokens.ids, tokens.types, trace=before)
        float_model.run(spec, rewritten.arrays, tokens.ids, tokens.types, trace=after)
        for name, x in before.items():
            y = after[name]
            if name in rewritten.frames:
                frame = rewritten.frames[name]
                y = y * frame.factors + frame.centres
            if name in rewritten.row_constants:
                x, y = (z - z.mean(axis=-1, keepdims=True) for z in (x, y))
            np.testing.assert_allclose(y, x, atol=1e-11, err_msg=name)


def test_centred_channels_reach_as_far_both_ways() -> None:
    source = checkpoint()
    texts = inputs(12, 1, source.spec)
    observers = observe_all(source, texts)[0]
    rewritten = rewrite(source.spec, source.arrays, observers, frozenset({"centre"}))
    centred = observe_all(replace(source, arrays=rewritten.arrays), texts)[0]
    for name in ("embedding.norm", "layer.0.k", "layer.1.v", "layer.1.ffn.norm"):
        low, high = centred[name].channel_extremes
        np.testing.assert_allclose(low, -high, atol=1e-6)
        assert centred[name].amplitude < observers[name].amplitude
    assert "layer.0.q" in rewritten.frames
    np.testing.assert_array_equal(rewritten.frames["layer.0.q"].centres, 0)


def test_balanced_channels_are_used_to_the_same_part() -> None:
    source = checkpoint()
    source.arrays["layer.0.k.weight"][3] *= 20
    source.arrays["layer.0.v.weight"][5] *= 20
    texts = inputs(12, 1, source.spec)
    observers = observe_all(source, texts)[0]
    rewritten = rewrite(source.spec, source.arrays, observers, frozenset({"balance"}))
    balanced = observe_all(replace(source, arrays=rewritten.arrays), texts)[0]
    reach = {
        key: np.maximum(-low, high)
        for key in "qkv"
        for low, high in [balanced[f"layer.0.{key}"].channel_extremes]
    }
    np.testing.assert_allclose(reach["q"], reach["k"], rtol=1e-5)
    np.testing.assert_allclose(reach["v"], 1, rtol=1e-5)
    assert balanced["layer.0.context"].amplitude <= 1 + 1e-6


@pytest.mark.parametrize("choices", VARIED)
def test_the_last_norm_is_balanced_for_the_head_alone(choices: dict) -> None:
    source = checkpoint(**choices)
    spec = source.spec
    last = "final" if spec.norm == "pre" else f"layer.{spec.layers - 1}.ffn"
    parameters = "final.norm" if spec.norm == "pre" else f"layer.{spec.layers - 1}.norm2"
    source.arrays[f"{parameters}.gamma"][3] *= 20
    texts = inputs(12, 1, spec)
    observers = observe_all(source, texts)[0]
    rewritten = rewrite(spec, source.arrays, observers, frozenset({"balance"}))
    balanced = observe_all(replace(source, arrays=rewritten.arrays), texts)[0]
    for name, observer in balanced.items():
        if not name.endswith(".norm"):
            continue
        low, high = observer.channel_extremes
        if name == f"{last}.norm":
            np.testing.assert_allclose(np.maximum(-low, high), 1, rtol=1e-5)
        else:
            np.testing.assert_allclose(low, observers[name].channel_extremes[0], rtol=1e-5)


def test_a_channel_that_is_always_zero_stays_finite() -> None:
    source = checkpoint()
    source.arrays["layer.1.norm2.gamma"][2] = 0
    source.arrays["layer.1.norm2.beta"][2] = 0
    for key in "qkv":
        source.arrays[f"layer.0.{key}.weight"][2] = 0
        source.arrays[f"layer.0.{key}.bias"][2] = 0
    texts = inputs(6, 1, source.spec)
    rewritten = rewrite(source.spec, source.arrays, observe_all(source, texts)[0], REWRITINGS)
    for name, array in rewritten.arrays.items():
        assert np.isfinite(array).all(), name
