import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, store
from quant import evaluate, report
from quant.calibrate import golden_logits
from quant.calibrate import main as calibrate
from quant.classify import Classifier
from quant.classify import main as classify
from quant.foreign.tokenizer import TextTokenizer, Tokens
from quant.measure.evaluation import Evaluation
from tests.quant import tiny

FOUR = Evaluation(
    names=("no", "yes"),
    labels=np.array([0, 0, 1, 1]),
    float_logits=np.array([[2, 1], [2, 1], [1, 2], [2, 1.9]], np.float32),
    integer_logits=np.array([[200, 100], [100, 101], [100, 200], [200, 210]]),
    logit_scale=0.01,
    tokens=40,
    errors={},
    traced=0,
)


def test_figures_by_hand() -> None:
    values = FOUR.to_json()
    assert values["float"]["accuracy"] == values["golden"]["accuracy"] == 0.75
    assert values["float"]["confusion"] == [[2, 0], [1, 1]]
    assert values["golden"]["confusion"] == [[1, 1], [0, 2]]
    assert values["agreement"] == 0.5
    assert values["flips"] == {
        "changed": 2,
        "only_float_right": 1,
        "only_golden_right": 1,
        "mcnemar_p": 1.0,
    }
    difference = values["logit_difference"]
    assert difference["largest"] == pytest.approx(1.0)
    assert difference["largest_lsb"] == pytest.approx(100)
    assert difference["mean"] == pytest.approx((1.0 + 0.01 + 0.2) / 8)
    text = str(FOUR)
    assert "accuracy             75.00%    75.00%    +0.00" in text
    assert "recall yes           50.00%   100.00%   +50.00" in text
    assert FOUR.changed() == [(1, "no", "yes"), (3, "no", "yes")]
    assert "only float right 1, only golden right 1, McNemar p = 1.000" in text


def test_the_confusion_of_many_classes_in_percent_of_the_true_one() -> None:
    names = ("imdb negative", "imdb positive", "sentence negative", "never seen")
    labels = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])
    said = [0, 0, 0, 2, 1, 1, 2, 0, 3], [0, 0, 1, 1, 1, 2, 2, 2, 2]
    logits = [np.eye(4)[list(classes)] for classes in said]
    many = replace(
        FOUR,
        names=names,
        labels=labels,
        float_logits=logits[0].astype(np.float32),
        integer_logits=logits[1].astype(np.int64),
    )
    values = many.to_json()
    assert values["float"]["confusion"] == [[3, 0, 1, 0], [0, 2, 0, 0], [1, 0, 1, 1], [0] * 4]
    assert values["golden"]["confusion_shares"][2] == [0, 0, 1, 0]
    printed = str(many)
    lines = {line[:27].rstrip(): line[27:] for line in printed.splitlines()[1:15]}
    assert lines[""] == "    float    golden   points"
    assert lines["accuracy"].startswith("   66.67%    66.67%    +0.00   float 95 %")
    assert lines["recall sentence negative"] == "   33.33%   100.00%   +66.67"
    counts, shares = printed.split("confusion in percent of the true class\n")
    assert counts.splitlines()[-4:] == [
        "  imdb negative           3       0       1       0    |       2       2       0       0",
        "  imdb positive           0       2       0       0    |       0       1       1       0",
        "  sentence negative       1       0       1       1    |       0       0       3       0",
        "  never seen              0       0       0       0    |       0       0       0       0",
    ]
    assert shares.splitlines()[:4] == [
        "  imdb negative      75.00%   0.00%  25.00%   0.00%    |  50.00%  50.00%   0.00%   0.00%",
        "  imdb positive       0.00% 100.00%   0.00%   0.00%    |   0.00%  50.00%  50.00%   0.00%",
        "  sentence negative  33.33%   0.00%  33.33%  33.33%    |   0.00%   0.00% 100.00%   0.00%",
        "  never seen              -       -       -       -    |       -       -       -       -",
    ]


def test_the_fast_engine_is_golden(classifier: Classifier, texts: list[Tokens]) -> None:
    sample = texts[:35]  # more than one step of the progress bar
    plain = [encoder.run(classifier.model, t.ids, t.types).tolist() for t in sample[:10]]
    assert golden_logits(classifier.model, sample)[:10].tolist() == plain


@pytest.mark.slow
def test_the_command_on_real_reviews(
    quantized_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["--quantized", str(quantized_directory), "--samples", "80", "--json", str(file)]
    assert evaluate.main([*arguments, "--split", "validation"]) == 0
    values = json.loads(file.read_text())
    assert values["source"] == {"data": "imdb", "max_tokens": 512, "split": "validation"}
    assert values["texts"] == 80
    assert values["agreement"] >= 78 / 80
    assert abs(values["float"]["accuracy"] - values["golden"]["accuracy"]) <= 2 / 80
    assert values["float"]["accuracy"] > 0.75
    worst = [tensor["sqnr_db"] for tensor in values["tensors"].values()]
    assert worst == sorted(worst)
    assert "agreement" in capsys.readouterr().out


def test_files_with_and_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    data = tmp_path / "texts.jsonl"
    rows = [("good film", "good"), ("a bad film", "bad"), ("the film", "mixed")]
    data.write_text("\n".join(json.dumps({"text": t, "label": x}) for t, x in rows))
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--out", str(out)]) == 0
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == f"next: python -m quant.evaluate --quantized {out}"
    assert evaluate.main([*options, "--quantized", str(out)]) == 0
    printed, told = capsys.readouterr()
    assert printed.index("tensors over 3 texts") < printed.index("accuracy ")
    assert "recall mixed" in printed
    assert told.splitlines()[-1] == f"next: python -m sim.run --quantized {out}"
    data.write_text('{"text": "good film"}\n{"text": "bad"}\n')
    assert evaluate.main([*options, "--quantized", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "agreement" in printed
    assert "2 of 2 texts have no label: so there is no accuracy" in printed
    assert "recall" not in printed
    data.write_text('{"text": "good film", "label": 7}\n')
    assert evaluate.main([*options, "--quantized", str(out)]) == 2
    assert "error: " in capsys.readouterr().err


def test_the_texts_that_differ_are_listed_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    data = tmp_path / "texts.csv"
    data.write_text('text,label\ngood film,0\n"bad,\nbad film",1\nthe film,1\n')
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--out", str(out)]) == 0
    differ = [(0, "bad", "good"), (2, "good", "mixed")]
    monkeypatch.setattr(evaluate.Evaluation, "changed", lambda self: differ)
    for more, lines in (([], 2), (["--list-differences=1"], 1), (["--list-differences=0"], 0)):
        capsys.readouterr()
        assert evaluate.main([*options, "--quantized", str(out), *more]) == 0
        shown = [line for line in capsys.readouterr().out.splitlines() if str(data) in line]
        assert (
            shown
            == [
                f"  {data}, line 2 (good film): float bad, golden good",
                f"  {data}, line 5 (the film): float good, golden mixed",
            ][:lines]
        )


def test_a_quantized_model_knows_its_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One's own, elsewhere than the shipped one; --model is asked for where it is gone."""
    model, out, data = tiny.write(tmp_path / "mine"), tmp_path / "out", tmp_path / "texts.csv"
    data.write_text("text,label\ngood film,good\na bad film,bad\nthe film,mixed\n")
    assert calibrate(["--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    capsys.readouterr()
    assert evaluate.main(["--quantized", str(out), "--data", str(data), "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["model"] == str(model)
    assert "agreement" in printed.err
    page = tmp_path / "page.html"
    arguments = ["--quantized", str(out), "--data", str(data), "--out", str(page)]
    assert report.main(arguments) == 0
    assert "mine in integers" in page.read_text()
    model.rename(tmp_path / "moved")
    assert evaluate.main(arguments[:4]) == 2
    assert f"the float checkpoint {model}, which was calibrated, is gone or has changed: give" in (
        capsys.readouterr().err
    )
    assert evaluate.main([*arguments[:4], "--model", str(tmp_path / "moved")]) == 0


@pytest.mark.parametrize(
    ("model", "out"),
    [
        ("mine", "build/out"),
        ("models/mine", "out"),
        ("../tree/mine", "out"),
        ("mine", "../beside/out"),
        ("{tree}/models/mine", "{tree}/build/out"),
    ],
)
def test_a_checkpoint_is_found_from_elsewhere_and_where_both_moved(
    model: str, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, moved = tmp_path / "a" / "tree", tmp_path / "b"
    tree.mkdir(parents=True)
    monkeypatch.chdir(tree)
    model, out = model.format(tree=tree), out.format(tree=tree)
    tiny.write(Path(model))
    Path("texts.csv").write_text("text,label\ngood film,good\na bad film,bad\n")
    assert calibrate(["--model", model, "--data", "texts.csv", "--out", out]) == 0
    from_tree = Path(out)
    common = ["--data", str(tree / "texts.csv"), "--quantized"]
    (tmp_path / "elsewhere").mkdir()
    for folder in (tree, tmp_path / "elsewhere", Path("/")):
        monkeypatch.chdir(folder)
        assert evaluate.main([*common, str(tree / from_tree)]) == 0
    tiny.write(tmp_path / "elsewhere" / "mine", arrays=tiny.tensors(seed=2))  # another of its name
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert evaluate.main([*common, str(tree / from_tree)]) == 0
    (tmp_path / "a").rename(moved)
    there = moved / (tree / from_tree).resolve().relative_to(tmp_path / "a")
    assert (
        evaluate.main(["--data", str(moved / "tree" / "texts.csv"), *common[2:], str(there)]) == 0
    )


def test_a_text_without_a_label_is_said_and_left_out() -> None:
    some = replace(FOUR, labels=np.array([0, -1, 1, -1]))
    values = some.to_json()
    assert (values["texts"], values["labelled_texts"]) == (4, 2)
    assert values["float"]["confusion"] == values["golden"]["confusion"] == [[1, 0], [0, 1]]
    assert values["flips"] == {
        "changed": 2,
        "only_float_right": 0,
        "only_golden_right": 0,
        "mcnemar_p": 1.0,
    }
    assert "\n2 of 4 texts have no label: accuracy is over 2\n" in str(some)
    assert "no label" not in str(FOUR)


def test_pairs_reach_calibration_evaluation_and_classification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    pairs = [("good film", "a bad film"), ("the film", "good"), ("bad", "the good film")]
    data, figures = tmp_path / "pairs.tsv", tmp_path / "figures.json"
    rows = ["sentence1\tsentence2\tlabel", *(f"{a}\t{b}\tGOOD" for a, b in pairs)]
    data.write_text("\n".join(rows))
    options = ["--model", str(model), "--json", str(figures)]
    texts = [TextTokenizer(model).encode(a, b, limit=16) for a, b in pairs]
    assert [max(t.types) for t in texts] == [1] * 3
    tokens = sum(len(a.split()) + len(b.split()) + 3 for a, b in pairs)  # [CLS], [SEP], [SEP]
    assert calibrate([*options, "--data", str(data), "--out", str(out)]) == 0
    assert json.loads(figures.read_text())["calibration"]["tokens"] == tokens
    options += ["--quantized", str(out)]
    assert evaluate.main([*options, "--data", str(data)]) == 0
    assert json.loads(figures.read_text())["tokens"] == tokens
    integer, _ = store.load(out)
    for (a, b), text in zip(pairs, texts):
        assert classify([a, "--pair", b, *options]) == 0
        logits = json.loads(figures.read_text())["golden"]["integer_logits"]
        assert list(logits.values()) == encoder.run(integer, text.ids, text.types).tolist()
    capsys.readouterr()
