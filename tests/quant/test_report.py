import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from quant import report
from quant.calibrate import main as calibrate
from quant.foreign.checkpoint import DEFAULT_MODEL
from tests.quant import tiny, zoo

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_the_page_shows_the_shipped_model(
    quantized_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    arguments = ["--quantized", str(quantized_directory), "--model", str(DEFAULT_MODEL)]
    options = ["--samples", "6", "--tokens", "96", "--out", str(out)]
    assert report.main([*arguments, *options]) == 0
    assert capsys.readouterr().out == f"wrote {out}\n"
    html = out.read_text()
    for section in (
        "Confusion matrices",
        "Tensors, worst first",
        "Texts that are classified wrongly",
        "Attention of a sentence",
        "Softmax: ",
        "Activation of layer 0: gelu",
        "Head layer 0: tanh",
        "LayerNorm on the rows",
        "Values of the worst tensors",
        "Memory",
    ):
        assert section in html
    # Nothing from elsewhere, and no script.
    assert not re.search(r"<script|<link|<img|https?://|url\(", html)
    charts = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(charts) > 25
    for chart in charts:
        ElementTree.fromstring(chart)
    assert html.count("<h3>Layer 1, head 1: weights differ by ") == 1
    assert '<div class="verdict good"><b>Good quantization.</b>' in html
    assert len(html) < 600_000
    total = int(re.search(r"([\d,]+) bytes in all", html)[1].replace(",", ""))
    # 4,386,178 parameters; biases and multipliers take 4 bytes each, a segment table is folded in.
    assert 4_386_178 < total < 4_550_000


def test_other_encoders_and_texts_without_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tiny.write(tmp_path / "tiny"), tmp_path / "out"
    data, page = tmp_path / "texts.txt", tmp_path / "page.html"
    data.write_text("good film\nthe bad film\n")
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--out", str(out)]) == 0
    options += ["--quantized", str(out), "--sentence", "good film", "--out", str(page)]
    assert report.main(options) == 0
    html = page.read_text()
    assert "The texts have no labels." in html
    figures = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)
    assert len(figures) > 15
    assert all(figure.startswith("<figcaption>") for figure in figures)
    assert html.index("Memory</h2>") < html.index("Texts that are classified wrongly</h2>")
    # The page's style sets the fill of text, so an attribute of an element has no say.
    assert not re.search(r'<text[^>]* fill="(?!currentColor)', html)
    assert "The 4 of 6 heads that differ most." in html
    assert len(re.findall(r"<h3>Layer \d, head \d: ", html)) == 4
    assert report.main([*options, "--sentence", ""]) == 2
    assert "the text is empty" in capsys.readouterr().err


def test_the_page_of_72_heads_stays_small(tmp_path: Path) -> None:
    """Six layers of twelve heads: a few are drawn, and what is wide scrolls by itself."""
    found = tiny.tensors()
    for name in [name for name in found if ".layer." in name]:
        for layer in range(2, 6):
            found[name.replace(f".layer.{layer % 2}.", f".layer.{layer}.")] = found[name]
    config = {"num_hidden_layers": 6, "num_attention_heads": 12}
    model, out = tiny.write(tmp_path / "tiny", config, found), tmp_path / "out"
    data, page = tmp_path / "texts.txt", tmp_path / "page.html"
    data.write_text("good film\nthe bad film\n")
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--out", str(out)]) == 0
    assert report.main([*options, "--quantized", str(out), "--out", str(page)]) == 0
    html = page.read_text()
    assert "The 4 of 72 heads that differ most." in html
    assert len(re.findall(r"<h3>Layer \d, head \d+: ", html)) == 4
    assert len(html) < 500_000
    for table in re.finditer(r"<table", html):
        assert '<div class="wide">' in html[max(0, table.start() - 200) : table.start()]


def test_the_page_of_an_encoder_with_every_mechanism(tmp_path: Path) -> None:
    """Post-norm RMSNorms, each of which is drawn, a gate's table, and every array counted."""
    config = tiny.TRANSFORMER | zoo.OWN["all"]
    tensors = zoo.own_tensors(config)
    tensors["embedding_norm.weight"] = tensors.pop("encoder.norm.weight")
    config |= {"norm_first": False, "final_norm": False, "embedding_norm": True}
    model, out = tiny.write(tmp_path / "tiny", config, tensors), tmp_path / "out"
    data, page = tmp_path / "texts.txt", tmp_path / "page.html"
    data.write_text("good film\nthe bad film\na film ! the good\n" * 20)
    options = ["--model", str(model), "--data", str(data)]
    assert calibrate([*options, "--out", str(out)]) == 0
    options += ["--quantized", str(out), "--sentence", "good film", "--out", str(page)]
    assert report.main(options) == 0
    html = page.read_text()
    largest = [float(found) for found in re.findall(r"error in LSB, largest ([\d.]+)", html)]
    assert len(largest) == 5
    assert max(largest) < 10  # of 32,767; a LayerNorm in its place is off by thousands
    assert "Activation of layer 0: gelu</h3><div" in html
    total = int(re.search(r"([\d,]+) bytes in all", html)[1].replace(",", ""))
    with np.load(out / "quantized.npz") as arrays:
        assert total == sum(arrays[name].nbytes for name in arrays)
