"""The frequencies of rotary positions, by what config.json says of them (rope_parameters).

Those that depend on the position alone, by the formulas of transformers (modeling_rope_utils): a
type whose frequencies follow the length of the text is no table of positions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.foreign.tensors import number
from quant.model.spec import CheckpointError

Frequencies = NDArray[np.float32]


@dataclass(frozen=True)
class Rope:
    """The angle of a position's difference for each pair of channels, float32.

    The factor multiplies cos and sin.
    """

    frequencies: Frequencies
    factor: float = 1.0


def rope(parameters: Any, size: int) -> Rope:
    """The rotary positions of heads of `size` channels; b = theta^(2i / size) of pair i.

    default: 1 / b
    linear: 1 / (factor b)
    proportional: as linear, of the first partial_rotary_factor of the pairs; 0 of the others
    llama3: between 1 / b and 1 / (factor b), by the wavelength (Llama 3.1)
    yarn: likewise by the number of turns (Peng et al., 2023); cos and sin have a factor, too

    Raises CheckpointError for other types and for numbers without frequencies.
    """
    if not isinstance(parameters, dict):
        raise CheckpointError(
            f"config.json: rope_parameters is {parameters!r}: it must name rope_type and rope_theta"
        )
    kind = parameters.get("rope_type", "default")
    if kind not in _TYPES:
        raise CheckpointError(
            f"layer.0.q: rotary positions of the type {kind!r} (rope_parameters) are not "
            f"supported: it must be one of {', '.join(_TYPES)}, which do not follow the length"
        )
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    try:
        theta = np.float32(number(parameters, "rope_theta"))
        plain = (np.float32(1) / theta**exponents).astype(np.float32)
        with np.errstate(all="raise"):
            found = _TYPES[kind](plain, parameters, size)
    except (ArithmeticError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"config.json: rope_parameters is {parameters!r}, which gives no frequencies ({error})"
        ) from None
    if not np.isfinite(found.frequencies).all():
        raise CheckpointError(f"config.json: rope_parameters is {parameters!r}: not finite")
    return found


def _linear(plain: Frequencies, parameters: dict[str, Any], size: int) -> Rope:
    return Rope((plain / np.float32(number(parameters, "factor"))).astype(np.float32))


def _proportional(plain: Frequencies, parameters: dict[str, Any], size: int) -> Rope:
    scaled = plain / np.float32(number(parameters, "factor", 1.0))
    scaled[int(number(parameters, "partial_rotary_factor", 1.0) * size // 2) :] = 0
    return Rope(scaled.astype(np.float32))


def _llama3(plain: Frequencies, parameters: dict[str, Any], size: int) -> Rope:
    """Unchanged below a wavelength, over `factor` above another one, blended between the two."""
    low, high, length, factor = (
        number(parameters, name)
        for name in (
            *("low_freq_factor", "high_freq_factor"),
            *("original_max_position_embeddings", "factor"),
        )
    )
    waves = 2 * math.pi / plain
    blend = np.clip((length / waves - low) / (high - low), 0, 1)
    return Rope(((1 - blend) * plain / factor + blend * plain).astype(np.float32))


def _yarn(plain: Frequencies, parameters: dict[str, Any], size: int) -> Rope:
    """Unchanged for pairs with many turns, over `factor` for those with few, a ramp between."""
    factor, theta, length = (
        number(parameters, name)
        for name in ("factor", "rope_theta", "original_max_position_embeddings")
    )
    optional = {name: value for name, value in parameters.items() if value}

    def pair(turns: float) -> float:
        """The pair that turns so often within the length."""
        return size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = pair(number(optional, "beta_fast", 32))
    high = pair(number(optional, "beta_slow", 1))
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low if high != low else 0.001
    ramp = np.clip((np.arange(size // 2, dtype=np.float32) - low) / width, 0, 1)
    frequencies = plain / np.float32(factor) * ramp + plain * (1 - ramp)

    def scale(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1

    scales = [number(optional, name, 0) for name in ("mscale", "mscale_all_dim")]
    given = scale(scales[0]) / scale(scales[1]) if all(scales) else scale(1)
    if parameters.get("attention_factor") is not None:
        given = number(parameters, "attention_factor")
    return Rope(frequencies.astype(np.float32), given)


_TYPES: dict[str, Callable[[Frequencies, dict[str, Any], int], Rope]] = {
    "default": lambda plain, _, __: Rope(plain),
    "linear": _linear,
    "llama3": _llama3,
    "proportional": _proportional,
    "yarn": _yarn,
}
