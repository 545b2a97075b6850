"""LayerNorm of row tiles in two passes, lanes = tokens: sums first, then the normalised values."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data

from rtl.datapath.norm_lane import NormLane
from rtl.datapath.row_constants import (
    EPSILON,
    OFFSET,
    SCALE,
    SQUARES,
    SUM,
    TOKEN_SHIFT_MAX,
    RowConstants,
)
from rtl.interface.ports.datapath import SharedRead
from rtl.interface.ports.loading import NormParameterWrite
from rtl.interface.word import int8_word, int16_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import READ_LATENCY, Memory
from rtl.primitives.pipeline import delay, register, stages

SUMS_LATENCY = READ_LATENCY + NormLane.sums_latency  # read of a word until its z is in the sums


def constants_latency(lanes: int) -> int:
    """Cycles from the last read of pass 1 until the constants are ready: 26 + lanes."""
    return SUMS_LATENCY + 1 + lanes + RowConstants.latency


def constants_ready(lanes: int, summed: int, used: int) -> int:
    """In which cycle a tile's constants are ready.

    summed
        Cycle of the last read of its pass 1.
    used
        Cycle of the first read of the pass 2 of the tile before it: its constants move on then.
    """
    return max(summed, used + 1 - SUMS_LATENCY) + constants_latency(lanes)


CONSTANTS = data.StructLayout(
    {"scale": SCALE, "offset": OFFSET, "shift": range(TOKEN_SHIFT_MAX + 1)}
)


class Operation(NamedTuple):
    """The inputs that are sampled with `start`."""

    channels: Signal
    last_channel: Signal
    tiles: Signal
    shift: Signal
    epsilon: Signal
    rms: Signal


class Flags(NamedTuple):
    """The flags of a pass's words: entry c of each list is c cycles after the read."""

    en: list[Any]
    first: list[Any]
    last: list[Any]


class LayerNorm(Unit):
    """y = saturate(round_shift(n * gamma + beta, shift), 16), n = (z - mean) / deviation.

    docs/numerics.md section 7. y8 = saturate(round_shift(y, operand_shift of the channel), 8). A
    row tile is read twice, one channel of `lanes` tokens a cycle: pass 1 sums z and z^2; then the
    tokens take turns in `RowConstants`; pass 2 normalises. When the read port gets free:

        if the constants of the oldest tile are ready, its pass 2 begins;
        else if the next tile is available and fewer than two tiles are between the beginnings
        of their two passes, the next tile's pass 1 begins.

    "Free" is a cycle without a pass or with the last read of one; the first read follows in the
    next cycle, `x.busy` permitting. With the last read of a tile's pass 1 in cycle t, and the
    first read of the pass 2 of the tile before it in cycle u, its constants are ready in cycle

        max(t, u - 4) + constants_latency

    Multipliers: 3 * lanes + 12. Memories: gamma, beta and shift, hidden words of 51 bits; rsqrt's
    ROM.

    Parameters
    ----------
    lanes
        Tokens of a row tile, 1 to 64.
    hidden
        Most channels, 1 to 1024.
    row_tiles
        Most row tiles, 1 to 4096.

    Attributes
    ----------
    latency
        Cycles from x.en of pass 2 to y_en: 19.
    constants_latency
        Cycles from the last read of pass 1 until the constants are ready: 26 + lanes.
    """

    latency = READ_LATENCY + NormLane.latency

    def __init__(self, lanes: int, hidden: int, row_tiles: int) -> None:
        self.lanes, self.hidden, self.row_tiles = lanes, hidden, row_tiles
        self.constants_latency = constants_latency(lanes)
        words, tiles = range(hidden * row_tiles), range(row_tiles + 1)
        super().__init__(
            parameter=In(NormParameterWrite(hidden)),
            start=In(
                1, "Starts an operation, not while busy; samples the four that follow, and rms."
            ),
            channels=In(range(hidden + 1)),
            tiles=In(tiles),
            shift=In(5),
            epsilon=In(EPSILON),
            rms=In(1, "An RMSNorm, which takes S1 as 0; H <= 1023. Sampled with start."),
            available=In(
                tiles, "Row tiles that may be read, from the cycle after start on; it grows."
            ),
            x=Out(SharedRead(words, lanes), "Word (row tile r, channel c) is at r * channels + c."),
            y_en=Out(1, "A normalised word, `latency` cycles after the x.en of its second read."),
            y_address=Out(words, ...),
            y=Out(int16_word(lanes), ...),
            y8=Out(int8_word(lanes), ...),
            finished=Out(tiles, "Row tiles that were written, in earlier cycles. Reset by start."),
            busy=Out(1, "From the cycle after start until finished equals tiles."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operation = Operation(
            channels=Signal(range(self.hidden + 1), reset_less=True),
            last_channel=Signal(range(self.hidden), reset_less=True),
            tiles=Signal(range(self.row_tiles + 1)),  # 0 until the first start
            shift=Signal(5, reset_less=True),
            epsilon=Signal(EPSILON, reset_less=True),
            rms=Signal(reset_less=True),
        )
        with m.If(self.start):
            m.d.sync += [
                operation.channels.eq(self.channels),
                operation.last_channel.eq(self.channels - 1),
                operation.tiles.eq(self.tiles),
                operation.shift.eq(self.shift),
                operation.epsilon.eq(self.epsilon),
                operation.rms.eq(self.rms),
                self.busy.eq(1),
            ]
        ready, starts_norm = Signal(), Signal()
        sums, norms = self._read_port(m, operation, ready, starts_norm)
        gamma, beta, operand_shift = self._parameters(m, norms)
        lanes = [NormLane() for _ in range(self.lanes)]
        coming = self._constants(m, operation, sums, norms, lanes, ready, starts_norm)
        for n, lane in enumerate(lanes):
            m.submodules[f"lane{n}"] = lane
            current = self._current(m, norms, coming[n], n)
            m.d.comb += [
                lane.z.eq(self.x.data[n]),
                lane.squares.eq(sums.en[READ_LATENCY]),
                lane.sum_en.eq(sums.en[SUMS_LATENCY - 1]),
                lane.sum_first.eq(sums.first[SUMS_LATENCY - 1]),
                lane.scale.eq(current.scale),
                lane.offset.eq(current.offset),
                lane.shift.eq(current.shift),
                lane.gamma.eq(gamma),
                lane.beta.eq(beta),
                lane.operand_shift.eq(operand_shift),
                lane.output_shift.eq(operation.shift),
                self.y[n].eq(lane.y),
                self.y8[n].eq(lane.y8),
            ]
        self._writes(m, norms, operation.tiles)
        return m

    def _read_port(
        self, m: Module, operation: Operation, ready: Signal, starts_norm: Signal
    ) -> tuple[Flags, Flags]:
        """Which pass the read port serves, and the choice of the next; the passes' flags."""
        reading, second = Signal(), Signal()
        channel = Signal(range(self.hidden))
        summed = Signal(range(self.row_tiles + 1))  # tiles whose pass 1 has begun
        between = Signal(range(3))  # tiles between the beginnings of their two passes
        sum_address = Signal(range(self.hidden * self.row_tiles))
        norm_address = Signal.like(sum_address)
        last, free, starts_sum = (Signal(name=name) for name in ("last", "free", "starts_sum"))
        at_last = Signal()  # channel is the last one
        m.d.comb += [
            self.x.en.eq(reading & ~self.x.busy),
            self.x.address.eq(Mux(second, norm_address, sum_address)),
            last.eq(self.x.en & at_last),
            free.eq(~reading | last),
            starts_norm.eq(free & ready),
            starts_sum.eq(
                free
                & ~ready
                & (between != 2)
                & (summed != operation.tiles)
                & (summed < self.available)
            ),
        ]
        with m.If(self.x.en):
            m.d.sync += [
                channel.eq(channel + 1),
                at_last.eq(channel + 1 == operation.last_channel),
            ]
            with m.If(second):
                m.d.sync += norm_address.eq(norm_address + 1)
            with m.Else():
                m.d.sync += sum_address.eq(sum_address + 1)
        # What holds for a pass is set whether one begins or not.
        with m.If(free):
            m.d.sync += [
                reading.eq(starts_norm | starts_sum),
                second.eq(ready),
                channel.eq(0),
                at_last.eq(operation.last_channel == 0),
            ]
        with m.If(starts_sum):
            m.d.sync += [summed.eq(summed + 1), between.eq(between + 1)]
        with m.If(starts_norm):
            m.d.sync += between.eq(between - 1)
        with m.If(self.start):
            m.d.sync += [sum_address.eq(0), norm_address.eq(0), summed.eq(0), between.eq(0)]

        sums_en, norms_en, first = self.x.en & ~second, self.x.en & second, channel == 0
        sums = Flags(
            en=stages(m, sums_en, SUMS_LATENCY, "sums"),
            first=stages(m, first, SUMS_LATENCY, "sums_first", reset=False),
            last=stages(m, last & ~second, SUMS_LATENCY, "sums_last"),
        )
        norms = Flags(
            en=stages(m, norms_en, self.latency, "norms"),
            first=stages(m, norms_en & first, self.latency, "norms_first"),
            last=stages(m, norms_en & last, self.latency, "norms_last"),
        )
        return sums, norms

    def _parameters(self, m: Module, norms: Flags) -> tuple[Any, Any, Any]:
        """gamma, beta and shift of the channel that reaches the lanes' second multiplier."""
        parameter = data.StructLayout({"gamma": signed(16), "beta": signed(32), "operand_shift": 3})
        m.submodules.parameters = parameters = Memory(parameter, self.hidden)
        channel = Signal(range(self.hidden), reset_less=True)
        written = Signal(parameter, reset_less=True)
        # Written a cycle late, and long before pass 2 reads them.
        m.d.sync += [
            parameters.write.en.eq(self.parameter.en),
            parameters.write.address.eq(self.parameter.address),
            written.gamma.eq(self.parameter.gamma),
            written.beta.eq(self.parameter.beta),
            written.operand_shift.eq(self.parameter.operand_shift),
        ]
        m.d.comb += [parameters.read.address.eq(channel), parameters.write.data.eq(written)]
        with m.If(norms.en[NormLane.gamma_latency - 1]):  # 1 + READ_LATENCY before gamma is used
            m.d.sync += channel.eq(channel + 1)
        with m.If(norms.last[NormLane.gamma_latency - 1] | self.start):
            m.d.sync += channel.eq(0)
        gamma = register(m, parameters.read.data.gamma, "gamma")
        beta = delay(m, parameters.read.data.beta, 2, "beta")
        later = 1 + NormLane.shift_latency - NormLane.gamma_latency
        shift = delay(m, parameters.read.data.operand_shift, later, "operand_shift")
        return gamma, beta, shift

    def _constants(
        self,
        m: Module,
        operation: Operation,
        sums: Flags,
        norms: Flags,
        lanes: list[NormLane],
        ready: Signal,
        starts_norm: Signal,
    ) -> list[Any]:
        """The constants of the next tile, lane by lane.

        Complete sums move on as soon as the constants of the tile before them are in use; then the
        lanes take turns in RowConstants, which fills the next set of constants.
        """
        complete, held, moves, occupied = (
            Signal(name=name) for name in ("complete", "held", "moves", "occupied")
        )
        m.d.comb += [
            complete.eq(sums.last[SUMS_LATENCY] | held),
            moves.eq(complete & ~occupied),
        ]
        m.d.sync += held.eq(complete & ~moves)
        turning, turn = Signal(), Signal(range(self.lanes))
        turn_last = turning & (turn == self.lanes - 1)
        with m.If(moves):
            m.d.sync += [occupied.eq(1), turning.eq(1), turn.eq(0)]
        with m.Elif(turning):
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn_last):
                m.d.sync += turning.eq(0)
        m.submodules.constants = constants = RowConstants()
        arrives = delay(m, turning, RowConstants.latency, "arrives", reset=True)
        arrives_last = delay(m, turn_last, RowConstants.latency, "arrives_last", reset=True)
        with m.If(arrives_last):
            m.d.sync += ready.eq(1)
        with m.If(starts_norm):
            m.d.sync += ready.eq(0)
        with m.If(norms.first[0]):
            m.d.sync += occupied.eq(0)

        queue = [
            Signal(data.StructLayout({"s1": SUM, "s2": SQUARES}), name=f"queue{n}", reset_less=True)
            for n in range(self.lanes)
        ]
        for n, lane in enumerate(lanes):
            with m.If(moves):
                s1 = Mux(operation.rms, 0, lane.s1)
                m.d.sync += [queue[n].s1.eq(s1), queue[n].s2.eq(lane.s2)]
            with m.Elif(turning):
                if n + 1 < self.lanes:
                    m.d.sync += queue[n].eq(queue[n + 1])
        m.d.comb += [
            constants.s1.eq(queue[0].s1),
            constants.s2.eq(queue[0].s2),
            constants.channels.eq(operation.channels),
            constants.epsilon.eq(operation.epsilon),
        ]
        coming = [Signal(CONSTANTS, name=f"coming{n}", reset_less=True) for n in range(self.lanes)]
        with m.If(arrives):
            for n in range(self.lanes - 1):
                m.d.sync += coming[n].eq(coming[n + 1])
            m.d.sync += coming[-1].eq(Cat(constants.scale, constants.offset, constants.shift))
        return coming

    def _current(self, m: Module, norms: Flags, coming: Any, n: int) -> Any:
        """A lane's constants; each changes just before the first word of a pass 2 needs it."""
        current = Signal(CONSTANTS, name=f"current{n}", reset_less=True)
        with m.If(norms.first[READ_LATENCY - 1]):
            m.d.sync += current.scale.eq(coming.scale)
        with m.If(norms.first[READ_LATENCY + NormLane.offset_latency - 1]):
            m.d.sync += current.offset.eq(coming.offset)
        with m.If(norms.first[READ_LATENCY + NormLane.offset_latency]):
            m.d.sync += current.shift.eq(coming.shift)
        return current

    def _writes(self, m: Module, norms: Flags, tiles: Any) -> None:
        """Addresses of the normalised words, and the tiles that are finished."""
        m.d.comb += self.y_en.eq(norms.en[self.latency])
        with m.If(self.y_en):
            m.d.sync += self.y_address.eq(self.y_address + 1)
        with m.If(norms.last[self.latency]):
            m.d.sync += self.finished.eq(self.finished + 1)
            with m.If(self.finished + 1 == tiles):
                m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += [self.y_address.eq(0), self.finished.eq(0)]
