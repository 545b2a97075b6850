"""Tiny data that the training tests share."""

import json

import pytest
import torch

GOOD = ["a", "wonderful", "film", "with", "great", "acting", "and", "moving", "story", "smile"]
BAD = ["an", "awful", "film", "with", "terrible", "acting", "and", "boring", "story", "yawn"]


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums of floats depend on the number of threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A words.txt, a vocabulary, and 160 reviews with a class, labels, numbers or tags each."""
    folder = tmp_path_factory.mktemp("texts")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "words.txt").write_text("\n".join([*special, *sorted({*GOOD, *BAD})]) + "\n")
    rows = {"classification": [], "multi-label": [], "regression": [], "token-classification": []}
    for i in range(160):
        source, label = (GOOD, BAD)[i % 2], i % 2
        words = [source[(i * 5 + k * (1 + i % 7)) % len(source)] for k in range(8)] * 2
        text, names = " ".join(words), ("good", "bad")
        rows["classification"].append({"text": text, "label": names[label]})
        rows["multi-label"].append({"text": text, "label": [names[label], "text"]})
        rows["regression"].append({"text": text, "label": [100.0 + 20 * label, 3.0 - label]})
        tags = [None if word == "film" else "LONG" if len(word) > 5 else "O" for word in words]
        rows["token-classification"].append({"tokens": words, "ner_tags": tags})
    for task, found in rows.items():
        (folder / f"{task}.jsonl").write_text("\n".join(map(json.dumps, found)))
    return folder
