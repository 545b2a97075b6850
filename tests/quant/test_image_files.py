"""Images from files: what Pillow and transformers make of them, and what is refused."""

import gzip
import importlib.util
import io
import os
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quant.images import corpora, data, files
from quant.images.corpora import digits
from quant.model.spec import InputError
from quant.texts.data_file import TextError

RNG = np.random.default_rng(7)
COLOUR = RNG.integers(0, 256, (5, 7, 3), np.uint8)
GREY = RNG.integers(0, 256, (5, 7), np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp", ".gif", ".npy"])
def test_pixels_are_read_as_they_were_written(suffix: str, tmp_path: Path) -> None:
    assert suffix in files.SUFFIXES
    for image in (GREY, COLOUR):
        path = tmp_path / f"image{suffix}"
        if suffix == ".npy":
            np.save(path, image)
        elif suffix == ".gif" and image.ndim == 3:
            continue  # 256 colours
        else:
            Image.fromarray(image).save(path, lossless=True)
        if suffix in (".gif", ".webp") and image.ndim == 2:  # which have no grey
            assert np.array_equal(files.read(path), np.repeat(image[:, :, None], 3, 2))
        else:
            assert np.array_equal(files.read(path), image)


def test_jpeg_is_read_as_pillow_does_it(tmp_path: Path) -> None:
    for mode in ("L", "RGB", "CMYK"):
        path = tmp_path / f"{mode}.jpeg"
        Image.fromarray(COLOUR).convert(mode).save(path)
        wanted = np.asarray(Image.open(path).convert("L" if mode == "L" else "RGB"))
        assert np.array_equal(files.read(str(path)), wanted)


def test_the_content_counts_and_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    Image.fromarray(COLOUR).save(path, "png")
    assert np.array_equal(files.read(path), COLOUR)
    np.save(path.with_suffix(".npy"), GREY[:, :, None])
    path.with_suffix(".npy").rename(path)
    assert np.array_equal(files.read(path), GREY)


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_orientation_of_exif_is_followed(turn: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / "image.png"
    Image.fromarray(COLOUR).save(path, exif=exif)
    upright = {
        1: COLOUR,
        2: COLOUR[:, ::-1],
        3: COLOUR[::-1, ::-1],
        4: COLOUR[::-1],
        5: COLOUR.transpose(1, 0, 2),
        6: np.rot90(COLOUR, -1),
        7: COLOUR[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(COLOUR, 1),
    }[turn]
    assert np.array_equal(files.read(path), upright)


def test_palettes_and_two_colours_are_followed(tmp_path: Path) -> None:
    few = Image.fromarray(COLOUR).quantize(16)
    few.save(tmp_path / "few.png")
    assert np.array_equal(files.read(tmp_path / "few.png"), np.asarray(few.convert("RGB")))
    two = Image.fromarray(GREY).convert("1")
    two.save(tmp_path / "two.png")
    assert np.array_equal(files.read(tmp_path / "two.png"), np.asarray(two).astype(np.uint8) * 255)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_refused_where_there_is_any(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(COLOUR).convert(mode)
    path = tmp_path / "image.png"
    image.save(path)
    plain = Image.fromarray(COLOUR).convert(mode.removesuffix("A"))
    wanted = np.asarray(plain.convert("L") if mode == "LA" else plain)
    assert np.array_equal(files.read(path), wanted)
    image.putalpha(Image.fromarray(GREY))
    image.save(path)
    with pytest.raises(InputError, match=r"image.png has transparent pixels: put it onto the"):
        files.read(path)


def test_a_transparent_colour_is_refused_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    few = Image.fromarray(COLOUR).quantize(16)
    few.save(path, transparency=few.getpixel((0, 0)))
    with pytest.raises(InputError, match="transparent pixels"):
        files.read(path)
    Image.fromarray(COLOUR).save(path, transparency=tuple(map(int, COLOUR[2, 3])))
    with pytest.raises(InputError, match="transparent pixels"):
        files.read(path)


def bomb() -> bytes:
    """A PNG of 40,000 x 40,000 pixels."""
    head = struct.pack(">IIBBBBB", 40000, 40000, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def encoded(form: str, mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    source = Image.fromarray(np.resize(COLOUR, (60, 80, 3)))
    source.convert(mode).save(content, form)
    return content.getvalue()


def array(values: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, values, allow_pickle=True)
    return content.getvalue()


DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty: it must be a PNG, JPEG"),
    "text": (lambda: b"not an image", "is no image that can be read: it must be a PNG"),
    "other-format": (lambda: encoded("TIFF"), "is no image that can be read"),
    "bomb": (bomb, "has more pixels than the 89,478,485 that are read"),
    "cut-png": (lambda: encoded("PNG")[:-300], "is damaged or cut off"),
    "cut-jpeg": (lambda: encoded("JPEG")[:-300], "is damaged or cut off"),
    "cut-gif": (lambda: encoded("GIF")[:-300], "is damaged or cut off"),
    "cut-bmp": (lambda: encoded("BMP")[:-300], "is damaged or cut off"),
    "cut-webp": (lambda: encoded("WEBP")[:-300], "is damaged or cut off|no image that can"),
    "head-alone": (lambda: encoded("PNG")[:20], "is damaged or cut off|no image that can"),
    "deep": (lambda: encoded("PNG", "I;16"), r"grey of more than 8 bits \(mode I;16\)"),
    "cut-npy": (lambda: array(GREY)[:-9], "is damaged or cut off"),
    "magic-alone": (lambda: b"\x93NUMPY", "is damaged or cut off"),
    "objects": (lambda: array(np.array([{}])), "is damaged or cut off"),
    "floats": (lambda: array(GREY / 255), r"is an array of float64 \[5, 7\]: it must be uint8"),
    "wide": (lambda: array(GREY.astype(np.uint16)), r"an array of uint16 \[5, 7\]"),
    "batch": (lambda: array(np.stack([COLOUR, COLOUR])), r"uint8 \[2, 5, 7, 3\]: it must be"),
    "alpha": (lambda: array(np.zeros((5, 7, 4), np.uint8)), r"uint8 \[5, 7, 4\]: it must be"),
    "nothing": (lambda: array(np.zeros((0, 7), np.uint8)), r"uint8 \[0, 7\]: it must be"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_image_is_refused_by_one_line(name: str, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    path = tmp_path / "file.png"
    path.write_bytes(content())
    with pytest.raises(InputError, match=message) as error:
        files.read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder: give an image in it"):
        files.read(tmp_path)
    with pytest.raises(InputError, match=r"cannot read .*none.png: No such file"):
        files.read(tmp_path / "none.png")
    with pytest.raises(InputError, match="cannot read"):
        files.read("x" * 300)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is no file: it must be a PNG"):
        files.read(tmp_path / "pipe")


def test_the_digits_are_split_by_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = {name: digits(name) for name in ("train", "validation", "test")}
    assert [len(images) for images, _ in splits.values()] == [1257, 180, 360]
    for name, each in (("validation", 18), ("test", 36)):
        assert np.bincount(splits[name][1]).tolist() == [each] * 10
    every = [image.tobytes() for images, _ in splits.values() for image in images]
    assert len(set(every)) == 1797
    assert all(images.dtype == np.uint8 and images.max() == 255 for images, _ in splits.values())
    whole = corpora._digits()
    backwards = whole[0][::-1], whole[1][::-1]
    monkeypatch.setattr(corpora, "_digits", lambda: backwards)
    for name, (images, labels) in splits.items():
        again = digits(name)
        assert np.array_equal(again[0], images)
        assert np.array_equal(again[1], labels)
    with pytest.raises(TextError, match="no split named 'all': choose one of train, validation"):
        digits("all")


def test_the_digits_are_those_of_scikit_learn() -> None:
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split()
    images, labels = corpora._digits()
    assert len(lines) == len(images) == len(labels)
    for line, image, label in zip(lines, images, labels):
        *pixels, digit = map(float, line.split(","))
        assert label == digit
        assert image.ravel().tolist() == [round(Fraction(255 * int(v), 16)) for v in pixels]


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


FEATURES = (
    b'{"info": {"features": {"image": {"_type": "Image"}, '
    b'"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}'
)


@pytest.mark.parametrize("kind", ["struct", "bytes"])
def test_a_parquet_table_of_datasets_holds_the_images(kind: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    contents = [png(GREY), png(COLOUR), array(COLOUR)]
    values = contents if kind == "bytes" else [{"bytes": x, "path": "a.png"} for x in contents]
    if kind == "struct":
        files_there = tmp_path / "there"
        files_there.mkdir()
        Image.fromarray(GREY).save(files_there / "b.png")
        values += [{"bytes": None, "path": "there/b.png"}]
    labels = [1, 0, 1, -1][: len(values)]
    table = pyarrow.table({"image": values, "label": labels})
    path = tmp_path / "images.parquet"
    parquet.write_table(table.replace_schema_metadata({b"huggingface": FEATURES}), path)
    found = list(data.stream(path, names=("dog", "cat")))
    assert [review.label for review in found] == [0, 1, 0, None][: len(values)]
    for review, image in zip(found, [GREY, COLOUR, COLOUR], strict=False):
        assert np.array_equal(review.content, image)
    assert found[1].text == f"{path}: row 2"
    if kind == "struct":
        assert np.array_equal(files.read(found[3].content), GREY)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"bytes": b"", "path": "a.png"}, "row 1: 'image' is empty: it must be a PNG"),
        ({"bytes": None, "path": None}, "row 1: 'image' is nothing: it must be a file's name, its"),
        (b"no image", "row 1: 'image' is no image that can be read: it must be a PNG"),
        (png(COLOUR)[:-30], "row 1: 'image' is damaged or cut off"),
        (array(COLOUR.astype(np.int16)), r"row 1: 'image' is an array of int16 \[5, 7, 3\]"),
        (7, "row 1: 'image' is int: it must be a file's name, its bytes, or a struct of bytes"),
        ([1, 2], "row 1: 'image' is list: it must be"),
    ],
)
def test_what_is_no_image_in_a_parquet_table(value: object, message: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "images.parquet"
    parquet.write_table(pyarrow.table({"image": [value]}), path)
    with pytest.raises(TextError, match=message):
        list(data.stream(path, names=()))
