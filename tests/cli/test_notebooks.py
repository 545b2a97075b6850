"""The notebooks from the first cell to the last, in a kernel; on the stand-in of a PYNQ board."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from cli.machine import ROOT

import nbclient
import nbformat
import pytest

from golden.encoder import run as golden
from quant.calibrate import ensure
from quant.quantized_model import QuantizedModel
from rtl.compile.__main__ import main as compile_model
from rtl.interface.config import Config
from sim.design import generated
from sim.machine.board import library

CONFIG = Config(lanes=4)
TEXT = "That movie was terrible!"
STAND_IN = """
import sys
from pathlib import Path

from sim.machine.board import StreamBoard
from tests.driver.fake_pynq import FakePynq


class SlowBoard(StreamBoard):  # an access takes a CPU as long
    def read(self, register):
        self.run(500)
        return super().read(register)


sys.modules["pynq"] = FakePynq(SlowBoard(Path({program!r}), {lanes}), {row_words})
"""

pytestmark = [pytest.mark.thorough, pytest.mark.verilator]


def played(name: str, folder: Path) -> list[str]:
    """What each cell of code shows; an error of Python or of a command ends it."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    kept = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in kept), "kept without what it showed"
    for place in range(len(notebook.cells) - 1, -1, -1):
        if notebook.cells[place].source.startswith("!"):
            check = nbformat.v4.new_code_cell("assert _exit_code == 0")
            notebook.cells.insert(place + 1, check)
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    return [
        "".join(
            one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.outputs
        )
        for cell in kept
    ]


@pytest.mark.slow
def test_from_a_checkpoint_to_verilog() -> None:
    shown = "".join(played("checkpoint_to_verilog", ROOT / "notebooks"))
    assert "Every bit equal to the golden model" in shown


def test_pynq(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The logits of the text are golden's."""
    quantized = ensure()
    given = ["--quantized", str(quantized), "--lanes", str(CONFIG.lanes), "--text", TEXT]
    files = ["-o", str(tmp_path / "board/model.bin"), "--json", str(tmp_path / "board/text.json")]
    assert compile_model([*given, "--tokens", str(CONFIG.tokens), *files]) == 0
    program = library(generated("accelerator", CONFIG))
    row_bytes = json.loads((tmp_path / "board/text.json").read_text())["row_bytes"]
    stand_in = STAND_IN.format(
        program=str(program), lanes=CONFIG.lanes, row_words=row_bytes // CONFIG.lanes
    )
    (tmp_path / "pynq.py").write_text(stand_in)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shown = played("pynq", tmp_path)
    model = QuantizedModel.load(quantized, None, floats=False)
    tokens = model.tokens(TEXT)
    logits = golden(model.model, tokens.ids, tokens.types)
    answer, label = shown[2].strip().split(" -> ")
    assert ast.literal_eval(answer) == logits.tolist()
    assert label == model.spec.labels[logits.argmax()] == "negative"
    assert "NO_KEY" in shown[-1]
