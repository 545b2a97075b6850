"""Config: what it refuses, and the sizes that follow from it."""

import argparse
import random
from typing import Any

import pytest
from amaranth.hdl import Fragment

from rtl.accelerator import Accelerator
from rtl.interface.config import LANES, WAYS, Config
from rtl.interface.mechanisms import MECHANISMS
from rtl.interface.options import add_config_options, config_of, options_of
from tests.tiers import quick


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"lanes": 5}, "lanes is 5: choose one of 4, 8, 16, 32, 64"),
        ({"lanes": 128}, "lanes is 128: choose one of 4, 8, 16, 32, 64"),
        ({"columns": 4}, "columns is 4: with 8 lanes choose one of 8, 16, 32, 64"),
        ({"columns": 24}, "columns is 24: with 8 lanes choose one of 8, 16, 32, 64"),
        ({"lanes": 4, "columns": 64}, "columns is 64: with 4 lanes choose one of 4, 8, 16, 32"),
        ({"tokens": 0}, "tokens is 0: it must lie in 1..8192"),
        ({"tokens": 8193}, "tokens is 8193: it must lie in 1..8192"),
        ({"hidden": 1025}, "hidden is 1025: it must lie in 1..1024"),
        ({"ffn": 0}, "ffn is 0: it must lie in 1..4096"),
        ({"labels": 4097}, "labels is 4097: it must lie in 1..4096"),
        ({"lanes": 4, "dsp_macs": 17}, "dsp_macs is 17: it must lie in 0..16, lanes x columns"),
        (
            {"columns": 16, "dsp_macs": 129},
            "dsp_macs is 129: it must lie in 0..128, lanes x columns",
        ),
        ({"dsp_macs": -1}, "dsp_macs is -1: it must lie in 0..64, lanes x columns"),
    ],
)
def test_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        Config(**choice)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("tokens", [1, 33, 512])
@pytest.mark.parametrize(("hidden", "ffn"), [(1, 1), (96, 200), (128, 512), (1024, 4096)])
def test_sizes(lanes: int, tokens: int, hidden: int, ffn: int) -> None:
    config = Config(lanes=lanes, tokens=tokens, hidden=hidden, ffn=ffn)
    rows = config.row_tiles
    assert rows * lanes >= tokens > (rows - 1) * lanes
    assert config.x_words == rows * hidden
    bank = config.bank_words
    assert bank & (bank - 1) == 0
    # Q, K and the context take a word a channel, V one a token of each column tile.
    assert bank >= rows * hidden
    assert bank >= rows * lanes * -(-hidden // lanes)
    assert 4 * bank >= rows * ffn
    half = config.weight_words
    assert half & (half - 1) == 0
    assert half >= max(hidden, ffn, 2 * lanes * -(-hidden // lanes))
    # The widest sums: int8 * int8 over the longest layer, p * int8 over the tokens.
    widest = max(max(hidden, ffn) * 128 * 128, tokens * 255 * 128)
    assert widest < 1 << (config.acc_bits - 1)
    assert max(hidden, ffn, tokens) < 1 << config.length_bits


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("tokens", [1, 33, 512])
@pytest.mark.parametrize(("hidden", "ffn"), [(1, 1), (96, 200), (128, 512), (1024, 4096)])
def test_sizes_of_ways(lanes: int, ways: int, tokens: int, hidden: int, ffn: int) -> None:
    limits = {"lanes": lanes, "tokens": tokens, "hidden": hidden, "ffn": ffn}
    config, square = Config(columns=ways * lanes, **limits), Config(**limits)
    assert (config.ways, config.tile_columns, config.macs) == (ways, ways * lanes, ways * lanes**2)
    assert Config(columns=lanes, **limits).bank_words == square.bank_words
    # Lines, row tiles or words of N channels of V, lie in the ways in turn.
    lines, words = -(-config.row_tiles // ways), -(-hidden // lanes)
    assert config.x8_words == lines * hidden
    assert config.bank_words >= lines * max(hidden, -(-ffn // 4))
    assert config.bank_words >= -(-words // ways) * config.row_tiles * lanes
    assert config.weight_words >= max(hidden, ffn, -(-words // ways) * 4 * lanes)
    # All ways together hold what one did, but for what does not share out evenly.
    even = config.row_tiles % ways == words % ways == 0
    if even:
        assert config.ways * config.bank_words == square.bank_words
        assert config.ways * config.x8_words == square.x8_words


LEAST = {"tokens": 1, "hidden": 1, "ffn": 1, "labels": 1}
MOST = {"tokens": 8192, "hidden": 1024, "ffn": 4096, "labels": 4096}


@pytest.mark.parametrize(
    "limits",
    quick(
        [
            {**MOST, **{one.name: one.most or True for one in MECHANISMS}},
            {**LEAST, **{one.name: 1 if one.most else True for one in MECHANISMS}},
            *({"tokens": 8192, one.name: one.most or True} for one in MECHANISMS),
            {**MOST, "columns": 32, **{one.name: one.most or True for one in MECHANISMS}},
            {**LEAST, "columns": 32},
            {**LEAST, "lanes": 64},
        ],
        2,
    ),
    ids=str,
)
def test_what_is_accepted_can_be_built(limits: dict[str, Any]) -> None:
    """The ends of the limits, where units and memories are the largest and the smallest."""
    Fragment.get(Accelerator(Config(**{"lanes": 4, **limits})), None)


def test_words_of_earlier_options_change_nothing() -> None:
    parser = argparse.ArgumentParser()
    add_config_options(parser)
    assert config_of(parser.parse_args(["--windows", "--rms-norm"])) == Config()
    assert "--windows" not in parser.format_help()


@pytest.mark.parametrize("seed", range(20))
def test_options_of_makes_the_configuration(seed: int) -> None:
    rng = random.Random(seed)
    parser = argparse.ArgumentParser()
    add_config_options(parser)

    def some() -> Config:
        return Config(
            lanes=rng.choice([4, 8]),
            columns=rng.choice([None, 8, 32]),
            tokens=rng.choice([1, 128]),
            dsp_macs=rng.choice([None, 0, 3]),
            precise=rng.choice([False, True]),
        )

    config, plain = some(), Config(lanes=rng.choice([4, 8]))
    assert config_of(parser.parse_args(options_of(config))) == config
    beside = [*options_of(plain), *options_of(config, plain)]
    assert config_of(parser.parse_args(beside)) == config
