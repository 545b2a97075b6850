"""Softmax of one tile of queries: keys arrive one a cycle, so do the weights, lanes = queries."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from golden.softmax import EXP2_TABLE
from rtl.datapath.row_scale import RowScale
from rtl.datapath.running_max import RunningMax
from rtl.interface.ports.batch import MaskWrite
from rtl.interface.ports.datapath import ProbabilityRead, RowScales, ScoreColumn
from rtl.interface.ports.tiles import Multiplier
from rtl.interface.trace import SoftmaxTrace, sum_bits
from rtl.interface.word import int16_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import READ_LATENCY, Memory, Rom
from rtl.primitives.pipeline import delay, register

ARRIVAL_LATENCY = READ_LATENCY  # of a column, which waits for the attend bit of its key
# A job waits for its maximum: it is there when the first score has been read, a cycle after that
# job begins.
JOB_LATENCY = ARRIVAL_LATENCY + max(RunningMax.latency - READ_LATENCY - 1, 1)
START_LATENCY = JOB_LATENCY + 1  # score.last to the first read
P_LATENCY = 2 * READ_LATENCY + 3  # read of a key to the write of its p: scores, table


def pass_cycles(lanes: int, keys: int) -> int:
    """Cycles from the first read of a pass to `finished`, in which the next one may begin."""
    return (keys - 1) + P_LATENCY + 1 + (lanes - 1) + RowScale.latency + 1


class Column(NamedTuple):
    """A column of scores with its attend bit."""

    complete: Any  #: it is there, and its row tile's last
    buffer: Any
    key: Any


class Pass(NamedTuple):
    """The pass under way."""

    job: Any  #: buffer, last key and multiplier
    key: Any  #: read in this cycle
    reading: Any
    read_last: Any
    starts: Any  #: pulse: the next one begins
    finishing: Any  #: pulse: the last row scale is there


class Softmax(Unit):
    """p = round(255 * 2^((score - max)/256)) and the scale of each row's context.

        max = max of the scores over the valid keys            one running maximum a lane
        d   = max - score;  i = d >> 8
        p   = (T[d & 255] + 2^(i+7)) >> (i+8)                  0 for a key that is not valid
        sum = sum of p over the keys
        row_m, row_s = the context's multiplier / sum          as in `RowScale`, lane after lane

    docs/numerics.md section 6. A key is valid for a lane whose bit in `score.seen` is set, if its
    attend bit is. A lane without one has the max -2^15, every p and the sum 0, and the row scale of
    the sum 2^20, which `Reciprocal` takes 0 for. Only bits 7 and up of T can reach p, so the table
    holds T >> 7, and (T >> 7) >> i is p in halves; from i = 9 on p is zero.

    A score column is one key of `lanes` queries. Columns of a buffer arrive in increasing order of
    their key, any number of cycles apart; the last one starts the pass over the keys
    0..score_key, or queues it while another pass runs (one can wait). Scores, p and row scales
    are double buffered: one buffer may fill while the other is in its pass or is read.

    A pass reads a key a cycle, then the lanes take turns in one reciprocal and one multiplier.
    With score_last in cycle t, and f the `finished` cycle of the pass before it:

        finished = max(t + 4, f) + keys + lanes + 21

    Multipliers: 3. Memories: scores, 2 * tokens words of 17 * lanes bits; p, 2 * tokens words
    of 8 * lanes bits; the mask, places bits; a ROM of 256 x 9 bits for two lanes.

    Parameters
    ----------
    lanes
        Queries of a tile, 1 to 64.
    tokens
        Most keys, 1 to 8192.
    places
        Attend bits, 1 to 16384: of all keys of several sequences. None: tokens.
    """

    def __init__(self, lanes: int, tokens: int, places: int | None = None) -> None:
        places = tokens if places is None else places
        self.lanes, self.tokens, self.places = lanes, tokens, places
        super().__init__(
            mask=In(MaskWrite(places), "Not during an attention."),
            score=In(
                ScoreColumn(lanes, tokens, places), "With first a new maximum of the buffer begins."
            ),
            context=In(Multiplier(), "Of the context, sampled with score.last."),
            p=In(ProbabilityRead(lanes, tokens)),
            row=In(RowScales(lanes)),
            finished=Out(1, "Pulse: p and row scales of the oldest pass may be read from now on."),
            busy=Out(1, "A pass runs, waits, or begins in the next cycles."),
            trace=Out(SoftmaxTrace(lanes, tokens)),
        )

    def cycles(self, keys: int) -> int:
        """Cycles from score_last to finished, when no other pass runs."""
        return START_LATENCY + self.pass_cycles(keys)

    def pass_cycles(self, keys: int) -> int:
        """Cycles from the first read of a pass to finished, in which the next one may begin."""
        return pass_cycles(self.lanes, keys)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.running_max = running_max = RunningMax(self.lanes)
        m.submodules.scores = scores = Memory(
            data.StructLayout({"scores": int16_word(self.lanes), "attend": self.lanes}), self._depth
        )
        column = self._arrival(m, scores, running_max)
        run = self._jobs(m, column)
        m.d.comb += [
            scores.read.address.eq(self._address(run.key, run.job.buffer)),
            running_max.o_buffer.eq(run.job.buffer),
        ]
        p = self._weights(m, scores.read.data, running_max.o)
        p_en = delay(m, run.reading, P_LATENCY, "p_en", reset=True)
        p_key = delay(m, run.key, P_LATENCY, "p_key")
        m.submodules.p = weights = Memory(data.ArrayLayout(unsigned(8), self.lanes), self._depth)
        m.d.comb += [
            weights.write.en.eq(p_en),
            weights.write.address.eq(self._address(p_key, run.job.buffer)),
            weights.write.data.eq(p),
            weights.read.address.eq(self._address(self.p.address, self.p.buffer)),
            self.p.data.eq(weights.read.data),
            self.trace.p_en.eq(p_en),
            self.trace.p_key.eq(p_key),
            self.trace.p.eq(p),
            self.trace.max.eq(running_max.o),
        ]
        self._row_scales(m, run, p, p_en)
        m.d.sync += self.finished.eq(run.finishing)
        return m

    @property
    def _depth(self) -> int:
        """Words of both buffers."""
        return (1 << ceil_log2(self.tokens)) + self.tokens

    def _address(self, key: Any, buffer: Any) -> Value:
        """The address of a key's word: the buffer is the top bit."""
        return Value.cast(key | buffer << ceil_log2(self.tokens))

    def _arrival(self, m: Module, scores: Memory, running_max: RunningMax) -> Column:
        """A column waits for the attend bit of its key, then goes into memory and maximum."""
        m.submodules.mask = mask = Memory(unsigned(1), self.places)
        m.d.comb += [
            mask.write.en.eq(self.mask.en),
            mask.write.address.eq(self.mask.address),
            mask.write.data.eq(self.mask.attend),
            mask.read.address.eq(self.score.place),
        ]
        en = delay(m, self.score.en, ARRIVAL_LATENCY, "column_en", reset=True)
        buffer = delay(m, self.score.buffer, ARRIVAL_LATENCY, "column_buffer")
        first = delay(m, self.score.first, ARRIVAL_LATENCY, "column_first")
        last = delay(m, self.score.last, ARRIVAL_LATENCY, "column_last")
        key = delay(m, self.score.key, ARRIVAL_LATENCY, "column_key")
        column = delay(m, self.score.data, ARRIVAL_LATENCY, "column")
        seen = delay(m, self.score.seen, ARRIVAL_LATENCY, "column_seen")
        valid = Mux(mask.read.data, seen, 0)
        m.d.comb += [
            scores.write.en.eq(en),
            scores.write.address.eq(self._address(key, buffer)),
            scores.write.data.scores.eq(column),
            scores.write.data.attend.eq(valid),
            running_max.en.eq(en),
            running_max.buffer.eq(buffer),
            running_max.first.eq(first),
            running_max.last.eq(last),
            running_max.valid.eq(valid),
            running_max.i.eq(column),
        ]
        return Column(en & last, buffer, key)

    def _jobs(self, m: Module, column: Column) -> Pass:
        """One job runs, one may wait; a job's pass reads a key a cycle."""
        layout = data.StructLayout({"buffer": 1, "last_key": range(self.tokens), "m": 16, "s": 6})
        arriving = Signal(layout)
        waiting, job = (Signal(layout, name=name, reset_less=True) for name in ("waiting", "job"))
        arrives, waits, active, reading, finishing, starts = (
            Signal(name=name)
            for name in ("arrives", "waits", "active", "reading", "finishing", "starts")
        )
        latency = JOB_LATENCY - ARRIVAL_LATENCY
        m.d.comb += [
            arrives.eq(delay(m, column.complete, latency, "arrives_last", reset=True)),
            arriving.buffer.eq(delay(m, column.buffer, latency, "arriving_buffer")),
            arriving.last_key.eq(delay(m, column.key, latency, "arriving_key")),
            arriving.m.eq(delay(m, self.context.m, JOB_LATENCY, "context_m")),
            arriving.s.eq(delay(m, self.context.s, JOB_LATENCY, "context_s")),
            starts.eq((~active | finishing) & (arrives | waits)),
        ]
        key = Signal(range(self.tokens))
        read_last = Signal()
        m.d.comb += read_last.eq(key == job.last_key)
        with m.If(starts):
            m.d.sync += [
                job.eq(Mux(waits, waiting.as_value(), arriving.as_value())),
                active.eq(1),
                reading.eq(1),
                key.eq(0),
            ]
        with m.Elif(finishing):
            m.d.sync += active.eq(0)
        with m.If(reading):
            m.d.sync += key.eq(key + 1)
            with m.If(read_last):
                m.d.sync += reading.eq(0)
        with m.If(arrives):
            m.d.sync += waiting.eq(arriving)
        m.d.sync += waits.eq(Mux(starts, waits & arrives, waits | arrives))
        coming = register(m, self.score.en & self.score.last, "coming", reset=True)
        m.d.comb += self.busy.eq(active | waits | coming | column.complete | arrives)
        return Pass(job, key, reading, read_last, starts, finishing)

    def _weights(self, m: Module, word: Any, maxima: Any) -> Any:
        """p of the key that was read, READ_LATENCY + 3 cycles after its word."""
        # Cycle 1: distance to the maximum. Cycles 2 and 3: table.
        # Cycle 4: weight in halves. Cycle 5: weight.
        p = Signal(data.ArrayLayout(unsigned(8), self.lanes), reset_less=True)
        shared: list[Rom] = []
        valid = register(m, word.attend, "attend")
        for n in range(self.lanes):
            distance = Signal(16, name=f"distance{n}", reset_less=True)
            m.d.sync += distance.eq(maxima[n] - word.scores[n])
            if n % 2 == 0:
                entries = [int(t) >> 7 for t in EXP2_TABLE]
                table = Rom(unsigned(9), entries, min(2, self.lanes - n))
                m.submodules[f"exp2_table{n // 2}"] = table
                shared.append(table)
            m.d.comb += getattr(shared[-1], f"address{n % 2}").eq(distance[:8])
            halves = getattr(shared[-1], f"data{n % 2}")
            near = delay(m, valid[n] & (distance[8:] <= 8), READ_LATENCY, f"near{n}")
            shift = delay(m, distance[8:12], READ_LATENCY, f"shift{n}")
            halves = register(m, Mux(near, halves >> shift, 0), f"halves{n}")
            m.d.sync += p[n].eq((halves + 1) >> 1)
        return p

    def _row_scales(self, m: Module, run: Pass, p: Any, p_en: Any) -> None:
        """The sums of p; then they rotate, once round, through lane 0 into the row scale."""
        lanes, bits = self.lanes, sum_bits(self.tokens)
        sums = [Signal(bits, name=f"sum{n}", reset_less=True) for n in range(lanes)]
        turn = Signal(range(lanes))
        turning, turn_last = Signal(), Signal()
        p_last = delay(m, run.reading & run.read_last, P_LATENCY, "p_last", reset=True)
        m.d.comb += turn_last.eq(turning & (turn == lanes - 1))
        for n in range(lanes):
            with m.If(run.starts):
                m.d.sync += sums[n].eq(0)
            with m.Elif(p_en):
                m.d.sync += sums[n].eq(sums[n] + p[n])
            with m.Elif(turning):
                m.d.sync += sums[n].eq(sums[(n + 1) % lanes])
        with m.If(p_last):
            m.d.sync += [turning.eq(1), turn.eq(0)]
        with m.Elif(turning):
            m.d.sync += turn.eq(turn + 1)
            with m.If(turn_last):
                m.d.sync += turning.eq(0)

        m.submodules.row_scale = row_scale = RowScale(bits)
        m.d.comb += [
            row_scale.sum.eq(sums[0]),
            row_scale.m.eq(run.job.m),
            row_scale.s.eq(run.job.s),
            run.finishing.eq(delay(m, turn_last, RowScale.latency, "last_row", reset=True)),
            self.trace.row_en.eq(turning & (turn == 0)),
        ]
        row_en = delay(m, turning, RowScale.latency, "row_en", reset=True)
        rows = data.StructLayout({"m": 16, "s": 6})
        scales = [
            Signal(data.ArrayLayout(rows, lanes), name=f"scales{b}", reset_less=True)
            for b in range(2)
        ]
        for b in range(2):
            with m.If(row_en & (run.job.buffer == b)):
                m.d.sync += scales[b][lanes - 1].eq(Cat(row_scale.row_m, row_scale.row_s))
                for n in range(lanes - 1):
                    m.d.sync += scales[b][n].eq(scales[b][n + 1])
        for n in range(lanes):
            m.d.comb += [
                self.row.m[n].eq(Mux(self.row.buffer, scales[1][n].m, scales[0][n].m)),
                self.row.s[n].eq(Mux(self.row.buffer, scales[1][n].s, scales[0][n].s)),
                self.trace.sum[n].eq(sums[n]),
            ]
