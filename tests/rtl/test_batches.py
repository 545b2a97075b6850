"""Batches: sequences that share an inference."""

import numpy as np
import pytest

from driver import bert2rtl
from golden.random import random_model
from rtl.compile.batches import check_lengths, pack
from rtl.compile.first_fit import first_fit
from rtl.compile.program import Program, compile_model
from rtl.interface.config import Config, ceil_div
from tb.scenarios import SMALL_LIMITS
from tests.zoo import SMALL


@pytest.fixture(scope="module")
def program() -> Program:
    """A program of 24 tokens in 6 row tiles."""
    return compile_model(random_model(SMALL["bert-tiny"], 1), Config(lanes=4, **SMALL_LIMITS))


def test_the_packer_by_hand(program: Program) -> None:
    assert program.row_tiles == 6
    # Row tiles 1 3 4 2 2: the 4 with the first 2, the 3 with the other 2 and the 1.
    assert pack(program, [4, 12, 13, 8, 5]) == [[0, 1, 4], [2, 3]]
    assert pack(program, []) == []
    assert pack(program, [24, 24]) == [[0], [1]]


@pytest.mark.parametrize("seed", range(20))
def test_every_sequence_is_in_one_batch_that_holds_it(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, program.tokens + 1, int(rng.integers(1, 60))).tolist()
    batches = pack(program, lengths)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    tiles = [[ceil_div(lengths[place], 4) for place in batch] for batch in batches]
    assert all(sum(batch) <= program.row_tiles for batch in tiles)
    for batch in batches:
        check_lengths(program, [lengths[place] for place in batch])
    # First fit leaves no two batches that would fit into one.
    loads = sorted(map(sum, tiles))
    assert len(loads) < 2 or loads[0] + loads[1] > program.row_tiles
    # The driver packs the same, knowing nothing but two numbers.
    assert bert2rtl.pack(lengths, 4, program.row_tiles) == batches


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_of_few_tokens(seed: int) -> None:
    """Less than the row tiles hold; one that is longer is alone."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 25, int(rng.integers(1, 60))).tolist()
    most = int(rng.integers(1, 25))
    batches = first_fit(lengths, 4, 6, most)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    loads = [
        (sum(ceil_div(lengths[p], 4) for p in batch), sum(lengths[p] for p in batch))
        for batch in batches
    ]
    for batch, (tiles, tokens) in zip(batches, loads):
        assert len(batch) == 1 or (tiles <= 6 and tokens <= most)
    for number, one in enumerate(loads):
        for other in loads[:number]:
            assert one[0] + other[0] > 6 or one[1] + other[1] > most
    assert batches == sorted(map(sorted, batches))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([], "the batch is empty: give it a sequence"),
        ([3, 0], r"tokens is 0: the compiled model takes 1\.\.24"),
        ([25], r"tokens is 25: the compiled model takes 1\.\.24"),
        ([12, 12, 1], r"3 sequences take 7 row tiles: the compiled model takes 1\.\.6 together"),
    ],
)
def test_what_is_no_batch(program: Program, lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_lengths(program, lengths)


@pytest.mark.parametrize("length", [0, 25])
def test_the_driver_names_a_bad_length(length: int) -> None:
    with pytest.raises(ValueError, match=f"a sequence has {length} tokens: it must have 1..24"):
        bert2rtl.pack([3, length], 4, 6)
