"""The SDRAM controller: words of 16 bits in the order of their addresses, one a cycle."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from boards.gateware.chip import Chip, Cycles
from rtl.primitives.pipeline import stages

REFRESHES = 8
"""REFRESH commands of the initialisation; some chips ask for 2, others for 8."""

WRITE_DEPTH = 4
"""Words to write that wait for the chip. With 2, one would be taken every other cycle."""

#: Of the pins ras, cas and we, each high where the chip's own pin is low.
ACTIVATE, READ, WRITE, PRECHARGE = 0b100, 0b010, 0b011, 0b101
REFRESH, MODE = 0b110, 0b111
ALL_BANKS = 1 << 10


class SdramPins(wiring.Signature):
    """The pins of the chip, from the controller; all are registers, or go into one.

    Members
    -------
    enable, command, bank, address, mask
        CKE; ras, cas and we from the highest bit down, inverted; BA; A; DQM.
    o, oe, i
        DQ as it is driven, whether it is, and as the chip drives it.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "enable": Out(1),
                "command": Out(3),
                "bank": Out(2),
                "address": Out(13),
                "mask": Out(2),
                "o": Out(16),
                "oe": Out(1),
                "i": In(16),
            }
        )


class Request(data.StructLayout):
    """Words to read or write: the address of the first, and how many there are, less one."""

    def __init__(self, chip: Chip, length_bits: int) -> None:
        super().__init__({"write": 1, "address": chip.address_bits, "last": length_bits})


class Segment(data.StructLayout):
    """The words of a request in one row of one bank: the first column, and how many, less one."""

    def __init__(self, chip: Chip) -> None:
        super().__init__(
            {
                "write": 1,
                "column": chip.column_bits,
                "bank": chip.bank_bits,
                "row": chip.row_bits,
                "last": chip.column_bits,
            }
        )


class Splitter(wiring.Component):
    """Requests cut where rows end.

    Members
    -------
    i : In, stream of Request
        Taken with its last segment.
    o : Out, stream of Segment
    """

    def __init__(self, chip: Chip, length_bits: int) -> None:
        self.chip, self.length_bits = chip, length_bits
        super().__init__(
            {
                "i": In(stream.Signature(Request(chip, length_bits))),
                "o": Out(stream.Signature(Segment(chip))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        chip, request, segment = self.chip, self.i.payload, self.o.payload
        begun = Signal()
        # What is left of the request, once its first segment is gone.
        left, place = Signal(self.length_bits), Signal(chip.row_bits + chip.bank_bits)
        first = request.address[: chip.column_bits]
        last = Signal(self.length_bits)
        room, ends = Signal(chip.column_bits), Signal()
        m.d.comb += [
            last.eq(Mux(begun, left, request.last)),
            segment.write.eq(request.write),
            segment.column.eq(Mux(begun, 0, first)),
            Cat(segment.bank, segment.row).eq(
                Mux(begun, place, request.address[chip.column_bits :])
            ),
            room.eq(~segment.column),
            ends.eq(last <= room),
            segment.last.eq(Mux(ends, last, room)),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                begun.eq(~ends),
                left.eq(last - room - 1),
                place.eq(Cat(segment.bank, segment.row) + 1),
            ]
        return m


class Sdram(wiring.Component):
    """Controller of one SDR SDRAM chip with 16 data pins, for reads in long runs of addresses.

    Consecutive rows of addresses lie in consecutive banks. While the words of one row are read, the
    row after it is opened in its bank, so that no cycle is lost but the two of PRECHARGE and
    ACTIVATE. The chip has bursts of one word: each READ or WRITE is one column, any run of words is
    as good as another, and none has to be cut short. Every `Cycles.interval` cycles all banks are
    closed and one REFRESH follows.

    Words read come in the order of the requests; a request is begun while the one before is under
    way, and a read sees all writes that were asked for before it.

    Parameters
    ----------
    chip, megahertz
        The chip and its clock, which is the clock of this unit.
    length_bits
        Width of a request's `last`: requests are of 1 to 2^length_bits words.
    depth
        Words that were read and not taken; that many are asked of the chip ahead.
    delay
        Cycles that registers at the pins and the phase of the chip's clock add between a READ and
        its word.

    Members
    -------
    request : In, stream of Request
    write : In, stream of 16
        The words of write requests, in their order; `WRITE_DEPTH` are taken ahead.
    read : Out, stream of 16
        The words of read requests, in their order.
    ready
        The chip is initialised.
    pins : Out, SdramPins

    Attributes
    ----------
    latency
        Cycles from a READ to its word in `pins.i`'s register: the register of the pins, the CAS
        latency, the register itself, and `delay`.

    Raises
    ------
    ValueError
        The clock does not suit the chip.
    """

    def __init__(
        self,
        chip: Chip,
        megahertz: float,
        length_bits: int = 16,
        depth: int = 32,
        delay: int = 0,
    ) -> None:
        self.chip, self.cycles = chip, Cycles.of(chip, megahertz)
        self.length_bits, self.depth = length_bits, depth
        self.latency = 1 + chip.cas + 1 + delay
        super().__init__(
            {
                "request": In(stream.Signature(Request(chip, length_bits))),
                "write": In(stream.Signature(16)),
                "read": Out(stream.Signature(16)),
                "ready": Out(1),
                "pins": Out(SdramPins()),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        chip, cycles, pins = self.chip, self.cycles, self.pins
        m.submodules.splitter = splitter = Splitter(chip, self.length_bits)
        wiring.connect(m, wiring.flipped(self.request), splitter.i)

        # Two segments: the words of `now` are read or written while the row of `then` is opened.
        now, then = (Signal(Segment(chip), name=name) for name in ("now", "then"))
        now_valid, then_valid = Signal(), Signal()

        # What the pins get at the end of this cycle.
        command, bank, address = Signal(3), Signal(2), Signal(13)
        m.d.comb += bank.eq(now.bank)
        m.d.sync += [pins.command.eq(command), pins.bank.eq(bank), pins.address.eq(address)]

        # Banks: which row is open, and how long until they take which command.
        banks = range(1 << chip.bank_bits)
        opened = Signal(len(banks))
        row = Array(Signal(chip.row_bits, name=f"row_{b}") for b in banks)

        def waits(name: str, length: int) -> Array[Signal]:
            signals = [Signal(range(length + 1), name=f"{name}_{b}") for b in banks]
            for signal in signals:
                with m.If(signal != 0):
                    m.d.sync += signal.eq(signal - 1)
            return Array(signals)

        until_activate = waits("until_activate", max(cycles.rc, cycles.rp) - 1)
        until_column = waits("until_column", cycles.rcd - 1)
        until_precharge = waits("until_precharge", max(cycles.ras, cycles.wr) - 1)
        until_other = Signal(range(cycles.rrd))
        until_write = Signal(range(self.chip.cas + 2))
        for signal in (until_other, until_write):
            with m.If(signal != 0):
                m.d.sync += signal.eq(signal - 1)

        def activate(segment: data.View) -> None:
            b = segment.bank
            m.d.comb += [command.eq(ACTIVATE), bank.eq(b), address.eq(segment.row)]
            m.d.sync += [
                opened.bit_select(b, 1).eq(1),
                row[b].eq(segment.row),
                until_activate[b].eq(cycles.rc - 1),
                until_column[b].eq(cycles.rcd - 1),
                until_precharge[b].eq(cycles.ras - 1),
                until_other.eq(cycles.rrd - 1),
            ]

        def precharge(segment: data.View) -> None:
            b = segment.bank
            m.d.comb += [command.eq(PRECHARGE), bank.eq(b)]
            m.d.sync += [opened.bit_select(b, 1).eq(0)]
            with m.If(until_activate[b] < cycles.rp):
                m.d.sync += until_activate[b].eq(cycles.rp - 1)

        def hit(segment: data.View) -> Value:
            return opened.bit_select(segment.bank, 1) & (row[segment.bank] == segment.row)

        def openable(segment: data.View) -> tuple[Value, Value]:
            """Whether its row can be opened, and whether its bank can be closed for it."""
            b = segment.bank
            is_open = opened.bit_select(b, 1)
            return (
                ~is_open & (until_activate[b] == 0) & (until_other == 0),
                is_open & (until_precharge[b] == 0),
            )

        now_hit, then_hit, apart = Signal(), Signal(), Signal()
        m.d.comb += [
            now_hit.eq(hit(now)),
            then_hit.eq(hit(then)),
            apart.eq(now.bank != then.bank),
        ]
        m.submodules.queue = queue = SyncFIFOBuffered(width=16, depth=self.depth)
        credit = Signal(range(self.depth + 1), init=self.depth)
        can_read = credit != 0
        # What the chip takes decides late in a cycle, so it does not reach whoever writes.
        m.submodules.words = words = SyncFIFOBuffered(width=16, depth=WRITE_DEPTH)
        m.d.comb += [
            words.w_data.eq(self.write.payload),
            words.w_en.eq(self.write.valid),
            self.write.ready.eq(words.w_rdy),
        ]
        can_write = words.r_rdy & (until_write == 0)
        column, done = Signal(), Signal()
        now_opens, now_closes = openable(now)
        then_opens, then_closes = openable(then)

        def run() -> None:
            ahead = now_valid & then_valid & apart & ~then_hit
            with m.If(now_valid & ~now_hit & now_opens):
                activate(now)
            with m.Elif(now_valid & ~now_hit & now_closes):
                precharge(now)
            with m.Elif(ahead & then_opens):
                activate(then)
            with m.Elif(ahead & then_closes):
                precharge(then)
            with m.Elif(
                now_valid
                & now_hit
                & (until_column[now.bank] == 0)
                & Mux(now.write, can_write, can_read)
            ):
                m.d.comb += [
                    column.eq(1),
                    command.eq(Mux(now.write, WRITE, READ)),
                    address.eq(now.column),
                    done.eq(now.last == 0),
                ]
                m.d.sync += [now.column.eq(now.column + 1), now.last.eq(now.last - 1)]

        reads, writes = column & ~now.write, column & now.write
        m.d.comb += words.r_en.eq(writes)
        m.d.sync += [pins.o.eq(words.r_data), pins.oe.eq(writes)]
        with m.If(writes & (until_precharge[now.bank] < cycles.wr)):
            m.d.sync += until_precharge[now.bank].eq(cycles.wr - 1)
        with m.If(reads):
            # The chip lets go of DQ before the controller drives it.
            m.d.sync += until_write.eq(chip.cas + 1)

        self._sequence(m, run, command, bank, address, opened, until_activate, until_precharge)
        # Segments move up, whatever the column that was the last has become.
        with m.If(done | ~now_valid):
            m.d.sync += [now_valid.eq(then_valid), then_valid.eq(0)]
            with m.If(then_valid):
                m.d.sync += now.eq(then)
        m.d.comb += splitter.o.ready.eq(~then_valid)
        with m.If(splitter.o.valid & splitter.o.ready):
            m.d.sync += [then.eq(splitter.o.payload), then_valid.eq(1)]

        # Words that were read.
        arrives = stages(m, reads, self.latency, "arrives")[-1]
        word = Signal(16, reset_less=True)
        m.d.sync += word.eq(pins.i)
        m.d.comb += [
            queue.w_data.eq(word),
            queue.w_en.eq(arrives),
            self.read.payload.eq(queue.r_data),
            self.read.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.read.ready),
        ]
        taken = self.read.valid & self.read.ready
        m.d.sync += credit.eq(credit + taken - reads)
        return m

    def _sequence(
        self,
        m: Module,
        run: Callable[[], None],
        command: Signal,
        bank: Signal,
        address: Signal,
        opened: Signal,
        until_activate: Array[Signal],
        until_precharge: Array[Signal],
    ) -> None:
        """Power-up, then `run` with a refresh whenever one is due."""
        cycles, pins = self.cycles, self.pins
        wait = Signal(range(cycles.power_up + 1), init=cycles.power_up)
        count = Signal(range(REFRESHES), init=REFRESHES - 1)
        since = Signal(range(cycles.interval))
        due, initialised = Signal(), Signal()
        m.d.comb += self.ready.eq(initialised)
        m.d.sync += [pins.enable.eq(1), pins.mask.eq(Mux(initialised, 0, 0b11))]
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        m.d.sync += since.eq(Mux(since == cycles.interval - 1, 0, since + 1))
        with m.If(since == cycles.interval - 1):
            m.d.sync += due.eq(1)
        still = Cat(*until_precharge) == 0

        with m.FSM(name="phase"):
            with m.State("POWER_UP"):
                with m.If(wait == 0):
                    m.next = "CLOSE"
            with m.State("RUN"):
                with m.If(due):
                    m.next = "CLOSE"
                with m.Else():
                    run()
            with m.State("CLOSE"):
                with m.If(still):
                    m.d.comb += [command.eq(PRECHARGE), address.eq(ALL_BANKS)]
                    m.d.sync += [opened.eq(0), wait.eq(cycles.rp - 1)]
                    m.next = "REFRESH"
            with m.State("REFRESH"):
                with m.If((wait == 0) & (Cat(*until_activate) == 0)):
                    m.d.comb += command.eq(REFRESH)
                    m.d.sync += [due.eq(0), wait.eq(cycles.rfc - 1)]
                    with m.If(initialised):
                        m.next = "PAUSE"
                    with m.Elif(count == 0):
                        m.next = "MODE"
                    with m.Else():
                        m.d.sync += count.eq(count - 1)
            with m.State("MODE"):
                with m.If(wait == 0):
                    m.d.comb += [command.eq(MODE), bank.eq(0), address.eq(self.chip.cas << 4)]
                    m.d.sync += [initialised.eq(1), wait.eq(cycles.mrd - 1)]
                    m.next = "PAUSE"
            with m.State("PAUSE"):
                with m.If(wait == 0):
                    m.next = "RUN"
