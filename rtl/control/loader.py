"""The loader: reads the command stream from start to end, once an inference."""

from __future__ import annotations

from enum import Enum, auto

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.control.crc import Crc
from rtl.control.payload import NormWriter, PlaneWriter, TableWriter, TileWriter
from rtl.control.rules import Rules
from rtl.interface.command import DESCRIPTOR_BYTES, FIELD_BYTES, descriptor_bytes, descriptor_words
from rtl.interface.config import Config, power_of_two
from rtl.interface.isa import OPCODE_NEEDS, Opcode, known_bits
from rtl.interface.operation import FLAG_BITS, NORM, OPERATION, Error, fields
from rtl.interface.ports.loading import (
    BiasWrite,
    Limit,
    NormParameterWrite,
    ParameterWrite,
    Release,
    RotaryWrite,
    RowsFill,
    TableWrite,
    WeightWrite,
)
from rtl.interface.tile import NORM_INDEX_BITS
from rtl.interface.word import stream_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.one_hot import move, one_hot
from rtl.primitives.pipeline import register


class State(Enum):
    """The loader takes a descriptor, looks at it, or has its payload written."""

    IDLE = auto()
    FETCH = auto()
    CRC = auto()  # with several ways
    CHECK = auto()
    DISPATCH = auto()
    LINEAR = auto()
    TABLE = auto()
    BIAS = auto()
    ROTARY = auto()
    NORM = auto()
    NORM_PUSH = auto()
    EMBED = auto()
    ENDED = auto()
    FAILED = auto()


Move = tuple[State, Value, State]
Writer = TileWriter | TableWriter | PlaneWriter | NormWriter


class Loader(Unit):
    """Checks descriptors, hands operations on, and has their payloads written.

    A descriptor is taken word by word, its CRC and `Rules` are looked at in the next cycle, with
    several ways in the one after that; a cycle later it acts; nothing of a damaged or refused one
    does. A table waits until its last user has drained, a NORM until the one before it has
    finished, an operation until the sequencer takes it; then `rtl.control.payload` has the words.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            start=In(1, "Pulse: begin to read a stream; the unit was in reset."),
            model=In(Stream(stream_word(config.stream_width)), "The command stream."),
            awaits=Out(
                1,
                "A word of it is needed, and none there: `model.ready` waits for the last part.",
                there=config.ways > 1,
            ),
            operation=Out(Stream(OPERATION), "Checked EMBED, LINEAR and ATTEND descriptors."),
            norm=Out(Stream(NORM), "NORMs with their parameters loaded."),
            weight=Out(WeightWrite(config)),
            parameter=Out(ParameterWrite(config)),
            table=Out(TableWrite(config.precise)),
            bias=Out(BiasWrite(config), "With a position bias.", there=config.bias_heads),
            rotary=Out(RotaryWrite(config), "With rotary positions.", there=config.rotary_pairs),
            norm_parameter=Out(NormParameterWrite(config.hidden)),
            weights_ready=Out(2, "A bit for each half that is loaded."),
            release=In(Release(), "The weights of a half have been read."),
            parameter_release=In(Release(), "The parameters of a half have been used."),
            table_done=In(1, "Pulse: an operation that uses the table has drained."),
            norm_free=In(1, "No NORM is queued or running."),
            rows=Out(RowsFill()),
            limit=Out(Limit(config)),
            end=Out(
                1, "The stream has ended well: END's CRC is good and its last word was `last`."
            ),
            error=Out(
                Error, "Not NONE from the first failure on; the unit then takes no more words."
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        self._taken = Signal()  # a word of the stream
        # The one in hand, shifted in word by word.
        self._descriptor = Signal(8 * DESCRIPTOR_BYTES, reset_less=True)
        self._ended = Signal()  # `last` came with its last word
        self._gated = Signal()  # the HEADER has GATED
        width = self.config.stream_width
        padding = descriptor_bytes(width) - DESCRIPTOR_BYTES
        m.submodules.crc = crc = Crc(8 * width, 8 * padding)
        m.submodules.rules = rules = Rules(self.config)
        seen = self._taken, self.model.payload.data
        if self.config.ways > 1:
            # What is taken is known late in the cycle, and goes to many XORs: a cycle more.
            seen = register(m, seen[0], "crc_en", reset=True), register(m, seen[1], "crc_data")
        m.d.comb += [
            self._taken.eq(self.model.valid & self.model.ready),
            crc.en.eq(seen[0]),
            crc.data.eq(seen[1]),
            rules.opcode.eq(self._descriptor[:8]),
            rules.flags.eq(self._descriptor[8:16]),
            rules.fields.eq(self._descriptor[16 : 16 + 8 * FIELD_BYTES]),
        ]
        self._state = one_hot(State.IDLE)
        number = Signal(8, init=0xFF)
        norm_index = Signal(NORM_INDEX_BITS)
        damaged = Signal()  # the descriptor in hand, by its CRC
        with m.If(self._state[State.CHECK]):
            m.d.sync += [number.eq(number + 1), damaged.eq(~crc.good)]
        with m.If(self._state[State.NORM_PUSH] & self.norm.ready):
            m.d.sync += norm_index.eq(norm_index + 1)
        self._hand_on(m, number, norm_index)
        payload = self._writers(m)

        cut = Signal()  # `last` came with a word of a payload
        m.d.comb += [
            cut.eq(self._taken & self.model.payload.last & ~self._state[State.FETCH]),
            self.rows.active.eq(self._state[State.EMBED]),
            self.norm.valid.eq(self._state[State.NORM_PUSH]),
            self.end.eq(self._state[State.ENDED]),
        ]
        with m.If(cut):
            m.d.sync += self.error.eq(Error.TRUNCATED)
        moves: list[Move] = [
            (State.IDLE, self.start, State.FETCH),
            *self._fetch(m),
            (State.CRC, Const(1), State.CHECK),
            (State.CHECK, Const(1), State.DISPATCH),
            *self._dispatch(m, rules, damaged),
            *((state, cut, State.FAILED) for state in payload),
            (State.EMBED, self.rows.done & self.rows.last, State.FETCH),
            (State.NORM_PUSH, self.norm.ready, State.FETCH),
        ]
        for state, writer in payload.items():
            behind = State.NORM_PUSH if state is State.NORM else State.FETCH
            moves.append((state, writer.done & ~cut, behind))
        move(m, self._state, moves)
        return m

    def _fields(self, opcode: Opcode) -> data.View:
        return fields(opcode, self._descriptor[16 : 16 + 8 * FIELD_BYTES])

    @property
    def _flags(self) -> data.View:
        return data.View(FLAG_BITS, self._descriptor[8 : 8 + FLAG_BITS.size])

    def _hand_on(self, m: Module, number: Signal, norm_index: Signal) -> None:
        """Hand the fields of the current descriptor to the units."""
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
        if self.config.gated:  # the field is 0 where it is not read
            with m.If((self._descriptor[:8] == Opcode.LINEAR) & ~self._gated):
                m.d.comb += fields(Opcode.LINEAR, self.operation.payload.fields).gate.eq(0)

    def _writers(self, m: Module) -> dict[State, Writer]:
        """The payloads' writers, by the state in which they have the stream."""
        config = self.config
        m.submodules.tile_writer = tiles = TileWriter(config)
        m.submodules.table_writer = table = TableWriter(config.lanes, config.precise)
        m.submodules.norm_writer = norm = NormWriter(config)
        linear = self._fields(Opcode.LINEAR)
        for mine, theirs in (
            (self.weight, tiles.weight),
            (self.parameter, tiles.parameter),
            (self.table, table.o),
            (self.norm_parameter, norm.o),
            (self.release, tiles.release),
            (self.parameter_release, tiles.parameter_release),
        ):
            connect(m, flipped(mine), theirs)
        m.d.comb += [
            tiles.length.eq(linear.length),
            tiles.columns.eq(linear.columns),
            tiles.transposed.eq(self._flags.transposed),
            tiles.begin.eq(self.operation.valid & self.operation.ready),
            tiles.filled.eq(self.rows.done),
            self.rows.fill.eq(self.rows.active & tiles.free),
            self.weights_ready.eq(tiles.ready),
            table.wide.eq(self._flags.wide),
            norm.channels.eq(self._fields(Opcode.NORM).channels),
            norm.shifts.eq(self._flags.shifts),
        ]
        writers: dict[State, Writer] = {
            State.LINEAR: tiles,
            State.TABLE: table,
            State.NORM: norm,
        }
        if config.bias_heads:
            bias = self._fields(Opcode.BIAS)
            writers[State.BIAS] = writer = PlaneWriter(
                config.lanes, BiasWrite(config), config.bias_head_words, signed_words=True
            )
            m.submodules.bias_writer = writer
            connect(m, flipped(self.bias), writer.o)
            m.d.comb += [writer.tables.eq(bias.heads), writer.row_tiles.eq(bias.row_tiles)]
        if config.rotary_pairs:
            rotary = self._fields(Opcode.ROTARY)
            writers[State.ROTARY] = writer = PlaneWriter(
                config.lanes,
                RotaryWrite(config),
                power_of_two(config.row_tiles),
                signed_words=False,
            )
            m.submodules.rotary_writer = writer
            connect(m, flipped(self.rotary), writer.o)
            m.d.comb += [writer.tables.eq(rotary.pairs << 1), writer.row_tiles.eq(rotary.row_tiles)]
        self._feed(m, writers)
        return writers

    def _feed(self, m: Module, writers: dict[State, Writer]) -> None:
        """The stream's words to the writer whose state it is, in parts of N bytes.

        A word is taken with the last part that a writer takes of it, or all at once. Other writers
        than that of tiles are done when nothing of their last word is in hand any more, or it is
        padding.
        """
        word = self.model.payload.data
        number = Signal(range(self.config.ways))  # of the part
        last, padding = number == self.config.ways - 1, number != 0
        ready = needs = self._state[State.FETCH]
        for name, writer in writers.items():
            state = self._state[name]
            ends = (writer.i.ready & last) | (writer.done & padding)  # with this part, the word is
            if isinstance(writer, TileWriter):
                m.d.comb += [writer.whole.eq(word), writer.part.eq(number)]
                ends = writer.i.ready & (writer.takes_whole | writer.ends | last)
            m.d.comb += [
                writer.i.payload.eq(word.word_select(number, 8 * self.config.lanes)),
                writer.i.valid.eq(self.model.valid & state),
            ]
            with m.If(self.model.valid & state & ends):
                m.d.sync += number.eq(0)
            with m.Elif(self.model.valid & state & writer.i.ready):
                m.d.sync += number.eq(number + 1)
            needs |= state & writer.i.ready
            ready |= state & ends
        m.d.comb += [self.model.ready.eq(ready), self.awaits.eq(needs & ~self.model.valid)]

    def _fetch(self, m: Module) -> list[Move]:
        """Takes the words of a descriptor."""
        n, word, several = self.config.stream_width, self.model.payload.data, self.config.ways > 1
        words = descriptor_words(n)
        count = Signal(range(words))
        complete = Signal()
        taken = self._state[State.FETCH] & self.model.valid
        m.d.comb += complete.eq(count == words - 1)
        with m.If(taken):
            m.d.sync += [
                self._descriptor.eq(
                    Cat(self._descriptor[8 * n :], word)
                    if words > 1
                    else word[: 8 * DESCRIPTOR_BYTES]  # what follows is padding
                ),
                count.eq(Mux(complete, 0, count + 1)),
                self._ended.eq(self.model.payload.last),
            ]
        truncated = self.model.valid & ~complete & self.model.payload.last
        with m.If(self._state[State.FETCH] & truncated):
            m.d.sync += self.error.eq(Error.TRUNCATED)
        return [
            (State.FETCH, self.model.valid & complete, State.CRC if several else State.CHECK),
            (State.FETCH, truncated, State.FAILED),
        ]

    def _dispatch(self, m: Module, rules: Rules, damaged: Signal) -> list[Move]:
        """Refuses the descriptor, or has it act as soon as its unit is free."""
        # Known before it is looked at: it was complete two cycles before.
        opcode, header = self._descriptor[:8], self._fields(Opcode.HEADER)
        known = known_bits(self.config)
        is_ = {of: register(m, opcode == of, f"is_{of.name.lower()}") for of in known}
        overrun = register(m, (opcode == Opcode.END) & ~self._ended, "overrun")
        truncated = register(m, (opcode != Opcode.END) & self._ended, "truncated")
        uses_table = self._flags.table
        if self.config.gated:
            # Of a product the width is that of the table, which must not change before.
            gate = fields(Opcode.LINEAR, self.operation.payload.fields).gate
            uses_table |= (opcode == Opcode.LINEAR) & gate.any()
        users = Signal(8)  # operations in hand that use the table; a new one counts a cycle late
        unused = Signal(init=1)  # there are none
        table_user = Signal()
        m.d.sync += [
            table_user.eq(self.operation.valid & self.operation.ready & uses_table),
            users.eq(users + table_user - self.table_done),
        ]
        with m.If(table_user != self.table_done):
            m.d.sync += unused.eq(self.table_done & (users == 1))

        verdict = Signal(Error)
        with m.If(damaged):
            m.d.comb += verdict.eq(Error.CRC)
        with m.Elif(rules.error != Error.NONE):
            m.d.comb += verdict.eq(rules.error)
        with m.Elif(overrun):
            m.d.comb += verdict.eq(Error.OVERRUN)
        with m.Elif(truncated):
            m.d.comb += verdict.eq(Error.TRUNCATED)
        good = Signal()
        m.d.comb += good.eq(~(damaged | overrun | truncated) & (rules.error == Error.NONE))
        dispatch, handed_on = self._state[State.DISPATCH], Signal()
        with m.If(dispatch):
            m.d.sync += self.error.eq(verdict)
        with m.If(dispatch & good & is_[Opcode.HEADER]):
            m.d.sync += [
                self.limit.valid.eq(1),
                self.limit.tokens.eq(header.tokens),
                self.limit.hidden.eq(header.hidden),
                self._gated.eq(self._flags.gated),
            ]
        operation = is_[Opcode.EMBED] | is_[Opcode.LINEAR] | is_[Opcode.ATTEND]
        acts = {
            Opcode.HEADER: (State.FETCH, good),
            Opcode.TABLE: (State.TABLE, good & unused),
            Opcode.NORM: (State.NORM, good & self.norm_free),
            Opcode.EMBED: (State.EMBED, handed_on),
            Opcode.LINEAR: (State.LINEAR, handed_on),
            Opcode.ATTEND: (State.FETCH, handed_on),
            **{of: (State[of.name], good) for of in OPCODE_NEEDS if of in known},
        }
        accepted = Cat(*(is_[opcode] & when for opcode, (_, when) in acts.items())).any()
        m.d.comb += [
            self.operation.valid.eq(dispatch & good & operation),
            handed_on.eq(good & self.operation.ready),
            rules.accept.eq(dispatch & accepted),
        ]
        return [
            (State.DISPATCH, ~good, State.FAILED),
            (State.DISPATCH, good & is_[Opcode.END], State.ENDED),
            *((State.DISPATCH, is_[opcode] & when, to) for opcode, (to, when) in acts.items()),
        ]
