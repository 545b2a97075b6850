"""The notebook from the first cell to the last, in a kernel."""

from __future__ import annotations

from cli.machine import ROOT

import nbclient
import nbformat
import pytest


@pytest.mark.slow
def test_from_a_checkpoint_to_verilog() -> None:
    """An error of Python or of a command ends it."""
    notebook = nbformat.read(ROOT / "notebooks" / "checkpoint_to_verilog.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept with what it showed"
    for place in range(len(notebook.cells) - 1, -1, -1):
        if notebook.cells[place].source.startswith("!"):
            check = nbformat.v4.new_code_cell("assert _exit_code == 0")
            notebook.cells.insert(place + 1, check)
    where = {"metadata": {"path": str(ROOT / "notebooks")}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    shown = str([cell.get("outputs") for cell in notebook.cells])
    assert "Every bit equal to the golden model" in shown
