"""From someone's checkpoint and texts to "every bit equal", in the three commands of the README."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.command import Exit

import numpy as np
import pytest

from quant import calibrate
from quant.model.spec import TEXT_SIDE
from sim import regress, run
from tests.quant import tiny, zoo

Told = tuple[dict[str, Any], dict[str, Any], str]
Story = Callable[..., Told]
WORDS = ("a good film !", "the bad films", "a bad film , the films good !")


@pytest.fixture
def story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Story:
    """Calibrate, all texts, and one of them in every detail."""

    def commands(
        model: Path,
        data: str,
        *review: str,
        file: str = "texts.jsonl",
        calibration: tuple[str, ...] = (),
        more: tuple[str, ...] = ("--trace-sample", "3"),
    ) -> Told:
        """What `sim.regress` and, of a review, `sim.run` write as JSON, and what both print."""
        texts, mine, figures = (tmp_path / name for name in (file, "mine", "figures.json"))
        texts.write_text(data)
        given = ["--data", str(texts)]
        made = ["--model", str(model), *given, *calibration, "--out", str(mine)]
        assert calibrate.main(made) == Exit.OK
        options = ["--quantized", str(mine), "--lanes", "4", "--json", str(figures)]
        assert regress.main([*options, *given, *more, "--jobs", "1"]) == Exit.OK
        printed = capsys.readouterr().out
        assert "passed: equal bit for bit" in printed
        all_texts, one = json.loads(figures.read_text()), {}
        if review:
            assert run.main([*options, "--review", *review, "--tokens", "16"]) == Exit.OK
            printed += capsys.readouterr().out
            assert "Every bit equal to the golden model." in printed
            one = json.loads(figures.read_text())
        return all_texts, one, printed

    return commands


def close(found: dict[str, Any]) -> None:
    """The embeddings of float, golden and Verilog are alike, the latter two the same."""
    floats, golden, rtl = (verdict["cosine"] for verdict in found["verdicts"])
    assert golden == rtl == pytest.approx(1)
    assert 0.99 < floats < 1


def test_a_plain_transformer(tmp_path: Path, story: Story) -> None:
    """Pre-norm and the mean of the tokens, from the checkpoint to the Verilog."""
    arrays = tiny.transformer_tensors(tiny.tensors())
    model = tiny.write(tmp_path / "checkpoint", tiny.TRANSFORMER, arrays)
    texts = "a good film !\nthe bad films\na bad film , the films good ! ! ! a a a\n"
    assert story(model, texts, file="texts.txt")[0]["traced"] == 3


@pytest.mark.slow
def test_an_embedding(tmp_path: Path, story: Story) -> None:
    """The identity as head: as many numbers as the encoder is wide, no classes, mean pooling."""
    arrays = {name: of for name, of in tiny.tensors().items() if "classifier" not in name}
    model = tiny.write(tmp_path / "checkpoint", {"architectures": ["BertModel"]}, arrays)
    plain = ("--remedies", "none")
    texts = "\n".join(WORDS)
    _, one, _ = story(model, texts, WORDS[0], file="texts.txt", calibration=plain)
    assert one["compared"]["pooled"] == 12
    close(one)


@pytest.mark.slow
def test_texts_of_clip(tmp_path: Path, story: Story) -> None:
    """Causal layers, and of every token's numbers those of the last; several texts an inference."""
    folder = tmp_path / "clip"
    zoo.saved(folder, "CLIP whole", num_attention_heads=3)
    texts = "a good film\nfilm\na man, a plan, a canal\nno\n"
    calibration = ("--task", TEXT_SIDE, "--remedies", "none")
    more = ("--batch", "40", "--stalls", "5", "--trace-sample", "4")
    all_texts, one, _ = story(
        folder, texts, "a good film", file="texts.txt", calibration=calibration, more=more
    )
    assert all_texts["inferences"] < all_texts["texts"] == 4
    assert one["compared"]["logits"] >= one["tokens"] * 10
    close(one)


@pytest.mark.slow
def test_classes_of_a_csv(tmp_path: Path, story: Story) -> None:
    model = tiny.write(tmp_path / "checkpoint")
    texts = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in zip(
        WORDS, ("good", "bad", "mixed")))  # fmt: skip
    all_texts, one, _ = story(model, texts, WORDS[0], file="texts.csv")
    assert set(one["verdicts"][2]["logits"]) == {"bad", "good", "mixed"}
    assert "layer.1.ffn.sum" in one["compared"]
    assert all_texts["texts"] == len(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "labels"),
    [
        pytest.param({"id2label": {"0": "stars"}}, 1, id="one number"),
        pytest.param({"problem_type": "regression"}, 3, id="several numbers"),
        pytest.param({"problem_type": "multi_label_classification"}, 3, id="several labels"),
    ],
)
def test_other_heads(config: dict[str, Any], labels: int, tmp_path: Path, story: Story) -> None:
    """Numbers and several labels at once, a single output among them, from file to Verilog."""
    arrays = tiny.tensors(labels=labels)
    arrays["classifier.weight"] *= np.linspace(1, 0.01, labels, dtype=np.float32)[:, None]
    model = tiny.write(tmp_path / "checkpoint", config, arrays)
    several = config.get("problem_type", "").startswith("multi")
    targets: list[Any] = [["good"], [], ["bad", "mixed"]] if several else [[1.5] * labels] * 3
    rows = [{"text": t, "pair": "the film", "label": x} for t, x in zip(WORDS, targets)]
    texts = "\n".join(map(json.dumps, rows))
    all_texts, one, _ = story(model, texts, WORDS[2], "--pair", "the film")
    assert all_texts["traced"] == 3
    assert one["tokens"] == 9 + 2 + 3  # [CLS] and two [SEP]
    golden, rtl = one["verdicts"][1:]
    assert len(rtl["logits"]) == labels
    assert golden["logits"] == rtl["logits"]
    assert golden["labels" if several else "values"] == rtl["labels" if several else "values"]


@pytest.mark.slow
def test_a_class_for_every_token(tmp_path: Path, story: Story) -> None:
    """From words with tags to Verilog, several texts an inference, every stream resting at will."""
    labels = ("O", "B-X", "I-X", "B-Y", "I-Y")
    config = {
        "architectures": ["BertForTokenClassification"],
        "id2label": {str(i): name for i, name in enumerate(labels)},
    }
    arrays = tiny.tensors(3, len(labels))
    arrays["classifier.bias"][3] -= 2
    model = tiny.write(tmp_path / "checkpoint", config, arrays)
    rows = [
        ("a good film !", [0, 1, 2, 0]),
        ("the bad films", [0, 3, 4]),
        ("films", [3]),
        ("a bad film , the films good !", [0, 1, 2, 0, None, 3, 0, 0]),
    ]
    lines = [json.dumps({"tokens": words.split(), "ner_tags": tags}) for words, tags in rows]
    more = ("--batch", "24", "--stalls", "5", "--trace-sample", "4")
    all_texts, found, printed = story(model, "\n".join(lines), "good films, bad", more=more)
    assert all_texts["inferences"] < all_texts["texts"] == 4
    floats, golden, rtl = found["verdicts"]
    assert golden["words"] == ["good", "films", ",", "bad"]
    assert golden["labels"] == rtl["labels"]
    assert golden["logits"] == rtl["logits"]
    assert np.shape(rtl["logits"]) == (4, len(labels))
    assert found["compared"]["logits"] >= 7 * len(labels)  # [CLS], [SEP] and the part of a word
    for word, *labels_of in zip(golden["words"], floats["labels"], golden["labels"], rtl["labels"]):
        line = next(line for line in printed.splitlines() if line.startswith(f"{word} "))
        assert line.split()[:4] == [word, *labels_of]
