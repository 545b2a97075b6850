"""What a program must write, in order: the golden trace laid out as the hardware's write ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rtl.compile.program import Program, Step
from rtl.interface.command import Flag, Opcode, word_address
from rtl.interface.config import Config, ceil_div


@dataclass(frozen=True)
class Writes:
    """Consecutive writes of one port that belong to one tensor of one step.

    Attributes
    ----------
    port
        bank, x (embedding and residual), norm, score, p, row or logit.
    tensor
        Name in the golden trace.
    address
        [writes], as the port presents it.
    values
        [writes, lanes] expected words.
    valid
        [writes, lanes]; lanes beyond the sequence are not compared.
    index
        [writes, lanes, dimensions of the tensor]: which element a lane holds, for messages.
    """

    port: str
    tensor: str
    address: np.ndarray
    values: np.ndarray
    valid: np.ndarray
    index: np.ndarray


def expected_writes(
    program: Program,
    trace: Mapping[str, np.ndarray],
    tokens: int,
    attend: np.ndarray | None = None,
) -> Iterator[Writes]:
    """The writes of every port, each port's in the order in which the hardware makes them.

    Parameters
    ----------
    attend
        The attend bits, which mean pooling shows in its p; all tokens attend where it is None.

    Raises
    ------
    ValueError
        tokens is not a length that the program takes.
    """
    if not 1 <= tokens <= program.tokens:
        raise ValueError(f"{tokens} tokens: the program takes 1..{program.tokens}")
    valid = np.ones(tokens, bool) if attend is None else np.asarray(attend, bool)
    layout = _Layout(program.config, tokens, valid)
    for step in program.steps:
        match step.opcode:
            case Opcode.EMBED:
                yield layout.rows_of_tokens("x", step.name, trace[step.name], step)
            case Opcode.NORM:
                yield from layout.norm(step, trace)
            case Opcode.LINEAR:
                yield layout.linear(step, trace)
            case Opcode.ATTEND:
                yield from layout.attend(step, trace)


class _Layout:
    """Addresses and lanes of a sequence of `tokens` in a configuration."""

    def __init__(self, config: Config, tokens: int, attend: np.ndarray) -> None:
        self.lanes, self.tokens, self.mask = config.lanes, tokens, attend
        self.bank_words = config.bank_words
        self.row_tiles = ceil_div(tokens, config.lanes)

    def word(self, step: Step, field: str) -> int:
        """The word that the field names, in X16 or in the banks."""
        return word_address(step.values[field], self.bank_words)

    def rows(self, step: Step) -> int:
        return 1 if step.flags & Flag.FIRST_TILE else self.row_tiles

    def by_channel(
        self, port: str, name: str, tensor: np.ndarray, order: np.ndarray, address: np.ndarray
    ) -> Writes:
        """Words of N tokens: `order` [writes, 2] holds (row tile, channel) of each."""
        token = order[:, :1] * self.lanes + np.arange(self.lanes)
        valid = token < self.tokens
        channel = np.broadcast_to(order[:, 1:], token.shape)
        values = tensor[np.where(valid, token, 0), channel]
        return Writes(port, name, address, values, valid, np.stack([token, channel], -1))

    def rows_of_tokens(self, port: str, name: str, tensor: np.ndarray, step: Step) -> Writes:
        """Row tile after row tile, channel after channel: EMBED and NORM."""
        channels = step.values["channels"]
        row, channel = np.indices((self.rows(step), channels)).reshape(2, -1)
        order = np.stack([row, channel], 1)
        return self.by_channel(port, name, tensor, order, row * channels + channel)

    def norm(self, step: Step, trace: Mapping[str, np.ndarray]) -> Iterator[Writes]:
        base = step.name.removesuffix(".norm")
        for port, name in (("norm", step.name), ("norm8", f"{base}.x8")):
            yield self.rows_of_tokens(port, name, trace[name], step)

    def linear(self, step: Step, trace: Mapping[str, np.ndarray]) -> Writes:
        values = step.values
        if step.flags & Flag.LOGITS:
            logits = trace["logits"]
            label = np.arange(len(logits))
            one = np.ones((len(logits), 1), bool)
            return Writes("logit", "logits", label, logits[:, None], one, label[:, None, None])
        if step.flags & Flag.BY_LANE:
            return self.value(step, trace)
        # Column tile outside, row tile inside, column by column.
        columns = values["columns"]
        order = np.array(
            [
                (row, channel)
                for first in range(0, columns, self.lanes)
                for row in range(self.rows(step))
                for channel in range(first, min(first + self.lanes, columns))
            ]
        )
        row, channel = order.T
        address = self.word(step, "destination") + row * values["destination_stride"] + channel
        port = "x" if step.flags & Flag.RESIDUAL else "bank"
        tensor = trace[step.name]
        if tensor.ndim == 1:  # the head's layers compute token 0 alone
            tensor = np.broadcast_to(tensor, (self.tokens, len(tensor)))
            writes = self.by_channel(port, step.name, tensor, order, address)
            writes.valid[:, 1:] = False
            return writes
        return self.by_channel(port, step.name, tensor, order, address)

    def value(self, step: Step, trace: Mapping[str, np.ndarray]) -> Writes:
        """V: words of N channels of one token, each head padded to whole words."""
        if step.name == "mean.v":
            tensor, heads = trace["final.x8" if "final.x8" in trace else self._last(trace)], 1
        else:
            tensor = trace[step.name]
            heads = trace[step.name.removesuffix(".v") + ".max"].shape[0]
        size = tensor.shape[1] // heads
        tiles = step.values["columns"] // self.lanes
        padded = tiles // heads * self.lanes
        tile, token = np.indices((tiles, self.tokens)).reshape(2, -1)
        head = tile * self.lanes // padded
        within = (tile * self.lanes % padded)[:, None] + np.arange(self.lanes)
        inside = within < size
        channel = head[:, None] * size + np.minimum(within, size - 1)
        values = np.where(inside, tensor[token[:, None], channel], 0)
        address = self.word(step, "destination") + tile * (self.row_tiles * self.lanes) + token
        index = np.stack([np.broadcast_to(token[:, None], channel.shape), channel], -1)
        return Writes("bank", step.name, address, values, np.ones_like(inside), index)

    @staticmethod
    def _last(trace: Mapping[str, np.ndarray]) -> str:
        """The last layer's x8, which the mean pooling reads."""
        return [name for name in trace if name.endswith("ffn.x8")][-1]

    def attend(self, step: Step, trace: Mapping[str, np.ndarray]) -> Iterator[Writes]:
        """Scores, p and row scales of every head and row tile, and the context."""
        if step.name == "mean":
            weights = np.where(self.mask, 255, 0)
            shape = (1, self.tokens, self.tokens)
            equal = {
                "mean.scores": np.zeros(shape, np.int32),
                "mean.p": np.broadcast_to(weights, shape),
                "mean.max": np.zeros(shape[:2], np.int32),
                "mean.sum": np.full(shape[:2], weights.sum()),
            }
            yield from self.softmax(step, equal)
            yield self.mean(step, trace)
            return
        yield from self.softmax(step, trace)
        yield self.context(step, trace[f"{step.name}.context"], f"{step.name}.context")

    def softmax(self, step: Step, trace: Mapping[str, np.ndarray]) -> Iterator[Writes]:
        """Scores, p, max and sum."""
        heads, rows = step.values["heads"], self.rows(step)
        lane = np.arange(self.lanes)
        head, row, key = np.indices((heads, rows, self.tokens)).reshape(3, -1)
        query = row[:, None] * self.lanes + lane
        valid = query < self.tokens
        bounded = np.minimum(query, self.tokens - 1)
        index = np.stack(np.broadcast_arrays(head[:, None], query, key[:, None]), -1)
        for port, name in (("score", "scores"), ("p", "p")):
            tensor = trace[f"{step.name}.{name}"]
            values = tensor[head[:, None], bounded, key[:, None]]
            yield Writes(port, f"{step.name}.{name}", key, values, valid, index)
        head, row = np.indices((heads, rows)).reshape(2, -1)
        query = row[:, None] * self.lanes + lane
        valid, bounded = query < self.tokens, np.minimum(query, self.tokens - 1)
        index = np.stack(np.broadcast_arrays(head[:, None], query), -1)
        for name in ("max", "sum"):
            values = trace[f"{step.name}.{name}"][head[:, None], bounded]
            yield Writes(name, f"{step.name}.{name}", row, values, valid, index)

    def mean(self, step: Step, trace: Mapping[str, np.ndarray]) -> Writes:
        """Mean pooling: only token 0's lane of its context is the result."""
        pooled = np.broadcast_to(trace["pooled"], (self.tokens, len(trace["pooled"])))
        writes = self.context(step, pooled, "pooled")
        writes.valid[:, 1:] = False
        return writes

    def context(self, step: Step, tensor: np.ndarray, name: str) -> Writes:
        size = step.values["head_size"]
        head, row, channel = np.indices((step.values["heads"], self.rows(step), size))
        row, channel = row.reshape(-1), (head * size + channel).reshape(-1)
        address = self.word(step, "context") + row * step.values["stride"] + channel
        return self.by_channel("bank", name, tensor, np.stack([row, channel], 1), address)
