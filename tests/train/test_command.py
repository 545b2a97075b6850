"""What the training commands share: a package that is missing, the precision of the device."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from train.device import device_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("capabilities", "precision"),
    [
        ({"avx512_f": True, "avx512_bf16": False}, "float32"),
        ({"avx512_f": True, "avx512_bf16": True}, "bfloat16"),
        ({"neon": True, "bf16": True}, "bfloat16"),
        ({}, "float32"),
    ],
)
def test_bfloat16_only_where_the_processor_computes_with_it(monkeypatch, capabilities, precision):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    options = Namespace(device="cpu", precision=None)
    assert device_of(options) == "cpu"
    assert options.precision == precision
    for given in ("float32", "bfloat16"):
        options.precision = given
        device_of(options)
        assert options.precision == given
