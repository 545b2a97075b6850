import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from golden import store
from quant.classify import Classifier, main
from quant.foreign.checkpoint import DEFAULT_MODEL


def quantized_option(directory: Path) -> list[str]:
    return ["--quantized", str(directory), "--model", str(DEFAULT_MODEL)]


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("That movie was terrible!", 0),
        ("A wonderful film, moving and beautifully acted. I loved it.", 1),
    ],
)
def test_the_command_prints_both_models(
    text: str,
    index: int,
    quantized_directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "figures.json"
    assert main([text, "--json", str(file), *quantized_option(quantized_directory)]) == 0
    values = json.loads(file.read_text())
    names = list(values["golden"]["integer_logits"])
    assert values["golden"]["class"] == values["float"]["class"] == names[index]
    assert sum(values["golden"]["probabilities"].values()) == pytest.approx(1)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{names[index]}   from {values['tokens']} tokens\n")
    for logit in values["golden"]["integer_logits"].values():
        assert str(logit) in printed
    for name in names:
        floats, integers = values["float"]["logits"][name], values["golden"]["logits"][name]
        assert abs(floats - integers) < 0.1


@pytest.mark.slow
def test_golden_agrees_with_float_and_the_labels(classifier: Classifier, reviews: list) -> None:
    sample = reviews[:40]
    results = [
        classifier.classify(classifier.tokens(review.text, max_tokens=128)) for review in sample
    ]
    same = [int(r.integer_logits.argmax()) == int(r.float_logits.argmax()) for r in results]
    right = [int(r.integer_logits.argmax()) == review.label for r, review in zip(results, sample)]
    assert sum(same) >= 39
    assert sum(right) >= 30  # 75 %; a coin reaches that once in a thousand trials


def test_a_very_long_text_is_cut_and_said(
    quantized_directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("an awful waste of time. " * 20_000))
    assert main(["-", *quantized_option(quantized_directory)]) == 0
    assert "from 512 tokens (119490 more cut)" in capsys.readouterr().out


def test_refusals(
    quantized_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    good = quantized_option(quantized_directory)
    assert refused("  ", *good) == "error: the text is empty: give at least one word\n"
    assert "leaves no room for the text" in refused("good", "--tokens", "2", *good)
    assert "no checkpoint directory nowhere" in refused("good", "--model", "nowhere")
    damaged = tmp_path / "damaged"
    shutil.copytree(quantized_directory, damaged)
    data = bytearray((damaged / store.ARRAYS).read_bytes())
    data[1000] ^= 1
    (damaged / store.ARRAYS).write_bytes(data)
    assert "quantized.npz: its SHA-256 is not the one in" in refused(
        "x", "--quantized", str(damaged)
    )


def test_the_quantized_model_classifies_without_its_checkpoint(
    quantized_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(quantized_directory, alone)
    description = json.loads((alone / store.DESCRIPTION).read_text())
    description["info"]["checkpoint"]["directory"] = str(tmp_path / "gone")
    description["description_sha256"] = store.hash_of(description)
    (alone / store.DESCRIPTION).write_text(json.dumps(description))
    assert main(["That movie was terrible!", "--quantized", str(alone)]) == 0
    assert "float" not in capsys.readouterr().out
    with pytest.raises(
        ValueError, match=r"the float checkpoint .*gone, which was calibrated, is gone or"
    ):
        Classifier.load(alone, None).require_checkpoint()
    description["info"]["spec"]["labels"] = ["positive", "positive "]
    description["description_sha256"] = store.hash_of(description)
    (alone / store.DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"quantized.json: the labels 'positive' and 'positive '"):
        Classifier.load(alone, None)
    description["info"]["spec"]["labels"] = ["negative", "positive"]
    del description["info"]["tensors"]
    description["description_sha256"] = store.hash_of(description)
    (alone / store.DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"its info has no usable 'tensors'; calibrate again"):
        Classifier.load(alone, None)


def test_a_disagreement_is_said(classifier: Classifier) -> None:
    result = classifier.classify(classifier.tokens("That movie was terrible!"))
    assert "the float model says" not in str(result)
    turned = type(result)(
        result.spec,
        result.tokens,
        result.integer_logits[::-1],
        result.logits[::-1],
        np.asarray(result.float_logits),
    )
    assert str(turned).endswith(f"the float model says {result.to_json()['golden']['class']}")
