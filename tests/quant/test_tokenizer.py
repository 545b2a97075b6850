import io
from pathlib import Path

import numpy as np
import pytest

from quant.classify import read_standard_input
from quant.foreign.tokenizer import InputError, TextTokenizer
from quant.model.spec import CheckpointError
from tests.quant import tiny


def test_a_real_sentence(tokenizer: TextTokenizer) -> None:
    tokens = tokenizer.encode("That movie was terrible!", limit=512)
    assert tokens.words == ("[CLS]", "that", "movie", "was", "terrible", "!", "[SEP]")
    assert tokens.ids.tolist() == [101, 2008, 3185, 2001, 6659, 999, 102]  # BERT uncased's ids
    assert tokens.ids.dtype == np.int32
    assert not tokens.types.any()
    assert tokens.dropped == 0


def test_a_long_text_is_cut_to_the_limit(tokenizer: TextTokenizer) -> None:
    tokens = tokenizer.encode("good film " * 400, limit=100)
    assert len(tokens.ids) == 100
    assert tokens.words[-1] == "[SEP]"
    assert tokens.dropped == 802 - 100
    again = tokenizer.encode("good film", limit=100)  # the limit is that of one call
    assert (len(again.ids), again.dropped) == (4, 0)
    pair = tokenizer.encode("good " * 60, "bad", limit=20)
    assert pair.words[-2:] == ("bad", "[SEP]")
    assert (len(pair.ids), pair.dropped) == (20, 64 - 20)


def test_refuses_texts(tokenizer: TextTokenizer) -> None:
    for empty in ("", " \n\t"):
        with pytest.raises(InputError, match=r"the text is empty: give at least one word"):
            tokenizer.encode(empty, limit=10)
    with pytest.raises(InputError, match=r"the second text is empty"):
        tokenizer.encode("good", " ", limit=10)
    with pytest.raises(InputError, match=r"limit of 2 tokens leaves no room .* must be 3 or more"):
        tokenizer.encode("good", limit=2)
    with pytest.raises(InputError, match=r"must be 5 or more"):
        tokenizer.encode("good", "bad", limit=4)
    with pytest.raises(InputError, match=r"holds nothing that the vocabulary knows"):
        tokenizer.encode("\x00\x01", limit=10)


def test_refuses_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read .*config.json: No such file"):
        tiny.tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match=r"has no tokenizer: it needs vocab.txt or tokenizer"):
        tiny.tokenizer(tmp_path)
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(CheckpointError, match=r"cannot read the tokenizer .*Missing \[UNK\]"):
        tiny.tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer_config.json is not JSON"):
        tiny.tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"cannot read the tokenizer"):
        tiny.tokenizer(tmp_path)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_not_utf_8_is_one_line(encoding, errors, tmp_path, monkeypatch):
    # However the terminal is set: a byte that is no text is named, and text is what it is.
    tokenizer = tiny.tokenizer(tiny.write(tmp_path / "tiny"))

    def read(data: bytes) -> str:
        stdin = io.TextIOWrapper(io.BytesIO(data), encoding, errors)
        monkeypatch.setattr("sys.stdin", stdin)
        return read_standard_input()

    assert read("film bad \u2013 \U0001f3ac".encode()) == "film bad \u2013 \U0001f3ac"
    with pytest.raises(InputError, match=r"the text is not UTF-8: character 6 is the byte 0xe9: "):
        tokenizer.encode(read(b"cafe \xe9"), limit=8)
    with pytest.raises(InputError, match=r"the second text is not UTF-8: character 1 is the byte"):
        tokenizer.encode("film", read(b"\xff bad"), limit=8)
    assert tokenizer.encode(read(b"good film"), limit=8).dropped == 0
