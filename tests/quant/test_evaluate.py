"""quant.evaluate on real reviews and on files: figures, labels, refusals."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from golden import encoder, store
from quant import calibrate as calibration
from quant import evaluate, report
from quant.calibrate import main as calibrate
from quant.classify import main as classify
from sim.regress import main as regress
from tests.ending import figures, refusal
from tests.quant import tiny

ROWS = [("good film", "good"), ("a bad film", "bad"), ("the film", "mixed")]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A checkpoint, its integer model, and a file of texts with labels."""
    model, out, data = tiny.write(tmp_path / "mine"), tmp_path / "out", tmp_path / "texts.jsonl"
    data.write_text("\n".join(json.dumps({"text": t, "label": x}) for t, x in ROWS))
    assert calibrate(["--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    return model, out, data


@pytest.mark.slow
def test_the_command_on_real_reviews(quantized_directory, tmp_path, capsys):
    """By one process and by two: the same figures."""
    found: list[dict[str, Any]] = []
    for jobs in ("1", "2"):
        line = ["--quantized", quantized_directory, "--samples", "80", "--split", "validation"]
        found.append(figures(evaluate.main, [*line, "--jobs", jobs], tmp_path / "figures.json"))
    values = found[0]
    assert values == found[1]
    assert values["source"] == {"data": "imdb", "max_tokens": 512, "split": "validation"}
    assert (values["texts"], values["traced_texts"]) == (80, 32)
    assert values["agreement"] >= 78 / 80
    assert abs(values["float"]["accuracy"] - values["golden"]["accuracy"]) <= 2 / 80
    assert values["float"]["accuracy"] > 0.75
    worst = [tensor["sqnr_db"] for tensor in values["tensors"].values()]
    assert worst == sorted(worst)
    assert "agreement" in capsys.readouterr().out


def test_a_quantized_model_knows_its_checkpoint(made, tmp_path, capsys, monkeypatch):
    """One's own, elsewhere than the shipped one; --model is asked for where it is gone."""
    model, out, data = made
    capsys.readouterr()
    line = ["--quantized", str(out), "--data", str(data)]
    monkeypatch.setattr("sys.argv", ["quant.evaluate", *line, "--json", "-"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(evaluate.__file__), run_name="__main__")
    printed = capsys.readouterr()
    assert json.loads(printed.out)["model"] == str(model)
    assert printed.err.index("tensors over 3 texts") < printed.err.index("accuracy ")
    assert "\nequal to transformers' own model: " in printed.err
    page = tmp_path / "page.html"
    assert report.main([*line, "--out", str(page)]) == 0
    assert "mine in integers" in page.read_text()
    model.rename(tmp_path / "moved")
    assert evaluate.main(line) == 2
    assert f"the float checkpoint {model}, which was calibrated, is gone or has changed: give" in (
        capsys.readouterr().err
    )
    assert evaluate.main([*line, "--model", str(tmp_path / "moved")]) == 0


def test_pairs_reach_calibration_evaluation_and_classification(tmp_path: Path) -> None:
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    pairs = [("good film", "a bad film"), ("the film", "good"), ("bad", "the good film")]
    data, file = tmp_path / "pairs.tsv", tmp_path / "figures.json"
    rows = ["sentence1\tsentence2\tlabel", *(f"{a}\t{b}\tgood" for a, b in pairs)]
    data.write_text("\n".join(rows))
    options = ["--model", model]
    texts = [tiny.tokenizer(model).encode(a, b, limit=16) for a, b in pairs]
    assert [max(t.types) for t in texts] == [1] * 3
    tokens = sum(len(a.split()) + len(b.split()) + 3 for a, b in pairs)  # [CLS], [SEP], [SEP]
    made = figures(calibrate, [*options, "--data", data, "--out", out], file)
    assert made["calibration"]["tokens"] == tokens
    options += ["--quantized", out]
    assert figures(evaluate.main, [*options, "--data", data], file)["tokens"] == tokens
    integer, _ = store.load(out)
    for (a, b), text in zip(pairs, texts):
        found = figures(classify, [a, "--pair", b, *options], file)
        logits = found["golden"]["integer_logits"]
        assert list(logits.values()) == encoder.run(integer, text.ids, text.types).tolist()


@pytest.mark.parametrize(
    ("option", "data", "words"),
    [
        ("--model", "gone.csv", "gone.csv"),
        ("--model", "label.csv", "'7' is not one of"),
        ("--quantized", "label.csv", "'7' is not one of"),
    ],
)
@pytest.mark.parametrize(
    ("main", "name"),
    [*((one, "--data") for one in (evaluate.main, report.main, regress)), (classify, "--batch")],
)
def test_texts_that_cannot_be_read_are_refused_before_a_calibration(
    main, name, option, data, words, quantized_directory, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration, "ensure", lambda *_: pytest.fail("calibrated"))
    Path("label.csv").write_text("text,label\ngood,7\n")
    model = tiny.write(Path("model")) if option == "--model" else quantized_directory
    assert words in refusal(main, [name, data, option, str(model)], capsys)
