"""The check of the image in the board's memory."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from boards.gateware.chip import Chip
from boards.gateware.sdram import Request
from boards.protocol import Problem
from rtl.compile.image import CRC_AT, FORMAT, HEADER, MAGIC
from rtl.control.crc import Crc
from rtl.interface.command import VERSION

HEADER_WORDS = HEADER.size // 2
CHUNK = 4096
"""Words of a request."""
MODEL_WORDS = 4
DIGEST_WORDS = 16
DIGEST_AT = HEADER_WORDS - DIGEST_WORDS
HASH_WORDS = MODEL_WORDS + DIGEST_WORDS

#: Words of the stream's HEADER where the CRC of the rows begins, and which model it is.
ROWS_AT, MODEL_AT = 8, 10

#: Numbers of the header and the words of 16 bits where they begin; all have 32 bits, those of
#: `LONG` 64, of which the upper half has to be zero.
FIELDS = {
    "size": 8,
    "stream": 12,
    "stream_bytes": 16,
    "rows": 20,
    "rows_bytes": 24,
    "row_bytes": 28,
    "stream_crc": 32,
    "rows_crc": 34,
}
LONG = ("size", "stream", "stream_bytes", "rows", "rows_bytes")
LANES_AT = 36
COLUMNS_AT = 41
#: What the first words have to be.
BEGINS = MAGIC + FORMAT.to_bytes(2, "little") + HEADER.size.to_bytes(2, "little")


class Place(data.StructLayout):
    """Where an image has what the accelerator reads: bytes from the image's first."""

    def __init__(self) -> None:
        super().__init__({"stream": 32, "stream_bytes": 32, "rows": 32, "row_bytes": 32})


class ImageCheck(wiring.Component):
    """Reads the image from address 0 of the memory on: header, CRC of the stream, CRC of the rows.

    What is wrong is found in the order of `Problem`. The rows must be those that the stream's
    HEADER names by their CRC, too. The SHA-256 is not computed.

    Parameters
    ----------
    chip
        The memory.
    lanes, columns
        Of the array that the image must be for.

    Members
    -------
    start
        Pulse while `busy` is low.
    busy
    problem : Out, Problem
        Of the latest check, once `busy` is low.
    place : Out, Place
        Of the latest image, sound or not.
    hash_index : In, hash_word : Out
        Words of its model's identity, from the stream's HEADER, then of its SHA-256, in the same
        cycle.
    request : Out, stream of boards.gateware.sdram.Request
    read : In, stream of 16
    """

    def __init__(self, chip: Chip, length_bits: int, lanes: int, columns: int) -> None:
        self.chip, self.length_bits, self.lanes, self.columns = chip, length_bits, lanes, columns
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "problem": Out(Problem, init=Problem.EMPTY),
                "place": Out(Place()),
                "hash_index": In(range(HASH_WORDS)),
                "hash_word": Out(16),
                "request": Out(stream.Signature(Request(chip, length_bits))),
                "read": In(stream.Signature(16)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        begin = Signal()
        crc = Crc(16)
        m.submodules.crc = ResetInserter(begin)(crc)
        fields = {name: Signal(32, name=name) for name in FIELDS}
        m.d.comb += [
            self.place.stream.eq(fields["stream"]),
            self.place.stream_bytes.eq(fields["stream_bytes"]),
            self.place.rows.eq(fields["rows"]),
            self.place.row_bytes.eq(fields["row_bytes"]),
        ]

        # What is read now: the header, the stream or the rows, with the CRC that it must have.
        in_header, in_rows = Signal(), Signal()
        begins = Signal()  # the first request of the stream, with its HEADER
        address, left = Signal(self.chip.address_bits), Signal(32)
        size, done = Signal(range(CHUNK + 1)), Signal(range(CHUNK + 1))  # words of the request
        asks, index = Signal(), Signal(range(HEADER_WORDS))
        said, half = Signal(32), Signal()
        unlike, beyond, foreign, mixed = Signal(), Signal(), Signal(), Signal()
        word = self.read.payload
        taken = self.read.valid & self.read.ready
        # Words come before the whole request is taken.
        m.d.comb += [
            self.request.valid.eq(asks),
            self.request.payload.address.eq(address),
            self.request.payload.last.eq(size - 1),
        ]
        with m.If(self.request.ready):
            m.d.sync += asks.eq(0)
        self._hashes(m, taken, in_header, begins, index, done)

        def read_on(section: str, bytes_: Value) -> None:
            m.d.sync += [
                address.eq(fields[section] >> 1),
                left.eq(bytes_ >> 1),
                said.eq(fields[f"{section}_crc"]),
            ]
            m.d.comb += begin.eq(1)
            m.next = "CHUNK"

        def end(problem: Problem) -> None:
            m.d.sync += self.problem.eq(problem)
            m.next = "IDLE"

        with m.FSM(name="part") as part:
            m.d.comb += self.busy.eq(~part.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += begin.eq(1)
                m.d.sync += [
                    in_header.eq(1),
                    in_rows.eq(0),
                    address.eq(0),
                    left.eq(HEADER_WORDS),
                    index.eq(0),
                    begins.eq(0),
                    Cat(unlike, beyond, foreign, mixed).eq(0),
                ]
                with m.If(self.start):
                    m.next = "CHUNK"
            with m.State("CHUNK"):
                m.d.sync += [size.eq(Mux(left > CHUNK, CHUNK, left)), done.eq(0), asks.eq(1)]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [self.read.ready.eq(1), crc.en.eq(taken), crc.data.eq(word)]
                with m.If(in_header & ((index >> 1) == CRC_AT // 4)):
                    m.d.comb += crc.data.eq(0)
                    m.d.sync += said.eq(Mux(taken, Cat(said[16:], word), said))
                with m.If(taken):
                    m.d.sync += [done.eq(done + 1), index.eq(index + 1)]
                    with m.If(in_header):
                        self._field(m, index, word, fields, unlike, beyond, foreign)
                    with m.If(begins):
                        for upper in range(2):
                            right = fields["rows_crc"].word_select(upper, 16)
                            with m.If((done == ROWS_AT + upper) & (word != right)):
                                m.d.sync += mixed.eq(1)
                    with m.If(done == size - 1):
                        m.d.sync += [address.eq(address + size), left.eq(left - size)]
                        m.d.sync += begins.eq(0)
                        m.next = "SAID"
                        with m.If(left != size):
                            m.next = "CHUNK"
            with m.State("SAID"):
                # A message that is followed by its own CRC is good.
                m.d.comb += [crc.en.eq(1), crc.data.eq(said)]
                m.d.sync += [said.eq(said >> 16), half.eq(~half)]
                with m.If(half):
                    m.next = "VERDICT"
            with m.State("VERDICT"):
                with m.If(in_header & (unlike | ~crc.good)):
                    end(Problem.HEADER)
                with m.Elif(in_header & foreign):
                    end(Problem.LANES)
                with m.Elif(in_header):
                    m.next = "SIZES"
                with m.Elif(~crc.good):
                    end(Problem.STREAM)
                    with m.If(in_rows):
                        end(Problem.ROWS)
                with m.Elif(mixed):
                    end(Problem.ROWS)
                with m.Elif(in_rows):
                    end(Problem.NONE)
                with m.Else():
                    m.d.sync += in_rows.eq(1)
                    read_on("rows", fields["rows_bytes"])
            wrong = self._sizes(m, fields)
            with m.State("SIZES"):
                m.next = "FIT"
            with m.State("FIT"):
                m.d.sync += [in_header.eq(0), begins.eq(1)]
                read_on("stream", (fields["rows"] - fields["stream"])[:32])
                with m.If(beyond | wrong):
                    end(Problem.SIZE)
        return m

    def _hashes(
        self, m: Module, taken: Value, in_header: Value, begins: Value, index: Value, done: Value
    ) -> None:
        """Keep the model's identity out of the stream's HEADER and the image's SHA-256."""
        m.submodules.hashes = hashes = memory.Memory(shape=16, depth=HASH_WORDS, init=[])
        write, read = hashes.write_port(), hashes.read_port(domain="comb")
        of_model = begins & (done >= MODEL_AT) & (done < MODEL_AT + MODEL_WORDS)
        of_digest = in_header & (index >= DIGEST_AT)
        m.d.comb += [
            write.en.eq(taken & (of_model | of_digest)),
            write.addr.eq(Mux(in_header, index - (DIGEST_AT - MODEL_WORDS), (done - MODEL_AT)[:2])),
            write.data.eq(self.read.payload),
            read.addr.eq(self.hash_index),
            self.hash_word.eq(read.data),
        ]

    def _field(
        self,
        m: Module,
        index: Signal,
        word: Value,
        fields: dict[str, Signal],
        unlike: Signal,
        beyond: Signal,
        foreign: Signal,
    ) -> None:
        """A word of the header into its field, or against what it must be."""
        with m.Switch(index):
            for at in range(len(BEGINS) // 2):
                with m.Case(at):
                    right = int.from_bytes(BEGINS[2 * at : 2 * at + 2], "little")
                    m.d.sync += unlike.eq(unlike | (word != right))
            for name, at in FIELDS.items():
                for half in range(2):
                    with m.Case(at + half):
                        m.d.sync += fields[name].word_select(half, 16).eq(word)
                if name in LONG:
                    with m.Case(at + 2, at + 3):
                        m.d.sync += beyond.eq(beyond | word.any())
            with m.Case(LANES_AT):
                m.d.sync += foreign.eq(word != (self.lanes | VERSION << 8))
            with m.Case(COLUMNS_AT):
                m.d.sync += foreign.eq(foreign | (word != self.columns))

    def _sizes(self, m: Module, fields: dict[str, Signal]) -> Value:
        """Whether the image is no image of this memory; two cycles behind the fields."""
        ends = [Signal(33, name=f"{section}_end") for section in ("stream", "rows")]
        wrong = Signal(9)
        for section, end in zip(("stream", "rows"), ends):
            m.d.sync += end.eq(fields[section] + fields[f"{section}_bytes"])
        m.d.sync += wrong.eq(
            Cat(
                fields["size"] > 2 << self.chip.address_bits,
                ends[0] > fields["rows"],
                ends[1] > fields["size"],
                *(fields[name][0] for name in ("stream", "stream_bytes", "rows", "rows_bytes")),
                *(fields[f"{section}_bytes"] == 0 for section in ("stream", "rows")),
            )
        )
        return wrong.any()
