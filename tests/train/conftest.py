"""Tiny data that the training tests share."""

import json

import pytest
import torch

from train import finetune

GOOD = ["a", "wonderful", "film", "with", "great", "acting", "and", "moving", "story", "smile"]
BAD = ["an", "awful", "film", "with", "terrible", "acting", "and", "boring", "story", "yawn"]

SHAPE = ["--hidden", "16", "--layers", "1", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--length", "16", "--batch", "16", "--learning-rate", "0.01", "--precision", "float32"]


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums of floats depend on the number of threads."""
    torch.set_num_threads(1)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def words(tmp_path):
    """A vocab.txt of the words of the reviews below."""
    path = tmp_path / "words.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*special, *sorted({*GOOD, *BAD})]) + "\n")
    return path


@pytest.fixture
def reviews(tmp_path):
    """160 labelled texts that a classifier can learn to tell apart, as a .jsonl file."""
    path = tmp_path / "reviews.jsonl"
    with path.open("w") as file:
        for i in range(160):
            source = GOOD if i % 2 else BAD
            text = " ".join(source[(i * 5 + k * (1 + i % 7)) % len(source)] for k in range(8))
            file.write(json.dumps({"text": f"{text} {text}", "label": i % 2}) + "\n")
    return path


@pytest.fixture
def base(words, reviews, tmp_path):
    """A BERT that tells the two kinds of review apart."""
    new = ["--vocab", str(words), "--embeddings", "none", *SHAPE, "--teacher", "none"]
    places = ["--out", str(tmp_path / "base"), "--work", str(tmp_path / "work-base")]
    made = ["--data", str(reviews), "--stages", "16:4", *new, *FAST, *places]
    assert finetune.main(made) == 0
    return tmp_path / "base"
