"""The position bias: a number for each head and distance of key and query, added to the scores."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed

from rtl.interface.config import power_of_two
from rtl.interface.ports.datapath import BiasPlace, ScoreColumn
from rtl.interface.word import int16_word
from rtl.primitives.members import In, Out, Unit, copied
from rtl.primitives.memory import Memory, WritePort
from rtl.primitives.pipeline import delay, register
from rtl.primitives.saturate import saturate

BESIDE = "buffer", "first", "last", "key", "place", "seen"  # what goes with a score


class PositionBias(Unit):
    """o = saturate(score + B[head, key - query], 16) in each lane; docs/numerics.md section 6.

    Lanes are the queries r N .. r N + N - 1 of a row tile r; a column is the key c N + i. Its N
    values lie in two words of the memory side by side: value i + N - 1 - j of the word c - r and
    the one behind it belongs to lane j. So with i = 0 all lanes take a word; with every column
    behind it each takes what the lane before it had, and lane 0 the next value of the second word.
    A read a column, of the word c - r with i = 0 and of the second one else.

    Word w of a head, -R < w <= R for sequences of R row tiles, holds the values of key - query
    from (w - 1) N + 1 to w N; it lies at address w modulo 2^k, above which the head is.

    Columns come in order within N of them, one a cycle. Multipliers: 0. Memory: heads * 2^k words
    of 16 N bits, 2^k the power of two from 2 R on.

    Parameters
    ----------
    lanes
        Lanes, 2 or more.
    heads
        Heads whose bias there is room for.
    row_tiles
        Row tiles of the longest sequence.
    tokens, places
        Of the softmax, see `ScoreColumn`.

    Attributes
    ----------
    ahead
        Cycles from place to score: 3.
    latency
        Cycles from score to o: 1.
    """

    ahead = Memory.latency + 1
    latency = 1

    def __init__(
        self,
        lanes: int,
        heads: int,
        row_tiles: int,
        *,
        tokens: int | None = None,
        places: int | None = None,
    ) -> None:
        self.lanes, self.heads, self.row_tiles = lanes, heads, row_tiles
        self.head_words = power_of_two(2 * row_tiles)
        tokens = lanes * row_tiles if tokens is None else tokens
        column = ScoreColumn(lanes, tokens, tokens if places is None else places)
        super().__init__(
            write=In(
                WritePort(range(self.heads * self.head_words), int16_word(lanes)),
                "Not while there are scores.",
            ),
            biased=In(1, "The scores get the bias; stable while there are some."),
            place=In(
                BiasPlace(lanes, heads, self.head_words),
                "`ahead` cycles before the column's score.",
            ),
            score=In(column),
            o=Out(column),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        n, place = self.lanes, self.place
        m.submodules.table = table = Memory(int16_word(n), self.heads * self.head_words)
        first = place.column == 0
        word = Signal.like(place.word)
        m.d.comb += [
            word.eq(place.word + ~first),
            table.read.address.eq(Cat(word, place.head)),
            *copied(table.write, self.write),
        ]
        # With the word: whether all of it counts, or else which of its values is the next one.
        starts = delay(m, first, Memory.latency, "starts")
        number = delay(m, place.column - 1, Memory.latency, "number")
        values = [Signal(signed(16), name=f"value_{j}", reset_less=True) for j in range(n)]
        next_value = Array(table.read.data[i] for i in range(n))[number[: (n - 1).bit_length()]]
        for j, value in enumerate(values):
            before = values[j - 1] if j else next_value
            m.d.sync += value.eq(Mux(starts, table.read.data[n - 1 - j], before))

        column = self.score
        m.d.comb += self.o.en.eq(register(m, column.en, "o_en", reset=True))
        for name in BESIDE:
            m.d.comb += getattr(self.o, name).eq(register(m, getattr(column, name), f"o_{name}"))
        for j, value in enumerate(values):
            total = column.data[j] + Mux(self.biased, value, 0)
            m.d.comb += self.o.data[j].eq(register(m, saturate(total, 16), f"o_{j}"))
        return m
