"""The commands on embeddings, with a tiny encoder: what they write, say and refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, store
from quant import calibrate, classify, embed, evaluate, quantized_model, report
from tests.ending import exit_code, figures, refusal
from tests.quant import tiny

TEXTS = ["a good film!", "the bad film", "good good good", "a bads film, the film", "the film"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_embedder(tmp_path_factory.mktemp("embedder") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels are words that no model knows: an encoder that makes embeddings looks at none."""
    file = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [f'"{text}",kind {i}' for i, text in enumerate(TEXTS)]
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    return file


@pytest.fixture(scope="module")
def quantized(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("quantized") / "out"
    arguments = ["--model", str(model), "--data", str(data), "--out", str(out)]
    assert calibrate.main(arguments) == 0
    return out


def expected(quantized: Path, model: Path) -> list[np.ndarray]:
    """Unit vectors [n, 12] of golden and of the float model, text by text."""
    both = np.array(tiny.one_by_one(model, quantized, TEXTS)[1:], np.float64)
    return list(both / np.linalg.norm(both, axis=2, keepdims=True))


def test_the_outputs_are_the_mean_of_the_tokens(model: Path, data: Path, tmp_path: Path) -> None:
    """127 times its code each, but for the correction of the mean error; no remedy scales them."""
    arguments = ["--model", str(model), "--data", str(data), "--out", str(tmp_path / "out")]
    assert calibrate.main([*arguments, "--remedies", "none"]) == 0
    integers, info = store.load(tmp_path / "out")
    trace: dict[str, np.ndarray] = {}
    outputs = encoder.run(integers, [2, 5, 7, 3], trace=trace)
    np.testing.assert_array_equal(
        outputs - integers.head[0].bias, 127 * trace["pooled"].astype(np.int64)
    )
    assert (info["spec"]["task"], info["spec"]["labels"]) == ("embedding", [])
    assert np.abs(np.array(info["logit_correction"])).max() < 127 * 8


@pytest.mark.parametrize("kind", embed.KINDS)
def test_vectors_and_figures_are_those_of_both_models(
    kind, model, quantized, tmp_path, monkeypatch, capsys
):
    """A row without a text keeps its place, more of them than a chunk holds."""
    monkeypatch.setattr(quantized_model, "CHUNK", 2)
    file, out = tmp_path / "a.csv", tmp_path / f"out{kind}"
    rows = ["", TEXTS[0], " ", "", "", *TEXTS[1:], ""]
    file.write_text("text,pair\n" + "".join(f'"{text}",\n' for text in rows))
    line = [file, "-o", out, "--model", model, "--quantized", quantized, "--compare", "3"]
    values = figures(embed.main, line, tmp_path / "figures.json")
    integers, floats = expected(quantized, model)
    if kind == ".npy":
        found = np.load(out, allow_pickle=False)
        assert (found.dtype, found.shape) == (np.float32, (10, 12))
    else:
        written = [json.loads(one) for one in out.read_text().splitlines()]
        assert [one["text"].strip() for one in written] == [text.strip() for text in rows]
        vectors = [one["embedding"] for one in written]
        found = np.array([[np.nan] * 12 if one is None else one for one in vectors])
    full = [i for i, text in enumerate(rows) if text.strip()]
    np.testing.assert_allclose(found[full], integers, atol=1e-7)
    assert np.isnan(np.delete(found, full, axis=0)).all()
    assert (values["texts"], values["compared_texts"], values["width"]) == (5, 3, 12)
    cosines = np.sum(integers * floats, axis=1)[:3]
    assert values["mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert values["worst_cosine"] == pytest.approx(cosines.min(), abs=1e-6)
    assert values["worst_text"] == full[int(cosines.argmin())] + 1
    assert 0.9 < values["worst_cosine"] < 1
    nearest = [(x[:3] @ x[:3].T - 2 * np.eye(3)).argmax(axis=1) for x in (integers, floats)]
    assert values["nearest_same"] == np.mean(nearest[0] == nearest[1])
    shown = capsys.readouterr().out
    assert f"mean cosine     {cosines.mean():.5g}" in shown
    assert f"wrote {out}" in shown


def test_without_the_checkpoint_there_is_nothing_to_compare_with(data, tmp_path, capsys):
    copy = tiny.write_embedder(tmp_path / "copy")
    out = tmp_path / "out"
    assert calibrate.main(["--model", str(copy), "--data", str(data), "--out", str(out)]) == 0
    copy.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert embed.main([str(data), "--quantized", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "cosine" not in printed
    assert "not there to compare with: give --model" in printed


EMBEDDING = "is a model of embedding, which does not serve here: use python -m quant.embed"
CLASSES = "is a model of classification, which does not serve here: use python -m quant.classify"


@pytest.mark.parametrize(
    ("main", "line", "words"),
    [
        (classify.main, "good --model M", EMBEDDING),
        (classify.main, "good --quantized Q", EMBEDDING),
        *((one.main, "--model M", EMBEDDING) for one in (evaluate, report)),
        (embed.main, "good.txt --model CLASSIFIER", CLASSES),
        (embed.main, "good.txt --quantized INTEGERS", CLASSES),
        (embed.main, "bad.txt --quantized Q -o a.npy", "text 2: "),
        (embed.main, "good.txt --quantized Q --tokens 2 -o a.npy", "text 1: the limit of 2 tokens"),
        (embed.main, "empty.txt --quantized Q -o a.npy", "holds no text"),
        (embed.main, "good.txt --quantized Q -o a.txt", "must end in .npy or .jsonl"),
        (embed.main, "good.jsonl --quantized Q -o good.jsonl", "is the file that is read"),
    ],
)
def test_refusals(
    main, line, words, model, quantized, quantized_directory, tmp_path, monkeypatch, capsys
):
    """Before anything is calibrated or written."""
    monkeypatch.chdir(tmp_path)
    texts = {"good.txt": "good\n", "bad.txt": "good\n\u200b\n", "empty.txt": "\n\n"}
    for name, text in (texts | {"good.jsonl": '{"text": "good"}\n'}).items():
        Path(name).write_text(text)
    places = {"M": model, "Q": quantized, "INTEGERS": quantized_directory}
    places["CLASSIFIER"] = tiny.write(tmp_path / "classifier")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert callable(main)
    assert exit_code(main, [str(places.get(word, word)) for word in line.split()]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_without_the_package_a_model_has_to_be_given(data, monkeypatch, capsys):
    monkeypatch.setattr(embed, "PACKAGE", "no-such-package")
    assert "give --model DIR" in refusal(embed.main, [str(data)], capsys)
