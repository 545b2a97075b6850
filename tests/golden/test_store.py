import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from golden import store
from golden.model import Shape
from golden.random import Kind, random_model
from tests import zoo

SHAPES = [
    zoo.shape("bert-tiny"),
    zoo.shape("pre-norm", position_offset=2),
    zoo.shape("pre-norm-embedding-norm"),
]
KINDS = [(shape, kind) for shape in SHAPES for kind in zoo.GOLDEN_KINDS.values()]
INFO = {"checkpoint": "models/x", "scales": {"a": 0.125}, "text": "é"}
VERSIONED = b'{"format": "bert2rtl quantized model", "version": %s}'


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_round_trip(shape: Shape, kind: dict[str, bool], tmp_path: Path) -> None:
    model = random_model(shape, 0, Kind(**kind).fitting(shape))
    store.save(model, tmp_path / "new" / "folder", INFO)
    loaded, info = store.load(tmp_path / "new" / "folder")
    assert info == INFO
    np.testing.assert_equal(asdict(loaded), asdict(model))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store.save(random_model(SHAPES[0], 0), tmp_path, INFO)
    return tmp_path


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_save_that_fails_leaves_the_old_model(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad info and a full disk; the same model and info again give the same bytes."""
    before, other = files_of(saved), random_model(SHAPES[0], 1)
    assert "é" in before[store.DESCRIPTION].decode()
    for bad, error, message in (
        (object(), TypeError, "not JSON serializable"),
        (float("nan"), ValueError, "not JSON compliant"),
    ):
        with pytest.raises(error, match=message):
            store.save(other, saved, {"a": bad})
    store.save(random_model(SHAPES[0], 0), saved, INFO)
    assert files_of(saved) == before
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        store.save(other, saved, INFO)
    assert files_of(saved) == before


def refused(directory: Path) -> str:
    with pytest.raises(ValueError) as caught:
        store.load(directory)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(directory))
    return message


@pytest.mark.parametrize("name", [store.ARRAYS, store.DESCRIPTION])
def test_one_file_missing(saved: Path, name: str) -> None:
    (saved / name).unlink()
    message = refused(saved)
    assert f"{name}: No such file or directory; allowed is a directory" in message
    assert "quant.calibrate" in message


@pytest.mark.parametrize(
    "damage",
    [lambda x: x[:0], lambda x: x[:100], lambda x: x[:-1], lambda x: x[:-1] + bytes([x[-1] ^ 1])],
)
def test_damaged_arrays(saved: Path, damage: Callable[[bytes], bytes]) -> None:
    """Those of another model end in other bytes, too."""
    path = saved / store.ARRAYS
    path.write_bytes(damage(path.read_bytes()))
    assert "SHA-256 is not the one in quantized.json; the files are damaged or" in refused(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "not readable as JSON"),
        (b'{"format": ', "not readable as JSON"),
        (b"[]", '"format" is not'),
        (b'{"format": "gguf"}', '"format" is not "bert2rtl quantized model"'),
        (VERSIONED % b"8", "version 8; allowed 9; calibrate again"),
        (VERSIONED % b'"9"', "version '9'; allowed 9"),
        (VERSIONED % b"true", "version True; allowed 9"),
        (VERSIONED % b"9", '"sha256" is missing'),
    ],
)
def test_foreign_description(saved: Path, content: bytes, message: str) -> None:
    (saved / store.DESCRIPTION).write_bytes(content)
    assert message in refused(saved)


def rewrite(directory: Path, change: dict, **arrays: np.ndarray) -> None:
    """The same directory with other values and a hash that fits; None takes a value away."""
    path, packed = directory / store.DESCRIPTION, directory / store.ARRAYS
    description = json.loads(path.read_text())
    values = description["model"] | change
    description["model"] = {name: x for name, x in values.items() if x is not None}
    with np.load(packed) as archive:
        arrays = dict(archive) | arrays
    np.savez(packed, **arrays)
    description["sha256"] = sha256(packed.read_bytes()).hexdigest()
    description["description_sha256"] = store.hash_of(description)
    path.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape.hidden": 13}, "embedding.token has shape (30, 12); allowed (30, 13)"),
        ({"shape.hidden": "12"}, "shape: shape.hidden is '12'; allowed integers 1..1024"),
        ({"shape.heads": None}, "shape.heads is missing"),
        ({"layers": 10**9}, "layers is 1000000000; allowed is a count of 0..255"),
        ({"layers": 3}, "layers.2.attention.q.weight is missing"),
        ({"layers.1.norm2.shift": 77}, "layers.1.norm2: shift is 77; allowed 1..31"),
        ({"layers.0.attention.score_m": 3}, "layers.0.attention: score_m is 3; allowed 32768"),
        ({"layers.1.window.after": -1}, "layers.1.window: after is -1; allowed 0..8191"),
    ],
)
def test_values_that_no_model_may_have(saved: Path, change: dict, message: str) -> None:
    rewrite(saved, change)
    found = refused(saved)
    assert message in found
    assert found.endswith("calibrate again")


def test_arrays_that_are_objects(saved: Path) -> None:
    """An object array would run code when unpickled; it is refused."""
    rewrite(saved, {}, **{"head.1.bias": np.array([print, None, 1], dtype=object)})
    assert "allow_pickle=False" in refused(saved)


def test_not_a_zip(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "savez", lambda path, **_: path.write_bytes(b"PK\x03\x04 and no more"))
    rewrite(saved, {})
    assert "not a readable .npz file" in refused(saved)


def test_golden_needs_numpy_only() -> None:
    """Importing golden loads nothing else. cython_runtime comes with NumPy's generators."""
    code = (
        "import sys, golden.encoder, golden.store, golden.random;"
        "known = sys.stdlib_module_names | {'numpy', 'golden', '__main__', 'cython_runtime'};"
        "loaded = {name.split('.')[0] for name in sys.modules};"
        "print(sorted(n for n in loaded - known if not n.startswith(('_', 'sitecustomize'))))"
    )
    root = Path(store.__file__).parents[1]
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
