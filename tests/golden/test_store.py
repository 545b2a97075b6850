import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from golden import store
from golden.encoder import run
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


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_round_trip(shape: Shape, kind: dict[str, bool], tmp_path: Path) -> None:
    model = random_model(shape, 0, Kind(**kind).fitting(shape))
    layers = [(layer.window, layer.rotary) for layer in model.layers]
    can_be_bare = shape.norm == "pre" and shape.embedding_norm
    assert (model.layers[0].norm1 is None) == (can_be_bare and "first_norm" in kind)
    assert any(window for window, _ in layers) == ("windowed" in kind)
    assert any(table is not None for _, table in layers) == ("rotary" in kind)
    store.save(model, tmp_path / "new" / "folder", INFO)
    loaded, info = store.load(tmp_path / "new" / "folder")
    assert info == INFO
    assert loaded.shape == model.shape
    assert [(layer.window, layer.rotary) for layer in loaded.layers] == layers
    first: dict[str, np.ndarray] = {}
    second: dict[str, np.ndarray] = {}
    run(model, [1, 2, 3], trace=first)
    run(loaded, [1, 2, 3], trace=second)
    assert {k: v.tolist() for k, v in first.items()} == {k: v.tolist() for k, v in second.items()}


def test_same_model_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        store.save(random_model(SHAPES[0], 0), tmp_path / name, INFO)
    for name in (store.ARRAYS, store.DESCRIPTION):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_description_is_readable(tmp_path: Path) -> None:
    store.save(random_model(SHAPES[0], 0), tmp_path, INFO)
    text = (tmp_path / store.DESCRIPTION).read_text()
    values = json.loads(text)["model"]
    assert values["shape.hidden"] == 12
    assert 1 << 15 <= values["layers.0.attention.score_m"] < 1 << 16
    assert "é" in text
    with np.load(tmp_path / store.ARRAYS, allow_pickle=False) as arrays:
        assert arrays["layers.1.ffn.up.weight"].shape == (24, 12)


def test_bad_info_leaves_the_old_model(tmp_path: Path) -> None:
    store.save(random_model(SHAPES[0], 0), tmp_path, INFO)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(TypeError, match="not JSON serializable"):
        store.save(random_model(SHAPES[0], 1), tmp_path, {"a": object()})
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.save(random_model(SHAPES[0], 1), tmp_path, {"a": float("nan")})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_failing_disk_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(random_model(SHAPES[0], 0), tmp_path, INFO)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        store.save(random_model(SHAPES[0], 1), tmp_path, INFO)
    assert sorted(path.name for path in tmp_path.iterdir()) == [store.DESCRIPTION, store.ARRAYS]
    assert store.load(tmp_path)[0].shape == SHAPES[0]


def refused(directory: Path) -> str:
    with pytest.raises(ValueError) as caught:
        store.load(directory)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(directory))
    return message


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store.save(random_model(SHAPES[0], 0), tmp_path, INFO)
    return tmp_path


def test_missing(tmp_path: Path) -> None:
    assert "No such file or directory; allowed is a directory" in refused(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [store.ARRAYS, store.DESCRIPTION])
def test_one_file_missing(saved: Path, name: str) -> None:
    (saved / name).unlink()
    message = refused(saved)
    assert name in message
    assert "quant.calibrate" in message


@pytest.mark.parametrize(
    "damage",
    [lambda x: x[:0], lambda x: x[:100], lambda x: x[:-1], lambda x: x[:-1] + bytes([x[-1] ^ 1])],
)
def test_damaged_arrays(saved: Path, damage: Callable[[bytes], bytes]) -> None:
    path = saved / store.ARRAYS
    path.write_bytes(damage(path.read_bytes()))
    assert "SHA-256 is not the one in quantized.json; the files are damaged or" in refused(saved)


def test_files_of_two_models(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    store.save(random_model(SHAPES[0], 1), other, INFO)
    os.replace(other / store.ARRAYS, saved / store.ARRAYS)
    assert "of two calibrations" in refused(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not readable as JSON"),
        (b"\xff\xfe\x00", "not readable as JSON"),
        (b'{"format": ', "not readable as JSON"),
        (b"[]", '"format" is not'),
        (b'{"format": "gguf"}', '"format" is not "bert2rtl quantized model"'),
        *(
            (f'{{"format": "{store.FORMAT}", "version": {version}}}'.encode(), message)
            for version, message in {
                "10": "version 10; allowed 9; calibrate again",
                "8": "version 8; allowed 9; calibrate again",
                '"9"': "version '9'; allowed 9",
                "true": "version True; allowed 9",
                "9": '"sha256" is missing',
            }.items()
        ),
    ],
)
def test_foreign_description(saved: Path, content: bytes, message: str) -> None:
    (saved / store.DESCRIPTION).write_bytes(content)
    assert message in refused(saved)


def rewrite(directory: Path, change: dict, arrays: dict[str, np.ndarray] | None = None) -> None:
    """The same directory with other values and a hash that fits."""
    path = directory / store.DESCRIPTION
    description = json.loads(path.read_text())
    description["model"].update(change)
    description["model"] = {k: v for k, v in description["model"].items() if v is not None}
    if arrays is not None:
        np.savez(directory / store.ARRAYS, **arrays)
    description["sha256"] = sha256((directory / store.ARRAYS).read_bytes()).hexdigest()
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
    with np.load(saved / store.ARRAYS) as archive:
        arrays = dict(archive)
    arrays["head.1.bias"] = np.array([print, None, 1], dtype=object)
    rewrite(saved, {}, arrays)
    assert "allow_pickle=False" in refused(saved)


def test_not_a_zip(saved: Path) -> None:
    (saved / store.ARRAYS).write_bytes(b"PK\x03\x04 and no more")
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
