"""The errors of the combinations of remedies that were tried, on disk until calibration is done.

They are what takes most of a calibration's time. One that was interrupted finds them again: where
anything differs that they depend on, the code among it, none counts.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from math import inf
from pathlib import Path

from cli import files

import numpy as np

from golden.fast.compiled import digest_of
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import Tokens
from quant.quantize.choose import joined
from quant.quantize.options import REMEDIES, Options

UNFINISHED = ".calibration.json"
SOURCES = Path(__file__).resolve().parents[2]


class Trials:
    """Errors by the names of the remedies; inf for a combination that cannot be taken.

    Without a file they are those of this process alone.
    """

    def __init__(
        self,
        file: Path | None = None,
        checkpoint: Checkpoint | None = None,
        texts: Sequence[Tokens] = (),
        options: Options | None = None,
    ) -> None:
        self.errors: dict[tuple[str, ...], float] = {}
        self._file, self._key = file, ""
        if file is not None and checkpoint is not None and options is not None:
            self._key = _key(checkpoint, texts, options)
            self.errors = _read(file, self._key)

    def add(self, names: tuple[str, ...], error: float) -> None:
        self.errors[names] = error
        if self._file is not None:
            errors = {joined(n): None if e == inf else e for n, e in self.errors.items()}
            files.write_json(self._file, {"key": self._key, "errors": errors})

    def forget(self) -> None:
        """The calibration is done."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _key(checkpoint: Checkpoint, texts: Sequence[Tokens], options: Options) -> str:
    """SHA-256 of all that an error depends on."""
    digest = sha256(f"{digest_of(SOURCES / 'golden')} {digest_of(SOURCES / 'quant')} ".encode())
    facts = [
        np.__version__,
        checkpoint.sha256,
        checkpoint.spec.to_json(),
        asdict(replace(options, remedies=None)),
    ]
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for text in texts:
        digest.update(f" {len(text.ids)} ".encode() + text.ids.tobytes() + text.types.tobytes())
        if (rows := text.rows) is not None:
            digest.update(rows.tobytes())
    return digest.hexdigest()


def _read(file: Path, key: str) -> dict[tuple[str, ...], float]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["key"] != key:
            return {}
        errors = {
            name: inf if error is None else float(error) for name, error in found["errors"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {tuple(n for n in REMEDIES if n in name.split("+")): e for name, e in errors.items()}
