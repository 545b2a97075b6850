"""One image from a file, as 8-bit pixels that stand upright, or the rows of a front end.

Pillow reads it, the first of several frames. What would be lost silently is refused: transparency,
and grey of more than 8 bits.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from quant.model.spec import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
"""Of the files that a folder of images is searched for; a file is known by its content."""

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_ALLOWED = "it must be a PNG, JPEG, GIF, BMP or WebP image"


def read(path: str | Path) -> NDArray[np.uint8]:
    """The pixels of an image file: [h, w] of a grey one, else [h, w, 3], in red, green and blue.

    Raises InputError naming the file, what is wrong with it and what is allowed.
    """
    _require(path, _ALLOWED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as opened:
                return _upright(ImageOps.exif_transpose(opened))
    except Exception as error:  # of the system, Pillow and its decoders
        raise _unreadable(path, error, _ALLOWED) from None


def read_rows(path: Path, hidden: int, most: int) -> NDArray[np.float32]:
    """The rows [L, hidden] of a .npy file of floats, L from 1 to ``most``; InputError as `read`."""
    allowed = f"it must be a .npy file of finite float32 [L, {hidden}], L from 1 to {most:,}"
    _require(path, allowed)
    try:
        with path.open("rb") as file:
            rows = np.load(file, allow_pickle=False)
        shaped = rows.ndim == 2 and rows.shape[1] == hidden and 0 < len(rows) <= most
    except Exception as error:  # of the system and NumPy; an archive has no shape
        raise _unreadable(path, error, allowed) from None
    if rows.dtype.kind != "f" or not shaped:
        raise InputError(f"{path} is an array of {rows.dtype} {list(rows.shape)}: {allowed}")
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = rows.astype(np.float32)
    if wrong := int((~np.isfinite(found)).sum()):
        raise InputError(f"{path} has {wrong:,} values that are not finite in float32: {allowed}")
    return found


def _upright(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode[0] in "IF":
        raise ValueError(f"grey of more than 8 bits, mode {image.mode}: convert it to 8 bits first")
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema() != (
        255,
        255,
    ):
        raise ValueError("transparent pixels: put it onto the background that is meant first")
    return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB"))


def _require(path: str | Path, allowed: str) -> None:
    """Refuses what is no file: a pipe would be waited for."""
    if not os.path.isfile(path):
        why = "is no file" if os.path.exists(path) else "does not exist"
        raise InputError(f"{path} {why}: {allowed}")


def _unreadable(path: str | Path, error: Any, allowed: str) -> InputError:
    why = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
    return InputError(f"{path} cannot be read ({why}): {allowed}")
