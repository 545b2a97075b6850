"""CRC-32 of a stream of words, a word a cycle."""

from __future__ import annotations

from cli.errors import UserError

from amaranth.hdl import Cat, Elaboratable, Module, Signal

from rtl.primitives.members import In, Out, Unit

POLYNOMIAL = 0xEDB88320  # of CRC-32/ISO-HDLC, bit-reversed: the one that zlib computes
RESIDUE = 0xDEBB20E3  # the state after any message that ends with its own CRC


def after(state: int, data: int, bits: int) -> int:
    """The CRC's state after `bits` bits of data, the lowest first."""
    for bit in range(bits):
        odd = (state ^ data >> bit) & 1
        state = state >> 1 ^ (POLYNOMIAL if odd else 0)
    return state


def before(state: int, bits: int) -> int:
    """The state that becomes `state` after so many zero bits."""
    for _ in range(bits):
        odd = state >> 31  # the polynomial's top bit is set: it was taken
        state = ((state ^ (POLYNOMIAL if odd else 0)) << 1 | odd) & 0xFFFFFFFF
    return state


class Crc(Unit):
    """CRC-32/ISO-HDLC of all words so far, and whether they end with their own CRC and zeros.

    The state after a word is linear in state and word over GF(2), so each of its bits is one XOR of
    some of theirs; which, is found by feeding `after` one bit at a time. What is kept is the state
    that a word of zeros would take to it: up to 32 bits of a word then meet one bit of it each,
    where they would meet half of them, and come late in the cycle.

    Parameters
    ----------
    width
        Bits of a word, a multiple of 8; the first byte is the lowest.
    padding
        Zero bits between the CRC and the end of its word.
    """

    def __init__(self, width: int, padding: int = 0) -> None:
        if width <= 0 or width % 8:
            raise UserError(f"Crc: width is {width}: it must be a positive multiple of 8")
        if padding % 8 or not 0 <= padding <= width - 8:
            raise UserError(
                f"Crc: padding is {padding}: it must be a multiple of 8 in 0..{width - 8}"
            )
        self.width, self.padding = width, padding
        super().__init__(
            en=In(1, "A word of the message. The message begins with the unit's reset."),
            data=In(width, ...),
            good=Out(1, "The words so far end with their CRC, little-endian, and `padding` zeros."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        width = self.width
        state = Signal(32, init=before(0xFFFFFFFF, width))
        sources = [state[i] for i in range(32)] + [self.data[i] for i in range(width)]
        images = [after(1 << i, 0, width) for i in range(32)]
        images += [before(after(0, 1 << i, width), width) for i in range(width)]
        with m.If(self.en):
            for bit in range(32):
                terms = [s for s, image in zip(sources, images) if image >> bit & 1]
                m.d.sync += state[bit].eq(Cat(*terms).xor())
        good = before(after(RESIDUE, 0, self.padding), width)
        m.d.comb += self.good.eq(state == good)
        return m
