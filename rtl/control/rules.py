"""The rules of the command stream: what a descriptor may ask for, and what may follow what."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from golden.model import GATE_SHIFT_MAX, RMS_HIDDEN_MAX
from rtl.interface.command import BANK_SHIFT, FIELD_BYTES, MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.isa import ADDRESS, FIELDS, HEADER_WAYS, Opcode, known_bits
from rtl.interface.operation import Error, fields, flags
from rtl.primitives.members import In, Out, Unit


class Rules(Unit):
    """Whether the descriptor in hand can be run after those before it.

    What holds after the descriptors so far is kept in a few bits: whether X16 holds a sum yet
    (EMBED), a NORM waits for its sum, the sums go on in row tile 0 alone, X16 holds what the latest
    NORM wrote, a LINEAR has read X8 since then, X8 has shifts, a TABLE was sent, the result is
    computed. From them and the descriptor follow FORMAT (a flag that the opcode does not have, an
    operation out of place) and LIMIT (a field exceeds the configuration). docs/architecture.md
    lists all rules; a stream that keeps them cannot stop the units from making progress.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            opcode=In(8, "Byte 0, stable from a cycle before `error` is looked at to `accept`."),
            flags=In(8, "Byte 1, as stable."),
            fields=In(8 * FIELD_BYTES, "Bytes 2..27, as stable."),
            accept=In(1, "Pulse: the descriptor acts; what follows is judged behind it."),
            error=Out(Error, "NONE, FORMAT or LIMIT, of what there was a cycle ago."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        known = known_bits(self.config)
        self._is = {opcode: Signal(name=f"is_{opcode.name.lower()}") for opcode in Opcode}
        m.d.comb += [signal.eq(self.opcode == of) for of, signal in self._is.items() if of in known]
        # A flag that this hardware does not have reads as 0.
        self._flags = {opcode: flags(self.flags, known.get(opcode, 0)) for opcode in Opcode}
        self._fields = {opcode: fields(opcode, self.fields) for opcode in Opcode}
        self._tokens = Signal(16)  # of the HEADER
        self._gated = Signal()
        # Every few rules have a register, so that the verdict is an OR of few signals.
        misplaced, exceeds = _few_by_few(self._format(m, known)), _few_by_few(self._limit())
        format_broken, limit_broken = Signal(len(misplaced)), Signal(len(exceeds))
        m.d.sync += [format_broken.eq(misplaced), limit_broken.eq(exceeds)]
        with m.If(format_broken.any()):
            m.d.comb += self.error.eq(Error.FORMAT)
        with m.Elif(limit_broken.any()):
            m.d.comb += self.error.eq(Error.LIMIT)
        return m

    def _format(self, m: Module, known: dict[Opcode, int]) -> list[Value]:
        """Conditions that must not hold; the states between descriptors."""
        is_, header = self._is, self._fields[Opcode.HEADER]
        asks, norm, linear, attend = (
            self._flags[of] for of in (Opcode.HEADER, Opcode.NORM, Opcode.LINEAR, Opcode.ATTEND)
        )
        begun = Signal()
        computed = Signal()  # a LINEAR with LOGITS was there
        tabled = Signal()
        summed = Signal()  # X16 and X8 hold something
        waiting = Signal()  # a NORM waits for its sum
        waiting_narrow = Signal()  # of row tile 0 alone
        narrow = Signal()  # the latest sum is one of row tile 0 alone
        stored = Signal()  # the latest NORM wrote X16
        shifted = Signal()  # it has SHIFTS
        read = Signal()  # a LINEAR has read X8 since that NORM
        biased = Signal()  # what the HEADER announced, and what is still to come of it
        bias_due = Signal()
        rotary = Signal()
        rotary_due = Signal()
        windowed = Signal()
        with m.If(self.accept):
            with m.Switch(self.opcode):
                with m.Case(Opcode.HEADER):
                    m.d.sync += [
                        begun.eq(1),
                        self._tokens.eq(header.tokens),
                        self._gated.eq(asks.gated),
                        windowed.eq(asks.window),
                        *(of.eq(asks.bias) for of in (biased, bias_due)),
                        *(of.eq(asks.rotary) for of in (rotary, rotary_due)),
                    ]
                with m.Case(Opcode.BIAS):
                    m.d.sync += bias_due.eq(0)
                with m.Case(Opcode.ROTARY):
                    m.d.sync += rotary_due.eq(0)
                with m.Case(Opcode.TABLE):
                    m.d.sync += tabled.eq(1)
                with m.Case(Opcode.NORM):
                    m.d.sync += [
                        waiting.eq(~norm.chained),
                        waiting_narrow.eq(norm.first_tile),
                        stored.eq(norm.residual),
                        shifted.eq(norm.shifts),
                        read.eq(0),
                    ]
                    with m.If(norm.chained & norm.first_tile):
                        m.d.sync += narrow.eq(1)
                with m.Case(Opcode.EMBED):
                    m.d.sync += [summed.eq(1), waiting.eq(0)]
                with m.Case(Opcode.LINEAR):
                    m.d.sync += read.eq(read | ~linear.bank)
                    with m.If(linear.residual):
                        m.d.sync += [waiting.eq(0), narrow.eq(linear.first_tile)]
                    with m.If(linear.logits):
                        m.d.sync += computed.eq(1)
        allowed = Signal(8)
        for opcode, bits in known.items():
            with m.If(is_[opcode]):
                m.d.comb += allowed.eq(bits)
        of_x8 = is_[Opcode.LINEAR] & ~linear.bank
        ends = linear.residual | linear.logits
        others = linear.table | linear.transposed | ends
        gate = self._gated & self._fields[Opcode.LINEAR].gate.any()
        of_header = [
            begun,
            header.magic != MAGIC,
            (self.flags & HEADER_WAYS) != self.config.way_bits,
            (header.version != VERSION) | (header.lanes != self.config.lanes),
        ]
        of_linear = [
            ~summed,
            linear.table & ~tabled,
            ends & (linear.table | linear.transposed),
            linear.logits & linear.residual,
            linear.residual & (~waiting | (linear.first_tile != waiting_narrow)),
            linear.rotary & (~rotary | others),
            gate & (others | linear.rotary | linear.bank),
        ]
        return [
            ~Cat(*is_.values()).any(),
            (self.flags & ~allowed).any(),
            ~is_[Opcode.HEADER] & ~begun,
            *(is_[Opcode.HEADER] & rule for rule in of_header),
            is_[Opcode.BIAS] != bias_due,
            is_[Opcode.ROTARY] != (rotary_due & ~bias_due),
            is_[Opcode.NORM] & (waiting | (norm.chained & (~stored | read))),
            is_[Opcode.NORM] & Mux(norm.first_tile, ~summed, narrow),
            is_[Opcode.EMBED] & (summed | ~waiting),
            is_[Opcode.ATTEND] & (~summed | (attend.bias & ~biased)),
            is_[Opcode.ATTEND] & attend.window & ~windowed,
            *(is_[Opcode.LINEAR] & rule for rule in of_linear),
            of_x8 & (waiting | linear.residual | (narrow & ~linear.first_tile)),
            of_x8 & linear.wide & shifted,
            is_[Opcode.END] != computed,
        ]

    def _limit(self) -> list[Value]:
        """Conditions that must not hold: the limits of the table, and those by flags and others."""
        config, words = self.config, 4 * self.config.bank_words
        flag, norm, attend = (
            self._flags[opcode] for opcode in (Opcode.LINEAR, Opcode.NORM, Opcode.ATTEND)
        )
        linear, embed = self._fields[Opcode.LINEAR], self._fields[Opcode.EMBED]
        int8, size = ~flag.residual & ~flag.logits, linear.head_size

        def outside(address: Value) -> Value:
            """The offset is not in 0..bank_words - 1."""
            return address[(config.bank_words - 1).bit_length() : BANK_SHIFT].any()

        rules = [
            (Opcode.NORM, norm.rms & (self._fields[Opcode.NORM].channels > RMS_HIDDEN_MAX)),
            (Opcode.EMBED, _sum_exceeds(embed.offset, self._tokens, embed.position_rows)),
            (
                Opcode.ATTEND,
                attend.bias & (self._fields[Opcode.ATTEND].heads > config.bias_heads),
            ),
        ]
        of_linear = [
            self._gated & (linear.gate > GATE_SHIFT_MAX),
            # X8 is read from its first word on, row tiles at most `hidden` apart.
            ~flag.bank & (linear.source != 0),
            ~flag.bank & ((linear.length > config.hidden) | (linear.source_stride > config.hidden)),
            flag.bank & (outside(linear.source) | (linear.source_stride > words)),
            int8 & outside(linear.destination),
            int8 & (linear.destination_stride > words),
            ~int8 & (linear.destination != 0),
            flag.residual
            & ((linear.columns > config.hidden) | (linear.destination_stride > config.hidden)),
            flag.logits
            & ((linear.columns > config.labels) | (linear.destination_stride > config.labels)),
            flag.rotary & (size[0] | (size == 0)),
            flag.rotary & _sum_exceeds(linear.rotary, size >> 1, Const(config.rotary_pairs, 16)),
        ]
        rules += [(Opcode.LINEAR, rule) for rule in of_linear]
        for opcode, known in FIELDS.items():
            for field in known:
                value = getattr(self._fields[opcode], field.name)
                if field.high == ADDRESS:
                    rules.append((opcode, outside(value)))
                    continue
                low, high = value < field.low, value > field.highest(config)
                rules += [(opcode, low | high)] if field.low or field.high else []
        return [self._is[opcode] & rule for opcode, rule in rules]


def _sum_exceeds(a: Value, b: Value, limit: Value) -> Value:
    """a + b > limit, of one width, in one chain of carries.

    a + b + (2^width - 1 - limit) reaches 2^width; the three are two after a carry-save adder.
    """
    rest = ~limit
    carries = (a & b) | (a & rest) | (b & rest)
    return ((a ^ b ^ rest) + Cat(Const(0, 1), carries))[len(limit) :].any()


def _few_by_few(rules: list[Value], few: int = 3) -> Value:
    """A bit for every few rules: one of them is broken."""
    return Cat(*(Cat(*rules[at : at + few]).any() for at in range(0, len(rules), few)))
