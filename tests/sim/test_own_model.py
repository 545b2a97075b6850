"""From someone's checkpoint and CSV to "every bit equal", in the three commands of the README."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from cli.command import Exit

import numpy as np
import pytest
from safetensors.numpy import save_file

from quant import calibrate
from quant.model.spec import TEXT_SIDE
from sim import regress, run
from tests.quant import tiny, zoo

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = ROOT / "models" / "bert-tiny-imdb" / "vocab.txt"
TEXTS = [
    ("An honest film about a dishonest man.", "keep"),
    ("Two hours that I want back!", "drop"),
    ("The sound was fine; the rest was not.", "drop"),
    ("Bring tissues, and bring a friend.", "keep"),
]


def checkpoint(
    folder: Path, hidden: int, layers: int, heads: int, ffn: int, embeds: bool = False
) -> Path:
    """A BERT classifier of two classes with random weights and a real vocabulary.

    Without its classifier and the names that only that has it makes embeddings.
    """
    folder.mkdir()
    (folder / "vocab.txt").write_bytes(VOCABULARY.read_bytes())
    words = len(VOCABULARY.read_text(encoding="utf-8").splitlines())
    config = {
        "architectures": ["BertModel" if embeds else "BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": words,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "id2label": {"0": "drop", "1": "keep"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(5)
    found: dict[str, np.ndarray] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        found[f"{name}.weight"] = rng.normal(0, inputs**-0.5, (outputs, inputs))
        found[f"{name}.bias"] = rng.normal(0, 0.1, outputs)

    def norm(name: str) -> None:
        found[f"{name}.weight"] = rng.uniform(0.5, 1.5, hidden)
        found[f"{name}.bias"] = rng.normal(0, 0.2, hidden)

    for table, rows in (("word", words), ("position", 512), ("token_type", 2)):
        found[f"bert.embeddings.{table}_embeddings.weight"] = rng.normal(0, 1, (rows, hidden))
    norm("bert.embeddings.LayerNorm")
    for layer in (f"bert.encoder.layer.{i}" for i in range(layers)):
        for name in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{name}", hidden, hidden)
        linear(f"{layer}.attention.output.dense", hidden, hidden)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", ffn, hidden)
        linear(f"{layer}.output.dense", hidden, ffn)
        norm(f"{layer}.output.LayerNorm")
    linear("bert.pooler.dense", hidden, hidden)
    if not embeds:
        linear("classifier", 2, hidden)
    tensors = {name: tensor.astype(np.float32) for name, tensor in found.items()}
    save_file(tensors, folder / "model.safetensors")
    return folder


def lines(
    tmp_path: Path, embeds: bool, *sizes: int, lanes: int = 4
) -> tuple[list[str], list[str], list[str]]:
    """The options of the three commands."""
    model = checkpoint(tmp_path / "checkpoint", *sizes, embeds=embeds)
    texts, mine = tmp_path / "texts.csv", tmp_path / "mine"
    with texts.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *TEXTS])
    calibration = ["--model", str(model), "--data", str(texts), "--out", str(mine)]
    line = ["--quantized", str(mine), "--lanes", str(lanes), "--tokens", "6"]
    one = [*line, "--review", TEXTS[0][0], "--json", str(tmp_path / "run.json")]
    data = ["--data", str(texts), "--trace-sample", "1", "--jobs", "1"]
    return calibration, one, [*line, *data, "--json", str(tmp_path / "regress.json")]


def figures(tmp_path: Path) -> list[dict[str, Any]]:
    """What the second and the third wrote."""
    return [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("run", "regress")]


@pytest.mark.slow
def test_an_embedding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The identity as head: as many numbers as the encoder is wide, no classes, mean pooling."""
    calibration, one, several = lines(tmp_path, True, 24, 1, 2, 40)
    assert calibrate.main([*calibration, "--remedies", "none"]) == Exit.OK
    assert run.main(one) == Exit.OK
    assert "Every bit equal to the golden model." in capsys.readouterr().out
    assert regress.main(several) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out
    found, all_texts = figures(tmp_path)
    assert found["compared"]["pooled"] == 24
    assert found["compared"]["logits"] >= 24
    floats, golden, rtl = (verdict["cosine"] for verdict in found["verdicts"])
    assert golden == rtl == pytest.approx(1)
    assert 0.99 < floats < 1
    assert all_texts["passed"]


@pytest.mark.slow
def test_texts_of_clip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Causal layers, and of every token's numbers those of the last; several texts an inference."""
    folder, mine = tmp_path / "clip", tmp_path / "mine"
    zoo.saved(folder, "CLIP whole", num_attention_heads=3)
    texts, figures = tmp_path / "texts.txt", tmp_path / "figures.json"
    texts.write_text("a good film\nfilm\na man, a plan, a canal\nno\n")
    given = ["--data", str(texts)]
    calibration = ["--model", str(folder), "--task", TEXT_SIDE, "--remedies", "none", *given]
    assert calibrate.main([*calibration, "--out", str(mine)]) == Exit.OK
    options = ["--quantized", str(mine), "--lanes", "4", "--json", str(figures)]
    more = ["--batch", "40", "--stalls", "5", "--trace-sample", "4", "--jobs", "1"]
    assert regress.main([*options, *given, *more]) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["inferences"] < found["texts"] == 4
    assert run.main([*options, "--review", "a good film"]) == Exit.OK
    assert "Every bit equal to the golden model." in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["compared"]["logits"] >= found["tokens"] * 10
    floats, golden, rtl = (verdict["cosine"] for verdict in found["verdicts"])
    assert golden == rtl == pytest.approx(1)
    assert 0.99 < floats < 1


@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "ffn"),
    [
        pytest.param(24, 1, 2, 40, id="small", marks=pytest.mark.slow),
        pytest.param(384, 6, 12, 1536, id="MiniLM", marks=pytest.mark.slow),
    ],
)
def test_three_commands(
    hidden: int,
    layers: int,
    heads: int,
    ffn: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Calibrate, one text in every detail, all texts of the file."""
    lanes = 16 if hidden > 128 else 4
    calibration, one, several = lines(tmp_path, False, hidden, layers, heads, ffn, lanes=lanes)
    assert calibrate.main(calibration) == Exit.OK
    assert run.main(one) == Exit.OK
    assert "Every bit equal to the golden model." in capsys.readouterr().out
    assert regress.main(several) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out

    found, all_texts = figures(tmp_path)
    assert found["tokens"] == 6
    assert set(found["verdicts"][2]["logits"]) == {"drop", "keep"}
    assert f"layer.{layers - 1}.ffn.sum" in found["compared"]
    assert all_texts["texts"] == len(TEXTS)


def test_a_plain_transformer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pre-norm and the mean of the tokens, from the checkpoint to the Verilog."""
    arrays = tiny.transformer_tensors(tiny.tensors())
    model = tiny.write(tmp_path / "checkpoint", tiny.TRANSFORMER, arrays)
    texts, mine = tmp_path / "texts.txt", tmp_path / "mine"
    texts.write_text("a good film !\nthe bad films\na bad film , the films good ! ! ! a a a\n")
    given = ["--data", str(texts)]
    assert calibrate.main(["--model", str(model), *given, "--out", str(mine)]) == Exit.OK
    figures = tmp_path / "figures.json"
    options = ["--quantized", str(mine), "--lanes", "4", "--trace-sample", "3", "--jobs", "1"]
    assert regress.main([*options, *given, "--json", str(figures)]) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out
    assert json.loads(figures.read_text())["traced"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "labels"),
    [
        pytest.param({"id2label": {"0": "stars"}}, 1, id="one number"),
        pytest.param({"problem_type": "regression"}, 3, id="several numbers"),
        pytest.param({"problem_type": "multi_label_classification"}, 3, id="several labels"),
    ],
)
def test_other_heads(
    config: dict[str, Any], labels: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers and several labels at once, a single output among them, from file to Verilog."""
    arrays = tiny.tensors(labels=labels)
    arrays["classifier.weight"] *= np.linspace(1, 0.01, labels, dtype=np.float32)[:, None]
    model = tiny.write(tmp_path / "checkpoint", config, arrays)
    texts, mine, figures = (tmp_path / name for name in ("texts.jsonl", "mine", "figures.json"))
    several = config.get("problem_type", "").startswith("multi")
    targets: list[Any] = [["good"], [], ["bad", "mixed"]] if several else [[1.5] * labels] * 3
    words = ("a good film !", "the bad films", "a bad film , the films good !")
    rows = [{"text": t, "pair": "the film", "label": x} for t, x in zip(words, targets)]
    texts.write_text("\n".join(map(json.dumps, rows)))
    given = ["--data", str(texts)]
    assert calibrate.main(["--model", str(model), *given, "--out", str(mine)]) == Exit.OK
    options = ["--quantized", str(mine), "--lanes", "4", "--json", str(figures)]
    assert regress.main([*options, *given, "--trace-sample", "3", "--jobs", "1"]) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out
    assert json.loads(figures.read_text())["traced"] == 3
    pair = ["--review", words[2], "--pair", "the film"]
    assert run.main([*options, *pair, "--tokens", "16"]) == Exit.OK
    assert "Every bit equal to the golden model." in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["tokens"] == 9 + 2 + 3  # [CLS] and two [SEP]
    golden, rtl = found["verdicts"][1:]
    assert len(rtl["logits"]) == labels
    assert golden["logits"] == rtl["logits"]
    assert golden["labels" if several else "values"] == rtl["labels" if several else "values"]


@pytest.mark.slow
def test_a_class_for_every_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From words with tags to Verilog, several texts an inference, every stream resting at will."""
    labels = ("O", "B-X", "I-X", "B-Y", "I-Y")
    config = {
        "architectures": ["BertForTokenClassification"],
        "id2label": {str(i): name for i, name in enumerate(labels)},
    }
    arrays = tiny.tensors(3, len(labels))
    arrays["classifier.bias"][3] -= 2
    model = tiny.write(tmp_path / "checkpoint", config, arrays)
    texts, mine, figures = (tmp_path / name for name in ("texts.jsonl", "mine", "figures.json"))
    rows = [
        ("a good film !", [0, 1, 2, 0]),
        ("the bad films", [0, 3, 4]),
        ("films", [3]),
        ("a bad film , the films good !", [0, 1, 2, 0, None, 3, 0, 0]),
    ]
    lines = [json.dumps({"tokens": words.split(), "ner_tags": tags}) for words, tags in rows]
    texts.write_text("\n".join(lines))
    given = ["--data", str(texts)]
    assert calibrate.main(["--model", str(model), *given, "--out", str(mine)]) == Exit.OK
    options = ["--quantized", str(mine), "--lanes", "4", "--json", str(figures)]
    more = ["--batch", "24", "--stalls", "5", "--trace-sample", "4", "--jobs", "1"]
    assert regress.main([*options, *given, *more]) == Exit.OK
    assert "passed: equal bit for bit" in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["inferences"] < found["texts"] == 4
    assert run.main([*options, "--review", "good films, bad", "--tokens", "16"]) == Exit.OK
    printed = capsys.readouterr().out
    assert "Every bit equal to the golden model." in printed
    found = json.loads(figures.read_text())
    floats, golden, rtl = found["verdicts"]
    assert golden["words"] == ["good", "films", ",", "bad"]
    assert golden["labels"] == rtl["labels"]
    assert golden["logits"] == rtl["logits"]
    assert np.shape(rtl["logits"]) == (4, len(labels))
    assert found["compared"]["logits"] >= 7 * len(labels)  # [CLS], [SEP] and the part of a word
    for word, *labels_of in zip(golden["words"], floats["labels"], golden["labels"], rtl["labels"]):
        line = next(line for line in printed.splitlines() if line.startswith(f"{word} "))
        assert line.split()[:4] == [word, *labels_of]
