"""The engine: one array, its memories, and the units that feed and finish it."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.control.issuer import Issuer, selected_lane
from rtl.control.loader import Loader
from rtl.control.sequencer import Sequencer
from rtl.control.tile_queue import TileQueue
from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import A_BITS, B_BITS, MatMul
from rtl.datapath.position_bias import PositionBias
from rtl.datapath.schedule import OPERAND
from rtl.datapath.softmax import Softmax
from rtl.interface.config import Config
from rtl.interface.operation import NORM, Error
from rtl.interface.ports.batch import Batch, LengthWrite, MaskWrite
from rtl.interface.ports.datapath import LogitWrite, NormProgress, ResidualAccess
from rtl.interface.ports.loading import Limit, NormParameterWrite, RowsFill
from rtl.interface.ports.tiles import LogitLayout, Region
from rtl.interface.tile import Operand, address_bits
from rtl.interface.trace import Activity, AttentionTrace
from rtl.interface.word import activation_word, int8_word, stream_word
from rtl.primitives.members import In, Out, Unit, copied
from rtl.primitives.memory import Memory, ReadPort, WritePort
from rtl.primitives.pipeline import delay, register


class Banks(NamedTuple):
    """Words of the activation banks, and the numbers of A's and B's, a cycle before their words.

    words
        Of each bank, those of its ways.
    """

    words: list[list[data.View]]
    a: Value
    b: Value


class Engine(Unit):
    """Runs a command stream: loader, sequencer, issuer, array, epilogue, softmax and their buffers.

    Embedding rows, X16 and LayerNorm lie outside. It begins in reset and runs one inference; reset
    it to run the next.

    ::

        model -> Loader -> operations -> Sequencer -> tiles -> Issuer -> addresses
                   |                                              |
                 weights, parameters, table         X8, banks, weights, p -> MatMul -> Epilogue
                                                                                         |
                                 banks <- int8    softmax <- scores    X16 <- residual   logits
                                           (+ position bias)

    The four activation banks are one address space; the two top bits of an address name the bank,
    so that Q, K, V and the context can be read and written in one cycle. What operand B may come
    from has c = M / N ways, since B is c words: those at its address in all ways. Operand A is the
    word of one way.

    Parameters
    ----------
    ahead
        See `Epilogue`.
    """

    def __init__(self, config: Config, ahead: int) -> None:
        self.config = config
        n, word = config.lanes, int8_word(config.lanes)
        self.loader = Loader(config)
        self.sequencer = Sequencer(config)
        self.tiles = TileQueue(config)
        self.issuer = Issuer(config)
        self.matmul = MatMul(config)
        self.epilogue = Epilogue(config, ahead)
        self.softmax = Softmax(n, config.tokens, config.places)
        self.position_bias = (
            PositionBias(
                n,
                config.bias_heads,
                config.row_tiles,
                tokens=config.tokens,
                places=config.places,
            )
            if config.bias_heads
            else None
        )
        super().__init__(
            start=In(1, "Pulse: begin."),
            batch=In(Batch(config)),
            length=In(LengthWrite(config)),
            model=In(Stream(stream_word(config.stream_width)), "Command stream."),
            norm=Out(Stream(NORM)),
            norm_parameter=Out(NormParameterWrite(config.hidden)),
            norm_free=In(1, "No NORM is queued or running."),
            norm_progress=In(NormProgress(config)),
            row_tile_done=Out(1, "Pulse: one more row tile of X16 is complete."),
            mask=In(MaskWrite(config.places), "Before the batch is ready."),
            rows=Out(RowsFill()),
            rows_write=In(WritePort(range(config.weight_words), word, config.ways)),
            x8=In(
                WritePort(range(config.x8_words), activation_word(n, config.precise), config.ways)
            ),
            x=Out(ResidualAccess(config)),
            logit=Out(LogitWrite(config)),
            logits=Out(LogitLayout()),
            bank=In(
                ReadPort(address_bits(config), word),
                "Reads the banks while the engine is quiet; with several ways this one.",
            ),
            bank_way=In(range(config.ways), ...),
            context=Out(Region(config)),
            limit=Out(Limit(config)),
            awaits=Out(1, "See `Loader`.", there=config.ways > 1),
            error=Out(Error, "See `Loader`; LIMIT too where the sequencer has left the banks."),
            finished=Out(1, "The stream has ended well and everything is written."),
            activity=Out(Activity()),
            trace=Out(AttentionTrace(config)),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.loader = self.loader
        m.submodules.sequencer = self.sequencer
        m.submodules.tiles = self.tiles
        m.submodules.issuer = self.issuer
        m.submodules.matmul = self.matmul
        m.submodules.epilogue = self.epilogue
        m.submodules.softmax = self.softmax
        if self.position_bias is not None:
            m.submodules.position_bias = self.position_bias
        self._connect(m)
        x8, weights, banks = self._x8(m), self._weights(m), self._banks(m)
        self._operands(m, x8, weights, banks)
        if self.config.gated:
            self._gate(m, banks)
        return m

    def _connect(self, m: Module) -> None:
        """The units with each other and with the engine's ports."""
        loader, sequencer, issuer = self.loader, self.sequencer, self.issuer
        tiles = self.tiles
        matmul, epilogue, softmax = self.matmul, self.epilogue, self.softmax
        for mine, theirs in (
            (self.batch, sequencer.batch),
            (self.length, sequencer.length),
            (self.logits, sequencer.logits),
            (self.context, sequencer.context),
            (self.model, loader.model),
            (self.norm, loader.norm),
            (self.norm_parameter, loader.norm_parameter),
            (self.rows, loader.rows),
            (self.limit, loader.limit),
            (self.norm_progress, tiles.progress),
            (self.activity, issuer.activity),
            (self.x, epilogue.x),
            (self.logit, epilogue.logit),
            (self.mask, softmax.mask),
        ):
            connect(m, flipped(mine), theirs)
        connect(m, loader.operation, sequencer.i)
        connect(m, loader.parameter, epilogue.parameter)
        connect(m, loader.table, epilogue.table)
        connect(m, loader.rotary, epilogue.rotary)
        connect(m, sequencer.o, tiles.i)
        connect(m, tiles.o, issuer.i)
        connect(m, sequencer.score_multiplier, epilogue.score_multiplier)
        connect(m, sequencer.context_multiplier, softmax.context)
        connect(m, issuer.tile, epilogue.tile)
        connect(m, issuer.release, loader.release)
        connect(m, epilogue.parameter_release, loader.parameter_release)
        connect(m, sequencer.window, epilogue.window)
        scores = epilogue.score
        if self.position_bias is not None:
            scores = self._biased(m, self.position_bias)
        connect(m, scores, softmax.score)
        connect(m, epilogue.row, softmax.row)
        m.d.comb += [
            loader.start.eq(self.start),
            loader.norm_free.eq(self.norm_free),
            loader.table_done.eq(epilogue.table_done),
            issuer.normalised.eq(tiles.normalised),
            issuer.weights_ready.eq(loader.weights_ready),
            issuer.softmax_finished.eq(softmax.finished),
            issuer.done.eq(epilogue.done),
            epilogue.column.eq(matmul.o),
            sequencer.quiet.eq(issuer.quiet),
            self.row_tile_done.eq(epilogue.row_tile_done),
            self.awaits.eq(loader.awaits),
            self.error.eq(loader.error),
            self.finished.eq(loader.end & sequencer.idle & sequencer.quiet),
            self.trace.bank_en.eq(reduce(or_, epilogue.bank.en)),
            self.trace.bank_address.eq(Cat(*self._written_way(), epilogue.bank.address)),
            self.trace.bank.eq(high(epilogue.bank.data)),
            self.trace.score_en.eq(scores.en),
            self.trace.score_key.eq(scores.key),
            self.trace.score.eq(scores.data),
        ]
        m.d.comb += copied(self.trace, softmax.trace)

        with m.If(sequencer.outside & (loader.error == Error.NONE)):
            m.d.comb += self.error.eq(Error.LIMIT)

    def _biased(self, m: Module, bias: PositionBias) -> wiring.PureInterface:
        """The scores with their position bias."""
        connect(m, self.loader.bias, bias.write)
        connect(m, self.epilogue.place, bias.place)
        connect(m, self.epilogue.score, bias.score)
        m.d.comb += bias.biased.eq(self.sequencer.biased)
        return bias.o

    def _written_way(self) -> list[Value]:
        """The number of the way that the epilogue writes, a bit each."""
        en = self.epilogue.bank.en
        return [
            Cat(*(en[way] for way in range(self.config.ways) if way >> bit & 1)).any()
            for bit in range(self.config.way_bits)
        ]

    def _ways(self, name: str) -> list[str]:
        """The names of a memory's ways."""
        ways = self.config.ways
        return [f"{name}_{way}" if ways > 1 else name for way in range(ways)]

    def _x8(self, m: Module) -> list[data.View]:
        """X8 and the words of its ways, `Memory.latency` cycles after the issuer's address."""
        o, found = self.issuer.o, []
        word = activation_word(self.config.lanes, self.config.precise)
        for way, name in enumerate(self._ways("x8")):
            m.submodules[name] = x8 = Memory(word, self.config.x8_words)
            by_b = o.b[:2] == Operand.X8  # BANK and WEIGHT are its other sources
            m.d.comb += [
                x8.write.en.eq(self.x8.en[way]),
                x8.write.address.eq(self.x8.address),
                x8.write.data.eq(self.x8.data),
                x8.read.address.eq(Mux(by_b, o.b_address, o.a_address)),
            ]
            found.append(x8.read.data)
        return found

    def _weights(self, m: Module) -> list[data.View]:
        """Both halves of the weights, and the words of their ways.

        They are written a cycle late, and in time: a half is first read two cycles after its last
        word came.
        """
        o, loader, words = self.issuer.o, self.loader, self.config.weight_words
        found = []
        for way, name in enumerate(self._ways("weights")):
            m.submodules[name] = weights = Memory(int8_word(self.config.lanes), 2 * words)
            source = Mux(loader.rows.active, self.rows_write.data, loader.weight.data[way])
            written = register(m, source, name.replace("weights", "write_data"))
            by_b = o.b[1]  # of its sources WEIGHT alone has this bit
            m.d.comb += weights.read.address.eq(Mux(by_b, o.b_address, o.a_address))
            m.d.sync += [
                weights.write.en.eq(loader.weight.en[way] | self.rows_write.en[way]),
                weights.write.address.eq(
                    Mux(loader.rows.active, self.rows_write.address, loader.weight.address)
                    | Mux(loader.weight.buffer, words, 0)
                ),
            ]
            m.d.comb += weights.write.data.eq(written)
            found.append(weights.read.data)
        return found

    def _banks(self, m: Module) -> Banks:
        """The four banks, and which of them operands A and B come from."""
        config, issuer, epilogue = self.config, self.issuer, self.epilogue
        word = activation_word(config.lanes, config.precise)
        bank_bits = (config.bank_words - 1).bit_length()
        banks = []
        reading = Signal(address_bits(config))
        outside = register(m, issuer.quiet, "outside", reset=True)  # a tile starts a cycle later
        m.d.comb += reading.eq(Mux(outside, self.bank.address, issuer.o.a_address))
        a_bank, b_bank = reading[bank_bits:][:2], issuer.o.b_address[bank_bits:][:2]
        for number, name in enumerate(("query", "key", "value", "context")):
            words = []
            address = Mux(issuer.o.b_banks[number], issuer.o.b_address, reading)
            if config.gated:
                address = Mux(epilogue.gate.en, epilogue.gate.address, address)
            for way, way_name in enumerate(self._ways(f"{name}_bank")):
                bank = Memory(word, config.bank_words)
                m.submodules[way_name] = bank
                words.append(bank.read.data)
                m.d.comb += [
                    bank.read.address.eq(address),
                    bank.write.en.eq(
                        epilogue.bank.en[way] & (epilogue.bank.address[bank_bits:][:2] == number)
                    ),
                    bank.write.address.eq(epilogue.bank.address),
                    bank.write.data.eq(epilogue.bank.data),
                ]
            banks.append(words)
        # Which bank, known a cycle before its word.
        early = Memory.latency - 1
        a_number = delay(m, a_bank, early, "a_bank")
        b_number = delay(m, b_bank, early, "b_bank")
        asked = register(m, a_number, "asked_bank")
        asked_way = delay(m, self.bank_way, Memory.latency, "asked_way")
        with m.Switch(asked):
            for number, words in enumerate(banks):
                with m.Case(number):
                    m.d.comb += self.bank.data.eq(Array(map(high, words))[asked_way])
        return Banks(banks, a_number, b_number)

    def _gate(self, m: Module, banks: Banks) -> None:
        """The word of the banks that the epilogue asks for: an OR, as of the operands.

        It reads them for a LINEAR with a gate, whose operands come from elsewhere.
        """
        gate, early = self.epilogue.gate, Memory.latency - 1
        bank_bits = (self.config.bank_words - 1).bit_length()
        bank = delay(m, gate.address[bank_bits:][:2], early, "gate_bank")
        way = delay(m, gate.way, early, "gate_way")
        words = []
        for number, of_bank in enumerate(banks.words):
            for place, word in enumerate(of_bank):
                here = (bank == number) & (way == place)
                taken = register(m, here, f"gate_{number}_{place}")
                words.append(Mux(taken, word.as_value(), 0))
        m.d.comb += gate.data.eq(reduce(or_, words))

    def _operands(
        self, m: Module, x8: list[data.View], weights: list[data.View], banks: Banks
    ) -> None:
        """The mux of the sources, a cycle after the memories' words, and the array's control.

        It is an OR of words, all but one of which are held at 0; which, is known a cycle before for
        all lanes. The operands take a word in every cycle, so that they need no enable: without
        `valid` it has no meaning.
        """
        issuer, matmul, softmax = self.issuer, self.matmul, self.softmax
        m.d.comb += [
            softmax.p.address.eq(issuer.o.a_address),
            softmax.p.buffer.eq(issuer.tile.tag.softmax_buffer),
        ]
        early = Memory.latency - 1
        a_source = delay(m, issuer.o.a, early, "a_source")
        b_source = delay(m, issuer.o.b, early, "b_source")
        index = delay(m, issuer.o.index, early, "index")
        place, carried = selected_lane(index, self.sequencer.factor)
        a_way = delay(m, issuer.o.a_way, early, "a_way")
        # (word, whether operand A is it), and of operand B (words of the ways, whether it is they)
        a_words: list[tuple[data.View, Value]] = []
        b_words: list[tuple[list[data.View], Value]] = []

        def from_a(words: list[data.View], here: Value, name: str) -> None:
            for way, (word, way_name) in enumerate(zip(words, self._ways(name), strict=True)):
                a_words.append((word, register(m, here & (a_way == way), f"a_{way_name}")))

        def from_b(words: list[data.View], here: Value, name: str) -> None:
            b_words.append((words, register(m, here, f"b_{name}")))

        from_a(x8, a_source == Operand.X8, "x8")
        a_words += [
            (word, register(m, a_source == of, f"a_{of.name.lower()}"))
            for of, word in ((Operand.WEIGHT, weights[0]), (Operand.P, softmax.p.data))
        ]
        from_b(x8, b_source == Operand.X8, "x8")
        from_b(weights, b_source == Operand.WEIGHT, "weight")
        for number, words in enumerate(banks.words):
            in_a = (a_source == Operand.BANK) & (banks.a == number)
            in_b = (b_source == Operand.BANK) & (banks.b == number)
            from_a(words, in_a, f"bank_{number}")
            from_b(words, in_b, f"bank_{number}")
        low = register(m, delay(m, issuer.o.low, early, "low"), "of_low")
        m.d.comb += matmul.joined.eq(delay(m, issuer.o.joined, OPERAND, "joined"))

        def of_lane(word: data.View, lane: int) -> Value:
            """An operand's byte: of a wide one the half that the pass is of."""
            value = word[lane]
            return value if not isinstance(value, data.View) else Mux(low, value.low, value.high)

        for lane in range(self.config.lanes):
            here = (a_source == Operand.ONE_HOT) & (place == lane)
            selects = register(m, Mux(here, carried, 0), f"one_hot_{lane}")
            a = Signal(signed(A_BITS), name=f"a_{lane}")
            m.d.comb += [
                a.eq(
                    reduce(
                        or_,
                        (Mux(taken, of_lane(word, lane), 0) for word, taken in a_words),
                        selects,
                    )
                ),
                matmul.a[lane].eq(register(m, a, f"operand_a_{lane}")),
            ]
        for column in range(self.config.tile_columns):
            way, lane = divmod(column, self.config.lanes)
            b = Signal(signed(B_BITS), name=f"b_{column}")
            m.d.comb += [
                b.eq(
                    reduce(
                        or_,
                        (Mux(taken, of_lane(words[way], lane), 0) for words, taken in b_words),
                    )
                ),
                matmul.b[column].eq(register(m, b, f"operand_b_{column}")),
            ]
        m.d.comb += [
            matmul.valid.eq(delay(m, issuer.o.valid, OPERAND, "valid", reset=True)),
            matmul.first.eq(delay(m, issuer.o.first, OPERAND, "first", reset=True)),
            matmul.last.eq(delay(m, issuer.o.last, OPERAND, "last", reset=True)),
        ]


def high(word: data.View) -> Value:
    """A word of int8 activations: of wide ones the high halves."""
    lanes = list(word)
    wide = isinstance(lanes[0], data.View)
    return Cat(value.high for value in lanes) if wide else word.as_value()
