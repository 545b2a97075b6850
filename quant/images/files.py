"""One image from a file, as 8-bit pixels that stand upright, or the rows of a front end.

Pillow reads it, the first of several frames. What would be lost silently is refused: transparency,
and grey of more than 8 bits. Every refusal is an InputError with the file and what is allowed.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from quant.model.spec import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
"""Of the files that a folder of images is searched for; a file is known by its content."""

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")


@contextmanager
def saying(kind: type[UserError], what: str, advice: str) -> Iterator[None]:
    """Makes one sentence of any error, of a file, of the libraries and of what options make them"""
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise kind(f"{what} ({why}): {advice}") from None


def read(path: str | Path) -> NDArray[np.uint8]:
    """The pixels of an image file: [h, w] of a grey one, else [h, w, 3], in red, green and blue."""
    advice = "it must be a PNG, JPEG, GIF, BMP or WebP image"
    with saying(InputError, f"{path} cannot be read", advice), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(_file(path), formats=_FORMATS) as opened:
            image = ImageOps.exif_transpose(opened)
        if image.mode[0] in "IF":
            raise ValueError(f"grey of more than 8 bits, mode {image.mode}: convert it first")
        alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
        if alpha and alpha.getextrema() != (255, 255):
            raise ValueError("transparent pixels: put it onto the background that is meant first")
        return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB"))


def read_rows(path: Path, hidden: int, most: int) -> NDArray[np.float32]:
    """The rows [L, hidden] of a .npy file of floats, L from 1 to ``most``."""
    advice = f"it must be a .npy file of finite float32 [L, {hidden}], L from 1 to {most:,}"
    error = saying(InputError, f"{path} cannot be read", advice)
    with error, _file(path).open("rb") as file, np.errstate(over="ignore"):
        rows = np.load(file, allow_pickle=False)
        if rows.dtype.kind != "f" or rows.shape[1:] != (hidden,) or not 0 < len(rows) <= most:
            raise ValueError(f"an array of {rows.dtype} {list(rows.shape)}")
        found: NDArray[np.float32] = rows.astype(np.float32)
        if wrong := int((~np.isfinite(found)).sum()):
            raise ValueError(f"{wrong:,} values that are not finite in float32")
        return found


def _file(path: str | Path) -> Path:
    """The path of a file; ValueError for a pipe, which would be waited for, and for a folder."""
    path = Path(path)
    if not path.is_file():
        raise ValueError("it is no file" if path.exists() else "it does not exist")
    return path
