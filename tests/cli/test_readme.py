"""The commands of the README run as they stand; training is left out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from cli.machine import ROOT

import pytest

SHORT = {
    "quant.calibrate": ["--samples", "4", "--tokens", "8", "--remedies", "none"],
    "quant.evaluate": ["--samples", "4", "--tokens", "8"],
    "sim.run": ["--unit", "softmax", "--tokens", "4", "--simulator", "icarus"],
}


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    texts, build = tmp_path / "texts.csv", tmp_path / "build"
    texts.write_text("text,label\n" + 'good film,1\n"bad, bad film",0\n' * 4)
    model = str(ROOT / "models" / "bert-tiny-imdb")
    placeholders = {
        "CHECKPOINT": model,
        "--model DIR": f"--model {model}",
        "--quantized DIR": f"--quantized {build}/bert-tiny-imdb",
        "-o model.bin": f"-o {build}/model.bin",
        "FILE": str(texts),
    }
    lines = re.findall(r"^    python -m ((?!train)\S.*?)  ", (ROOT / "README.md").read_text(), re.M)
    assert len(lines) > 8
    for line in lines:
        for before, after in placeholders.items():
            line = line.replace(before, after)
        words = shlex.split(line.replace("-o DIR", f"-o {build}/{line.split()[0]}"))
        command = [sys.executable, "-m", *words, *SHORT.get(words[0], ())]
        environment = os.environ | {"BERT2RTL_BUILD": str(build), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
