"""The loader: reads the command stream from start to end, once an inference."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.control.crc import Crc
from rtl.control.payload import NormWriter, TableWriter, TileWriter
from rtl.control.rules import Rules
from rtl.interface.command import (
    DESCRIPTOR_BYTES,
    FIELD_BYTES,
    Opcode,
    descriptor_bytes,
    descriptor_words,
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
from rtl.interface.tile import NORM_INDEX_BITS


class Loader(wiring.Component):
    """Checks descriptors, hands operations on, and has their payloads written.

    A descriptor is taken word by word, its CRC and `Rules` are looked at in the next cycle; in the
    one after that it acts; nothing of a damaged or refused one does. A table waits until its
    last user has drained, a NORM until the one before it has finished, an operation until the
    sequencer takes it; then `rtl.control.payload` has the words.

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

    Parameters
    ----------
    config
        Limits.
    encoder
        See `Rules`.
    """

    def __init__(self, config: Config, *, encoder: bool = True) -> None:
        self.config, self.encoder = config, encoder
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
        self._taken = Signal()  # a word of the stream
        self._descriptor = Signal(8 * DESCRIPTOR_BYTES)  # the one in hand, shifted in word by word
        self._ended = Signal()  # `last` came with its last word
        n = self.config.lanes
        m.submodules.crc = crc = Crc(8 * n, 8 * (descriptor_bytes(n) - DESCRIPTOR_BYTES))
        m.submodules.rules = rules = Rules(self.config, encoder=self.encoder)
        m.d.comb += [
            self._taken.eq(self.model.valid & self.model.ready),
            crc.en.eq(self._taken),
            crc.data.eq(self.model.payload.data),
            rules.opcode.eq(self._descriptor[:8]),
            rules.flags.eq(self._descriptor[8:16]),
            rules.fields.eq(self._descriptor[16 : 16 + 8 * FIELD_BYTES]),
        ]
        users = Signal(8)  # operations in hand that use the table; a new one counts a cycle late
        table_user = Signal()
        m.d.sync += [
            table_user.eq(self.operation.valid & self.operation.ready & self._flags.table),
            users.eq(users + table_user - self.table_done),
        ]
        number = Signal(8, init=0xFF)
        norm_index = Signal(NORM_INDEX_BITS)
        damaged = Signal()  # the descriptor in hand, by its CRC
        # Who has the stream, apart from the state: whether a word is taken hangs on it.
        self._fetching = Signal()
        self._serving: dict[str, Signal] = {}  # by the writers' states
        self._hand_on(m, number, norm_index)
        payload = self._writers(m)

        with m.FSM(name="state"):
            with m.State("IDLE"):
                with m.If(self.start):
                    self._next(m, "FETCH")
            with m.State("FETCH"):
                self._fetch(m)
            with m.State("CHECK"):
                m.d.sync += [number.eq(number + 1), damaged.eq(~crc.good)]
                m.next = "DISPATCH"
            with m.State("DISPATCH"):
                with m.If(damaged):
                    self._fail(m, Error.CRC)
                with m.Else():
                    self._dispatch(m, rules, users)
            for name, writer in payload.items():
                with m.State(name):
                    with m.If(writer.done):
                        self._next(m, "NORM PUSH" if name == "NORM" else "FETCH")
                    with m.If(self._taken & self.model.payload.last):
                        self._fail(m, Error.TRUNCATED)
            with m.State("EMBED"):
                m.d.comb += self.rows.active.eq(1)
                with m.If(self.rows.done & self.rows.last):
                    self._next(m, "FETCH")
            with m.State("NORM PUSH"):
                m.d.comb += self.norm.valid.eq(1)
                with m.If(self.norm.ready):
                    m.d.sync += norm_index.eq(norm_index + 1)
                    self._next(m, "FETCH")
            with m.State("ENDED"):
                m.d.comb += self.end.eq(1)
            with m.State("FAILED"):
                pass
        return m

    def _next(self, m: Module, state: str) -> None:
        """To a state; the stream is the state's that takes words."""
        m.d.sync += self._fetching.eq(state == "FETCH")
        m.d.sync += [serves.eq(state == name) for name, serves in self._serving.items()]
        m.next = state

    def _fail(self, m: Module, error: Error | Signal) -> None:
        m.d.sync += self.error.eq(error)
        self._next(m, "FAILED")

    def _fields(self, opcode: Opcode) -> data.View:
        return fields(opcode, self._descriptor[16 : 16 + 8 * FIELD_BYTES])

    @property
    def _flags(self) -> data.View:
        return data.View(FLAGS, self._descriptor[8 : 8 + FLAGS.size])

    def _hand_on(self, m: Module, number: Signal, norm_index: Signal) -> None:
        """What the units get of the descriptor in hand."""
        norm = self._fields(Opcode.NORM)
        m.d.comb += [
            self.operation.payload.opcode.eq(self._descriptor[:8]),
            self.operation.payload.flags.eq(self._flags),
            self.operation.payload.fields.eq(self._descriptor[16 : 16 + 8 * FIELD_BYTES]),
            self.operation.payload.norm_index.eq(norm_index),
            self.operation.payload.number.eq(number),
            self.norm.payload.channels.eq(norm.channels),
            self.norm.payload.shift.eq(norm.shift),
            self.norm.payload.epsilon.eq(norm.epsilon),
            self.norm.payload.flags.eq(self._flags),
            self.rows.fields.eq(self._fields(Opcode.EMBED)),
        ]

    def _writers(self, m: Module) -> dict[str, TileWriter | TableWriter | NormWriter]:
        """The payloads' writers, by the state in which they have the stream."""
        m.submodules.tile_writer = tiles = TileWriter(self.config)
        m.submodules.table_writer = table = TableWriter(self.config.lanes)
        m.submodules.norm_writer = norm = NormWriter(self.config)
        linear = self._fields(Opcode.LINEAR)
        connect(m, flipped(self.weight), tiles.weight)
        connect(m, flipped(self.parameter), tiles.parameter)
        connect(m, flipped(self.table), table.o)
        connect(m, flipped(self.norm_parameter), norm.o)
        connect(m, flipped(self.release), tiles.release)
        connect(m, flipped(self.parameter_release), tiles.parameter_release)
        m.d.comb += [
            tiles.length.eq(linear.length),
            tiles.columns.eq(linear.columns),
            tiles.begin.eq(self.operation.valid & self.operation.ready),
            tiles.filled.eq(self.rows.done),
            self.rows.fill.eq(self.rows.active & tiles.free),
            self.weights_ready.eq(tiles.ready),
            norm.channels.eq(self._fields(Opcode.NORM).channels),
            norm.shifts.eq(self._flags.shifts),
        ]
        writers: dict[str, TileWriter | TableWriter | NormWriter] = {
            "LINEAR": tiles,
            "TABLE": table,
            "NORM": norm,
        }
        ready = self._fetching
        for name, writer in writers.items():
            self._serving[name] = serves = Signal(name=f"serves_{name.lower()}")
            m.d.comb += [
                writer.i.payload.eq(self.model.payload.data),
                writer.i.valid.eq(self.model.valid & serves),
            ]
            ready |= serves & writer.i.ready
        m.d.comb += self.model.ready.eq(ready)
        return writers

    def _fetch(self, m: Module) -> None:
        """Takes the words of a descriptor."""
        n, word = self.config.lanes, self.model.payload.data
        words = descriptor_words(n)
        count = Signal(range(words))
        with m.If(self.model.valid):
            m.d.sync += [
                self._descriptor.eq(
                    Cat(self._descriptor[8 * n :], word)
                    if words > 1
                    else word[: 8 * DESCRIPTOR_BYTES]  # what follows is padding
                ),
                count.eq(count + 1),
                self._ended.eq(self.model.payload.last),
            ]
            with m.If(count == words - 1):
                m.d.sync += count.eq(0)
                self._next(m, "CHECK")
            with m.Elif(self.model.payload.last):
                self._fail(m, Error.TRUNCATED)

    def _dispatch(self, m: Module, rules: Rules, users: Signal) -> None:
        """Refuses the descriptor, or has it act as soon as its unit is free."""
        opcode, header = self._descriptor[:8], self._fields(Opcode.HEADER)
        with m.If(rules.error != Error.NONE):
            self._fail(m, rules.error)
        with m.Elif((opcode == Opcode.END) & ~self._ended):
            self._fail(m, Error.OVERRUN)
        with m.Elif((opcode != Opcode.END) & self._ended):
            self._fail(m, Error.TRUNCATED)
        with m.Else():
            with m.Switch(opcode):
                with m.Case(Opcode.HEADER):
                    m.d.sync += [self.limit.tokens.eq(header.tokens), self.limit.valid.eq(1)]
                    m.d.comb += rules.accept.eq(1)
                    self._next(m, "FETCH")
                with m.Case(Opcode.TABLE):
                    with m.If(users == 0):
                        m.d.comb += rules.accept.eq(1)
                        self._next(m, "TABLE")
                with m.Case(Opcode.NORM):
                    with m.If(self.norm_free):
                        m.d.comb += rules.accept.eq(1)
                        self._next(m, "NORM")
                with m.Case(Opcode.EMBED, Opcode.LINEAR, Opcode.ATTEND):
                    m.d.comb += self.operation.valid.eq(1)
                    with m.If(self.operation.ready):
                        m.d.comb += rules.accept.eq(1)
                        self._next(m, "FETCH")
                        with m.If(opcode == Opcode.EMBED):
                            self._next(m, "EMBED")
                        with m.If(opcode == Opcode.LINEAR):
                            self._next(m, "LINEAR")
                with m.Case(Opcode.END):
                    self._next(m, "ENDED")
