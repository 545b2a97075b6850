"""Compiled functions are kept by the content of all sources, where they can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOP = """
from pathlib import Path

import pytest
from golden.fast.compiled import compiler
from package.table import TABLE

@compiler(Path(__file__).parent)
def look(index):
    return TABLE[index]
"""


def look(folder: Path, table: str, **environment: str) -> tuple[int, int]:
    """What a new process reads from the table, and how often it found the function compiled."""
    package = folder / "package"
    package.mkdir(exist_ok=True)
    (package / "loop.py").write_text(LOOP)
    (package / "table.py").write_text(f"import numpy as np\nTABLE = np.array({table})\n")
    script = "from package.loop import look; print(look(1), sum(look.stats.cache_hits.values()))"
    # -B: Python takes its own file of a table that another of the same size replaced in a second.
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        env=os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    value, hits = done.stdout.split()
    return int(value), int(hits)


@pytest.mark.slow
def test_a_changed_table_of_another_file_is_compiled_anew(tmp_path):
    place = str(tmp_path / "place")
    assert look(tmp_path, "[3, 5]", BERT2RTL_BUILD=place) == (5, 0)
    assert look(tmp_path, "[3, 5]", BERT2RTL_BUILD=place) == (5, 1)
    assert look(tmp_path, "[3, 7]", BERT2RTL_BUILD=place) == (7, 0)
    assert list((tmp_path / "package").rglob("*.nbi")) == []


@pytest.mark.slow
def test_without_a_place_it_is_compiled_each_time(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__pycache__").touch()  # nor is there one beside the source
    assert look(tmp_path, "[3, 5]", BERT2RTL_BUILD="/proc/none", HOME="/proc/none") == (5, 0)
