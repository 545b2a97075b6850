"""The commands on embeddings, with a tiny encoder: what they write, say and refuse."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from golden import encoder, store
from quant import ablation, calibrate, classify, embed, embedder, evaluate, report
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import TextTokenizer
from quant.similarity import main as similarity
from tests.ending import exit_code, refusal
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


def golden_vectors(quantized: Path) -> np.ndarray:
    """Unit vectors [n, 12] by the specification itself, text by text."""
    integers, _ = store.load(quantized)
    tokenizer = TextTokenizer(quantized)
    found = []
    for text in TEXTS:
        tokens = tokenizer.encode(text, limit=16)
        outputs = encoder.run(integers, tokens.ids, tokens.types).astype(np.float64)
        found.append(outputs / np.linalg.norm(outputs))
    return np.array(found)


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


def test_both_kinds_of_file_hold_goldens_vectors(
    quantized: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = golden_vectors(quantized)
    rows, lines, figures = (tmp_path / name for name in ("a.npy", "a.jsonl", "figures.json"))
    line = [str(data), "--quantized", str(quantized)]
    assert embed.main([*line, "-o", str(rows), "--json", str(figures)]) == 0
    assert embed.main([*line, "-o", str(lines), "--compare", "0"]) == 0
    assert f"wrote {rows}" in capsys.readouterr().out
    found = np.load(rows, allow_pickle=False)
    assert (found.dtype, found.shape) == (np.float32, (5, 12))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [one["text"] for one in written] == TEXTS
    np.testing.assert_allclose([one["embedding"] for one in written], expected, atol=1e-7)
    values = json.loads(figures.read_text())
    assert (values["texts"], values["compared_texts"], values["width"]) == (5, 5, 12)
    assert values["tokens"] == sum(one["tokens"] for one in written)


def test_figures_are_those_of_the_two_models(
    model: Path,
    quantized: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(embed, "CHUNK", 2)  # texts compared in parts of chunks, too
    figures = tmp_path / "figures.json"
    line = [str(data), "--model", str(model), "--quantized", str(quantized), "--compare", "3"]
    assert embed.main([*line, "--json", str(figures)]) == 0
    values = json.loads(figures.read_text())
    checkpoint, tokenizer = load(model), TextTokenizer(model)
    integers = golden_vectors(quantized)[:3]
    floats = []
    for text in TEXTS[:3]:
        tokens = tokenizer.encode(text, limit=16)
        vector = embedder.embedding(checkpoint, tokens)
        floats.append(vector / np.linalg.norm(vector))
    found = np.sum(integers * np.array(floats), axis=1)
    assert values["compared_texts"] == 3
    assert values["texts"] == 5
    assert values["mean_cosine"] == pytest.approx(found.mean(), abs=1e-6)
    assert values["worst_cosine"] == pytest.approx(found.min(), abs=1e-6)
    assert values["worst_text"] == int(found.argmin()) + 1
    assert 0.9 < values["worst_cosine"] < 1
    pairs = [(0, 1), (0, 2), (1, 2)]
    orders = [np.argsort([v[i] @ v[j] for i, j in pairs]) for v in (integers, np.array(floats))]
    ranks = [np.argsort(order) for order in orders]
    apart = np.square(ranks[0] - ranks[1]).sum()
    assert values["pair_spearman"] == pytest.approx(1 - 6 * apart / (3 * 8))
    assert (values["queries"], values["ndcg_10"]) == (0, {})
    assert f"mean {found.mean():.5f}, worst {found.min():.5f}" in capsys.readouterr().out


LONG = ["good good film the a !", "bad", "the bad a film a good a", "\u200b \u200b a b c good film"]


@pytest.mark.parametrize("kind", embed.KINDS)
def test_a_row_without_a_text_keeps_its_place(
    kind: str, model: Path, quantized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than a chunk holds. An empty second text does not matter."""
    monkeypatch.setattr(embed, "CHUNK", 2)
    file, out, figures = (tmp_path / name for name in ("a.csv", f"out{kind}", "figures.json"))
    texts = ["", "good film", " ", "", "", "bad film", ""]
    file.write_text("text,pair\n" + "".join(f"{text},\n" for text in texts))
    line = [str(file), "-o", str(out), "--model", str(model), "--quantized", str(quantized)]
    assert embed.main([*line, "--json", str(figures)]) == 0
    if kind == ".npy":
        found = list(np.load(out))
    else:
        found = [json.loads(one)["embedding"] for one in out.read_text().splitlines()]
        found = [np.full(12, np.nan) if one is None else np.array(one) for one in found]
    its = embedder.Embedder.load(quantized, model)
    wanted = iter(its.integers([its.tokens(text) for text in texts if text.strip()]))
    for text, vector in zip(texts, found, strict=True):
        right = next(wanted) if text.strip() else np.full(12, np.nan)
        np.testing.assert_allclose(vector, right, atol=1e-6)
    values = json.loads(figures.read_text())
    assert (values["texts"], values["compared_texts"]) == (2, 2)
    assert values["worst_text"] in (2, 6)


def test_texts_are_found_by_the_first_third_of_their_words(
    model: Path, quantized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one of too few words, and not one of whose third nothing is left."""
    file, figures = tmp_path / "texts.txt", tmp_path / "figures.json"
    file.write_text("\n".join(LONG) + "\n")
    line = [str(file), "--model", str(model), "--quantized", str(quantized)]
    assert embed.main([*line, "--json", str(figures)]) == 0
    values = json.loads(figures.read_text())
    its = embedder.Embedder.load(quantized, model)
    assert values["queries"] == 2
    for name, run in (("float", its.floats), ("golden", its.integers)):
        documents = run([its.tokens(text) for text in LONG])
        gains = []
        for place, query in ((0, "good good"), (2, "the bad")):
            similar = documents @ run([its.tokens(query)])[0]
            gains.append(1 / np.log2(2 + np.sum(similar > similar[place])))
        assert values["ndcg_10"][name] == pytest.approx(np.mean(gains))
    assert f"nDCG@10 float {values['ndcg_10']['float']:.4f}, golden" in capsys.readouterr().out


def test_similarity_of_two_texts(
    model: Path, quantized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    line = [*TEXTS[:2], "--model", str(model), "--quantized", str(quantized)]
    assert similarity([*line, "--json", str(figures)]) == 0
    vectors = golden_vectors(quantized)
    values = json.loads(figures.read_text())
    assert values["cosine"]["golden"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-9)
    assert abs(values["cosine"]["float"] - values["cosine"]["golden"]) < 0.1
    assert f"golden  {vectors[0] @ vectors[1]:8.4f}" in capsys.readouterr().out


def test_without_the_checkpoint_there_is_nothing_to_compare_with(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tiny.write_embedder(tmp_path / "copy")
    out = tmp_path / "out"
    assert calibrate.main(["--model", str(copy), "--data", str(data), "--out", str(out)]) == 0
    copy.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert embed.main([str(data), "--quantized", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "cosine" not in printed
    assert "not there to compare with: give --model" in printed
    assert similarity([*TEXTS[:2], "--quantized", str(out)]) == 0
    assert "float" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (classify.main, ["good", "--model"]),
        (classify.main, ["good", "--quantized"]),
        (evaluate.main, ["--model"]),
        (report.main, ["--model"]),
        (ablation.main, ["--model"]),
    ],
)
def test_commands_on_classes_say_what_to_use(
    main: Callable[..., int],
    line: list[str],
    model: Path,
    quantized: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is calibrated."""
    place = quantized if line[-1] == "--quantized" else model
    monkeypatch.chdir(tmp_path)
    said = refusal(main, [*line, str(place)], capsys)
    assert f"{place} makes embeddings and has no classes: use python -m quant.embed" in said
    assert not list(tmp_path.rglob("*"))


def test_a_classifier_makes_no_embeddings(
    data: Path,
    quantized_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    classifier = tiny.write(tmp_path / "classifier")
    monkeypatch.chdir(tmp_path)
    for option, place in (("--model", classifier), ("--quantized", quantized_directory)):
        for main, texts in ((embed.main, [str(data)]), (similarity, TEXTS[:2])):
            said = refusal(main, [*texts, option, str(place)], capsys)
            assert f"{place} is a classifier and makes no embeddings: use python -m quant.c" in said


def test_without_the_package_a_model_has_to_be_given(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embedder, "PACKAGE", "no-such-package")
    assert "give --model DIR" in refusal(embed.main, [str(data)], capsys)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("good film\n\u200b\n", [], "text 2: "),
        ("good film\n", ["--tokens", "2"], "text 1: the limit of 2 tokens leaves no room"),
        ("\n\n", [], "holds no text"),
        ("good film\n", ["-o", "vectors.txt"], "its name must end in .npy or .jsonl"),
    ],
)
def test_what_cannot_be_embedded_writes_nothing(
    content: str,
    line: list[str],
    message: str,
    quantized: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text(content)
    given = ["texts.txt", "--quantized", str(quantized), "-o", "vectors.npy", *line]
    assert exit_code(embed.main, given) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith("error: ") for line in told] == [*[False] * (len(told) - 1), True]
    assert message in told[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_the_file_that_is_read_is_not_written(
    quantized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "good"}\n')
    line = [str(texts), "--quantized", str(quantized), "-o", str(texts)]
    assert "is the file that is read" in refusal(embed.main, line, capsys)
    assert texts.read_text() == '{"text": "good"}\n'
