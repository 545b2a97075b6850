"""train.finetune and train.pretrain as a user calls them: results, resuming, refusals."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import BertConfig, BertForMaskedLM

from docs.figures import load as measurements
from quant.foreign import checkpoint
from quant.images.data import digits
from quant.model import float_model
from quant.texts.corpora import CORPORA
from tests.ending import exit_code, figures
from tests.quant import zoo
from tests.tiers import quick
from train import data, finetune, pretrain, running, training
from train.families import attend_to_neighbours, load_model, load_tokenizer

ROOT = Path(__file__).resolve().parents[2]
SIZES = shlex.split("--hidden 16 --layers 2 --heads 2 --ffn 32 --positions 24 --batch 32")
NEW = [*SIZES, "--embeddings", "none", *shlex.split("--length 16 --learning-rate 0.02 --epochs 4")]
FURTHER = shlex.split("--length 16 --batch 32 --learning-rate 0.02 --epochs 2")


@pytest.fixture(scope="module")
def trained(folder):
    """The figures of a command that ends well, and its checkpoint, each command run once."""
    done = {}

    def run(name, *arguments, main=finetune.main):
        out = folder / "trained" / name
        if name not in done:
            words = [] if "--model" in arguments else ["--vocab", folder / "words.txt"]
            line = [*arguments, *words, "--out", out]
            done[name] = figures(main, line, folder / "figures.json")
            assert json.loads((out / "training.json").read_text()) == done[name]
        return done[name], out

    return run


@pytest.fixture
def reviews(folder):
    return ["--data", str(folder / "classification.jsonl")]


FAMILIES = {
    "bert": "BertForSequenceClassification",
    "bert2rtl-transformer": "Plain",
    "bert2rtl-fused": "Fused",
    "roberta": "RobertaForSequenceClassification",
    "electra": "ElectraForSequenceClassification",
    "albert": "AlbertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


@pytest.mark.parametrize("family", quick(FAMILIES, 2))
def test_a_new_model_learns_and_is_the_encoder_that_is_loaded(family, trained, reviews):
    """The folder means the same to this project's float model as to the class that was trained."""
    report, out = trained(family, *reviews, *NEW, "--family", family)
    assert report["metrics"]["validation"]["accuracy"] > 90
    assert type(load_model(out, "classification", ("bad", "good"))).__name__ == FAMILIES[family]
    ids = load_tokenizer(out)("a wonderful film with great acting and boring story")["input_ids"]
    for length in (len(ids), 1):
        compare(out, "classification", np.array(ids[:length], np.int32))


def compare(out, task, ids):
    loaded = checkpoint.load(out)
    ours = float_model.run(loaded.spec, loaded.arrays, ids)
    model = load_model(out, task, loaded.spec.labels).eval()
    tokens = torch.from_numpy(ids[None].astype(np.int64))
    with torch.no_grad():
        theirs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits[0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    return loaded.spec, theirs


OUTPUTS = [
    ("regression", "first,second", 30),
    ("multi-label", "good,bad,text", 80),
    ("token-classification", "O,LONG", 80),
]


@pytest.mark.parametrize(("task", "names", "least"), quick(OUTPUTS))
def test_other_outputs_of_a_checkpoint(task, names, least, trained, reviews, folder):
    _, base = trained("bert", *reviews, *NEW, "--family", "bert")
    file = str(folder / f"{task}.jsonl")
    told = ["--data", file, "--validation", file, "--task", task, "--names", names]
    report, out = trained(task, "--model", str(base), *told, *FURTHER, "--epochs", "6")
    assert report["metrics"]["validation"]["accuracy"] > least
    ids = np.array(load_tokenizer(out)("a wonderful film")["input_ids"], np.int32)
    spec, outputs = compare(out, task, ids)
    assert (spec.task, spec.labels) == (task, tuple(names.split(",")))
    if task == "regression":  # in the units of the file
        assert np.abs(outputs - [110, 2.5]).max() < 12


HEADS = [
    ("bert", ("classifier.", "bert.pooler.")),
    *((f"bert2rtl-{name}", ("classifier.",)) for name in ("fused", "transformer")),
    ("albert", ("classifier.", "albert.pooler.")),
    ("distilbert", ("classifier.", "pre_classifier.")),
]


@pytest.mark.parametrize(("family", "trainable"), quick(HEADS))
def test_a_frozen_encoder_stays(family, trainable, trained, reviews):
    _, base = trained(family, *reviews, *NEW, "--family", family)
    _, out = trained(f"{family} frozen", "--model", str(base), "--freeze", *reviews, *FURTHER)
    first, second = (load_file(place / "model.safetensors") for place in (base, out))
    changed = {name for name in first if not np.array_equal(first[name], second[name])}
    assert changed == {name for name in first if name.startswith(trainable)}


@pytest.mark.parametrize("family", quick(["bert2rtl-fused", "bert"]))
def test_pre_training_is_where_fine_tuning_begins(family, trained, reviews):
    held_out = ["--held-out", "8", "--length", "16", "--epochs", "3"]
    told = [*reviews, *SIZES, *held_out, "--family", family]
    report, base = trained(f"{family} words", *told, main=pretrain.main)
    first, _, last = (row["train_loss"] for row in report["history"])
    assert last < first
    _, out = trained(f"{family} further", "--model", str(base), "--freeze", *reviews, *FURTHER)
    first, second = (load_file(place / "model.safetensors") for place in (base, out))
    shared = [name for name in first if not name.startswith(("mlm.", "cls."))]
    assert len(shared) > 20
    for name in shared:
        np.testing.assert_array_equal(first[name], second[name])


def test_images(trained, monkeypatch):
    """The pixels that are trained on are those of the image processor in the folder."""
    few = {"train": 120, "validation": 60, "test": 60}
    monkeypatch.setattr(data, "digits", lambda split: digits(split)[: few[split]])
    sizes = "--hidden 16 --layers 1 --heads 2 --ffn 16 --patch 4 --epochs 6 --learning-rate 0.01"
    told = ["--data", "digits", *shlex.split(sizes)]
    report, out = trained("digits", *told, "--batch", "12")
    loaded = checkpoint.load(out)
    right = 0
    for one in digits("test")[:60]:
        rows = loaded.front.rows(loaded.front.pixels(one.image))
        arrays = loaded.arrays | {"embedding.token": rows}
        logits = float_model.run(loaded.spec, arrays, np.arange(len(rows), dtype=np.int32))
        right += int(logits.argmax()) == one.label
    assert 100 * right / 60 == pytest.approx(report["metrics"]["test"]["accuracy"])
    shares = np.array(report["metrics"]["test"]["confusion"])
    np.testing.assert_allclose(shares.sum(1), 100, atol=0.1)


def test_what_a_run_leaves(trained, reviews):
    report, out = trained("bert", *reviews, *NEW, "--family", "bert")
    assert {path.name for path in out.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        *("training.json", "curves.svg"),
    }
    assert report["options"]["family"] == "bert"
    steps = [row["step"] for row in report["history"]]
    assert steps == [5, 10, 15, 20]
    scores = [row["accuracy"] for row in report["history"]]
    assert scores[steps.index(report["best_step"])] == max(scores)
    assert "<polyline" in (out / "curves.svg").read_text()


def test_an_interrupted_run_ends_with_the_bytes_of_a_whole_one(
    folder, reviews, tmp_path, monkeypatch, capsys
):
    told = [*reviews, *NEW, "--length", "8", "8", "16", "16", "--vocab", str(folder / "words.txt")]
    assert finetune.main([*told, "--out", str(tmp_path / "whole")]) == 0
    parts = [*told, "--out", str(tmp_path / "parts")]
    assert finetune.main([*parts, "--resume"]) == 2
    assert "parts holds no interrupted run: start it without" in capsys.readouterr().err
    step = running.Progress.on_step_end

    def interrupted(self, args, state, control, **rest):
        step(self, args, state, control, **rest)
        if state.global_step == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(running.Progress, "on_step_end", interrupted)
    assert finetune.main(parts) == 130
    assert "the same command with --resume goes on" in capsys.readouterr().err
    assert not (tmp_path / "parts" / "config.json").exists()
    monkeypatch.setattr(running.Progress, "on_step_end", step)
    (tmp_path / "parts" / "checkpoint-15").mkdir()  # killed while it was written
    for extra, message in {
        (): "holds an interrupted run: --resume goes on, or name another --out",
        ("--resume", "--weight-decay", "0.1"): "was started with weight_decay 0.01 instead of 0.1",
    }.items():
        assert finetune.main([*parts, *extra]) == 2
        assert message in capsys.readouterr().err
    assert finetune.main([*parts, "--resume"]) == 0
    assert "step 5 of 20" not in capsys.readouterr().err
    for name in ("model.safetensors", "curves.svg"):
        whole, again = ((tmp_path / run / name).read_bytes() for run in ("whole", "parts"))
        assert whole == again


REFUSALS = [
    (["--data", "absent"], "absent: not a file of .csv, .tsv"),
    (["--vocab", "README.md"], "README.md is no BERT vocabulary: it lacks"),
    (["--model", "docs"], "docs has no tokenizer that transformers reads "),
    (["--word-dropout", "1"], "1.0 is not from 0 to below 1"),
    (["--family", "roberta", "--vocab-size", "99"], "--vocab-size 99: bytes alone need 261"),
    (["--freeze"], "--freeze without --model would train a classifier on random features"),
    (["--heads", "3"], "--hidden 16 is no multiple of --heads 3"),
    (["--learning-rate", "1e30"], "the loss is nan at step 5 of 20: lower --learning-rate"),
    (["--length", "2"], "2 is out of range: it must be 3 or more"),
    (["--embeddings", "minilm"], "MiniLM's word embeddings [30522, 384] cannot become"),
    (["--task", "regression"], "--task regression needs --names A,B,... of the outputs"),
    (["--names", "a,a"], "--task classification needs --names A,B,... of the outputs, each"),
    (["--out", "tests"], "tests exists and is no checkpoint: name another --out"),
    (["--out", "README.md"], "README.md is a file: give the name of a folder"),
    (["--out", "models/bert-tiny-imdb"], "holds a checkpoint: name another --out, or --force"),
    (
        ["--family", "bert2rtl-fused", "--task", "token-classification", "--names", "O,LONG"],
        "a bert2rtl-fused is not trained for token-classification: take another family",
    ),
    (["--data", "digits", "--patch", "3"], "--patch 3: it must divide the 8 pixels of an image"),
]
FILES = {
    "text,pair,label\na film,its story,0\nb,c,1\n": "a text is a pair, training takes single texts",
    'text,label\na film,0\na story,\n"x",1': "a text has no label, each needs one",
    "text,label\na film,a\na story,a\n": "has one label only (a): give two or more",
}
REFUSALS += [(["--data", text], message) for text, message in FILES.items()]


@pytest.mark.parametrize(("extra", "message"), REFUSALS)
def test_what_cannot_be_done_is_one_clear_line(
    extra, message, reviews, folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(ROOT)
    given = ["--vocab", str(folder / "words.txt"), "--out", str(tmp_path / "a")]
    if "--names" in extra and "--task" in extra:
        reviews = ["--data", str(folder / "token-classification.jsonl")]
    if extra[-1] in FILES:
        (tmp_path / "a.csv").write_text(extra[-1])
        extra = ["--data", str(tmp_path / "a.csv")]
    assert exit_code(finetune.main, [*reviews, *NEW, *given, *extra]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert (tmp_path / "a").exists() == ("the loss is nan" in message)
    assert not (tmp_path / "a" / "config.json").exists()


def test_a_mechanism_that_is_not_trained(trained, reviews, tmp_path, capsys):
    _, base = trained("bert2rtl-transformer", *reviews, *NEW, "--family", "bert2rtl-transformer")
    for name, value in {"gated": True, "position_bias": "alibi", "window": [None, 0]}.items():
        model = zoo.change(shutil.copytree(base, tmp_path / name), **{name: value})
        given = [*reviews, "--model", str(model), "--out", str(tmp_path / "a")]
        assert finetune.main(given) == 2
        assert f"config.json: {name} is {value!r}: only" in capsys.readouterr().err


def commands():
    """Every training command of the documents and of a model's card."""
    (table,) = [one for one in measurements() if one.name == "training"]
    found = [row[table.columns.index("_command")] for row in table.all]
    for path in (*ROOT.glob("models/*/README.md"), *ROOT.glob("docs/*.md")):
        text = path.read_text().replace("\\\n", " ")
        found += re.findall(
            r"(?:^    |`)(python -m train\.(?:finetune|pretrain)[^`\n]*)", text, re.M
        )
    return sorted({command for command in found if "DIR" not in command})


@pytest.mark.parametrize("command", commands())
def test_a_documented_recipe_is_one_command(command):
    module, *arguments = shlex.split(command)[2:]
    parser = {"train.finetune": finetune, "train.pretrain": pretrain}[module].parser()
    options = parser.parse_args(arguments)
    sources = options.data if isinstance(options.data, list) else [options.data]
    assert set(sources) <= {*CORPORA, data.DIGITS}


def test_moved_images_stay_digits():
    torch.manual_seed(0)
    images = np.stack([one.image for one in digits("test")])[:, None]
    every = torch.from_numpy(images.astype(np.float32) / 255 * 2 - 1)
    moved = training.moved(every)
    assert -1.001 <= float(moved.min()) <= float(moved.max()) <= 1.001
    differences = (moved - every).abs().mean((1, 2, 3))
    assert 0 < float(differences.min()) <= float(differences.max()) < 0.8
    assert float(((moved + 1).sum((1, 2, 3)) / (every + 1).sum((1, 2, 3))).min()) > 0.5


def test_the_first_heads_begin_at_the_neighbours():
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=50, intermediate_size=32, attn_implementation="eager", **sizes)
    model = BertForMaskedLM(config).eval()
    attend_to_neighbours(model)
    shares = model.bert(torch.randint(5, 50, (1, 40)), output_attentions=True).attentions[0][0]
    found = shares.argmax(2) - torch.arange(40)
    assert (found[:, 1:-1] == torch.tensor([[-1], [1]])).float().mean() > 0.9
