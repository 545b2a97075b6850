"""The loader: reads the command stream from start to end, once an inference."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.control.crc import Crc
from rtl.interface.command import (
    DESCRIPTOR_BYTES,
    FIELD_BYTES,
    MAGIC,
    NORM_PLANES,
    PARAMETER_PLANES,
    TABLE_BYTES,
    VERSION,
    Opcode,
)
from rtl.interface.config import Config
from rtl.interface.operation import FLAGS, NORM, OPERATION, Error, fields
from rtl.interface.ports import (
    Limit,
    NormParameterWrite,
    ParameterWrite,
    Release,
    RowsFill,
    TableWrite,
    WeightWrite,
    stream_word,
)
from rtl.interface.tile import NORM_ORDINAL_BITS


class Loader(wiring.Component):
    """Checks descriptors, hands operations on, and fills buffers as they get free.

    Weights and parameters go into the half of their double buffer that is next in turn, once it is
    released; a word a cycle, so K + 7 cycles a column tile. A table of 256 bytes takes N + 1 cycles
    a word, after its last user has drained. A NORM takes 6 + N cycles for N channels, after the
    NORM before it has finished. For EMBED the embedding unit fills the weight buffers in turn.

    A descriptor acts only after its CRC was found good, three cycles after its last word.

    Members
    -------
    start
        Pulse: begin to read a stream. The unit is in reset before, and is reset to try again.
    model
        The command stream.
    operation
        Checked EMBED, LINEAR and ATTEND descriptors for the sequencer.
    norm
        NORMs with their parameters loaded.
    weight : Out, WeightWrite
    parameter : Out, ParameterWrite
    table : Out, TableWrite
    norm_parameter : Out, NormParameterWrite
    weights_ready
        A bit for each half that is loaded.
    release : In, Release
        The weights of a half have been read.
    parameter_release : In, Release
        The parameters of a half have been used.
    table_done
        Pulse: an operation that uses the table has drained.
    norm_free
        No NORM is queued or running.
    rows : Out, RowsFill
    limit : Out, Limit
    end
        The stream has ended well: END's CRC is good and its last word was `last`.
    error
        Not NONE from the first failure on; the unit then takes no more words.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.lanes
        super().__init__(
            {
                "start": In(1),
                "model": In(stream.Signature(stream_word(n))),
                "operation": Out(stream.Signature(OPERATION)),
                "norm": Out(stream.Signature(NORM)),
                "weight": Out(WeightWrite(config)),
                "parameter": Out(ParameterWrite(n)),
                "table": Out(TableWrite()),
                "norm_parameter": Out(NormParameterWrite(config.hidden)),
                "weights_ready": Out(2),
                "release": In(Release()),
                "parameter_release": In(Release()),
                "table_done": In(1),
                "norm_free": In(1),
                "rows": Out(RowsFill()),
                "limit": Out(Limit()),
                "end": Out(1),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        word = self.model.payload.data
        taken = Signal()
        m.d.comb += taken.eq(self.model.valid & self.model.ready)

        m.submodules.crc = crc = Crc(8 * n)
        m.d.comb += [crc.en.eq(taken), crc.data.eq(word)]

        # The descriptor in hand, shifted in word by word.
        descriptor = Signal(8 * DESCRIPTOR_BYTES)
        words = DESCRIPTOR_BYTES // n
        opcode = descriptor[:8]
        flags = data.View(FLAGS, descriptor[8 : 8 + FLAGS.size])
        content = descriptor[16 : 16 + 8 * FIELD_BYTES]
        longest = max(words, self.config.weight_words, TABLE_BYTES // n)
        count = Signal(range(longest))  # words of this part taken
        begun = Signal()
        number = Signal(8, init=0xFF)
        ordinal = Signal(NORM_ORDINAL_BITS)
        ended = Signal()  # `last` has been seen

        def fail(error: Error) -> None:
            m.d.sync += self.error.eq(error)
            m.next = "FAILED"

        def truncated() -> None:
            with m.If(taken & self.model.payload.last):
                fail(Error.TRUNCATED)

        # The double buffers of weights and parameters.
        half = Signal()
        weights_full, parameters_full = Signal(2), Signal(2)
        m.d.comb += self.weights_ready.eq(weights_full)

        header = fields(Opcode.HEADER, content)
        norm = fields(Opcode.NORM, content)
        linear = fields(Opcode.LINEAR, content)
        attend = fields(Opcode.ATTEND, content)
        embed = fields(Opcode.EMBED, content)
        columns_left = Signal(16)
        channel = Signal(range(self.config.hidden + n))

        m.d.comb += [
            self.operation.payload.opcode.eq(opcode),
            self.operation.payload.flags.eq(flags),
            self.operation.payload.fields.eq(content),
            self.operation.payload.norm_ordinal.eq(ordinal),
            self.operation.payload.number.eq(number),
            self.norm.payload.channels.eq(norm.channels),
            self.norm.payload.shift.eq(norm.shift),
            self.norm.payload.epsilon.eq(norm.epsilon),
            self.norm.payload.flags.eq(flags),
            self.weight.buffer.eq(half),
            self.weight.address.eq(count),
            self.weight.data.eq(word),
            self.parameter.buffer.eq(half),
            self.parameter.plane.eq(count),
            self.parameter.data.eq(word),
            self.rows.fields.eq(embed),
        ]

        # A word of a table is held while its bytes are written, the planes of a NORM while its
        # channels are.
        held = Signal(8 * n * NORM_PLANES)
        written = Signal(range(n))
        users = Signal(8)  # operations in hand that use the table
        table_user = self.operation.valid & self.operation.ready & flags.table
        m.d.sync += users.eq(users + table_user - self.table_done)
        m.d.comb += [
            self.table.data.eq(held.word_select(written, 8)),
            self.norm_parameter.gamma.eq(
                Cat(*(held.word_select(written + n * p, 8) for p in range(2))).as_signed()
            ),
            self.norm_parameter.beta.eq(
                Cat(*(held.word_select(written + n * p, 8) for p in range(2, 6))).as_signed()
            ),
            self.norm_parameter.address.eq(channel),
        ]

        with m.FSM(name="state"):
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "FETCH"

            with m.State("FETCH"):
                m.d.comb += self.model.ready.eq(1)
                with m.If(taken):
                    m.d.sync += [
                        descriptor.eq(Cat(descriptor[8 * n :], word) if words > 1 else word),
                        count.eq(count + 1),
                    ]
                    with m.If(count == words - 1):
                        m.d.sync += [count.eq(0), ended.eq(self.model.payload.last)]
                        m.next = "CHECK"
                    with m.Elif(self.model.payload.last):
                        fail(Error.TRUNCATED)

            with m.State("CHECK"):
                first = ~begun
                known = (header.magic == MAGIC) & (header.version == VERSION) & (header.lanes == n)
                with m.If(~crc.good):
                    fail(Error.CRC)
                with m.Elif(first != (opcode == Opcode.HEADER)):
                    fail(Error.FORMAT)
                with m.Elif(first & ~known):
                    fail(Error.FORMAT)
                with m.Elif((opcode == Opcode.END) & ~ended):
                    fail(Error.OVERRUN)
                with m.Elif((opcode != Opcode.END) & ended):
                    fail(Error.TRUNCATED)
                with m.Else():
                    m.d.sync += [begun.eq(1), number.eq(number + 1)]
                    m.next = "DISPATCH"

            with m.State("DISPATCH"):
                with m.Switch(opcode):
                    with m.Case(Opcode.HEADER):
                        limits = self.config
                        fits = (
                            (header.tokens != 0)
                            & (header.hidden <= limits.hidden)
                            & (header.ffn <= limits.ffn)
                            & (header.labels <= limits.labels)
                        )
                        m.d.sync += [self.limit.tokens.eq(header.tokens), self.limit.valid.eq(fits)]
                        m.next = "FETCH"
                        with m.If(~fits):
                            fail(Error.LIMIT)
                    with m.Case(Opcode.TABLE):
                        with m.If(users == 0):
                            m.next = "TABLE"
                    with m.Case(Opcode.NORM):
                        m.d.sync += channel.eq(0)
                        with m.If((norm.channels == 0) | (norm.channels > self.config.hidden)):
                            fail(Error.LIMIT)
                        with m.Elif(self.norm_free):
                            m.next = "NORM"
                    with m.Case(Opcode.EMBED):
                        with m.If((embed.channels == 0) | (embed.channels > self.config.hidden)):
                            fail(Error.LIMIT)
                        with m.Else():
                            m.d.comb += self.operation.valid.eq(1)
                            with m.If(self.operation.ready):
                                m.next = "EMBED"
                    with m.Case(Opcode.LINEAR):
                        m.d.sync += columns_left.eq(linear.columns)
                        with m.If(
                            (linear.length == 0)
                            | (linear.length > max(self.config.hidden, self.config.ffn))
                            | (linear.columns == 0)
                        ):
                            fail(Error.LIMIT)
                        with m.Else():
                            m.d.comb += self.operation.valid.eq(1)
                            with m.If(self.operation.ready):
                                m.next = "WEIGHTS"
                    with m.Case(Opcode.ATTEND):
                        with m.If(
                            (attend.heads == 0)
                            | (attend.head_size == 0)
                            | (attend.head_size > self.config.hidden)
                        ):
                            fail(Error.LIMIT)
                        with m.Else():
                            m.d.comb += self.operation.valid.eq(1)
                            with m.If(self.operation.ready):
                                m.next = "FETCH"
                    with m.Case(Opcode.END):
                        m.d.sync += self.end.eq(1)
                        m.next = "ENDED"
                    with m.Default():
                        fail(Error.FORMAT)

            with m.State("WEIGHTS"):
                m.d.comb += [
                    self.model.ready.eq(~weights_full.bit_select(half, 1)),
                    self.weight.en.eq(taken),
                ]
                with m.If(taken):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count + 1 == linear.length):
                        m.d.sync += count.eq(0)
                        m.next = "PARAMETERS"
                truncated()

            with m.State("PARAMETERS"):
                m.d.comb += [
                    self.model.ready.eq(~parameters_full.bit_select(half, 1)),
                    self.parameter.en.eq(taken),
                ]
                with m.If(taken):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count == PARAMETER_PLANES - 1):
                        m.d.sync += [
                            count.eq(0),
                            half.eq(~half),
                            columns_left.eq(columns_left - n),
                            weights_full.bit_select(half, 1).eq(1),
                            parameters_full.bit_select(half, 1).eq(1),
                        ]
                        m.next = "WEIGHTS"
                        with m.If(columns_left <= n):
                            m.next = "FETCH"
                truncated()

            with m.State("EMBED"):
                m.d.comb += [
                    self.rows.active.eq(1),
                    self.rows.fill.eq(~weights_full.bit_select(half, 1)),
                ]
                with m.If(self.rows.done):
                    m.d.sync += [weights_full.bit_select(half, 1).eq(1), half.eq(~half)]
                    with m.If(self.rows.last):
                        m.next = "FETCH"

            with m.State("TABLE"):
                m.d.comb += self.model.ready.eq(1)
                with m.If(taken):
                    m.d.sync += [held.eq(word), written.eq(0)]
                    m.next = "TABLE WRITE"
                truncated()

            with m.State("TABLE WRITE"):
                m.d.comb += [
                    self.table.en.eq(1),
                    self.table.address.eq(Cat(written, count)),
                ]
                m.d.sync += written.eq(written + 1)
                with m.If(written == n - 1):
                    m.d.sync += count.eq(count + 1)
                    m.next = "TABLE"
                    with m.If(count == TABLE_BYTES // n - 1):
                        m.d.sync += count.eq(0)
                        m.next = "FETCH"

            with m.State("NORM"):
                m.d.comb += self.model.ready.eq(1)
                with m.If(taken):
                    m.d.sync += [
                        held.eq(Cat(held[8 * n :], word)),
                        written.eq(0),
                        count.eq(count + 1),
                    ]
                    with m.If(count == NORM_PLANES - 1):
                        m.d.sync += count.eq(0)
                        m.next = "NORM WRITE"
                truncated()

            with m.State("NORM WRITE"):
                m.d.comb += self.norm_parameter.en.eq(channel < norm.channels)
                m.d.sync += [written.eq(written + 1), channel.eq(channel + 1)]
                with m.If(written == n - 1):
                    m.next = "NORM"
                    with m.If(channel + 1 >= norm.channels):
                        m.next = "NORM PUSH"

            with m.State("NORM PUSH"):
                m.d.comb += self.norm.valid.eq(1)
                with m.If(self.norm.ready):
                    m.d.sync += ordinal.eq(ordinal + 1)
                    m.next = "FETCH"

            with m.State("ENDED"):
                pass

            with m.State("FAILED"):
                pass

        with m.If(self.release.en):
            m.d.sync += weights_full.bit_select(self.release.buffer, 1).eq(0)
        with m.If(self.parameter_release.en):
            m.d.sync += parameters_full.bit_select(self.parameter_release.buffer, 1).eq(0)
        return m
