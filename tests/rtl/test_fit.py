"""Limits that come from models: `sized`, and the options of the commands that use it."""

from dataclasses import replace
from pathlib import Path

import pytest

from golden import store
from golden.model import Shape, Window
from golden.random import Kind, random_model
from rtl.compile import __main__ as compile_command
from rtl.compile.fit import FitError, longest_sequence, sized
from rtl.compile.program import compile_model
from rtl.generate import __main__ as generate_command
from rtl.interface.command import walked_keys
from rtl.interface.config import Config
from rtl.interface.isa import Flag, Opcode
from sim.estimate import __main__ as estimate_command
from tests import zoo
from tests.golden.test_fast import NAMES

SMALL = Shape(1, 24, 3, 8, 40, 2, 60, 40, 2)
WIDE = Shape(1, 40, 2, 20, 24, 3, 60, 20, 2)


@pytest.mark.parametrize(("lanes", "columns"), [(4, 4), (4, 32), (8, 8), (8, 16), (8, 32)])
@pytest.mark.parametrize("kind", zoo.KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_sized_for_a_model_takes_it(name: str, kind: str, lanes: int, columns: int) -> None:
    model = zoo.model(name, **zoo.KINDS[kind])
    config = sized([model], {"lanes": lanes, "columns": columns})
    biased = kind == "biased" and model.shape.kv_heads is None
    assert config.bias_heads == (model.shape.heads if biased else 0)
    assert longest_sequence(model, config) == min(model.shape.tokens, Config().tokens)
    if model.shape.hidden > 1:
        smaller = replace(config, hidden=model.shape.hidden - 1)
        with pytest.raises(FitError):
            longest_sequence(model, smaller)


def test_several_models_get_one_accelerator() -> None:
    models = [random_model(shape, 0) for shape in (SMALL, WIDE)]
    config = sized(models, {"lanes": 4})
    assert (config.tokens, config.hidden, config.ffn, config.labels) == (40, 40, 40, 64)
    for model in models:
        assert longest_sequence(model, config) == model.shape.tokens
    assert sized(models, {"lanes": 4, "ffn": 99, "tokens": 8}).ffn == 99


@pytest.mark.parametrize(
    ("name", "kind", "needed", "small"),
    [
        ("precise", "precise", True, "needs 16-bit operands, the configuration has none: generate "
         "one with --precise"),
        ("bias_heads", "biased", 3, "needs 3 heads of a position bias, the configuration has 2: "
         "generate one with --bias-heads 3 or more"),
        ("gated", "gated", True, "needs gated feed-forward networks, the configuration has none: "
         "generate one with --gated"),
        ("rotary_pairs", "rotary", 8, "needs 8 pairs of rotary positions, the configuration has 7: "
         "generate one with --rotary-pairs 8 or more"),
    ],
)  # fmt: skip
def test_a_mechanism_is_what_the_models_need(name: str, kind: str, needed: int, small: str) -> None:
    """The most of several models; more where that is asked for, and an error where it is less."""
    plain, one = random_model(SMALL, 1), random_model(SMALL, 1, Kind(**{kind: True}))
    assert not getattr(sized([plain], {"lanes": 4}), name)
    assert getattr(sized([plain, one], {"lanes": 4, name: type(needed)(0)}), name) == needed
    more = needed if needed is True else 2 * needed
    for models in ([plain], [plain, one]):
        assert getattr(sized(models, {"lanes": 4, name: more}), name) == more
    limits = sized([one], {"lanes": 4})
    assert longest_sequence(one, limits) == SMALL.tokens
    with pytest.raises(FitError) as error:
        longest_sequence(one, replace(limits, **{name: type(needed)(needed - 1)}))
    assert str(error.value) == f"the model {small}"
    if needed is not True:
        option = f"--{name.replace('_', '-')}"
        with pytest.raises(FitError) as error:
            sized([one], {"lanes": 4, name: 1})
        assert str(error.value) == (
            f"{option} 1 too small for the model: give `{option} {needed}`, or leave it out"
        )


@pytest.mark.parametrize("side", [4094, 4095, 6000, 8190, 8191, None])
@pytest.mark.parametrize("tokens", [128, 4096, 4097, 8192])
def test_the_longest_windows(side: int | None, tokens: int) -> None:
    """A side that limits something is in the stream; one that the stream has no number for not."""
    model = random_model(Shape(1, 4, 1, 4, 4, 2, 20, 8192, 0, pooling="none"), 1)
    (layer,) = model.layers
    model = replace(model, layers=(replace(layer, window=Window(3, side)),))
    config = Config(lanes=4, tokens=tokens)
    if side is not None and 4094 < side < tokens - 1:
        with pytest.raises(FitError) as error:
            longest_sequence(model, config)
        assert str(error.value) == (
            f"layer.0.window.after is {side}: the stream has 0 to 4094 or no limit, which {side} "
            f"is to {side + 1} tokens: generate one with --tokens {side + 1} or fewer"
        )
        config = replace(config, tokens=side + 1)
    program = compile_model(model, config)
    (window,) = (x.values["window"] for x in program.steps if x.opcode is Opcode.ATTEND)
    seen = 4095 if side is None else min(side, 4095)
    assert window == 3 + (seen << 12)
    keys = walked_keys(Flag.WINDOW, window, 0, program.tokens, 4)
    assert keys == range(program.tokens if seen == 4095 else min(4100, program.tokens))


def test_all_that_is_too_small_is_one_error_with_what_works() -> None:
    model = random_model(WIDE, 0)
    with pytest.raises(FitError) as error:
        sized([model], {"lanes": 4, "hidden": 39, "ffn": 4})
    assert str(error.value) == (
        "--hidden 39, --ffn 4 too small for the model: give `--hidden 40 --ffn 24`, or leave them "
        "out"
    )
    sized([model], {"lanes": 4, "hidden": 40, "ffn": 24})
    with pytest.raises(ValueError, match=r"--tokens is 21: the model takes 1\.\.20"):
        sized([model], {"tokens": 21})
    with pytest.raises(ValueError, match=r"hidden is 1100: it must lie in 1\.\.1024"):
        sized([model], {"hidden": 1100})


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / "small", tmp_path / "wide"]
    for folder, shape in zip(folders, (SMALL, WIDE), strict=True):
        store.save(random_model(shape, 0), folder, {})
    return folders


def test_the_commands_size_for_the_model(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = ["--quantized", str(models[1])]
    assert compile_command.main([*wide, "--lanes", "4", "-o", str(tmp_path / "m.bin")]) == 0
    said = capsys.readouterr().err
    assert "of at least --lanes 4 --tokens 20 --hidden 40 --ffn 24 --labels 64" in said
    assert compile_command.main([*wide, "--hidden", "8", "--ffn", "8"]) == 2
    assert "give `--hidden 48 --ffn 24`" in capsys.readouterr().err  # V: 2 heads of 24 places
    fit = ["--fit", *map(str, models)]
    assert generate_command.main(["softmax", *fit, "--lanes", "4", "-o", str(tmp_path)]) == 0
    assert "--tokens 40 --hidden 40 --ffn 40" in capsys.readouterr().out
    part = ["--part", "xc7a100t", "--lanes", "4"]
    assert estimate_command.main([*part, "--quantized", str(models[0]), "--tokens", "8"]) == 0
    said = capsys.readouterr().out
    assert "lanes 4, tokens 8, hidden 24, ffn 40" in said
    assert "cycles for 8 tokens" in said
    assert ("XC7A100T" in said, "LFE5U-25" in said) == (True, False)


def test_what_is_no_part_or_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        estimate_command.main(["--part", "XC7A1"])
    assert "argument --part: invalid choice: 'XC7A1' (choose from" in capsys.readouterr().err
    assert generate_command.main(["softmax", "--fit", str(tmp_path)]) == 2
    assert "a directory that `python -m quant.calibrate` wrote" in capsys.readouterr().err
