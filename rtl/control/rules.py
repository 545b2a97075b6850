"""The rules of the command stream: what a descriptor may ask for, and what may follow what."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.model import GATE_SHIFT_MAX, RMS_HIDDEN_MAX
from rtl.interface.command import (
    ALLOWED_FLAGS,
    BANK_SHIFT,
    BIAS_OPCODES,
    EPSILON_BITS,
    FIELD_BYTES,
    MAGIC,
    NO_FLAGS,
    NORM_SHIFT_MAX,
    RESIDUAL_SHIFT_MAX,
    RMS_BIT,
    ROTARY_BIT,
    ROTARY_OPCODES,
    SHARED_BIT,
    SHIFT_MAX,
    VERSION,
    WIDE_OPCODES,
    WINDOW_BIT,
    WINDOW_OPCODES,
    Flag,
    Opcode,
    flags_byte,
)
from rtl.interface.config import Config
from rtl.interface.operation import FLAGS, Error, fields


def allowed_flags(config: Config) -> dict[Opcode, Flag]:
    """The opcodes that this hardware takes, and the flags that each may have."""
    allowed = dict(ALLOWED_FLAGS)
    if config.precise:
        allowed |= {opcode: allowed[opcode] | Flag.WIDE for opcode in WIDE_OPCODES}
    if config.bias_heads:
        biased = {opcode: allowed[opcode] | Flag.BIAS for opcode in BIAS_OPCODES}
        allowed |= biased | {Opcode.BIAS: NO_FLAGS}
    if config.windows:
        allowed |= {opcode: allowed[opcode] | Flag.WINDOW for opcode in WINDOW_OPCODES}
    if config.gated:
        allowed[Opcode.HEADER] |= Flag.GATED
    if config.rotary_pairs:
        turned = {opcode: allowed[opcode] | Flag.ROTARY for opcode in ROTARY_OPCODES}
        allowed |= turned | {Opcode.ROTARY: NO_FLAGS}
    if config.rms_norm:
        allowed[Opcode.NORM] |= Flag.RMS
    return allowed


class Rules(wiring.Component):
    """Whether the descriptor in hand can be run after those before it.

    What holds after the descriptors so far is kept in a few bits: whether X16 holds a sum yet
    (EMBED), a NORM waits for its sum, the sums go on in row tile 0 alone, X16 holds what the latest
    NORM wrote, a LINEAR has read X8 since then, X8 has shifts (with `precise`), a TABLE was sent,
    the result is computed. From them and the descriptor follow FORMAT (no program: a flag that the
    opcode has not, an operation out of place) and LIMIT (a field exceeds the configuration).
    docs/architecture.md lists all rules; a stream that keeps them cannot stop the units from making
    progress.

    Members
    -------
    opcode, flags, fields : In
        Bytes 0, 1 and 2..27 of the descriptor, stable from a cycle before `error` is looked at
        until `accept`.
    accept : In, 1
        Pulse: the descriptor acts; what follows is judged behind it.
    error : Out, Error
        NONE, FORMAT or LIMIT, of what `opcode`, `flags` and `fields` were a cycle ago.

    Parameters
    ----------
    config
        Limits.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.allowed = allowed_flags(config)
        self.known = {opcode: flags_byte(flags) for opcode, flags in self.allowed.items()}
        self.known[Opcode.HEADER] |= config.way_bits
        super().__init__(
            {
                "opcode": In(8),
                "flags": In(8),
                "fields": In(8 * FIELD_BYTES),
                "accept": In(1),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        self._tokens = Signal(16)  # the model's longest sequence
        self._gated = Signal()  # a HEADER with GATED
        is_: dict[Opcode, Value] = dict.fromkeys(Opcode, Const(0))
        for opcode in self.allowed:
            is_[opcode] = signal = Signal(name=f"is_{opcode.name.lower()}")
            m.d.comb += signal.eq(self.opcode == opcode)
        # Every few rules have a register, so that the verdict is an OR of few signals.
        no_program, exceeds = _few_by_few(self._format(m, is_)), _few_by_few(self._limit(is_))
        format_broken, limit_broken = Signal(len(no_program)), Signal(len(exceeds))
        m.d.sync += [format_broken.eq(no_program), limit_broken.eq(exceeds)]
        with m.If(format_broken.any()):
            m.d.comb += self.error.eq(Error.FORMAT)
        with m.Elif(limit_broken.any()):
            m.d.comb += self.error.eq(Error.LIMIT)
        return m

    def _format(self, m: Module, is_: dict[Opcode, Value]) -> list[Value]:
        """Conditions that must not hold; the states between descriptors."""
        flags = data.View(FLAGS, self.flags)
        header, ways = fields(Opcode.HEADER, self.fields), self.config.way_bits
        begun, computed, tabled = Signal(), Signal(), Signal()
        summed = Signal()  # X16 and X8 hold something
        waiting = Signal()  # a NORM waits for its sum
        waiting_narrow = Signal()  # of row tile 0 alone
        narrow = Signal()  # the latest sum is one of row tile 0 alone
        stored = Signal()  # the latest NORM wrote X16
        read = Signal()  # a LINEAR has read X8 since that NORM
        has_wide = bool(self.allowed[Opcode.LINEAR] & Flag.WIDE)
        shifted = Signal() if has_wide else Const(0)  # the latest NORM has SHIFTS
        has_bias = bool(self.config.bias_heads)
        biased, due = Signal(), Signal()  # a HEADER with BIAS; its BIAS is still to come
        has_windows, windowed = self.config.windows, Signal()  # a HEADER with WINDOW
        has_rotary = bool(self.config.rotary_pairs)
        rotary, tables_due = Signal(), Signal()  # a HEADER with ROTARY; its ROTARY is to come
        linear = is_[Opcode.LINEAR]
        residual, logits = linear & flags.residual, linear & flags.logits
        of_x8 = linear & ~flags.bank
        with m.If(self.accept):
            with m.Switch(self.opcode):
                with m.Case(Opcode.HEADER):
                    m.d.sync += [begun.eq(1), self._tokens.eq(header.tokens)]
                    if has_bias:
                        m.d.sync += [biased.eq(flags.chained), due.eq(flags.chained)]
                    if has_windows:
                        m.d.sync += windowed.eq(flags.bank)
                    if self.config.gated:
                        m.d.sync += self._gated.eq(flags.logits)
                    if has_rotary:
                        m.d.sync += [rotary.eq(flags.shifts), tables_due.eq(flags.shifts)]
                with m.Case(Opcode.TABLE):
                    m.d.sync += tabled.eq(1)
                with m.Case(Opcode.NORM):
                    m.d.sync += [
                        waiting.eq(~flags.chained),
                        waiting_narrow.eq(flags.first_tile),
                        stored.eq(flags.residual),
                        read.eq(0),
                    ]
                    if has_wide:
                        m.d.sync += shifted.eq(flags.shifts)
                    with m.If(flags.chained & flags.first_tile):
                        m.d.sync += narrow.eq(1)
                with m.Case(Opcode.EMBED):
                    m.d.sync += [summed.eq(1), waiting.eq(0)]
                with m.Case(Opcode.LINEAR):
                    m.d.sync += read.eq(read | ~flags.bank)
                    with m.If(flags.residual):
                        m.d.sync += [waiting.eq(0), narrow.eq(flags.first_tile)]
                    with m.If(flags.logits):
                        m.d.sync += computed.eq(1)
                if has_bias:
                    with m.Case(Opcode.BIAS):
                        m.d.sync += due.eq(0)
                if has_rotary:
                    with m.Case(Opcode.ROTARY):
                        m.d.sync += tables_due.eq(0)
        shape = self.flags & ~SHARED_BIT if has_bias else self.flags
        shape = shape & ~WINDOW_BIT if has_windows else shape
        shape = shape & ~RMS_BIT if self.config.gated else shape  # GATED is that bit
        shape = shape & ~ROTARY_BIT if has_rotary else shape
        allowed = Signal(8)
        for opcode, known in self.known.items():
            with m.If(is_[opcode]):
                m.d.comb += allowed.eq(known)
        rules = [
            ~Cat(*is_.values()).any(),
            (self.flags & ~allowed).any(),
            is_[Opcode.HEADER] == begun,
            is_[Opcode.HEADER] & (header.magic != MAGIC),
            *([is_[Opcode.HEADER] & (shape != ways)] if ways else []),
            is_[Opcode.HEADER]
            & ((header.version != VERSION) | (header.lanes != self.config.lanes)),
            is_[Opcode.END] & ~computed,
        ]
        if has_bias:  # BIAS is the flag of CHAINED
            rules += [is_[Opcode.BIAS] != due, is_[Opcode.ATTEND] & flags.chained & ~biased]
        if has_windows:  # WINDOW is the flag of BANK
            rules.append(is_[Opcode.ATTEND] & flags.bank & ~windowed)
        if has_rotary:  # ROTARY is the flag of SHIFTS
            others = flags.table | flags.transposed | flags.residual | flags.logits
            rules += [
                is_[Opcode.ROTARY] != (tables_due & ~due),
                linear & flags.shifts & (~rotary | others),
            ]
        if self.config.gated:
            others = flags.table | flags.transposed | flags.residual | flags.bank
            others |= flags.logits | flags.shifts  # ROTARY is that bit
            gate = fields(Opcode.LINEAR, self.fields).gate
            rules.append(linear & self._gated & gate.any() & others)
        return [
            *rules,
            is_[Opcode.NORM] & (waiting | (flags.chained & (~stored | read))),
            is_[Opcode.NORM] & Mux(flags.first_tile, ~summed, narrow),
            is_[Opcode.EMBED] & (summed | ~waiting),
            (linear | is_[Opcode.ATTEND]) & ~summed,
            of_x8 & (waiting | flags.residual | (narrow & ~flags.first_tile)),
            residual & (~waiting | (flags.first_tile != waiting_narrow)),
            (residual | logits) & (flags.table | flags.transposed),
            logits & flags.residual,
            *([of_x8 & flags.chained & shifted] if has_wide else []),  # WIDE is that bit
            linear & flags.table & ~tabled,
            computed & ~is_[Opcode.END],
        ]

    def _limit(self, is_: dict[Opcode, Value]) -> list[Value]:
        """Conditions that must not hold."""
        config = self.config
        header = fields(Opcode.HEADER, self.fields)
        norm = fields(Opcode.NORM, self.fields)
        embed = fields(Opcode.EMBED, self.fields)
        linear = fields(Opcode.LINEAR, self.fields)
        attend = fields(Opcode.ATTEND, self.fields)
        flags = data.View(FLAGS, self.flags)
        bank_bits = (config.bank_words - 1).bit_length()
        int8 = ~flags.residual & ~flags.logits

        def beyond(value: Value, maximum: int) -> Value:
            """It is not in 1..maximum."""
            return (value == 0) | (value > maximum)

        def outside(address: Value) -> Value:
            """The offset is not in 0..bank_words - 1."""
            return address[bank_bits:BANK_SHIFT].any()

        linear_rules = [
            beyond(linear.length, max(config.hidden, config.ffn)),
            linear.columns == 0,
            linear.shift > RESIDUAL_SHIFT_MAX,
            # X8 is read from its first word on, row tiles at most `hidden` apart.
            ~flags.bank & (linear.source != 0),
            ~flags.bank
            & ((linear.length > config.hidden) | (linear.source_stride > config.hidden)),
            flags.bank & (outside(linear.source) | (linear.source_stride > 4 * config.bank_words)),
            int8 & outside(linear.destination),
            int8 & (linear.destination_stride > 4 * config.bank_words),
            ~int8 & (linear.destination != 0),
            flags.residual
            & ((linear.columns > config.hidden) | (linear.destination_stride > config.hidden)),
            flags.logits
            & ((linear.columns > config.labels) | (linear.destination_stride > config.labels)),
        ]
        attend_rules = [
            attend.heads == 0,
            beyond(attend.head_size, config.hidden),
            attend.stride > config.bank_words,
            outside(attend.query) | outside(attend.key),
            outside(attend.value) | outside(attend.context),
            beyond(attend.score_s, SHIFT_MAX) | beyond(attend.context_s, SHIFT_MAX),
        ]
        rotary_rules = []
        if config.rotary_pairs:  # ROTARY is the flag of SHIFTS
            rotary, pairs = fields(Opcode.ROTARY, self.fields), config.rotary_pairs
            size = linear.head_size
            rotary_rules = [
                is_[Opcode.ROTARY] & beyond(rotary.pairs, pairs),
                is_[Opcode.ROTARY] & beyond(rotary.row_tiles, config.row_tiles),
            ]
            linear_rules += [
                flags.shifts & (size[0] | (size == 0)),
                flags.shifts & _sum_exceeds(linear.rotary, size >> 1, Const(pairs, 16)),
            ]
        if config.bias_heads:
            bias = fields(Opcode.BIAS, self.fields)
            bias_rules = [
                is_[Opcode.BIAS] & beyond(bias.heads, config.bias_heads),
                is_[Opcode.BIAS] & beyond(bias.row_tiles, config.row_tiles),
            ]
            attend_rules.append(flags.chained & (attend.heads > config.bias_heads))
        else:
            bias_rules = []
        rms_rules = []
        if config.rms_norm and config.hidden > RMS_HIDDEN_MAX:  # RMS is the flag of LOGITS
            rms_rules = [is_[Opcode.NORM] & flags.logits & (norm.channels > RMS_HIDDEN_MAX)]
        if config.gated:
            linear_rules.append(self._gated & (linear.gate > GATE_SHIFT_MAX))
        return [
            is_[Opcode.HEADER] & (header.tokens == 0),
            is_[Opcode.HEADER] & beyond(header.hidden, config.hidden),
            is_[Opcode.HEADER] & beyond(header.ffn, config.ffn),
            is_[Opcode.HEADER] & beyond(header.labels, config.labels),
            is_[Opcode.NORM] & beyond(norm.channels, config.hidden),
            is_[Opcode.NORM] & beyond(norm.shift, NORM_SHIFT_MAX),
            is_[Opcode.NORM] & beyond(norm.epsilon, (1 << EPSILON_BITS) - 1),
            is_[Opcode.EMBED] & beyond(embed.channels, config.hidden),
            is_[Opcode.EMBED] & (embed.token_rows == 0),
            is_[Opcode.EMBED] & (embed.wide > 1),
            is_[Opcode.EMBED] & _sum_exceeds(embed.offset, self._tokens, embed.position_rows),
            *(is_[Opcode.LINEAR] & rule for rule in linear_rules),
            *(is_[Opcode.ATTEND] & rule for rule in attend_rules),
            *bias_rules,
            *rotary_rules,
            *rms_rules,
        ]


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
