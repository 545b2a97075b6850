"""Saturation, the one way in which values are cut."""

from amaranth.hdl import Cat, Mux, Value, ValueLike


def saturate(value: ValueLike, bits: int) -> Value:
    """min(max(value, -2^(bits-1)), 2^(bits-1) - 1) of a signed value with more bits; no register.

    The value fits where all bits from the sign of the result on are alike.
    """
    value = Value.cast(value)
    above, sign = value[bits - 1 :], value[-1]
    fits = above.all() | ~above.any()
    return Mux(fits, value[:bits], Cat((~sign).replicate(bits - 1), sign)).as_signed()
