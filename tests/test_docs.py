"""What the documents name is there: files in backticks, links, and modules of commands.

Not in the change log, which also names what is gone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    ROOT / "driver" / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("models/*/README.md"),
]
TOPS = "boards|cli|docs|driver|golden|models|quant|rtl|setup|sim|tb|tests|train|verify"
PATH = re.compile(rf"`((?:{TOPS})/[\w/.-]*)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(rf"python3? -m ((?:{TOPS})(?:\.\w+)*)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_is_there(document: Path) -> None:
    text = document.read_text()
    missing = [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    missing += [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    for module in COMMAND.findall(text):
        path = ROOT.joinpath(*module.split("."))
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
            missing.append(f"python -m {module}")
    assert not missing
