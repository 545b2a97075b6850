"""The order of the expected writes, against a plain account of the data layout."""

from itertools import chain

import numpy as np
import pytest

from golden.encoder import run, run_batch
from rtl.compile.program import compile_model
from rtl.interface.config import Config
from tb.expected import Writes, expected_writes
from tb.scenarios import SMALL_LIMITS, sequence
from tests.zoo import SMALL, family

CONFIG = Config(lanes=4, **SMALL_LIMITS)
N = CONFIG.lanes


def writes_of(name: str, tokens: int, whole: bool = True) -> tuple[dict, list[Writes]]:
    model = family(name, SMALL[name])
    program = compile_model(model, CONFIG, whole_last_layer=whole)
    ids, types, attend = sequence(model, tokens, 1)
    trace: dict[str, np.ndarray] = {}
    run(model, ids, types, attend, trace)
    return trace, list(expected_writes(program, [trace], [tokens], attend))


def covered(parts: list[Writes], tensor: np.ndarray) -> np.ndarray:
    """How often each element of the tensor is expected; its value must be the tensor's."""
    count = np.zeros(tensor.shape, int)
    places = (zip(one.values, one.valid, one.index) for one in parts)
    for values, valid, index in chain.from_iterable(places):
        for value, good, place in zip(values, valid, index):
            if good and all(p < size for p, size in zip(place, tensor.shape)):
                at = tuple(place)
                assert value in (tensor[at], 0)
                count[at] += int(value == tensor[at])
    return count


@pytest.mark.parametrize("tokens", [1, 4, 9])
@pytest.mark.parametrize("name", SMALL)
def test_every_element_is_expected_once(name: str, tokens: int) -> None:
    trace, writes = writes_of(name, tokens)
    named: dict[str, list[Writes]] = {}
    for one in writes:
        named.setdefault(one.tensor, []).append(one)
    # Of heads that share K and V each ATTEND has some.
    shared = SMALL[name].kv_heads is not None
    assert (len(named) < len(writes)) == shared
    derived = {"row_m", "row_s"}
    for tensor, values in trace.items():
        if tensor.rpartition(".")[2] in derived or tensor == "pooled":
            continue
        assert tensor in named, tensor
        if tensor == "logits" and values.ndim == 2:  # lane 0 of each row tile is shown
            labels = values.shape[1]
            order = [
                (row, label)
                for first in range(0, labels, N)
                for row in range(-(-tokens // N))
                for label in range(first, min(first + N, labels))
            ]
            (shown,) = named[tensor]
            assert shown.values[:, 0].tolist() == [values[row * N, label] for row, label in order]
            assert shown.address.tolist() == [row * labels + label for row, label in order]
        elif values.ndim == 1 and tensor != "logits":
            (shown,) = named[tensor]
            assert shown.valid.sum() == len(values)
            np.testing.assert_array_equal(shown.values[:, 0], values)
        elif tensor.endswith(".v"):
            assert covered(named[tensor], values).min() >= 1
        else:
            np.testing.assert_array_equal(covered(named[tensor], values), 1, err_msg=tensor)
    # Nothing is expected of lanes beyond the sequence.
    for w in writes:
        if w.port in ("x", "norm", "norm8"):
            assert w.valid.sum() == tokens * SMALL[name].hidden


def test_last_layer_of_the_first_token() -> None:
    trace, writes = writes_of("bert-tiny", 9, whole=False)
    named = {w.tensor: w for w in writes}
    for tensor in ("q", "context"):
        assert named[f"layer.1.{tensor}"].valid.all()
    for tensor in ("attention.sum", "ffn.hidden", "ffn.norm"):
        w = named[f"layer.1.{tensor}"]
        assert w.valid[:, 0].all()
        assert not w.valid[:, 1:].any()
    for tensor in ("q", "context", "attention.sum", "ffn.hidden", "ffn.norm"):
        w = named[f"layer.1.{tensor}"]
        assert len(w.address) == trace[f"layer.1.{tensor}"].shape[1]
    assert named["layer.1.k"].valid.sum() == 9 * 12


@pytest.mark.parametrize("tokens", [0, 25])
def test_length(tokens: int) -> None:
    model = family("bert-tiny", SMALL["bert-tiny"])
    program = compile_model(model, CONFIG)
    with pytest.raises(ValueError, match=f"tokens is {tokens}: the compiled model takes 1..24"):
        list(expected_writes(program, [{}], [tokens]))


def test_a_batch_has_the_writes_of_its_sequences() -> None:
    """Each in row tiles of its own; the first tokens side by side in the last layer."""
    model = family("bert-tiny", SMALL["bert-tiny"])
    program = compile_model(model, CONFIG)
    lengths = [5, 1, 2, 4, 1]
    ids, types, attend = sequence(model, sum(lengths), 3)
    attend[:] = 1
    traces: list[dict[str, np.ndarray]] = []
    logits = run_batch(model, ids, types, attend, lengths, traces)
    named: dict[str, list[Writes]] = {}
    for writes in expected_writes(program, traces, lengths, attend):
        named.setdefault(writes.tensor, []).append(writes)
    rows = [(0, 0), (0, 4), (1, 0), (2, 0), (3, 0), (4, 0)]  # sequence and token of each row tile
    (q,) = named["layer.0.q"]
    width = traces[0]["layer.0.q"].shape[1]
    for place, address in enumerate(q.address):
        row, channel = divmod(int(address), width)
        number, first = rows[row]
        column = traces[number]["layer.0.q"][first : first + N, channel]
        assert q.values[place][q.valid[place]].tolist() == column.tolist()
    # A gathered sum is one write a sequence and channel, in the sequence's lane.
    (total,) = named["layer.1.attention.sum"]
    assert (total.valid.sum(1) == 1).all()
    hidden = traces[0]["layer.1.attention.sum"].shape[1]
    for place, address in enumerate(total.address):
        row, channel = divmod(int(address), hidden)
        (lane,) = np.flatnonzero(total.valid[place])
        number = row * N + lane
        assert total.values[place, lane] == traces[number]["layer.1.attention.sum"][0, channel]
    # One row tile for four sequences from there on.
    (norm,) = [w for w in named["layer.1.attention.norm"] if w.port == "norm"]
    assert norm.valid.sum(1).tolist() == [4] * hidden + [1] * hidden
    (last,) = named["logits"]
    assert last.values[:, 0].tolist() == logits[[0, 4]].reshape(-1).tolist()
    assert sum(w.valid.shape[0] for w in named["layer.0.max"]) == 2 * len(rows)
