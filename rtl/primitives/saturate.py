"""Saturation, the one way in which values are cut."""

from amaranth.hdl import Cat, Mux, Value, ValueLike


def saturate(value: ValueLike, bits: int) -> Value:
    """min(max(value, -2^(bits-1)), 2^(bits-1) - 1) of a longer signed value; no register."""
    value = Value.cast(value)
    return Mux(fits(value, bits), value[:bits], end(value[-1], bits)).as_signed()


def fits(value: Value, bits: int) -> Value:
    """1 where a signed value has a meaning in fewer bits: all from the new sign on are alike."""
    above = value[bits - 1 :]
    return above.all() | ~above.any()


def end(sign: Value, bits: int) -> Value:
    """The bits of -2^(bits-1) where the sign is 1, of 2^(bits-1) - 1 where it is 0."""
    return Cat((~sign).replicate(bits - 1), sign)
