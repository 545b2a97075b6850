"""train.finetune as a user calls it: result, resuming, transfer, errors."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import train.loop
from tests.ending import exit_code
from train.distil import DistillationLoss
from train.finetune import main

ROOT = Path(__file__).resolve().parents[2]
SHAPE = ["--hidden", "16", "--layers", "2", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--stages", "8:3,16:3", "--length", "16", "--batch", "16", "--learning-rate", "0.01"]
NEW = ["--embeddings", "none", *SHAPE, *FAST, "--precision", "float32", "--average", "0.9"]


@pytest.fixture
def arguments(words, reviews, tmp_path):
    """Arguments of a run with everything switched on, but --out and --work."""
    return ["--data", str(reviews), "--vocab", str(words), "--test", str(reviews), *NEW]


def places(tmp_path, name):
    return ["--out", str(tmp_path / name), "--work", str(tmp_path / f"work-{name}")]


def test_a_run_learns_and_writes_what_hugging_face_reads(arguments, tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main([*arguments, *places(tmp_path, "a"), "--json", str(report)]) == 0
    shown = capsys.readouterr().err
    assert "the linear teacher: accuracy 100.00 % of the validation texts\n" in shown
    measured = json.loads(report.read_text())
    assert measured["metrics"]["test"]["accuracy"] > 90
    assert [row["epoch"] for row in measured["history"]] == [1, 2, 3, 4, 5, 6]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "a")
    assert model.dtype == torch.float32
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    batch = tokenizer("a wonderful film , great acting", return_tensors="pt")
    assert model(**batch).logits.argmax(1).item() == 1
    saved = load_file(tmp_path / "a" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {np.dtype(np.float16)}
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(parameter.detach().numpy(), saved[name].astype(np.float32))
    card = (tmp_path / "a" / "README.md").read_text()
    assert f"| test | 160 | 16 tokens | {measured['metrics']['test']['accuracy']:.2f} %" in card
    assert "python -m train.finetune --data" in card
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_an_interrupted_run_ends_with_the_bytes_of_a_whole_one(
    arguments, tmp_path, monkeypatch, capsys
):
    assert main([*arguments, *places(tmp_path, "whole")]) == 0
    shown = capsys.readouterr().err
    assert "fine-tuning: step 1 of 54, loss " in shown
    assert re.search(
        r"fine-tuning: step 9 of 54, train_loss .*, accuracy .*, loss .*, \d+ s", shown
    )
    step = train.loop._step
    for last, stop_at in ((None, 1), (2, 17), (18, 40)):

        def interrupted(*args, stop_at=stop_at):
            figures = step(*args)
            if args[4] == stop_at:
                os.kill(os.getpid(), signal.SIGINT)
            return figures

        monkeypatch.setattr(train.loop, "_step", interrupted)
        assert main([*arguments, *places(tmp_path, "parts")]) == 130
        shown = capsys.readouterr().err
        assert f"interrupted after step {stop_at + 1} of 54: the same" in shown
        assert (f"fine-tuning: resumed at step {last} of 54\n" in shown) == (last is not None)
        assert not (tmp_path / "parts").exists()
        monkeypatch.setattr(train.loop, "_step", step)
    assert main([*arguments, *places(tmp_path, "parts")]) == 0
    assert "fine-tuning: resumed at step 41 of 54\n" in capsys.readouterr().err
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "work-parts").glob("*"))


@pytest.mark.slow
def test_a_killed_run_ends_with_the_bytes_of_a_whole_one(arguments, tmp_path):
    program = (
        "import sys, torch, train.loop, train.finetune, train.finetuning\n"
        "torch.set_num_threads(1)\n"
        "train.loop._FIRST_SNAPSHOT_SECONDS = train.loop._SNAPSHOT_SECONDS = 0.0\n"
        "raise SystemExit(train.finetune.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    whole = subprocess.run([*command, *places(tmp_path, "whole")], cwd=ROOT, check=False)
    assert whole.returncode == 0
    snapshot = tmp_path / "work-parts" / "snapshot.safetensors"
    child = subprocess.Popen([*command, *places(tmp_path, "parts")], cwd=ROOT)
    while not snapshot.exists() and child.poll() is None:
        time.sleep(0.005)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert snapshot.exists()
    again = subprocess.run([*command, *places(tmp_path, "parts")], cwd=ROOT, check=False)
    assert again.returncode == 0
    weights = [tmp_path / name / "model.safetensors" for name in ("whole", "parts")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_run_can_end_early_as_if_it_had_been_planned_so(arguments, tmp_path, monkeypatch):
    short = [*arguments, "--stop-after", "2"]
    report = tmp_path / "report.json"
    assert main([*short, *places(tmp_path, "short"), "--json", str(report)]) == 0
    assert [row["epoch"] for row in json.loads(report.read_text())["history"]] == [1, 2]
    step = train.loop._step

    def interrupted(*args):
        if args[4] == 17:
            os.kill(os.getpid(), signal.SIGINT)
        return step(*args)

    monkeypatch.setattr(train.loop, "_step", interrupted)
    assert main([*arguments, *places(tmp_path, "long")]) == 130
    monkeypatch.setattr(train.loop, "_step", step)
    assert main([*short, *places(tmp_path, "long")]) == 0
    weights = [tmp_path / name / "model.safetensors" for name in ("short", "long")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_seeds_differ(arguments, tmp_path):
    arguments = [*arguments, "--stages", "8:1"]
    for seed in ("0", "1"):
        assert main([*arguments, *places(tmp_path, seed), "--seed", seed]) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("0", "1")]
    assert weights[0] != weights[1]


def test_an_unfinished_run_with_other_arguments_is_refused(
    arguments, tmp_path, monkeypatch, capsys
):
    def started(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        return step(*args)

    step = train.loop._step
    monkeypatch.setattr(train.loop, "_step", started)
    assert main([*arguments, *places(tmp_path, "a")]) == 130
    monkeypatch.setattr(train.loop, "_step", step)
    capsys.readouterr()
    other = [*arguments, *places(tmp_path, "a"), "--clip", "2"]
    assert main(other) == 2
    error = capsys.readouterr().err
    assert "an unfinished run with clip 1.0 instead of 2.0: give the same arguments" in error
    assert main([*other, "--restart"]) == 0


def test_more_labels_from_a_frozen_encoder(arguments, reviews, words, tmp_path):
    assert main([*arguments, *places(tmp_path, "first")]) == 0
    three = tmp_path / "three.csv"
    rows = [json.loads(line) for line in reviews.read_text().splitlines()]
    three.write_text(
        "text,label\n"
        + "".join(f"{r['text']},{('art', 'sport', 'news')[i % 3]}\n" for i, r in enumerate(rows))
    )
    frozen = ["--model", str(tmp_path / "first"), "--freeze", "--data", str(three), *FAST]
    assert main([*frozen, *places(tmp_path, "second")]) == 0
    first, second = (
        load_file(tmp_path / name / "model.safetensors") for name in ("first", "second")
    )
    assert second["classifier.weight"].shape == (3, 16)
    for name, tensor in first.items():
        if not name.startswith(("classifier", "bert.pooler")):
            np.testing.assert_array_equal(tensor, second[name])
    assert not np.array_equal(first["bert.pooler.dense.weight"], second["bert.pooler.dense.weight"])
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    assert config["id2label"] == {"0": "art", "1": "news", "2": "sport"}


def test_a_checkpoint_as_teacher(arguments, tmp_path):
    assert main([*arguments, *places(tmp_path, "teacher")]) == 0
    taught = [*arguments, "--teacher", str(tmp_path / "teacher"), "--teacher-weight", "1"]
    report = tmp_path / "report.json"
    assert main([*taught, *places(tmp_path, "student"), "--json", str(report)]) == 0
    assert json.loads(report.read_text())["metrics"]["test"]["accuracy"] > 90


def test_several_teachers(arguments, tmp_path):
    assert main([*arguments, "--stages", "16:2", *places(tmp_path, "teacher")]) == 0
    taught = [*arguments, "--stages", "16:2:0.9", "--teacher", str(tmp_path / "teacher")]
    assert main([*taught, "--teacher", "nb-svm", *places(tmp_path, "both")]) == 0
    card = (tmp_path / "both" / "README.md").read_text()
    assert f"| teacher | {tmp_path / 'teacher'},nb-svm |" in card
    assert main([*taught, *places(tmp_path, "one")]) == 0
    both, one = (load_file(tmp_path / n / "model.safetensors") for n in ("both", "one"))
    assert not np.array_equal(both["classifier.weight"], one["classifier.weight"])


def test_what_several_teachers_say_is_the_mean_of_their_probabilities():
    said = np.array([[1.0, -2.0], [0.5, 4.0]], np.float32), np.array([[0, 0], [-6, 1]], np.float32)
    loss = object.__new__(DistillationLoss)
    loss.device, loss.options = "cpu", argparse.Namespace(temperature=2.0)
    for count in (1, 2):
        loss.teachers = [lambda texts, logits=logits: logits for logits in said[:count]]
        odds = [np.exp(logits.astype(np.float64) / 2) for logits in said[:count]]
        expected = sum(o / o.sum(1, keepdims=True) for o in odds) / count
        np.testing.assert_allclose(loss._taught([]).exp().numpy(), expected, rtol=1e-6)


def test_early_stop_keeps_the_best(arguments, tmp_path):
    report = tmp_path / "report.json"
    stages = [*arguments, "--stages", "16:30", "--patience", "2", "--json", str(report)]
    assert main([*stages, *places(tmp_path, "a")]) == 0
    measured = json.loads(report.read_text())
    scores = [(row["accuracy"], -row["loss"]) for row in measured["history"]]
    best = scores.index(max(scores))
    assert len(scores) == best + 3 < 15
    assert measured["history"][best]["step"] == measured["best_step"]


def test_without_out_nothing_tracked_is_touched(arguments, tmp_path, monkeypatch):
    released = tmp_path / "models" / "bert-tiny-imdb"
    released.mkdir(parents=True)
    (released / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--stages", "8:1"]) == 0
    assert [path.name for path in released.iterdir()] == ["config.json"]
    assert (released / "config.json").read_text() == "{}"
    assert (tmp_path / "build" / "trained" / "reviews" / "model.safetensors").is_file()


def test_an_existing_checkpoint_is_replaced_only_with_force(arguments, tmp_path, capsys):
    arguments = [*arguments, "--stages", "8:1", *places(tmp_path, "a")]
    old = tmp_path / "a"
    old.mkdir()
    (old / "config.json").write_text("{}")
    assert main(arguments) == 2
    assert (
        f"error: {old} holds a checkpoint: name another --out, or pass --force to replace it"
        in (capsys.readouterr().err)
    )
    assert (old / "config.json").read_text() == "{}"
    assert not (tmp_path / "work-a").exists()
    assert main([*arguments, "--force"]) == 0
    assert (old / "model.safetensors").is_file()
    assert "--force" not in json.dumps(json.loads((old / "config.json").read_text()))


def test_a_folder_of_other_things_is_not_replaced_even_with_force(arguments, tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("mine")
    for force in ([], ["--force"]):
        assert main([*arguments, *places(tmp_path, "a"), *force]) == 2
        assert "exists and is no checkpoint: name another --out" in capsys.readouterr().err
    assert (tmp_path / "a" / "thesis.tex").read_text() == "mine"


def test_a_corpus_is_no_more_of_other_classes(words, tmp_path, capsys):
    """Labels 0 and 2 are two classes, and the 1 of a corpus is neither."""
    lines = [json.dumps({"text": "good", "label": 2 * (i % 2)}) for i in range(40)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    line = ["--data", str(tmp_path / "data.jsonl"), "--vocab", str(words), *NEW]
    assert exit_code(main, [*line, *places(tmp_path, "a"), "--extra", "rotten-tomatoes"]) == 2
    assert "the classes negative and positive, or 0 and 1: those of" in capsys.readouterr().err


def test_a_card_says_only_what_is_known(arguments, tmp_path):
    assert main([*arguments, "--stages", "8:1", *places(tmp_path, "a")]) == 0
    card = (tmp_path / "a" / "README.md").read_text()
    for invented in ("license", "language:", "sentiment", "apache"):
        assert invented not in card, invented
    assert "reviews.jsonl" in card
    assert "train 144, validation 16, test 160" in card


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--stages", "8:0"], "--stages '8:0': '8:0' is no LENGTH:EPOCHS"),
        (["--stages", "8"], "--stages '8': '8' is no LENGTH:EPOCHS"),
        (["--stages", "32:1"], "32 tokens are asked for in --length or --stages: the model has 24"),
        (["--batch", "500"], "144 training texts do not fill a batch of 500: lower --batch"),
        (["--device", "tpu"], "--device 'tpu'"),
        (["--data", "absent"], "no data set or file named 'absent': give imdb, rotten-tomatoes"),
        (["--vocab", "absent.txt"], "argument --vocab: absent.txt does not exist"),
        (["--model", "absent"], "--model absent is no folder: give a folder that holds a"),
        (["--teacher", "nb-svm", "--teacher", "absent"], "--teacher absent is no folder: give a"),
        (["--teacher", "none", "--teacher", "nb-svm"], "--teacher none beside another one: leave"),
        (["--freeze"], "--freeze without --model would train a classifier on random features"),
        (["--hold-out", "1000"], "--hold-out 1000: there are 144 training texts"),
        (["--learning-rate", "1e30"], "the loss is (nan|inf) at step"),
        (["--heads", "3"], "--hidden 16 is no multiple of --heads 3"),
        (["--out", "tests"], "tests exists and is no checkpoint: name another --out"),
        (["--out", "README.md"], "README.md is a file: give the name of a folder"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments, tmp_path, capsys, monkeypatch, extra, message
):
    monkeypatch.chdir(ROOT)
    assert exit_code(main, [*arguments, *places(tmp_path, "a"), *extra]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert re.search(message, error)
    assert not (tmp_path / "a").exists()


def test_other_columns_and_separators(arguments, reviews, tmp_path):
    rows = [json.loads(line) for line in reviews.read_text().splitlines()]
    table = tmp_path / "opinions.tsv"
    lines = [f"{i}\t{row['text']}\t{('Bad', 'Good')[row['label']]}" for i, row in enumerate(rows)]
    table.write_text("\n".join(["id\tbody\tclass", *lines]) + "\n", encoding="utf-16")
    columns = ["--text-column", "body", "--label-column", "class", "--encoding", "utf-16"]
    given = [*arguments, "--data", str(table), "--test", str(table), *columns, "--stages", "8:1"]
    assert main([*given, *places(tmp_path, "a")]) == 0
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["id2label"] == {"0": "Bad", "1": "Good"}


def test_pairs_are_refused_not_halved(arguments, tmp_path, capsys):
    pairs = tmp_path / "pairs.csv"
    rows = [f"a film {i},its story {i},{i % 2}" for i in range(40)]
    pairs.write_text("\n".join(["text,pair,label", *rows]) + "\n")
    assert main([*arguments, "--data", str(pairs), *places(tmp_path, "a")]) == 2
    error = capsys.readouterr().err
    assert "pairs.csv: a train text is a pair, training takes single texts" in error
    assert "rename the column of the second to train on the first alone" in error
    assert not (tmp_path / "a").exists()


def test_a_text_without_a_label(arguments, reviews, tmp_path, capsys):
    with reviews.open("a") as file:
        file.write('{"text": "no label"}\n')
    assert main([*arguments, *places(tmp_path, "a")]) == 2
    assert "text has no label, each needs one" in capsys.readouterr().err


def test_a_damaged_snapshot(arguments, tmp_path, capsys):
    work = tmp_path / "work-a"
    work.mkdir()
    (work / "snapshot.safetensors").write_bytes(b"x" * 100)
    assert main([*arguments, *places(tmp_path, "a")]) == 2
    assert "is no snapshot of a run" in capsys.readouterr().err


def test_a_checkpoint_of_another_kind(arguments, words, tmp_path, capsys):
    other = tmp_path / "gpt"
    other.mkdir()
    (other / "vocab.txt").write_text(words.read_text())
    (other / "config.json").write_text('{"model_type": "gpt2", "max_position_embeddings": 24}')
    (other / "model.safetensors").write_bytes(b"")
    assert main([*arguments, *places(tmp_path, "a"), "--model", str(other)]) == 2
    assert "is a 'gpt2' model: fine-tuning reads model_type 'bert'" in capsys.readouterr().err
