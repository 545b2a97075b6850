"""Rotary positions: pairs of channels of Q and K are turned by angles that grow with the position.

Su et al., 2021. The score of a query and a key then depends on their distance, since turning both
by one angle more leaves it as it is. The order of a head's channels does not matter to the scores,
so a pair is two neighbours, whichever two the checkpoint takes.
"""

import numpy as np

from golden.model import Rotary
from golden.requantize import round_shift, saturate

FRACTION = 7  # bits of q and k below the result's unit
SHIFT = 14 + FRACTION


def rotate(u: np.ndarray, rotary: Rotary, head_size: int) -> np.ndarray:
    """Each pair (x, y) = (u[t, 2i], u[t, 2i + 1]) of a head turned by the angle of (t, i).

        x' = saturate(round_shift(x cos[t, i] - y sin[t, i], 21), 8)
        y' = saturate(round_shift(y cos[t, i] + x sin[t, i], 21), 8)

    u int16 [L, heads * head_size] at 2^-7 of the result's scale, head_size even, L <= T. Returns
    int8 of the same shape. Both products together are below 2^31.
    """
    tokens = len(u)
    pairs = u.astype(np.int64).reshape(tokens, -1, head_size // 2, 2)
    x, y = pairs[..., 0], pairs[..., 1]
    cos, sin = (table[:tokens, None].astype(np.int64) for table in (rotary.cos, rotary.sin))
    turned = np.stack((x * cos - y * sin, y * cos + x * sin), axis=-1)
    return saturate(round_shift(turned, SHIFT), 8).astype(np.int8).reshape(u.shape)
