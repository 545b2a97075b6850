"""The writes that a program must make, in order: golden's trace, laid out by the ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from golden.linear import high_half
from rtl.compile.batches import check_lengths
from rtl.compile.program import Program, Step
from rtl.interface.command import walked_keys, word_address
from rtl.interface.config import Config, ceil_div
from rtl.interface.isa import Flag, Opcode


@dataclass(frozen=True)
class Writes:
    """Consecutive writes of one port that belong to one tensor of one step.

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
    traces: Sequence[Mapping[str, np.ndarray]],
    lengths: Sequence[int],
    attend: np.ndarray | None = None,
) -> Iterator[Writes]:
    """The writes of every port, each port's in the order in which the hardware makes them.

    traces, lengths
        Of each sequence of a batch. `index` counts tokens through a batch, and sequences where one
        token of each is left.
    attend
        The attend bits, which mean pooling shows in its p; all tokens attend where it is None. Of a
        batch one sequence after the other.

    Raises ValueError: The program takes no batch of these lengths.
    """
    check_lengths(program, lengths)
    valid = np.ones(sum(lengths), bool) if attend is None else np.asarray(attend, bool)
    layout = _Layout(program.config, lengths, valid, traces)
    attended = Counter[str]()  # heads of a layer, of which ATTENDs of shared K and V take some
    for step in program.steps:
        match step.opcode:
            case Opcode.EMBED:
                yield layout.rows_of_tokens("x", step.name, step)
            case Opcode.NORM:
                yield from layout.norm(step)
            case Opcode.LINEAR:
                yield layout.linear(step)
            case Opcode.ATTEND:
                yield from layout.attend(step, attended[step.name])
                attended[step.name] += step.values["heads"]


class _Layout:
    """Addresses and lanes of a batch in a configuration.

    A place is a row tile times N and a lane; `token` is the token of the batch at each place or -1.
    `gathered`: the sequences' first tokens stand side by side, from the first row tile on.
    """

    def __init__(
        self,
        config: Config,
        lengths: Sequence[int],
        attend: np.ndarray,
        traces: Sequence[Mapping[str, np.ndarray]],
    ) -> None:
        n = self.lanes = config.lanes
        self.ways, self.columns = config.ways, config.tile_columns
        self.lengths, self.traces = lengths, traces
        self.bank_words = config.bank_words
        tiles = [ceil_div(tokens, n) for tokens in lengths]
        self.row_tiles = sum(tiles)
        self.first_rows = np.concatenate([[0], np.cumsum(tiles)[:-1]]).astype(int)
        self.first_tokens = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int)
        self.masks = np.split(attend, self.first_tokens[1:])
        self.token = np.full(self.row_tiles * n, -1)
        for row, token, length in zip(self.first_rows, self.first_tokens, lengths):
            self.token[row * n : row * n + length] = token + np.arange(length)
        self.gathered = False

    def all(self, name: str) -> np.ndarray:
        """A tensor of the trace, one sequence after the other."""
        parts = [self.one(name, trace) for trace in self.traces]
        return np.stack(parts) if parts[0].ndim == 1 else np.concatenate(parts)

    @staticmethod
    def one(name: str, trace: Mapping[str, np.ndarray]) -> np.ndarray:
        """A tensor of the trace, or what the hardware alone makes to project an embedding."""
        match name:
            case "projection.copy":
                return trace["embedding.x8"]
            case "projection.norm" | "projection.x8":
                return np.zeros_like(trace["projection.sum"])
        if name.endswith((".x8", ".gate", ".hidden")):
            return high_half(trace[name])  # the ports show no low halves
        return trace[name]

    def word(self, step: Step, field: str) -> int:
        """The word that the field names, in X16 or in the banks."""
        return word_address(step.values[field], self.bank_words)

    def banked(self, base: int, line: np.ndarray, stride: int, word: np.ndarray) -> np.ndarray:
        """Addresses in the banks as the trace has them: lines lie in the ways in turn."""
        address = base + line // self.ways * stride + word
        return address * self.ways + line % self.ways

    def gathers(self, step: Step) -> bool:
        """It takes lane 0 of the first row tile of each sequence to a lane of its own."""
        kinds = Flag.RESIDUAL | Flag.LOGITS
        return bool(step.flags & Flag.FIRST_TILE and step.flags & kinds) and not self.gathered

    def rows(self, step: Step) -> np.ndarray:
        """The row tiles that a LINEAR or NORM computes."""
        if not step.flags & Flag.FIRST_TILE:
            return np.arange(self.row_tiles)
        if self.gathered:
            return np.arange(ceil_div(len(self.lengths), self.lanes))
        return self.first_rows

    def tokens_at(self, place: np.ndarray) -> np.ndarray:
        """The token at each place, -1 where there is none."""
        if not self.gathered:
            return self.token[place]
        inside = place < len(self.lengths)
        return np.where(inside, self.first_tokens[np.where(inside, place, 0)], -1)

    def by_channel(
        self, port: str, name: str, tensor: np.ndarray, order: np.ndarray, address: np.ndarray
    ) -> Writes:
        """Words of N tokens: `order` [writes, 2] holds (row tile, channel) of each."""
        place = order[:, :1] * self.lanes + np.arange(self.lanes)
        token = self.tokens_at(place)
        valid = token >= 0
        channel = np.broadcast_to(order[:, 1:], token.shape)
        values = tensor[np.where(valid, token, 0), channel]
        shown = place if self.gathered else token[:, :1] + np.arange(self.lanes)
        return Writes(port, name, address, values, valid, np.stack([shown, channel], -1))

    def rows_of_tokens(self, port: str, name: str, step: Step) -> Writes:
        """Row tile after row tile, channel after channel: EMBED and NORM."""
        channels, rows = step.values["channels"], self.rows(step)
        row, channel = (part.reshape(-1) for part in np.indices((len(rows), channels)))
        order = np.stack([rows[row], channel], 1)
        tensor = self.all(name)
        if name.startswith("head.") and step.flags & Flag.FIRST_TILE:
            tensor = self.of_first_tokens(tensor)
        return self.by_channel(port, name, tensor, order, rows[row] * channels + channel)

    def of_first_tokens(self, tensor: np.ndarray) -> np.ndarray:
        """Rows of the sequences at the places of their first tokens."""
        spread = np.zeros((sum(self.lengths), tensor.shape[1]), tensor.dtype)
        spread[self.first_tokens] = tensor
        return spread

    def norm(self, step: Step) -> Iterator[Writes]:
        base = step.name.removesuffix(".norm")
        # It stands before the sum that it normalises, which may be the one that gathers.
        before, self.gathered = self.gathered, bool(step.flags & Flag.FIRST_TILE)
        whole = self.rows_of_tokens("norm", step.name, step)
        low = self.rows_of_tokens("norm8", f"{base}.x8", step)
        self.gathered = before
        yield from (whole, low)

    def tiles(self, rows: int, columns: int) -> np.ndarray:
        """Row and column of every word, [2, words]: column tile outside, row inside, by column."""
        row, column = np.indices((rows, columns)).reshape(2, -1)
        return np.stack([row, column])[:, np.lexsort((column, row, column // self.columns))]

    def linear(self, step: Step) -> Writes:
        values = step.values
        if step.flags & Flag.LOGITS:
            return self.logits(step)
        if step.flags & Flag.TRANSPOSED:
            return self.value(step)
        rows = self.rows(step)
        place, channel = self.tiles(len(rows), values["columns"])
        row = rows[place]
        port = "x" if step.flags & Flag.RESIDUAL else "bank"
        tensor = self.all(step.name)
        first = step.name.startswith("head.") and bool(step.flags & Flag.FIRST_TILE)
        if first:  # the head's layers compute the first tokens alone
            tensor = self.of_first_tokens(tensor)
        stride, base = values["destination_stride"], self.word(step, "destination")
        if not self.gathers(step):
            address = base + row * stride + channel
            if port == "bank":
                address = self.banked(base, row, stride, channel)
            writes = self.by_channel(port, step.name, tensor, np.stack([row, channel], 1), address)
            if first and not self.gathered:
                writes.valid[:, 1:] = False
            return writes
        lane, row = place % self.lanes, place // self.lanes
        self.gathered = True
        order = np.stack([row, channel], 1)
        writes = self.by_channel(port, step.name, tensor, order, base + row * stride + channel)
        writes.valid[:] = np.arange(self.lanes) == lane[:, None]
        return writes

    def logits(self, step: Step) -> Writes:
        """Lane 0 as it is computed: of each sequence, or of each N that were gathered.

        Without FIRST_TILE of each row tile: `tensor` has its tokens at their places then.
        """
        tensor, labels = self.all("logits"), step.values["columns"]
        every = not step.flags & Flag.FIRST_TILE
        if every:
            tensor = tensor[np.maximum(self.token, 0)]
        number = np.arange(0, len(tensor), self.lanes if self.gathered or every else 1)
        place, label = self.tiles(len(number), labels)
        sequence = number[place]
        address = sequence // self.lanes * step.values["destination_stride"] + label
        one = np.ones((len(label), 1), bool)
        index = label[:, None, None]
        return Writes("logit", "logits", address, tensor[sequence, label][:, None], one, index)

    def value(self, step: Step) -> Writes:
        """V: words of N channels of one token, each head padded to whole words."""
        if step.name == "mean.v":
            names = self.traces[0]
            tensor, heads = self.all("final.x8" if "final.x8" in names else self._last(names)), 1
        else:
            tensor = self.all(step.name)
            names, name = self.traces[0], step.name.removesuffix(".v")
            head_size = names[f"{name}.q"].shape[1] // len(names[f"{name}.max"])
            heads = tensor.shape[1] // head_size
        size = tensor.shape[1] // heads
        tiles = step.values["columns"] // self.lanes
        padded = tiles // heads * self.lanes
        # With several ways a tile has all places of its row tiles.
        places = np.flatnonzero((self.token >= 0) | (self.ways > 1))
        tile, number = np.indices((tiles, len(places))).reshape(2, -1)
        place = places[number]
        token = self.token[place]
        head = tile * self.lanes // padded
        within = (tile * self.lanes % padded)[:, None] + np.arange(self.lanes)
        inside = within < size
        channel = head[:, None] * size + np.minimum(within, size - 1)
        values = np.where(inside, tensor[token[:, None], channel], 0)
        words = self.row_tiles * self.lanes
        address = self.banked(self.word(step, "destination"), tile, words, place)
        index = np.stack([np.broadcast_to(token[:, None], channel.shape), channel], -1)
        valid = np.broadcast_to(token[:, None] >= 0, inside.shape)
        return Writes("bank", step.name, address, values, valid, index)

    @staticmethod
    def _last(trace: Mapping[str, np.ndarray]) -> str:
        """The last layer's x8, which the mean pooling reads."""
        return [name for name in trace if name.endswith("ffn.x8")][-1]

    def attend(self, step: Step, first: int) -> Iterator[Writes]:
        """Scores, p and row scales of every sequence, head from `first` on and row tile, and the
        context.
        """
        for number, trace in enumerate(self.traces):
            if step.name != "mean":
                yield from self.softmax(step, trace, number, first)
                name = f"{step.name}.context"
                yield self.context(step, trace[name], name, number, first)
                continue
            weights = np.where(self.masks[number], 255, 0)
            zeros = np.zeros((1, weights.size, weights.size), np.int32)
            equal = {"mean.scores": zeros, "mean.p": zeros + weights}
            equal |= {"mean.max": zeros[:, :, 0], "mean.sum": zeros[:, :, 0] + weights.sum()}
            yield from self.softmax(step, equal, number, 0)
            yield self.mean(step, trace, number)

    def queries(self, step: Step, number: int) -> int:
        """Row tiles of the sequence that an ATTEND computes."""
        return 1 if step.flags & Flag.FIRST_TILE else ceil_div(self.lengths[number], self.lanes)

    def softmax(
        self, step: Step, trace: Mapping[str, np.ndarray], number: int, first: int
    ) -> Iterator[Writes]:
        """Scores, p, max and sum."""
        heads, rows, tokens = step.values["heads"], self.queries(step, number), self.lengths[number]
        lane, window = np.arange(self.lanes), step.values["window"]
        walked = [walked_keys(step.flags, window, row, tokens, self.lanes) for row in range(rows)]
        # The softmax counts keys from the first of the row tile on.
        order = [
            (head, row, key, place)
            for head in range(first, first + heads)
            for row, keys in enumerate(walked)
            for place, key in enumerate(keys)
        ]
        head, row, key, place = np.array(order).T
        query = row[:, None] * self.lanes + lane
        valid = query < tokens
        bounded = np.minimum(query, tokens - 1)
        index = np.stack(np.broadcast_arrays(head[:, None], query, key[:, None]), -1)
        for port, name in (("score", "scores"), ("p", "p")):
            tensor = trace[f"{step.name}.{name}"]
            values = tensor[head[:, None], bounded, key[:, None]]
            yield Writes(port, f"{step.name}.{name}", place, values, valid, index)
        head, row = np.indices((heads, rows)).reshape(2, -1)
        head += first
        query = row[:, None] * self.lanes + lane
        valid, bounded = query < tokens, np.minimum(query, tokens - 1)
        index = np.stack(np.broadcast_arrays(head[:, None], query), -1)
        for name in ("max", "sum"):
            values = trace[f"{step.name}.{name}"][head[:, None], bounded]
            yield Writes(name, f"{step.name}.{name}", row, values, valid, index)

    def mean(self, step: Step, trace: Mapping[str, np.ndarray], number: int) -> Writes:
        """Mean pooling: only token 0's lane of its context is the result."""
        pooled = np.broadcast_to(trace["pooled"], (self.lengths[number], len(trace["pooled"])))
        writes = self.context(step, pooled, "pooled", number, 0)
        writes.valid[:, 1:] = False
        return writes

    def context(self, step: Step, tensor: np.ndarray, name: str, number: int, first: int) -> Writes:
        size = step.values["head_size"]
        head, row, channel = np.indices((step.values["heads"], self.queries(step, number), size))
        row, channel = row.reshape(-1), (head * size + channel).reshape(-1)
        line, base = self.first_rows[number] + row, self.word(step, "context")
        address = self.banked(base, line, step.values["stride"], channel)
        channel = channel + first * size
        token = row[:, None] * self.lanes + np.arange(self.lanes)
        valid = token < len(tensor)
        channels = np.broadcast_to(channel[:, None], token.shape)
        values = tensor[np.where(valid, token, 0), channels]
        index = np.stack([self.first_tokens[number] + token, channels], -1)
        return Writes("bank", name, address, values, valid, index)
