"""Every command with --model takes that checkpoint's integers, and writes over nobody else's."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from golden import store
from quant import calibrate, classify, embed, evaluate, which
from quant.export import __main__ as export
from quant.foreign import checkpoint
from sim import regress, run, vectors
from sim.cycles import __main__ as cycles
from sim.estimate import __main__ as estimate
from tb.generate import __main__ as bench
from tests.ending import refusal
from tests.quant import tiny

Main = Callable[[list[str]], int]
COMMANDS: list[tuple[Main, list[str]]] = [
    (run.main, []),
    (regress.main, ["--data", "texts.csv"]),
    (cycles.main, ["--play"]),
    (cycles.main, ["--tokens", "3"]),
    (estimate.main, []),
    (vectors.main, []),
    (bench.main, ["rsqrt"]),
    (export.main, ["c"]),
    (classify.main, ["good film"]),
    (evaluate.main, ["--data", "texts.csv"]),
    (embed.main, ["texts.csv", "-o", "vectors.npy"]),
]
SHAPES, MAKERS = (cycles.main, estimate.main), (export.main, classify.main, evaluate.main)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two checkpoints in folders of one name, the first of which the user has calibrated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(which, "BUILD", Path("build"))
    Path("texts.csv").write_text("text,label\na good film,good\nthe bad film,bad\n")
    for name in ("DEFAULT_DATA", "SENTENCES"):
        monkeypatch.setattr(calibrate, name, "texts.csv")
    first = tiny.write(Path("a", "model"))
    arguments = ["--model", str(first), "--data", "texts.csv", "--remedies", "none"]
    assert calibrate.main(arguments) == 0
    return first, tiny.write(Path("b", "model"), arrays=tiny.tensors(seed=2))


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(("main", "arguments"), COMMANDS)
def test_a_checkpoint_has_its_own_integers(main, arguments, models, capsys):
    _, other = models
    users = contents(Path("build/model"))
    own = Path(f"build/model-{checkpoint.fingerprint(other)[:8]}")
    capsys.readouterr()
    if main in SHAPES and "--play" not in arguments:
        assert main([*arguments, "--model", str(other), "--json", "shape.json"]) == 0
        assert '"b/model"' in Path("shape.json").read_text()
    elif main in MAKERS:
        assert main([*arguments, "--model", str(other)]) == 0
        assert store.info_of(own)["checkpoint"]["directory"] == str(other)
    elif main is embed.main:
        assert "b/model is a model of classification" in refusal(
            main, [*arguments, "--model", str(other)], capsys
        )
    else:
        said = refusal(main, [*arguments, "--model", str(other)], capsys)
        assert f"b/model has no quantized model in {own}: calibrate first" in said
    capsys.readouterr()
    both = [*arguments, "--model", str(other), "--quantized", "build/model"]
    if main is not export.main:  # which takes one of the two
        assert "build/model was not made from b/model" in refusal(main, both, capsys)
    assert contents(Path("build/model")) == users


def test_a_calibration_goes_to_no_folder_of_another_model(models: tuple[Path, Path]) -> None:
    first, other = models
    users = contents(Path("build/model"))
    trained = tiny.write(Path("build", "trained"))
    weights = contents(trained)
    for model in (other, trained):
        own = Path("build", f"{model.name}-{checkpoint.fingerprint(model)[:8]}")
        for _ in range(2):  # it is found again
            assert calibrate.main(["--model", str(model), "--data", "texts.csv"]) == 0
            assert which.folder_of(model) == own
            assert which.is_made(own, model)
    assert contents(Path("build/model")) == users
    assert contents(trained) == weights
    assert calibrate.main(["--model", str(first), "--data", "texts.csv"]) == 0
    assert contents(Path("build/model")) != users
    assert which.folder_of(first) == Path("build/model")


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"info": 1}'])
def test_a_damaged_integer_model_is_nobodys(damage: str, models: tuple[Path, Path]) -> None:
    first, _ = models
    Path("build/model", store.DESCRIPTION).write_text(damage)
    assert calibrate.ensure(first).name.startswith("model-")


def test_a_checkpoint_is_hashed_once(models: tuple[Path, Path]) -> None:
    checkpoint._digest.cache_clear()
    assert classify.main(["good film", "--model", str(models[0])]) == 0
    assert checkpoint._digest.cache_info().misses == 1
    config = json.loads(models[0].joinpath("config.json").read_text())
    models[0].joinpath("config.json").write_text(json.dumps(config, indent=4))
    assert not which.is_made(Path("build/model"), models[0])
