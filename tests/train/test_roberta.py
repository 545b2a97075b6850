"""RoBERTa as train.finetune makes it: its byte-level BPE, what it learns, writes and refuses."""

import json
import os
import re
import shutil
import signal
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import train.loop
from quant.foreign.checkpoint import load
from quant.foreign.tokenizer import TextTokenizer
from quant.model import float_model
from tests.ending import exit_code
from train.family_options import SPECIAL
from train.finetune import main
from train.roberta import byte_pairs

SHAPE = ["--hidden", "16", "--layers", "2", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--length", "16", "--batch", "16", "--learning-rate", "0.01", "--precision", "float32"]
VOCABULARY = ["tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"]
ODD = [
    "a wonderful film",
    "  two  spaces\tand a tab \n\nlines\r\n",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 smile\U0001f3fd",
    "\x01\x02\x1b[0m\x7f\x80\x9f",
    "na\u00efve, nai\u0308ve, \u4e2d\u6587\u3000\u30ab\u30bf \u0440\u0443\u0441\u0441 \u0627\u0644",
    "\u00a0\u2003\u200b\ufeff\u2028\ufffd\ufdd0\U0010ffff",
    "it's they'll I'M 1,234.5 ... ?!?!",
    "\u0130STANBUL \u1e9e \ufb01lm",
    "\u0120 \u010a \u0100",  # what the bytes of space, line feed and NUL are written as
]
SPOKEN = ["a <mask> film", "</s> and <s><pad> <unk>x", "<mask>  <mask>", "< mask >"]


@pytest.fixture
def arguments(reviews):
    new = ["--family", "roberta", "--teacher", "none", *SHAPE, *FAST]
    return ["--data", str(reviews), *new, "--stages", "16:1"]


def places(tmp_path, name):
    return ["--out", str(tmp_path / name), "--work", str(tmp_path / f"work-{name}")]


def texts_of(reviews):
    return [json.loads(line)["text"] for line in reviews.read_text().splitlines()]


def test_it_learns_and_is_the_encoder_that_is_loaded(arguments, tmp_path):
    report = tmp_path / "report.json"
    made = [*arguments, "--stages", "24:6", "--length", "24", "--json", str(report)]
    assert main([*made, *places(tmp_path, "a")]) == 0
    assert json.loads(report.read_text())["metrics"]["validation"]["accuracy"] > 90
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        ["README.md", "config.json", "model.safetensors", *VOCABULARY]
    )
    checkpoint, tokenizer = load(tmp_path / "a"), AutoTokenizer.from_pretrained(tmp_path / "a")
    assert (checkpoint.spec.max_tokens, tokenizer.model_max_length) == (24, 24)
    card = (tmp_path / "a" / "README.md").read_text()
    assert f"24 positions, {len(tokenizer):,} BPE tokens" in card
    assert f"| vocab-size | {len(tokenizer)} |" in card
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a").eval()
    ids = np.random.default_rng(0).integers(5, len(tokenizer), (3, 24)).astype(np.int32)
    ids[:, 0] = 0
    spread = []
    for row, length in zip(ids, (24, 9, 2)):
        ours = float_model.run(checkpoint.spec, checkpoint.arrays, row[:length])
        padded = np.where(np.arange(24) < length, row, 1)
        shown = torch.from_numpy(padded[None].astype(np.int64))
        with torch.no_grad():
            theirs = model(input_ids=shown, attention_mask=(shown != 1).long()).logits[0].numpy()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
        spread.append(np.abs(theirs).max())
    assert max(spread) > 0.1


def test_ids_are_those_of_transformers(arguments, tmp_path):
    assert main([*arguments, *places(tmp_path, "a")]) == 0
    ours, theirs = TextTokenizer(tmp_path / "a"), AutoTokenizer.from_pretrained(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    (tmp_path / "old" / "tokenizer.json").unlink()
    old = AutoTokenizer.from_pretrained(tmp_path / "old")  # of vocab.json and merges.txt
    for text in [*ODD, *SPOKEN]:
        ids = ours.encode(text, limit=1000).ids.tolist()
        assert ids == theirs(text, truncation=False)["input_ids"], text
        assert ids == old(text, truncation=False)["input_ids"], text
        assert (ids[0], ids[-1], 3 in ids) == (0, 2, "<unk>" in text)
        pair = ours.encode(text, "two", limit=1000).ids.tolist()
        assert pair == theirs(text, "two", truncation=False)["input_ids"], text
    for text in ODD:  # every byte is there, so a text can be had back
        ids = ours.encode(text, limit=1000).ids
        assert theirs.decode(ids[1:-1], clean_up_tokenization_spaces=False) == text
    assert ours.encode("a <mask>", limit=9).ids.tolist()[-2:] == [4, 2]
    assert theirs.convert_ids_to_tokens(range(5)) == list(SPECIAL)


def merges_of(texts, count):
    """Byte pair encoding of words of letters, by its definition; of equals the smaller ids."""
    words = Counter()
    for text in texts:
        first, *rest = text.split(" ")
        words.update([first, *(f"\u0120{word}" for word in rest)])
    split = {word: list(word) for word in words}
    written = [*range(33, 127), *range(161, 173), *range(174, 256)]  # others from 256 on, as GPT-2
    alphabet = [chr(byte) for byte in written] + [chr(256 + i) for i in range(256 - len(written))]
    ids = {token: i for i, token in enumerate([*SPECIAL, *sorted(alphabet)])}
    found = []
    while len(found) < count:
        pairs = Counter()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda p: (pairs[p], -ids[p[0]], -ids[p[1]]), default=None)
        if best is None or pairs[best] < 2:
            break
        found.append(best)
        ids.setdefault("".join(best), len(ids))
        for tokens in split.values():
            i = 0
            while i < len(tokens) - 1:
                if (tokens[i], tokens[i + 1]) == best:
                    tokens[i : i + 2] = ["".join(best)]
                i += 1
    return found, ids


def test_the_vocabulary_is_byte_pair_encoding_by_its_definition(reviews):
    texts = [*texts_of(reviews), "once", "a wonder", "bananas and cabanas"]
    expected, ids = merges_of(texts, 10**6)
    assert len(expected) > 50
    for size, count in ((None, len(expected)), (261 + 40, 40), (261, 0)):
        tokenizer = byte_pairs(texts, size)
        model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
        assert [tuple(pair) for pair in model["merges"]] == expected[:count]
        first = dict(sorted(ids.items(), key=lambda item: item[1])[: 261 + count])
        assert model["vocab"] == first
    assert "once" not in ids  # its pairs occur in no second place


def test_an_interrupted_run_ends_with_the_bytes_of_a_whole_one(arguments, tmp_path, monkeypatch):
    made = [*arguments, "--stages", "16:3", "--vocab-size", "300", "--neighbours"]
    assert main([*made, *places(tmp_path, "whole")]) == 0
    step = train.loop._step

    def interrupted(*args):
        if args[4] == 11:
            os.kill(os.getpid(), signal.SIGINT)
        return step(*args)

    monkeypatch.setattr(train.loop, "_step", interrupted)
    assert main([*made, *places(tmp_path, "parts")]) == 130
    monkeypatch.setattr(train.loop, "_step", step)
    assert main([*made, *places(tmp_path, "parts")]) == 0
    for name in ("model.safetensors", "config.json", *VOCABULARY):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_trained_one_is_where_the_next_begins(arguments, tmp_path):
    assert main([*arguments, *places(tmp_path, "first")]) == 0
    three = tmp_path / "three.csv"
    three.write_text("text,label\n" + "".join(f"film {i},{'abc'[i % 3]}\n" for i in range(60)))
    further = ["--model", str(tmp_path / "first"), "--freeze", "--data", str(three), *FAST]
    further += ["--teacher", "none", "--stages", "16:1"]
    assert main([*further, *places(tmp_path, "second")]) == 0
    first, second = (load_file(tmp_path / n / "model.safetensors") for n in ("first", "second"))
    assert second["classifier.out_proj.weight"].shape == (3, 16)
    for name, tensor in first.items():
        if not name.startswith("classifier."):
            np.testing.assert_array_equal(tensor, second[name])
    assert not np.array_equal(first["classifier.dense.weight"], second["classifier.dense.weight"])
    for name in VOCABULARY:
        found = [(tmp_path / folder / name).read_bytes() for folder in ("first", "second")]
        assert found[0] == found[1], name


def test_a_teacher_reads_the_same_tokens(reviews, tmp_path, capsys):
    given = ["--data", str(reviews), "--family", "roberta", *SHAPE, *FAST, "--stages", "16:1"]
    given += ["--vocab-size", "290"]
    assert main([*given, "--teacher", "none", *places(tmp_path, "teacher")]) == 0
    taught = [*given, "--teacher", str(tmp_path / "teacher"), "--teacher-weight", "1"]
    assert main([*taught, *places(tmp_path, "student")]) == 0
    capsys.readouterr()
    assert main([*taught, "--limit", "16", *places(tmp_path, "a")]) == 2  # others, but as many
    assert "teacher reads 290 tokens, the student 290, and not the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--vocab-size", "260"], "argument --vocab-size: 260 is out of range: it must be 261 or"),
        (["--vocab-size", "9999"], r"--vocab-size 9999: the training texts give (\d+) tokens at "),
        (["--vocab", "README.md"], "--vocab names WordPieces, a roberta makes byte pairs of its"),
        (["--embeddings", "minilm"], "--embeddings are of another vocabulary than the byte pairs"),
        (["--model", "models/bert-tiny-imdb"], "--family roberta is for a new model, --model has"),
        (["--norm", "post"], "--norm is for a new model with --family transformer"),
        (["--family", "bert", "--vocab-size", "300"], "--vocab-size is for a new model with --f"),
        (["--stages", "25:1"], "25 tokens are asked for in --length or --stages: the model has 24"),
        (["--freeze"], "--freeze without --model would train a classifier on random features"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(arguments, tmp_path, capsys, extra, message):
    assert exit_code(main, [*arguments, *places(tmp_path, "a"), *extra]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.match(f"error: {message}", error), error
    assert not (tmp_path / "a").exists()


def test_a_checkpoint_without_a_vocabulary(arguments, tmp_path, capsys):
    assert main([*arguments, *places(tmp_path, "first")]) == 0
    for name in ("tokenizer.json", "merges.txt"):
        (tmp_path / "first" / name).unlink()
    capsys.readouterr()
    place = arguments.index("--family")
    given = [*arguments[:place], *arguments[place + 2 :], "--model", str(tmp_path / "first")]
    assert main([*given, *places(tmp_path, "a")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "first has no tokenizer.json, and no vocab.json with merges.txt: a RoBERTa" in error
