"""Masking, the token file, and train.pretrain as a user calls it."""

import json
import os
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM

import train.loop
from tests.tiers import quick
from train import finetune
from train.corpus import UNCHOSEN, Blocks, Corpus, mask, open_tokens, write_tokens
from train.failure import TrainError
from train.heartbert import FusedConfig, FusedForSequenceClassification
from train.pretrain import main
from train.tokens import SpecialTokens, load_tokenizer

SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)
TINY = ["--hidden", "16", "--layers", "2", "--heads", "2", "--ffn", "32", "--positions", "24"]
FAST = ["--steps", "240", "--every", "60", "--length", "16", "--batch", "16", "--held-out", "64"]


def test_masking_statistics():
    """15 % are chosen; of these 80 % become [MASK], 10 % random, 10 % stay: within 5 deviations."""
    corpus = Corpus(np.zeros(0, np.int32), SPECIAL, vocabulary=30522)
    rng = np.random.default_rng(0)
    blocks = rng.integers(1000, 30522, (4000, 128))
    blocks[:, 0], blocks[:, -1] = 101, 102
    batch, targets = mask(blocks, corpus, rng)
    chosen = targets != UNCHOSEN

    def near(count, total, share):
        return abs(count - share * total) < 5 * np.sqrt(total * share * (1 - share))

    assert near(chosen.sum(), 4000 * 126, 0.15)
    assert (targets[chosen] == blocks[chosen]).all()
    assert not chosen[:, [0, -1]].any()
    assert (batch.ids[~chosen] == blocks[~chosen]).all()
    shown, total = batch.ids[chosen], int(chosen.sum())
    same = shown == blocks[chosen]
    assert near((shown == 103).sum(), total, 0.8)
    assert near(same.sum(), total, 0.1)
    random = shown[(shown != 103) & ~same]
    assert near(len(random), total, 0.1)
    assert random.min() < 300  # from the whole vocabulary
    assert random.max() > 30200
    assert abs(random.mean() - 30522 / 2) < 5 * 30522 / np.sqrt(12 * len(random))


@pytest.fixture
def text(tmp_path):
    """Texts of one word each, so that a masked word is that of its neighbours."""
    rng = np.random.default_rng(0)
    words = ["film", "story", "acting", "moving", "boring", "great", "awful", "smile"]
    lines = [" ".join([words[rng.integers(len(words))]] * 30) for _ in range(600)]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_token_file_holds_all_texts_and_blocks_cover_it(words, tmp_path):
    tokenizer = load_tokenizer(words)
    path = tmp_path / "tokens.bin"
    texts = ["film story acting", "awful film"] * 500
    assert write_tokens(texts, tokenizer, path, "here") == 500 * 7
    corpus = open_tokens(path, tokenizer, "here")
    expected = tokenizer("film story acting")["input_ids"][1:]
    expected += tokenizer("awful film")["input_ids"][1:]
    assert corpus.ids.tolist() == expected * 500
    assert isinstance(corpus.ids, np.memmap)
    assert open_tokens(path, tokenizer, "elsewhere") is None
    blocks = Blocks(corpus, length=9, held_out=5, seed=0)
    offset, order = blocks.epoch(0)
    read = blocks.read(np.sort(order), offset)
    assert (read[:, 0] == 2).all()
    assert (read[:, -1] == 3).all()
    assert read[:, 1:-1].ravel().tolist() == (expected * 500)[offset : offset + read[:, 1:-1].size]
    held_out = np.concatenate(list(blocks.validation(2)))
    start = (blocks.count + 1) * 7
    assert held_out[:, 1:-1].ravel().tolist() == (expected * 500)[start : start + 35]
    assert offset + read[:, 1:-1].size <= start


def test_a_short_corpus_is_refused():
    corpus = Corpus(np.zeros(100, np.int32), SPECIAL, vocabulary=200)
    with pytest.raises(TrainError, match="100 tokens: too few for one training block of 128"):
        Blocks(corpus, length=128, held_out=1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("preset", quick(["heartbert", "bert-tiny"]))
def test_it_learns_resumes_with_the_same_bytes_and_can_be_fine_tuned(
    preset, text, words, reviews, tmp_path, monkeypatch, capsys
):
    common = ["--preset", preset, "--data", str(text), "--vocab", str(words), *TINY, *FAST]
    common += ["--precision", "float32", "--learning-rate", "0.01"]

    def places(name):
        return ["--out", str(tmp_path / name), "--work", str(tmp_path / f"work-{name}")]

    report = tmp_path / "report.json"
    assert main([*common, *places("whole"), "--json", str(report)]) == 0
    history = json.loads(report.read_text())["history"]
    assert [row["step"] for row in history] == [60, 120, 180, 240]
    assert history[-1]["loss"] < history[0]["loss"]
    assert history[-1]["accuracy"] > 30  # one of eight words at random: 12.5

    step = train.loop._step

    def interrupted(*args):
        if args[4] == 13:
            os.kill(os.getpid(), signal.SIGINT)
        return step(*args)

    monkeypatch.setattr(train.loop, "_step", interrupted)
    assert main([*common, *places("parts")]) == 130
    monkeypatch.setattr(train.loop, "_step", step)
    assert main([*common, *places("parts")]) == 0
    weights = [tmp_path / name / "model.safetensors" for name in ("whole", "parts")]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    if preset == "bert-tiny":
        model, loading = AutoModelForMaskedLM.from_pretrained(
            tmp_path / "whole", output_loading_info=True
        )
        assert not loading["missing_keys"]
        assert not loading["unexpected_keys"]
        assert model.dtype == torch.float32
    tune = ["--model", str(tmp_path / "whole"), "--data", str(reviews), "--stages", "16:12"]
    tune += ["--length", "16", "--batch", "16", "--learning-rate", "0.01", "--average", "0"]
    assert finetune.main([*tune, *places("tuned"), "--json", str(report)]) == 0
    assert json.loads(report.read_text())["metrics"]["validation"]["accuracy"] > 80


def test_the_fused_classifier_survives_its_directory(tmp_path):
    config = FusedConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, intermediate_size=32)
    config.id2label = {0: "no", 1: "yes", 2: "maybe"}
    torch.manual_seed(0)
    model = FusedForSequenceClassification(config, dropout=0.0).eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    loaded = FusedForSequenceClassification.load(tmp_path).eval()
    ids, attend = torch.randint(50, (3, 9)), torch.ones(3, 9, dtype=torch.int64)
    assert torch.equal(model(ids, attend), loaded(ids, attend))
    assert loaded.config == config


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--length", "25"], "--length 25: the model has 24 positions"),
        (["--heads", "3"], "--hidden 16 is no multiple of --heads 3"),
        (["--batch", "100000"], "training blocks do not fill a batch of 100000: lower --batch"),
        (["--data", "absent"], "no data set or file named 'absent': give reviews, imdb"),
        (["--held-out", "9999"], "too few for one training block of 16 tokens beside 9999"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(text, words, tmp_path, capsys, extra, message):
    common = ["--data", str(text), "--vocab", str(words), *TINY, *FAST]
    places = ["--out", str(tmp_path / "a"), "--work", str(tmp_path / "w")]
    assert main([*common, *places, *extra]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_an_existing_checkpoint_is_replaced_only_with_force(text, words, tmp_path, capsys):
    common = ["--data", str(text), "--vocab", str(words), *TINY, *FAST, "--steps", "1"]
    out = tmp_path / "a"
    out.mkdir()
    (out / "config.json").write_text("{}")
    common += ["--out", str(out), "--work", str(tmp_path / "w")]
    assert main(common) == 2
    assert f"error: {out} holds a checkpoint: name another --out" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["config.json"]
    assert main([*common, "--force"]) == 0
    card = (out / "README.md").read_text()
    assert "tokens (text.txt), for" in card
    assert "license" not in card
    assert "| learning-rate | 0.001 |" in card


def test_without_out_it_goes_to_build(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--data", str(text), "--vocab", str(words), *TINY, *FAST, "--steps", "1"]) == 0
    assert (tmp_path / "build" / "trained" / "heartbert" / "config.json").is_file()
