import json
from pathlib import Path

import numpy as np
import pytest

from golden import store
from golden.random import random_model
from quant.model.spec import EncoderSpec
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review
from sim import vectors as command
from tb import vectors
from tb.cut import UNITS, Sequence, Tensor, Traced, cut
from tests import zoo
from tests.ending import exit_code, refusal
from tests.golden.reference import ref_layernorm, ref_operand
from tests.quant import tiny

SHAPE = zoo.shape("bert-tiny", layers=2, vocabulary=30522, positions=24)
Capture = pytest.CaptureFixture[str]


def values(tensor: Tensor) -> list:
    return tensor.values.tolist()


def run_command(*arguments: object) -> int:
    return exit_code(command.main, arguments)


def test_layernorms_of_real_reviews(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """The vectors of a LayerNorm are those of the independent reference, by its parameters.

    The Verilog has the vectors of all units in tests/tb/test_bench_units.py.
    """
    out, given = tmp_path / "vectors", ("--quantized", model_folder)
    assert run_command(*given, "--out", out, "--tokens", 20, "--limit", 50) == 0
    printed = capsys.readouterr().out
    assert all(unit in printed for unit in UNITS)
    by_name = dict(store.load(model_folder)[0].norms())
    names = {"embedding": "embedding.norm", "final": "final_norm"}
    for case in vectors.read(out, "layernorm"):
        part = case.name.removesuffix(".norm")
        name = names.get(part, part.replace(".attention", ".norm1").replace(".ffn", ".norm2"))
        expected = [ref_layernorm(row, by_name[name]) for row in values(case.inputs["z"])]
        assert values(case.outputs["y"]) == expected
        norm = by_name[name]
        assert values(case.outputs["x8"]) == [ref_operand(row, norm) for row in expected]
        if norm.operand_shifts is None:
            assert set(values(case.inputs["operand_shifts"])) == {8}
        else:
            assert values(case.inputs["operand_shifts"]) == norm.operand_shifts.tolist()


def test_the_index_lists_every_file(model_folder: Path, tmp_path: Path) -> None:
    out, given = tmp_path / "vectors", ("--quantized", model_folder)
    assert run_command(*given, "--out", out, "--tokens", 9, "--samples", 1) == 0
    units = json.loads((out / vectors.INDEX).read_text())["units"]
    assert set(units) == set(UNITS)
    listed = {out / file for files in units.values() for file in files}
    assert listed | {out / vectors.INDEX} == {path for path in out.rglob("*") if path.is_file()}
    assert len(listed) > 20


def test_limit_spreads_over_the_whole_tensor() -> None:
    model = random_model(SHAPE, 0)
    sequence = Sequence(tuple(range(20)), (0,) * 20, (1,) * 20, "test")
    short, full = (Traced(model, sequence, limit) for limit in (7, 4096))
    for unit in ("requantize", "activation", "reciprocal"):
        for case, whole in zip(cut(unit, short), cut(unit, full)):
            name = next(iter(case.outputs))
            kept, everything = values(case.outputs[name]), values(whole.outputs[name])
            count = min(7, len(everything))
            assert kept == [everything[i * len(everything) // count] for i in range(count)]


def test_a_tensor_must_fit_its_format() -> None:
    with pytest.raises(ValueError, match=r"a tensor of uint6 spans 0\.\.64"):
        Tensor(np.array([0, 64]), 6, False)


def test_one_unit_and_a_text(model_folder: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "vectors", tmp_path / "reports" / "counts.json"
    text = "That movie was terrible!"
    arguments = ("--quantized", model_folder, "--out", out, "--unit", "reciprocal", "--text", text)
    assert run_command(*arguments, "--json", report) == 0
    index = json.loads((out / vectors.INDEX).read_text())
    # [CLS] that movie was terrible ! [SEP]
    assert index["sequences"][0]["ids"] == [101, 2008, 3185, 2001, 6659, 999, 102]
    assert list(index["units"]) == ["reciprocal"]
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["reciprocal"]
    assert json.loads(report.read_text())["reciprocal"]["vectors"] == 2
    with pytest.raises(ValueError, match="no vectors of 'softmax', only of reciprocal"):
        list(vectors.read(out, "softmax"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--text", "  "), "the text is empty"),
        (("--tokens", 2), "the limit of 2 tokens leaves no room for the text"),
        (("--samples", 5001), "--samples 5001: it must lie in 1..5000"),
        (("--unit", "position_bias"), "the model has no position_bias: choose another --unit, or"),
    ],
)
def test_bad_arguments(
    arguments: tuple, message: str, model_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "vectors"
    given = ["--quantized", model_folder, "--out", out, *arguments]
    assert message in refusal(command.main, given, capsys)
    assert not out.exists()


def test_a_foreign_folder_is_left_alone(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    before = sorted(model_folder.iterdir())
    given = ["--quantized", str(model_folder), "--text", "a", "--out", str(model_folder)]
    message = refusal(command.main, given, capsys)
    assert "holds something else than vectors" in message
    assert sorted(model_folder.iterdir()) == before


def test_a_bad_sequence_leaves_the_old_vectors(tmp_path: Path) -> None:
    out, model = tmp_path / "vectors", random_model(SHAPE, 0)
    good, bad = (Sequence((4, last), (0, 0), (1, 1), "") for last in (5, 30522))
    vectors.write(out, model, [good], ["rsqrt"], 9, {})
    before = (out / vectors.INDEX).read_text()
    with pytest.raises(ValueError, match=r"ids\[1\] is 30522; allowed 0\.\.30521"):
        vectors.write(out, model, [good, bad], ["rsqrt"], 9, {})
    assert (out / vectors.INDEX).read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]


def test_a_text_is_tokenised_as_the_checkpoint_says(tmp_path: Path) -> None:
    """The options of tokenizer_config.json count, as they do everywhere else."""
    accented = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", accented]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    settings = {"do_lower_case": True, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    sizes = {"layers": 1, "hidden": 2, "heads": 1, "head_size": 2, "ffn": 2}
    spec = EncoderSpec(**sizes, labels=("a", "b"), vocabulary=6, positions=8)
    quantized = QuantizedModel(zoo.model("one"), {}, spec, tiny.tokenizer(tmp_path), None)
    _, (found,) = command.sequences_of([Review(accented.upper(), None)], quantized, 8)
    assert found.ids == (2, 5, 3)


def test_damaged_vectors(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    run_command("--quantized", model_folder, "--out", out, "--unit", "rsqrt", "--text", "a")
    npz = next(out.rglob("*.npz"))
    npz.write_bytes(npz.read_bytes()[:30])
    with pytest.raises(ValueError, match=r"make it again with `python -m sim\.vectors`"):
        list(vectors.read(out, "rsqrt"))
