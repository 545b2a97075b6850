"""Images from files: what Pillow and transformers make of them, and what is refused."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quant.images import data
from quant.model.spec import InputError

RNG = np.random.default_rng(7)
COLOUR = RNG.integers(0, 256, (5, 7, 3), np.uint8)
GREY = RNG.integers(0, 256, (5, 7), np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp", ".gif", ".jpeg"])
@pytest.mark.parametrize("mode", ["L", "RGB", "P", "1"])
def test_pixels_are_those_of_the_file(suffix: str, mode: str, tmp_path: Path) -> None:
    """By content and not by name; GIF and WebP have no grey."""
    path = tmp_path / "image.png"
    mode = "CMYK" if (suffix, mode) == (".jpeg", "P") else mode
    Image.fromarray(COLOUR).convert(mode).save(path, suffix[1:], lossless=True)
    with Image.open(path) as opened:
        grey = opened.mode in ("1", "L")
        wanted = np.asarray(opened.convert("L" if grey else "RGB"))
    found = data.read(path)
    assert np.array_equal(found, wanted)
    if (suffix, mode) in ((".png", "L"), (".png", "RGB"), (".bmp", "RGB"), (".webp", "RGB")):
        right = COLOUR if mode == "RGB" else np.asarray(Image.fromarray(COLOUR).convert("L"))
        assert np.array_equal(found, right)


def test_the_orientation_of_exif_is_followed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(COLOUR).save(tmp_path / "image.png", exif=exif)
    assert np.array_equal(data.read(tmp_path / "image.png"), np.rot90(COLOUR, -1))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_refused_where_there_is_any(mode: str, tmp_path: Path) -> None:
    path, image = tmp_path / "image.png", Image.fromarray(COLOUR).convert(mode)
    image.save(path)
    assert np.array_equal(
        data.read(path), np.asarray(image.convert("L" if mode == "LA" else "RGB"))
    )
    if mode == "P":
        image.save(path, transparency=image.getpixel((0, 0)))
    else:
        image.putalpha(Image.fromarray(GREY))
        image.save(path)
    with pytest.raises(InputError, match=r"image.png .*transparent pixels: put it onto the"):
        data.read(path)


def encoded(form: str, mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    source = Image.fromarray(np.resize(COLOUR, (60, 80, 3)))
    source.convert(mode).save(content, form)
    return content.getvalue()


DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda file: file.write_bytes(b""), "cannot identify"),
    "text": (lambda file: file.write_bytes(b"not an image"), "cannot identify"),
    "other format": (lambda file: file.write_bytes(encoded("TIFF")), "cannot identify"),
    **{
        form: (lambda file, form=form: file.write_bytes(encoded(form)[:-300]), "cannot be read")
        for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP")
    },
    "deep": (lambda file: file.write_bytes(encoded("PNG", "I;16")), r"more than 8 bits, mode I;16"),
    "folder": (lambda file: file.mkdir(), "is no file"),
    "pipe": (os.mkfifo, "is no file"),
    "nothing": (lambda file: None, "does not exist"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_image_is_refused_by_one_line(name: str, tmp_path: Path) -> None:
    make, message = DAMAGED[name]
    path = tmp_path / "file.png"
    make(path)
    with pytest.raises(InputError, match=f"{message}.*it must be a PNG") as error:
        data.read(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(GREY).save(tmp_path / "image.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", GREY.size - 1)
    with pytest.raises(InputError, match="decompression bomb"):
        data.read(tmp_path / "image.png")


def test_the_digits_are_split_by_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = {name: data.digits(name) for name in ("train", "validation", "test")}
    assert [len(found) for found in splits.values()] == [1257, 180, 360]
    for name, each in (("validation", 18), ("test", 36)):
        assert np.bincount([one.label for one in splits[name]]).tolist() == [each] * 10
    every = [one.image.tobytes() for found in splits.values() for one in found]
    assert len(set(every)) == 1797
    backwards = dict(reversed(data._digits().items()))
    monkeypatch.setattr(data, "_digits", lambda: backwards)
    again = [one for name in splits for one in data.digits(name)]
    assert [one.image.tobytes() for one in again] == every
