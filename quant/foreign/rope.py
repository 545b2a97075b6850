"""The frequencies of rotary positions, by what config.json says of them (rope_parameters).

Those that depend on the position alone, by the formulas of transformers (modeling_rope_utils): a
type whose frequencies follow the length of the text is no table of positions.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.foreign.config import check
from quant.foreign.tensors import number
from quant.model.spec import CheckpointError

Frequencies = NDArray[np.float32]
Parameters = dict[str, Any]
_LENGTH = "original_max_position_embeddings"


def rope(parameters: Any, size: int) -> tuple[Frequencies, float]:
    """The rotary positions of heads of `size` channels; b = theta^(2i / size) of pair i.

    The angle of a position's difference for each pair, float32, and the factor of cos and sin.

    default: 1 / b
    linear: 1 / (factor b)
    proportional: as linear, of the first partial_rotary_factor of the pairs; 0 of the others
    llama3: between 1 / b and 1 / (factor b), by the wavelength (Llama 3.1)
    yarn: likewise by the number of turns (Peng et al., 2023); cos and sin have a factor, too

    Raises CheckpointError for other types and for numbers without frequencies.
    """
    check(isinstance(parameters, dict), "rope_parameters", parameters, "rope_type and rope_theta")
    kind, one = parameters.get("rope_type", "default"), np.float32(1)
    check(kind in _TYPES, "rope_type", kind, f"one of {', '.join(_TYPES)}, whatever the length")
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    try:
        plain = (one / np.float32(number(parameters, "rope_theta")) ** exponents).astype(np.float32)
        with np.errstate(all="raise"):
            found, factor = _TYPES[kind](plain, parameters, size)
    except (ArithmeticError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        what = f"rope_parameters is {parameters!r}, which gives no frequencies ({error})"
        raise CheckpointError(f"config.json: {what}") from None
    check(np.isfinite(found).all(), "rope_parameters", parameters, "of finite frequencies")
    return found.astype(np.float32), factor


def _scaled(plain: Frequencies, parameters: Parameters, size: int) -> tuple[Frequencies, float]:
    """linear and proportional."""
    named = parameters["rope_type"] == "linear"
    scaled = plain / np.float32(number(parameters, "factor", None if named else 1.0))
    part = 1.0 if named else number(parameters, "partial_rotary_factor", 1.0)
    scaled[int(part * size // 2) :] = 0
    return scaled, 1.0


def _llama3(plain: Frequencies, parameters: Parameters, size: int) -> tuple[Frequencies, float]:
    """Unchanged below a wavelength, over `factor` above another one, blended between the two."""
    names = ("low_freq_factor", "high_freq_factor", _LENGTH, "factor")
    low, high, length, factor = (number(parameters, name) for name in names)
    waves = 2 * math.pi / plain
    blend = np.clip((length / waves - low) / (high - low), 0, 1)
    return (1 - blend) * plain / factor + blend * plain, 1.0


def _yarn(plain: Frequencies, parameters: Parameters, size: int) -> tuple[Frequencies, float]:
    """Unchanged for pairs with many turns, over `factor` for those with few, a ramp between."""
    factor, theta, length = (number(parameters, x) for x in ("factor", "rope_theta", _LENGTH))
    usual = {"beta_fast": 32, "beta_slow": 1, "mscale": 0, "mscale_all_dim": 0}
    fast, slow, *scales = (number({x: parameters.get(x) or n}, x) for x, n in usual.items())
    # The pairs that turn so often within the length.
    low, high = (
        size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))
        for turns in (fast, slow)
    )
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low if high != low else 0.001
    ramp = np.clip((np.arange(size // 2, dtype=np.float32) - low) / width, 0, 1)

    def scale(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1

    given = scale(scales[0]) / scale(scales[1]) if all(scales) else scale(1)
    if parameters.get("attention_factor") is not None:
        given = number(parameters, "attention_factor")
    return plain / np.float32(factor) * ramp + plain * (1 - ramp), given


_TYPES: dict[str, Callable[[Frequencies, Parameters, int], tuple[Frequencies, float]]] = {
    "default": lambda plain, _, __: (plain, 1.0),
    "linear": _scaled,
    "llama3": _llama3,
    "proportional": _scaled,
    "yarn": _yarn,
}
