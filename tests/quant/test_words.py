"""A class for every token, from the checkpoint to what every command says of the words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import encoder, store
from quant import calibrate, classify, evaluate, report
from quant.calibrate import observe, quantize
from quant.foreign.checkpoint import DEFAULT_MODEL, load
from quant.measure.tasks import likeness
from quant.model import float_model
from quant.quantize.options import Options
from quant.quantized_model import QuantizedModel
from tests.ending import figures, refusal
from tests.quant import tiny, zoo

LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
ROWS = [
    (["good", "films", "a", "bad"], [1, 2, 0, 3]),
    (["the", "film"], [0, None]),
    (["a"], [0]),
    (["bads", "goods", "!", *["films"] * 6], [1, 2, 0, 3, 4, 3, 3, 0, 1]),
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = {
        "architectures": ["BertForTokenClassification"],
        "id2label": {str(i): name for i, name in enumerate(LABELS)},
    }
    arrays = tiny.tensors(3, len(LABELS))
    for part in ("weight", "bias"):  # as the class of transformers saves it
        del arrays[f"bert.pooler.dense.{part}"]
    arrays["classifier.bias"][3] -= 2  # which is the class of all words otherwise
    return tiny.write(tmp_path / "model", config, arrays)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [json.dumps({"tokens": words, "ner_tags": tags}) for words, tags in ROWS]
    (tmp_path / "words.jsonl").write_text("\n".join(lines))
    return tmp_path / "words.jsonl"


@pytest.fixture
def quantized(model: Path, data: Path, tmp_path: Path) -> Path:
    out = tmp_path / "quantized"
    assert calibrate.main(["--model", str(model), "--data", str(data), "--out", str(out)]) == 0
    return out


def test_words_begin_where_transformers_says(texts: list) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(DEFAULT_MODEL)
    ours = tiny.tokenizer(DEFAULT_MODEL)
    words = ["Unbelievably", ",", "Ms.", "Streep-Smith's", "\u200b", "performance", "(", "2013"]
    words += [")", "is", "naïve", ":", "中文", "!"]
    for limit in (512, 12, 5):
        found = ours.encode(words, limit=limit, words=True)
        right = theirs(words, is_split_into_words=True, truncation=True, max_length=limit)
        assert found.ids.tolist() == right["input_ids"]
        of_tokens = right.word_ids()
        begins = [of_tokens.index(i) if i in of_tokens else -1 for i in range(len(words))]
        assert (list(found.begins), list(found.spelling)) == (begins, words)
        assert -1 in begins  # a zero width space has no token; later ones are cut
        assert found.first.tolist() == [place for place in begins if place >= 0]
    found = ours.encode("It's naïvely  good.", limit=512, words=True)
    assert found.spelling == ("It", "'", "s", "naïvely", "good", ".")
    assert found.first.tolist() == [1, 2, 3, 4, len(found.ids) - 3, len(found.ids) - 2]


def test_calibration_and_evaluation_agree_with_both_models_one_by_one(
    model: Path, quantized: Path, data: Path, tmp_path: Path
) -> None:
    line = ["--model", model, "--quantized", quantized, "--data", data]
    found = figures(evaluate.main, line, tmp_path / "evaluation.json")
    # Classes are compared with each other.
    assert "factors" not in store.load(quantized)[1]["tensors"]["logits"]
    texts, *both = tiny.one_by_one(model, quantized, [words for words, _ in ROWS], words=True)
    right = [tags[word] for text, (_, tags) in zip(texts, ROWS) for word in text.kept]
    said = {
        name: [LABELS[row.argmax()] for text, rows in zip(texts, all) for row in rows[text.first]]
        for name, all in zip(("golden", "float"), both, strict=True)
    }
    assert [len(text.kept) for text in texts] == [4, 2, 1, 8]  # 16 tokens: one word is cut
    assert (found["texts"], found["words"], found["labelled_words"]) == (4, 15, 14)
    assert found["cut_words"] == 1
    for name, words in said.items():
        pairs = [(LABELS[tag], word) for tag, word in zip(right, words) if tag is not None]
        assert found[name]["accuracy"] == np.mean([a == b for a, b in pairs])
        assert len({*words}) > 1
    assert found["agreement"] == np.mean([a == b for a, b in zip(*said.values())])
    assert found["entities"]["float"]["entities"] == 6


def test_names_that_are_no_tags_have_no_entities(model: Path, data: Path, tmp_path: Path) -> None:
    zoo.change(model, id2label=dict(zip("01234", ("noun", "verb", "other", "mark", "x"))))
    line = ["--model", str(model), "--data", str(data)]
    quantized = str(tmp_path / "quantized")
    assert calibrate.main([*line, "--remedies", "none", "--out", quantized]) == 0
    line += ["--quantized", quantized]
    assert figures(evaluate.main, line, tmp_path / "evaluation.json")["entities"] is None


def test_a_file(quantized: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "lines.jsonl"
    batch = ["--batch", data, "--quantized", quantized, "-o", out]
    counts = figures(classify.main, batch, tmp_path / "figures.json")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    classifier = QuantizedModel.load(quantized, None)
    right = said = 0
    for line, (words, tags) in zip(lines, ROWS, strict=True):
        one = classify.classify(classifier, classifier.tokens(words))["golden"]
        assert (line["words"], line["labels"]) == (one["words"], one["labels"])
        assert line["integer_logits"] == one["integer_logits"]
        named = [None if tag is None else LABELS[tag] for tag in tags[: len(line["words"])]]
        assert line["label"] == named
        right += sum(a == b for a, b in zip(named, line["labels"]))
        said += sum(tag is not None for tag in named)
    assert (counts["accuracy"], counts["labelled_words"]) == (right / said, said)


def test_what_other_commands_refuse(model: Path, quantized: Path, data: Path, capsys: Any) -> None:
    line = ["--model", str(model), "--data", str(data), "--quantized", str(quantized)]
    assert "is a model of token-classification" in refusal(report.main, line, capsys)
    said = refusal(classify.main, ["a", "--pair", "b", "--quantized", str(quantized)], capsys)
    assert "a model with a class for every token reads one text: give no pair" in said


def test_the_verdict_counts_tokens(model: Path) -> None:
    source, tokenizer = load(model), tiny.tokenizer(model)
    texts = [tokenizer.encode(words, limit=16, words=True) for words, _ in ROWS]
    found, _ = observe(source, texts)
    quantized, logits = quantize(found, Options(remedies=()))
    integers = [encoder.run(quantized.model, t.ids, t.types).argmax(1) for t in found.texts]
    floats = [float_model.run(source.spec, source.arrays, t.ids, t.types).argmax(1) for t in texts]
    agree = np.concatenate(integers) == np.concatenate(floats)
    assert likeness(source.spec, found.texts, logits, 1.0, found.exact) == agree.mean()
