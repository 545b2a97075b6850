"""Predicts the cycles of an inference: the accelerator's schedule as events, a few per tile.

The order of everything is fixed by the command stream, so one walk over its steps suffices. A tile
starts in the latest of a few cycles (its predecessor's last operand, its weights, its row tile, its
softmax, the array's drain); the loader, the embedding unit, the softmax and LayerNorm each keep the
cycle in which they get free. Nothing is simulated and no value is looked at: cycles depend on the
shape, the length and the memories' speed alone.

Cycle 0 is the first in which the accelerator is busy. All sources stand ready by then; they and the
sink behave as `sim.cycles.sources` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from cli.errors import UserError

from rtl.compile.batches import check_lengths
from rtl.compile.program import Program, Step
from rtl.datapath.schedule import AHEAD, DRAINED, RESIDUAL_READ, TURNED_LATE, WRITTEN, scored
from rtl.datapath.softmax import START_LATENCY, pass_cycles
from rtl.interface.command import NORM_PLANES, PARAMETER_PLANES, descriptor_words, walked_keys
from rtl.interface.config import ceil_div
from rtl.interface.isa import Flag, Opcode
from rtl.primitives.memory import Memory
from sim.cycles.array import Array
from sim.cycles.norm import Taken, normalise
from sim.cycles.sources import Rows, Words
from sim.phases import macs
from tb.trace import CAUSES


@dataclass(frozen=True)
class Phase:
    """One operation on the array; number, name and opcode are those of its step in the program.

    ``first`` and ``last`` are the cycles of its first and last operand; it read ``active`` of them.
    ``stalls`` are cycles without one right before its tiles, by cause; ``macs`` are as in `macs`
    of `sim.phases`.
    """

    number: int
    name: str
    opcode: Opcode
    first: int
    last: int
    active: int
    stalls: dict[str, int]
    macs: int

    @property
    def cycles(self) -> int:
        """From the first operand to the last."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Prediction:
    """The predicted counters of the accelerator, and the operations behind them.

    cycles, active, stalls
        The registers of these names; `stalls` includes the idle cycles after the last operand.
    """

    cycles: int
    active: int
    stalls: dict[str, int]
    phases: tuple[Phase, ...]


@dataclass
class Half:
    """One half of the weight and parameter double buffers: when it is free, when it is loaded."""

    weights_free: int = 0
    parameters_free: int = 0
    loaded: int = 0


@dataclass
class Norm:
    """A NORM in the normalizer, from which `row` of X8 may be read; `start` is its pulse's cycle.

    ``written`` is by row tile, empty until the sum that it normalises is scheduled.
    """

    start: int
    channels: int
    rows: int
    written: list[int] = field(default_factory=list)

    @property
    def finished(self) -> int:
        """First cycle in which the normalizer is free again."""
        return self.written[-1] + 1

    def row(self, row: int) -> int:
        """First cycle in which a tile may start that reads row tile `row`.

        The issuer learns a cycle later that it is written.
        """
        return 1 + (self.written[row] if row < self.rows else self.finished)


class Inference:
    """One inference of `program` on sequences of these lengths, by steps; `predict()` it once."""

    def __init__(self, program: Program, lengths: Sequence[int], words: Words, rows: Rows) -> None:
        self.program, self.lengths, self.words, self.rows = program, lengths, words, rows
        self.lanes = n = program.config.lanes
        self.tiles = [ceil_div(tokens, n) for tokens in lengths]  # row tiles of each
        self.row_tiles = sum(self.tiles)
        self.gathered_tiles = ceil_div(len(lengths), n)
        self.gathered = False  # the first token of each sequence was
        self.ways, self.columns = program.config.ways, program.config.tile_columns
        self.array = Array()
        self.halves, self.turn = (Half(), Half()), 0  # and the one to fill next
        self.part = 0  # of the stream's word, the next to be taken
        self.loader = 1  # cycle in which the loader turns to the next descriptor
        self.queue_free = 0
        self.ready = sum(lengths)  # the batch and the model's limit are known
        self.loading = 0  # cycles in which activations come in from outside behind the HEADER
        self.norms: list[Norm] = []
        self.table_free = 0  # first cycle without a user of the activation table
        self.softmax_finished = 0
        self.phases: list[Phase] = []

    def predict(self) -> Prediction:
        """The whole program."""
        logits = 0
        for number, step in enumerate(self.program.steps):
            # The descriptor's words, then its CRC is looked at (a cycle later with several ways),
            # then it acts.
            act = self.words.take(descriptor_words(self.columns), self.loader) + 2 + (self.ways > 1)
            match step.opcode:
                case Opcode.HEADER:
                    self.loader = act + 1
                    self.ready = max(self.ready, act + 1 + self.loading)
                case Opcode.TABLE:
                    self._table(act, len(step.payload))
                case Opcode.BIAS | Opcode.ROTARY:
                    last = self._parts(len(step.payload) // self.lanes, act + 1)
                    self._rest(last + 1)
                    self.loader = last + 2
                case Opcode.NORM:
                    self._norm(step, act)
                case Opcode.END:
                    return self._end(act, logits)
                case _:
                    if Flag.LOGITS in step.flags:
                        first = Flag.FIRST_TILE in step.flags
                        packets = len(self.lengths) if first else sum(self.lengths)
                        logits = packets * step.values["columns"]
                    self._operation(number, step, act)
        raise UserError("the program has no END")

    def _parts(self, count: int, ready: int) -> int:
        """Cycle of the last of so many parts of N bytes, one a cycle; a word goes with its last."""
        if self.ways == 1:
            return self.words.take(count, ready)
        for _ in range(count):
            cycle = self.words.offer(ready)
            self.part = (self.part + 1) % self.ways
            if not self.part:
                self.words.take(1, cycle)
            ready = cycle + 1
        return cycle

    def _rest(self, cycle: int) -> None:
        """What is left of a word is padding, which goes in this cycle."""
        if self.part:
            self.words.take(1, cycle)
            self.part = 0

    def _table(self, act: int, size: int) -> None:
        """Each word is held while its bytes are written."""
        cycle = max(act, self.table_free) + 1
        for _ in range(size // self.lanes):
            cycle = self._parts(1, cycle) + self.lanes + 1
        self._rest(cycle - 1)
        self.loader = cycle

    def _norm(self, step: Step, act: int) -> None:
        channels = step.values["channels"]
        cycle = max(act, self.norms[-1].finished if self.norms else 0) + 1
        for _ in range(ceil_div(channels, self.lanes)):
            held = self._parts(NORM_PLANES, cycle)
            # The plane of shifts comes while the first channel is written.
            first = self._parts(1, held + 1) if Flag.SHIFTS in step.flags else held + 1
            cycle = first + self.lanes
        self._rest(cycle - 1)
        self.loader = cycle + 1
        rows = self.gathered_tiles if Flag.FIRST_TILE in step.flags else self.row_tiles
        norm = Norm(max(cycle + 1, self.ready), channels, rows)
        self.norms.append(norm)
        if Flag.CHAINED in step.flags:
            self._normalise([norm.start + 1] * rows, [])

    def _normalise(self, available: list[int], taken: list[tuple[int, int]]) -> None:
        """Schedule the latest NORM, whose sum is complete row tile by row tile."""
        norm = self.norms[-1]
        rows = available[: norm.rows]
        norm.written = normalise(norm.start, rows, norm.channels, self.lanes, Taken(taken))

    def _operation(self, number: int, step: Step, act: int) -> None:
        # The sequencer's queue has room for one operation; the loader goes on once it is in there.
        accepted = max(act, self.queue_free)
        self.loader = accepted + 1
        attend = step.opcode is Opcode.ATTEND
        gated = step.opcode is Opcode.LINEAR and step.values["gate"] > 0
        fence = attend or gated or Flag.BANK in step.flags
        taken = self.array.begin(max(self.loader, self.ready), fence, 3 if attend else 2)
        self.queue_free = taken + 1
        {Opcode.EMBED: self._embed, Opcode.LINEAR: self._linear}.get(step.opcode, self._attend)(
            step
        )
        array, work = self.array, sum(macs(step, tokens) for tokens in self.lengths)
        assert array.first is not None
        seen = array.first, array.last, array.active, array.tally
        self.phases.append(Phase(number, step.name, step.opcode, *seen, work))

    def _drain(self, columns: int) -> int:
        """Cycles of a tile that writes columns up to that one: words of N drain whole."""
        return ceil_div(columns, self.lanes) * self.lanes

    def _shown(self, last: int, columns: int) -> tuple[int, int]:
        """When LayerNorm may not read because its write would meet one of a tile's."""
        first = last + WRITTEN - AHEAD
        return first, first + columns

    def _rows(self, step: Step) -> list[tuple[int, int]]:
        """The row tiles that a LINEAR computes, and how many it passes after each."""
        if Flag.FIRST_TILE not in step.flags:
            return [(row, 0) for row in range(self.row_tiles)]
        if self.gathered:
            return [(row, 0) for row in range(self.gathered_tiles)]
        begins = [0, *accumulate(self.tiles)]
        passed = [*(tiles - 1 for tiles in self.tiles[:-1]), 0]
        return list(zip(begins, passed))

    def _groups(self, step: Step) -> list[tuple[int, int]]:
        """The last row tile of each group that a transposed LINEAR computes with several ways."""
        first = Flag.FIRST_TILE in step.flags and self.gathered
        rows = self.gathered_tiles if first else self.row_tiles
        return [(min(row + self.ways, rows) - 1, 0) for row in range(0, rows, self.ways)]

    def _embed(self, step: Step) -> None:
        """Rows into the weight halves, and the tiles that add them."""
        n, channels = self.lanes, step.values["channels"]
        wide = step.values["wide"]
        words, operands = ceil_div(channels, n) << wide, 2 << wide
        ask = max(self.loader, self.ready) + 1 + Memory.latency
        self.rows.begin(ask, words, 2 * sum(self.lengths))
        available, writes = [], []
        tiles = (min(n, length - first) for length in self.lengths for first in range(0, length, n))
        for tokens in tiles:
            half = self.halves[self.turn]
            arrived = self.rows.take(2 * tokens, half.weights_free)
            half.loaded = arrived
            for column in range(0, channels, self.columns):
                written = min(self.columns, channels - column)
                last = self.array.tile(
                    operands * tokens, [("weights", half.loaded)], drain=self._drain(written)
                )
                writes.append(self._shown(last, written))
            half.weights_free = last + 1
            available.append(last + WRITTEN + self.array.drain)
            self.turn ^= 1
        self.loader = arrived
        self._normalise(available, writes)

    def _linear(self, step: Step) -> None:
        n, length, columns = self.lanes, step.values["length"], step.values["columns"]
        transposed = Flag.TRANSPOSED in step.flags and self.ways > 1
        width = n if transposed else self.columns
        rows, residual = self._rows(step), Flag.RESIDUAL in step.flags
        gathers = residual and Flag.FIRST_TILE in step.flags and not self.gathered
        late = TURNED_LATE if Flag.ROTARY in step.flags else 0
        of_bank = Flag.BANK in step.flags or not self.norms
        norm = None if of_bank else self.norms[-1]
        available, taken = [], []
        cycle = self.loader
        if transposed:
            rows = self._groups(step)
        for column in range(0, columns, width):
            half = self.halves[self.turn]
            written = min(width, columns - column)
            free = max(cycle, half.weights_free)
            weights = (self._parts if transposed else self.words.take)(length, free)
            planes = PARAMETER_PLANES * (1 if transposed else self.ways)
            parameters = self._parts(planes, max(weights + 1, half.parameters_free))
            cycle = half.loaded = parameters + 1
            final = column + width >= columns
            loaded = ("weights", half.loaded)
            for place, (row, passed) in enumerate(rows):
                conditions = [loaded, ("norm", norm.row(row))] if norm else [loaded]
                # A transposed tile has row tiles as columns: of one, or of a group up to this one.
                drained = (row % self.ways + 1) * n if Flag.TRANSPOSED in step.flags else written
                drain = self._drain(drained) + late
                if Flag.WIDE in step.flags:
                    self.array.tile(length, conditions, drain=drain, low=True)
                last = self.array.tile(length, conditions, passed, drain=drain)
                if residual:
                    taken.append(self._shown(last, written))
                    read = last + RESIDUAL_READ
                    taken.append((read, read + written))
                    # A row tile of what is gathered is complete with its last sequence.
                    complete = not gathers or place % n == n - 1 or place == len(rows) - 1
                    if final and complete:
                        available.append(last + WRITTEN + drain)
            half.weights_free = last + 1
            half.parameters_free = last + DRAINED + drain
            self.turn ^= 1
        self._rest(parameters)
        self.loader = cycle
        if Flag.TABLE in step.flags or step.values["gate"]:
            self.table_free = last + WRITTEN + drain
        self.gathered |= gathers
        if residual:
            self._normalise(available, taken)

    def _spans(self, word: int, count: int) -> tuple[int, int]:
        """The tiles of so many keys or channels, which begin in word `word` of N.

        A tile has those words that lie at one address, one in each way. How many tiles come before
        the last, which have M columns, and the columns of the last.
        """
        whole, rest = divmod(word % self.ways * self.lanes + count - 1, self.columns)
        return whole, rest + 1

    def _attend(self, step: Step) -> None:
        """Scores of a head's row tile, then the context of the row tile before it."""
        n, heads, first = self.lanes, step.values["heads"], Flag.FIRST_TILE in step.flags
        length, value_words = step.values["head_size"], ceil_div(step.values["head_size"], n)
        finished: list[int] = []
        begins, window = [0, *accumulate(self.tiles)], step.values["window"]
        # Of each S and C: keys, tiles of the scores, head.
        places = [
            (len(keys), self._spans(begin + keys.start // n, len(keys)), head)
            for tokens, tiles, begin in zip(self.lengths, self.tiles, begins)
            for head in range(heads)
            for row in range(1 if first else tiles)
            for keys in [walked_keys(step.flags, window, row, tokens, n)]
        ]
        for place in range(len(places) + 1):
            if place < len(places):
                keys, (whole, columns), _ = places[place]
                self.array.tiles(whole, length, drain=self.columns)
                last = self.array.tile(length, drain=self._drain(columns))
                complete = last + scored(self.program.config.bias_heads) + columns - 1
                self.softmax_finished = pass_cycles(n, keys) + max(
                    complete + START_LATENCY, self.softmax_finished
                )
                finished.append(self.softmax_finished + 1)
            if place > 0:
                keys, _, head = places[place - 1]
                conditions = [("softmax", finished[place - 1])]
                whole, columns = self._spans(head * value_words, length)
                for width in (*[self.columns] * whole, columns):
                    self.array.tile(keys, conditions, drain=self._drain(width))
                    conditions = []

    def _end(self, act: int, logits: int) -> Prediction:
        """Logits leave one every Memory.latency + 1 cycles; the last one ends the inference."""
        finished = max(act + 1, self.array.made, self.array.quiet)
        cycles = finished + logits * (Memory.latency + 1) + 1
        stalls = {cause: sum(p.stalls[cause] for p in self.phases) for cause in CAUSES}
        stalls["idle"] += cycles - self.array.last
        active = sum(phase.active for phase in self.phases)
        return Prediction(cycles, active, stalls, tuple(self.phases))


def predict(
    program: Program,
    tokens: int | Sequence[int],
    *,
    stream_bytes: int | None = None,
    stream_ahead: int = 1,
    row_latency: int = 20,
) -> Prediction:
    """The cycles of one inference of a compiled model on the accelerator of its configuration.

    UserError where a parameter is out of range, or the program computes no logits.

    `tokens` is the length of the sequence, 1 to `program.tokens`, or of each sequence of a batch.
    The model stream carries `stream_bytes` a cycle (None: whole words, M bytes) into a buffer of
    `stream_ahead` words in front of the accelerator; an embedding row's first word comes
    `row_latency` cycles after its request.
    """
    width = program.config.stream_width
    if stream_ahead < 1:
        raise UserError(f"stream ahead is {stream_ahead}: it must be 1 or more")
    if stream_bytes is not None and stream_bytes < 1:
        raise UserError(f"stream bytes is {stream_bytes}: it must be 1 or more; {width} is a word")
    lengths = [tokens] if isinstance(tokens, int) else list(tokens)
    checked(program, lengths, "row latency", row_latency)
    gap = ceil_div(width, min(stream_bytes or width, width))
    words = Words(gap, stream_ahead)
    return Inference(program, lengths, words, Rows(row_latency)).predict()


def checked(program: Program, lengths: Sequence[int], what: str, latency: int) -> None:
    """Refuse what cannot be predicted (UserError)."""
    check_lengths(program, lengths)
    if latency < 1:
        raise UserError(f"{what} is {latency}: it must be 1 or more")
    if not any(Flag.LOGITS in step.flags for step in program.steps):
        raise UserError("the program computes no logits: compile the whole model")
