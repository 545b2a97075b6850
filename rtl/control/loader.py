"""The loader: reads the command stream from start to end, once an inference."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import connect, flipped

from rtl.control.crc import Crc
from rtl.control.payload import BiasWriter, NormWriter, RotaryWriter, TableWriter, TileWriter
from rtl.control.rules import Rules
from rtl.interface.command import DESCRIPTOR_BYTES, FIELD_BYTES, descriptor_bytes, descriptor_words
from rtl.interface.config import Config
from rtl.interface.isa import Opcode
from rtl.interface.operation import FLAGS, NORM, OPERATION, Error, fields
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
from rtl.primitives.pipeline import register

STATES = (
    "IDLE",
    "FETCH",
    "CRC",
    "CHECK",
    "DISPATCH",
    "LINEAR",
    "TABLE",
    "BIAS",
    "ROTARY",
    "NORM",
    "NORM PUSH",
    "EMBED",
    "ENDED",
    "FAILED",
)
Move = tuple[str, Value, str]
"""In a state, when to leave it, and for which; of a state's moves one at most is made."""

Writer = TileWriter | TableWriter | BiasWriter | RotaryWriter | NormWriter


class Loader(Unit):
    """Checks descriptors, hands operations on, and has their payloads written.

    A descriptor is taken word by word, its CRC and `Rules` are looked at in the next cycle, with
    several ways in the one after that; a cycle later it acts; nothing of a damaged or refused one
    does. A table waits until its
    last user has drained, a NORM until the one before it has finished, an operation until the
    sequencer takes it; then `rtl.control.payload` has the words.

    Parameters
    ----------
    config
        Limits.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            start=In(
                1,
                "Pulse: begin to read a stream. The unit is in reset before, and is reset to try "
                "again.",
            ),
            model=In(stream.Signature(stream_word(config.stream_width)), "The command stream."),
            **(
                {
                    "awaits": Out(
                        1,
                        "With several ways: no word of it is there, and one is needed. With one "
                        "way that is what `model.ready` without `model.valid` says.",
                    )
                }
                if config.ways > 1
                else {}
            ),
            operation=Out(
                stream.Signature(OPERATION),
                "Checked EMBED, LINEAR and ATTEND descriptors for the sequencer.",
            ),
            norm=Out(stream.Signature(NORM), "NORMs with their parameters loaded."),
            weight=Out(WeightWrite(config)),
            parameter=Out(ParameterWrite(config)),
            table=Out(TableWrite(config.precise)),
            **(
                {"bias": Out(BiasWrite(config), "With a position bias.")}
                if config.bias_heads
                else {}
            ),
            **(
                {"rotary": Out(RotaryWrite(config), "With rotary positions.")}
                if config.rotary_pairs
                else {}
            ),
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
        # One hot, each bit of its own neighbours alone: whether a word is taken hangs on it.
        self._state = {
            name: Signal(name=f"state_{name.lower().replace(' ', '_')}", init=name == "IDLE")
            for name in STATES
            if (name != "CRC" or self.config.ways > 1)
            and (name != "BIAS" or self.config.bias_heads)
            and (name != "ROTARY" or self.config.rotary_pairs)
        }
        number = Signal(8, init=0xFF)
        norm_index = Signal(NORM_INDEX_BITS)
        damaged = Signal()  # the descriptor in hand, by its CRC
        with m.If(self._state["CHECK"]):
            m.d.sync += [number.eq(number + 1), damaged.eq(~crc.good)]
        with m.If(self._state["NORM PUSH"] & self.norm.ready):
            m.d.sync += norm_index.eq(norm_index + 1)
        self._hand_on(m, number, norm_index)
        payload = self._writers(m)

        cut = Signal()  # `last` came with a word of a payload
        m.d.comb += [
            cut.eq(self._taken & self.model.payload.last & ~self._state["FETCH"]),
            self.rows.active.eq(self._state["EMBED"]),
            self.norm.valid.eq(self._state["NORM PUSH"]),
            self.end.eq(self._state["ENDED"]),
        ]
        with m.If(cut):
            m.d.sync += self.error.eq(Error.TRUNCATED)
        moves: list[Move] = [
            ("IDLE", self.start, "FETCH"),
            *self._fetch(m),
            *([("CRC", Const(1), "CHECK")] if self.config.ways > 1 else []),
            ("CHECK", Const(1), "DISPATCH"),
            *self._dispatch(m, rules, damaged),
            *((name, cut, "FAILED") for name in payload),
            ("EMBED", self.rows.done & self.rows.last, "FETCH"),
            ("NORM PUSH", self.norm.ready, "FETCH"),
        ]
        for name, writer in payload.items():
            moves.append((name, writer.done & ~cut, "NORM PUSH" if name == "NORM" else "FETCH"))
        for name, state in self._state.items():
            enters = [self._state[source] & when for source, when, to in moves if to == name]
            leaves = [when for source, when, _ in moves if source == name]
            m.d.sync += state.eq(Cat(*enters).any() | (state & ~Cat(*leaves).any()))
        return m

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
        if self.config.gated:  # the field is 0 where it is not read
            with m.If((self._descriptor[:8] == Opcode.LINEAR) & ~self._gated):
                m.d.comb += fields(Opcode.LINEAR, self.operation.payload.fields).gate.eq(0)

    def _writers(self, m: Module) -> dict[str, Writer]:
        """The payloads' writers, by the state in which they have the stream."""
        m.submodules.tile_writer = tiles = TileWriter(self.config)
        m.submodules.table_writer = table = TableWriter(self.config.lanes, self.config.precise)
        if self.config.precise:
            m.d.comb += table.wide.eq(self._flags.wide)
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
            *([tiles.transposed.eq(self._flags.transposed)] if self.config.ways > 1 else []),
            tiles.begin.eq(self.operation.valid & self.operation.ready),
            tiles.filled.eq(self.rows.done),
            self.rows.fill.eq(self.rows.active & tiles.free),
            self.weights_ready.eq(tiles.ready),
            norm.channels.eq(self._fields(Opcode.NORM).channels),
            norm.shifts.eq(self._flags.shifts),
        ]
        writers: dict[str, Writer] = {"LINEAR": tiles, "TABLE": table, "NORM": norm}
        if self.config.bias_heads:
            m.submodules.bias_writer = writers["BIAS"] = bias = BiasWriter(self.config)
            connect(m, flipped(self.bias), bias.o)
            m.d.comb += [
                bias.heads.eq(self._fields(Opcode.BIAS).heads),
                bias.row_tiles.eq(self._fields(Opcode.BIAS).row_tiles),
            ]
        if self.config.rotary_pairs:
            pairs, row_tiles = self.config.rotary_pairs, self.config.row_tiles
            rotary = RotaryWriter(self.config.lanes, pairs, row_tiles)
            m.submodules.rotary_writer = writers["ROTARY"] = rotary
            connect(m, flipped(self.rotary), rotary.o)
            m.d.comb += [
                rotary.pairs.eq(self._fields(Opcode.ROTARY).pairs),
                rotary.row_tiles.eq(self._fields(Opcode.ROTARY).row_tiles),
            ]
        part: Value = self.model.payload.data
        ends: dict[str, Value] = {}  # by writer: the word goes, with its last part or what is left
        if self.config.ways > 1:
            part = self._parts(m, writers, ends)
        ready = needs = self._state["FETCH"]
        for name, writer in writers.items():
            m.d.comb += [
                writer.i.payload.eq(part),
                writer.i.valid.eq(self.model.valid & self._state[name]),
            ]
            needs |= self._state[name] & writer.i.ready
            ready |= self._state[name] & ends.get(name, writer.i.ready)
        m.d.comb += self.model.ready.eq(ready)
        if self.config.ways > 1:
            m.d.comb += self.awaits.eq(needs & ~self.model.valid)
        return writers

    def _parts(
        self,
        m: Module,
        writers: dict[str, Writer],
        ends: dict[str, Value],
    ) -> Value:
        """Parts of N bytes of a word, one after the other; the one in hand.

        A word is taken with the last part that a writer takes of it, or all at once. Other writers
        are done when nothing of their last word is in hand any more, or it is padding.
        """
        number = Signal(range(self.config.ways))
        last, padding = number == self.config.ways - 1, number != 0
        for name, writer in writers.items():
            if isinstance(writer, TileWriter):
                m.d.comb += [writer.whole.eq(self.model.payload.data), writer.part.eq(number)]
                ends[name] = writer.i.ready & (writer.takes_whole | writer.ends | last)
            else:
                ends[name] = (writer.i.ready & last) | (writer.done & padding)
            with m.If(self._state[name] & self.model.valid & ends[name]):
                m.d.sync += number.eq(0)
            with m.Elif(self._state[name] & self.model.valid & writer.i.ready):
                m.d.sync += number.eq(number + 1)
        return self.model.payload.data.word_select(number, 8 * self.config.lanes)

    def _fetch(self, m: Module) -> list[Move]:
        """Takes the words of a descriptor."""
        n, word = self.config.stream_width, self.model.payload.data
        words = descriptor_words(n)
        count = Signal(range(words))
        complete = Signal()
        taken = self._state["FETCH"] & self.model.valid
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
        with m.If(self._state["FETCH"] & truncated):
            m.d.sync += self.error.eq(Error.TRUNCATED)
        return [
            ("FETCH", self.model.valid & complete, "CRC" if self.config.ways > 1 else "CHECK"),
            ("FETCH", truncated, "FAILED"),
        ]

    def _dispatch(self, m: Module, rules: Rules, damaged: Signal) -> list[Move]:
        """Refuses the descriptor, or has it act as soon as its unit is free."""
        # Known before it is looked at: it was complete two cycles before.
        opcode, header = self._descriptor[:8], self._fields(Opcode.HEADER)
        options = {
            Opcode.BIAS: ("BIAS", self.config.bias_heads),
            Opcode.ROTARY: ("ROTARY", self.config.rotary_pairs),
        }
        known = [of for of in Opcode if of not in options or options[of][1]]
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
        dispatch, handed_on = self._state["DISPATCH"], Signal()
        with m.If(dispatch):
            m.d.sync += self.error.eq(verdict)
        with m.If(dispatch & good & is_[Opcode.HEADER]):
            m.d.sync += [self.limit.tokens.eq(header.tokens), self.limit.valid.eq(1)]
            if self.config.gated:
                m.d.sync += self._gated.eq(self._flags.gated)
            if self.config.ways > 1:
                m.d.sync += self.limit.hidden.eq(header.hidden)
        operation = is_[Opcode.EMBED] | is_[Opcode.LINEAR] | is_[Opcode.ATTEND]
        acts = {
            Opcode.HEADER: ("FETCH", good),
            Opcode.TABLE: ("TABLE", good & unused),
            Opcode.NORM: ("NORM", good & self.norm_free),
            Opcode.EMBED: ("EMBED", handed_on),
            Opcode.LINEAR: ("LINEAR", handed_on),
            Opcode.ATTEND: ("FETCH", handed_on),
            **{of: (state, good) for of, (state, option) in options.items() if option},
        }
        accepted = Cat(*(is_[opcode] & when for opcode, (_, when) in acts.items())).any()
        m.d.comb += [
            self.operation.valid.eq(dispatch & good & operation),
            handed_on.eq(good & self.operation.ready),
            rules.accept.eq(dispatch & accepted),
        ]
        return [
            ("DISPATCH", ~good, "FAILED"),
            ("DISPATCH", good & is_[Opcode.END], "ENDED"),
            *(("DISPATCH", is_[opcode] & when, to) for opcode, (to, when) in acts.items()),
        ]
