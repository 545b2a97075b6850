import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from quant import report
from quant.calibrate import main as calibrate
from quant.measure.compare import TensorError
from quant.measure.tasks import Evaluation
from quant.texts.data_file import Review
from tests.quant import tiny
from tests.quant.test_evaluation import SPEC

# The first text is right, the second changed, the third wrong in both models, the fourth right,
# the fifth changed and without a label.
RESULT = Evaluation(
    spec=replace(SPEC, labels=("no", "<yes>")),
    labels=np.array([0, 0, 1, 1, -1]),
    float_logits=np.array([[2, 1], [2, 1], [2, 1], [1, 2], [2, 1.9]], np.float32),
    integer_logits=np.array([[200, 100], [100, 130], [200, 190], [100, 200], [200, 210]]),
    logit_scale=0.01,
    errors={
        "fine": TensorError(1000, 0, 2e4, 1.0, 2.0, 0.5),
        "bad": TensorError(1000, 10, 10.0, 1.0, 2.0, 0.5, np.array([1, 1, 50.0])),
    },
    traced=5,
    texts=(),
)


def test_wrong_texts_begin_with_those_that_quantization_changed() -> None:
    reviews = [Review(f"text {i}", None, "x" * 500 if i == 2 else None) for i in range(5)]
    found = report.wrong_texts(RESULT, reviews)
    assert [(one["text"][:6], one["changed"], one["margin"]) for one in found] == [
        ("text 4", True, "0.100"),
        ("text 1", True, "0.300"),
        ("text 2", False, "0.100"),
    ]
    assert [one["label"] for one in found] == ["none", "no", "<yes>"]
    assert len(found[2]["text"]) == report.SHOWN_CHARACTERS + len(" ...")


@pytest.mark.parametrize("labelled", [True, False])
def test_the_page_shows_texts_as_they_were_written(labelled: bool, tmp_path: Path) -> None:
    """As text, not as tokens; well formed, with nothing from elsewhere."""
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    data, page = tmp_path / "texts.csv", tmp_path / "page.html"
    texts = ["Good <b>films</b>", "the bads film", "A film!", "bad"]
    rows = [f"{text},{('bad', 'good')[i % 2]}" for i, text in enumerate(texts * 3)]
    data.write_text("\n".join(["text,label" if labelled else "text,other", *rows]))
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--remedies", "none", "--out", str(out)]) == 0
    assert report.main([*options, "--quantized", str(out), "--out", str(page)]) == 0
    html = page.read_text()
    assert not re.search(r"<script|<link|<img|https?://|url\(|##", html)
    root = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", html))
    quotes = {quote.text for quote in root.iter("blockquote")}
    assert quotes or not labelled
    assert quotes <= set(texts)
    tables = root.iter("table")
    heads = [[cell.text for cell in next(iter(table))] for table in tables]
    assert ([None, "bad", "good", "mixed"] in heads) == labelled
    assert ("The texts have no labels" in html) != labelled
