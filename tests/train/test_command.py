"""What the training commands share: a package that is missing, the precision of the device."""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from train.bench import THREAD_SETTINGS
from train.device import device_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "package"),
    [
        *((name, "torch") for name in ("bench", "finetune", "images", "pretrain", "tagger")),
        ("finetune", "transformers"),
    ],
)
def test_a_missing_package_is_one_line(tmp_path, module, package):
    (tmp_path / f"{package}.py").write_text(
        f'raise ModuleNotFoundError("No module named {package!r}", name="{package}")\n'
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = subprocess.run(
        [sys.executable, "-m", f"train.{module}"],
        cwd=ROOT,
        env=os.environ
        | dict.fromkeys(THREAD_SETTINGS, "1")  # as bench wants them: it starts itself again else
        | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3
    assert result.stderr == (
        f"error: the package {package} is not installed: run `make setup-train`, then use "
        ".venv/bin/python\n"
    )


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
