"""The frequencies of rotary positions, by what config.json says of them (rope_parameters).

Those that depend on the position alone, by the formulas of transformers (modeling_rope_utils): a
type whose frequencies follow the length of the text is no table of positions.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.foreign.tensors import Config, boolean, number
from quant.model.spec import CheckpointError

_LENGTH = "original_max_position_embeddings"
_NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _LENGTH),
    "proportional": (),
    "yarn": ("factor", _LENGTH),
}
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "default": ("partial_rotary_factor",),  # which transformers' classes do not read there
    "proportional": ("factor", "partial_rotary_factor"),
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
}
TYPES = tuple(_NEEDED)

_BY_LENGTH = ("dynamic", "longrope")
"""Types that scale by the length of the text before them."""


@dataclass(frozen=True)
class Rope:
    """The angle of a position's difference for each pair of channels, float32, and a factor.

    The factor multiplies cos and sin.
    """

    frequencies: NDArray[np.float32]
    factor: float = 1.0


def rope(parameters: Any, size: int) -> Rope:
    """The rotary positions of heads of `size` channels; b = theta^(2i / size) of pair i.

    default: 1 / b
    linear: 1 / (factor b)
    proportional: as linear, of the first partial_rotary_factor of the pairs; 0 of the others
    llama3: between 1 / b and 1 / (factor b), by the wavelength (Llama 3.1)
    yarn: likewise by the number of turns (Peng et al., 2023); cos and sin have a factor, too

    Raises CheckpointError for other types and for options that a type does not have.
    """
    kind = _checked(parameters)
    values = {name: number(parameters, name) for name in ("rope_theta", *_NEEDED[kind])}
    values["factor"] = number(parameters, "factor", 1.0)
    if low := [name for name, value in values.items() if value <= 0]:
        raise CheckpointError(
            f"config.json: rope_parameters has {low[0]} {values[low[0]]}: it must be above 0"
        )
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    plain = (np.float32(1) / np.float32(values["rope_theta"]) ** exponents).astype(np.float32)
    scaled = plain / np.float32(values["factor"])
    if kind == "llama3":
        return Rope(_llama3(plain, values))
    if kind == "yarn":
        return _yarn(plain, parameters, values, size)
    if kind == "proportional":
        part = number(parameters, "partial_rotary_factor", 1.0)
        if not 0 < part <= 1:
            raise CheckpointError(
                f"config.json: partial_rotary_factor is {part}: it must be above 0 and at most 1"
            )
        scaled[int(part * size // 2) :] = 0
    return Rope(scaled.astype(np.float32))


def _checked(parameters: Any) -> str:
    """The type, one of TYPES; every option is one that it has."""
    if not isinstance(parameters, dict):
        raise CheckpointError(
            f"config.json: rope_parameters is {parameters!r}: it must name rope_type and rope_theta"
        )
    kind = parameters.get("rope_type", "default")
    if kind not in TYPES:
        why = "the frequencies follow the length of the text: " if kind in _BY_LENGTH else ""
        raise CheckpointError(
            f"layer.0.q: rotary positions of the type {kind!r} (rope_parameters) are not "
            f"supported: {why}it must be one of {', '.join(TYPES)}"
        )
    known = {"rope_type", "type", "rope_theta", *_NEEDED[kind], *_OPTIONAL.get(kind, ())}
    if others := sorted(set(parameters) - known):
        raise CheckpointError(
            f"config.json: rope_parameters has {others[0]} ({parameters[others[0]]!r}), which "
            f"{kind} rotary positions do not have: take it out"
        )
    return str(kind)


def _llama3(plain: NDArray[np.float32], values: dict[str, float]) -> NDArray[np.float32]:
    """Unchanged below a wavelength, over `factor` above another one, blended between the two."""
    low, high, length = (values[name] for name in ("low_freq_factor", "high_freq_factor", _LENGTH))
    if low >= high:
        raise CheckpointError(
            f"config.json: rope_parameters has low_freq_factor {low} and high_freq_factor {high}: "
            "the first must be the smaller one"
        )
    waves = 2 * math.pi / plain
    blend = np.clip((length / waves - low) / (high - low), 0, 1)
    return ((1 - blend) * plain / values["factor"] + blend * plain).astype(np.float32)


def _yarn(
    plain: NDArray[np.float32], parameters: Config, values: dict[str, float], size: int
) -> Rope:
    """Unchanged for pairs with many turns, over `factor` for those with few, a ramp between."""
    factor, theta = values["factor"], values["rope_theta"]
    optional = {name: value for name, value in parameters.items() if value}

    def pair(turns: float) -> float:
        """Of the pair that turns so often within the length."""
        return size * math.log(values[_LENGTH] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = pair(number(optional, "beta_fast", 32))
    high = pair(number(optional, "beta_slow", 1))
    if boolean({"truncate": True} | dict(parameters), "truncate"):
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
