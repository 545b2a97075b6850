"""One image from a file, as 8-bit pixels that stand upright, or the rows of a front end.

PNG, JPEG, GIF, BMP and WebP are read by Pillow, as transformers' image processors see them: grey
stays grey, all else becomes RGB, an orientation in EXIF is followed, and of several frames the
first counts. What these processors would lose silently is refused: transparency, which one of them
drops and another puts onto white, and grey of more than 8 bits, which Pillow clips. A .npy file has
the pixels themselves. Rows are those of a .npy file.
"""

import warnings
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from quant.model.spec import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".npy")
"""Of the files that a folder of images is searched for; a file is known by its content."""

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_ALLOWED = "it must be a PNG, JPEG, GIF, BMP or WebP image, or a .npy file of 8-bit pixels"
_ARRAY = b"\x93NUMPY"
_GREY = ("1", "L")
_DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")


def read(path: str | Path) -> NDArray[np.uint8]:
    """The pixels of an image file: [h, w] of a grey one, else [h, w, 3], in red, green and blue.

    Raises InputError naming the file, what is wrong with it and what is allowed.
    """
    path = Path(path)
    try:
        array = _is_array(path, "an image", _ALLOWED)
        return _pixels(path, path) if array else _picture(path, path)
    except OSError as error:
        if error.strerror is None:  # of Pillow, about the content
            raise _broken(path, error) from None
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def read_rows(path: Path, hidden: int, most: int) -> NDArray[np.float32]:
    """The rows [L, hidden] of a .npy file of floats, L from 1 to ``most``.

    Raises InputError naming the file, what is wrong with it and what is allowed.
    """
    allowed = f"it must be a .npy file of finite float32 [L, {hidden}], L from 1 to {most:,}"
    try:
        if not _is_array(path, "a .npy file", allowed):
            raise InputError(f"{path} is no .npy file: {allowed}")
        rows = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except InputError:
        raise
    except (ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise _broken(path, error, allowed) from None
    shaped = rows.ndim == 2 and rows.shape[1] == hidden and 0 < len(rows) <= most
    if rows.dtype.kind != "f" or not shaped:
        raise InputError(f"{_array(rows, path)}: {allowed}")
    with np.errstate(over="ignore"):
        found = rows.astype(np.float32)
    if wrong := int((~np.isfinite(found)).sum()):
        raise InputError(f"{path} has {wrong:,} values that are not finite in float32: {allowed}")
    return found


def _is_array(path: Path, wanted: str, allowed: str) -> bool:
    """Whether a file is one of NumPy's; InputError for what is no file, or empty."""
    found = path.stat()
    if S_ISDIR(found.st_mode):
        raise InputError(f"{path} is a folder: give {wanted} in it")
    if not S_ISREG(found.st_mode):  # a pipe would be waited for
        raise InputError(f"{path} is no file: {allowed}")
    if not found.st_size:
        raise InputError(f"{path} is empty: {allowed}")
    with path.open("rb") as file:
        return file.read(len(_ARRAY)) == _ARRAY


def stored(value: object, name: str) -> NDArray[np.uint8] | str:
    """The pixels of an image in a row of a table: its file's bytes, or {"bytes": ..., "path": ...}
    as `datasets` has them; without bytes the path.

    Raises InputError as `read`, which calls the image by its name, and for any other value.
    """
    data = value
    if isinstance(value, Mapping):
        data = value.get("bytes")
        if data is None and isinstance(path := value.get("path"), str) and path.strip():
            return path
    if not isinstance(data, bytes):
        found = "nothing" if data is None else type(data).__name__
        raise InputError(
            f"{name} is {found}: it must be a file's name, its bytes, or a struct of bytes and path"
        )
    if not data:
        raise InputError(f"{name} is empty: {_ALLOWED}")
    return _pixels(BytesIO(data), name) if data.startswith(_ARRAY) else _picture(data, name)


def check(image: Any, name: object) -> NDArray[np.uint8]:
    """The pixels, as [h, w] or [h, w, 3]; InputError, which names the image, for all others."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or 0 in image.shape:
        raise InputError(_shape(image, name))
    if image.ndim == 2 or image.shape[2] == 3:
        return np.asarray(image)
    if image.shape[2] != 1:
        raise InputError(_shape(image, name))
    return np.asarray(image[:, :, 0])


def _shape(image: Any, name: object) -> str:
    return (
        f"{_array(image, name)}: it must be uint8 [height, width], [height, width, 1] or [height, "
        "width, 3]"
    )


def _array(array: Any, name: object) -> str:
    return f"{name} is an array of {array.dtype} [{', '.join(map(str, array.shape))}]"


def _pixels(file: Path | BytesIO, name: object) -> NDArray[np.uint8]:
    try:
        image = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise _broken(name, error) from None
    return check(image, name)


def _picture(file: Path | bytes, name: object) -> NDArray[np.uint8]:
    source = BytesIO(file) if isinstance(file, bytes) else file
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source, formats=_FORMATS) as opened:
                opened.load()
                return _upright(opened, name)
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(f"{name} is no image that can be read: {_ALLOWED}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise InputError(
            f"{name} has more pixels than the {Image.MAX_IMAGE_PIXELS:,} that are read: make it "
            "smaller first"
        ) from None
    except Exception as error:  # of the decoders: SyntaxError, struct.error, zlib.error ...
        raise _broken(name, error) from None


def _upright(opened: Image.Image, name: object) -> NDArray[np.uint8]:
    if opened.mode in _DEEP:
        raise InputError(
            f"{name} has grey of more than 8 bits (mode {opened.mode}): convert it to 8 bits first"
        )
    image = ImageOps.exif_transpose(opened)
    if image.mode in _TRANSPARENT or "transparency" in opened.info:
        alpha = image.convert("RGBA").getchannel("A")
        if alpha.getextrema() != (255, 255):
            raise InputError(
                f"{name} has transparent pixels: put it onto the background that is meant, and "
                "save it without transparency"
            )
    grey = image.mode in _GREY or image.mode in ("LA", "La")
    return np.asarray(image.convert("L" if grey else "RGB"))


def _broken(name: object, error: BaseException, allowed: str = _ALLOWED) -> InputError:
    said = (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(".")
    return InputError(f"{name} is damaged or cut off ({said}): {allowed}")
