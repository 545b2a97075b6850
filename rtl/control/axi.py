"""AXI4-Stream ports and the AXI4-Lite register file, under the names that vendor tools look for."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import wiring

from rtl.interface.registers import REGISTERS, Register
from rtl.primitives.members import Bundle, In, Out, Unit

ADDRESS_BITS = 7
OKAY, SLVERR = 0, 2


class AxiStream(Bundle):
    """An AXI4-Stream, from its source."""

    def __init__(self, width: int, *, last: bool = False) -> None:
        super().__init__(tdata=Out(width), tvalid=Out(1), tready=In(1), tlast=Out(1, there=last))


class AxiLite(Bundle):
    """AXI4-Lite of 32 bits, from the master; valid and ready as AMBA defines them."""

    def __init__(self, address_bits: int = ADDRESS_BITS) -> None:
        super().__init__(
            awaddr=Out(address_bits),
            awprot=Out(3),
            awvalid=Out(1),
            awready=In(1),
            wdata=Out(32),
            wstrb=Out(4),
            wvalid=Out(1),
            wready=In(1),
            bresp=In(2),
            bvalid=In(1),
            bready=Out(1),
            araddr=Out(address_bits),
            arprot=Out(3),
            arvalid=Out(1),
            arready=In(1),
            rdata=In(32),
            rresp=In(2),
            rvalid=In(1),
            rready=Out(1),
        )


class Registers(Unit):
    """The register file of `REGISTERS` behind AXI4-Lite.

    No output hangs on an input of the same cycle. Address and data of a write are taken apart, and
    act in the cycle after the later one, once the response before is taken; the response comes a
    cycle later. A write that does nothing is answered with SLVERR: to a register that takes none,
    without the strobe of byte 0, or a start while an inference is under way. Reads see the values
    of the cycle in which the address is taken.

    The interrupt is a level: pending and enabled. It becomes pending in the cycle after `done` and
    stays so until a 1 is written to `interrupt_pending`, or to the next `start`; an end in the very
    cycle of the acknowledgement is not lost.

    Parameters
    ----------
    further
        Registers of another part, from address 0x80 on; `value` has the readable ones, too. They
        take whole words: a write without all strobes, or in a cycle in which `refused` says so of
        its register, does nothing.

    Attributes
    ----------
    data, reads, writes, refused
        With `further`: what is written; pulses by name, when it is read and when it is written.
    """

    def __init__(self, further: tuple[Register, ...] = ()) -> None:
        self.further = further
        self.shown = [r for r in REGISTERS if not r.writable] + [r for r in further if r.readable]
        self.data = Signal(32)
        self.reads, self.writes, self.refused = (
            {r.name: Signal(name=f"{what}_{r.name}") for r in further if getattr(r, kind)}
            for what, kind in (("read", "readable"), ("write", "writable"), ("refused", "writable"))
        )
        super().__init__(
            s_axi=In(AxiLite(ADDRESS_BITS + bool(further)), "Addresses are rounded down to words."),
            busy=In(1, "An inference is under way, or cannot begin."),
            done=In(1, "Pulse: it has ended."),
            start=Out(1, "Pulses, a cycle after the write; both bits are an abort alone."),
            abort=Out(1, ...),
            interrupt=Out(1, "The level, from registers."),
            value=In(
                wiring.Signature({r.name: Out(32) for r in self.shown}),
                "What each register that takes no writes shows, under its name.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()

        def word(address: Value) -> Value:
            return address[2:]

        # Write: address and data wait for each other, and for the response before to be taken.
        addressed, given, strobe, acts = (
            Signal(name=name) for name in ("addressed", "given", "strobe", "acts")
        )
        registers = (*REGISTERS, *self.further)
        to = {r.name: Signal(name=f"to_{r.name}") for r in registers if r.writable}
        value = self.data if self.further else Signal(2)
        enable, pending = Signal(init=1, name="enable"), Signal(name="pending")
        acknowledge = Signal()
        m.d.comb += [
            self.s_axi.awready.eq(~addressed),
            self.s_axi.wready.eq(~given),
            acts.eq(addressed & given & ~self.s_axi.bvalid),
            self.abort.eq(acts & to["control"] & strobe & value[1]),
            self.start.eq(acts & to["control"] & strobe & (value == 1) & ~self.busy),
            acknowledge.eq(acts & to["interrupt_pending"] & strobe & value[0]),
            self.interrupt.eq(pending & enable),
        ]
        with m.If(self.s_axi.awvalid & ~addressed):
            m.d.sync += addressed.eq(1)
            for register in registers:
                if register.writable:
                    m.d.sync += to[register.name].eq(
                        word(self.s_axi.awaddr) == register.address >> 2
                    )
        with m.If(self.s_axi.wvalid & ~given):
            m.d.sync += [given.eq(1), value.eq(self.s_axi.wdata), strobe.eq(self.s_axi.wstrb[0])]
        idle = self._further(m, acts, to)
        with m.If(acts):
            m.d.sync += [addressed.eq(0), given.eq(0), self.s_axi.bvalid.eq(1)]
            ignored = to["control"] & (value == 1) & self.busy
            refused = ~Cat(*to.values()).any() | ~strobe | ignored | idle
            m.d.sync += self.s_axi.bresp.eq(Mux(refused, SLVERR, OKAY))
        with m.Elif(self.s_axi.bready):
            m.d.sync += self.s_axi.bvalid.eq(0)
        with m.If(acts & to["interrupt_enable"] & strobe):
            m.d.sync += enable.eq(value[0])
        with m.If(self.done):
            m.d.sync += pending.eq(1)
        with m.Elif(acknowledge | self.start):
            m.d.sync += pending.eq(0)

        # Read.
        shown = [(register.name, getattr(self.value, register.name)) for register in self.shown]
        shown += [("interrupt_enable", enable), ("interrupt_pending", pending)]
        addresses = {register.name: register.address for register in registers}
        m.d.comb += self.s_axi.arready.eq(~self.s_axi.rvalid)
        with m.If(self.s_axi.arvalid & self.s_axi.arready):
            m.d.sync += [self.s_axi.rvalid.eq(1), self.s_axi.rdata.eq(0)]
            with m.Switch(word(self.s_axi.araddr)):
                for name, known in shown:
                    with m.Case(addresses[name] >> 2):
                        m.d.sync += self.s_axi.rdata.eq(known)
                        if name in self.reads:
                            m.d.comb += self.reads[name].eq(1)
        with m.Elif(self.s_axi.rready):
            m.d.sync += self.s_axi.rvalid.eq(0)
        return m

    def _further(self, m: Module, acts: Value, to: dict[str, Signal]) -> Value:
        """Write the further registers; whether a write of one in this cycle does nothing."""
        if not self.writes:
            return Const(0)
        whole = Signal()
        with m.If(self.s_axi.wvalid & self.s_axi.wready):
            m.d.sync += whole.eq(self.s_axi.wstrb.all())
        for name, write in self.writes.items():
            m.d.comb += write.eq(acts & to[name] & whole)
        idle = [to[name] & (~whole | self.refused[name]) for name in self.writes]
        return Cat(*idle).any()
