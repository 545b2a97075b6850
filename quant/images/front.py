"""How an image becomes rows of the residual stream, on the host.

An encoder of images (Dosovitskiy et al., "An image is worth 16 x 16 words", 2021) cuts the image
into patches, projects each to the hidden size and adds its position; a class token and others stand
before them. All of it is done here in NumPy, and the accelerator takes the rows in place of a table
of tokens. Resizing is Pillow's, whose filters transformers' own image processors use.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from cli import files
from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from golden import store
from quant.images.files import check
from quant.model.spec import CheckpointError, Floats, InputError

FILE = "front.npz"
"""The arrays of the front end in a quantized model's folder."""


_PIXELS = 1 << 26
"""The most that an image is resized to."""

_ARRAYS = ("before", "offsets", "projection")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What happens to the pixels before they are cut into patches, in this order.

    size: resized to its `height` and `width`; to its `shortest_edge`, where there is a
    `longest_edge` only as far as that allows; or to what fits `max_height` and `max_width`. None:
    not resized. resample: the number of Pillow's filter. crop: height and width that are cut out of
    the middle, with black around an image that is smaller. scale: factor of the pixels, mean and
    deviation: one a channel, which then make x into (x - mean) / deviation.
    """

    size: dict[str, int] | None = None
    resample: int = Image.Resampling.BILINEAR
    crop: tuple[int, int] | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None

    def shown(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An image [h, w] or [h, w, 3] after resizing and cutting."""
        if self.size is not None:
            height, width = resized(image.shape[0], image.shape[1], self.size)
            if min(height, width) < 1 or height * width > _PIXELS:
                raise InputError(
                    f"the image is {image.shape[1]} x {image.shape[0]} pixels and would be resized "
                    f"to {width} x {height}: its longer side is too many times the shorter: cut it"
                )
            scaled = Image.fromarray(image).resize((width, height), self.resample)
            image = np.asarray(scaled)
        return image if self.crop is None else _middle(image, *self.crop)

    def values(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What the pixels [h, w, c] are to the model, channels last; rounded as transformers do."""
        x = image.astype(np.float32)
        if self.scale is not None:
            x = (image.astype(np.float64) * self.scale).astype(np.float32)
        if self.mean is not None and self.deviation is not None:
            mean, deviation = (np.array(y, np.float32) for y in (self.mean, self.deviation))
            x = (x - mean) / deviation
        return x

    def fixed(self) -> tuple[int, int] | None:
        """Height and width of every image after these steps; None where they depend on it."""
        if self.crop is not None or self.size is None or "height" not in self.size:
            return self.crop
        return self.size["height"], self.size["width"]


def resized(height: int, width: int, size: Mapping[str, int]) -> tuple[int, int]:
    """Height and width that an image of these has after resizing, as Steps says."""
    if "height" in size:
        return size["height"], size["width"]
    if "max_height" in size:
        factor = min(size["max_height"] / height, size["max_width"] / width)
        return int(height * factor), int(width * factor)
    short, exact = size["shortest_edge"], float(size["shortest_edge"])
    low, high = min(height, width), max(height, width)
    if "longest_edge" not in size:
        long = int(short * high / low)
        return (long, short) if width <= height else (short, long)
    if high / low * short > size["longest_edge"]:
        exact = size["longest_edge"] * low / high
        short = round(exact)
    if low == short:
        return height, width
    return (
        (int(exact * height / width), short)
        if width < height
        else (
            short,
            int(exact * width / height),
        )
    )


def _middle(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The middle of an image; a smaller one has black around it."""
    rows, columns = image.shape[:2]
    top, left = (rows - height) // 2, (columns - width) // 2
    if top < 0 or left < 0:
        canvas = np.zeros((max(height, rows), max(width, columns), *image.shape[2:]), np.uint8)
        above, before = ceil((len(canvas) - rows) / 2), ceil((canvas.shape[1] - columns) / 2)
        canvas[above : above + rows, before : before + columns] = image
        image, top, left = canvas, top + above, left + before
    return image[top : top + height, left : left + width]


@dataclass(frozen=True, kw_only=True, eq=False)
class Front:
    """A front end: steps, patches and their projection, with H hidden, C channels, P patches.

    height, width: of the image that is cut into patches; what is left over at the right and at the
    bottom is not read. channels are grey (1) or red, green and blue (3). projection: float32
    [H, C, h, w] of a patch of h x w pixels. offsets: what is added to each patch [P, H], its
    position and the projection's bias. before: the rows before the patches [S, H], positions
    included, and names what these are called: [CLS], [DIST], [REG1] ...
    """

    steps: Steps
    height: int
    width: int
    projection: NDArray[np.float32]
    offsets: NDArray[np.float32]
    before: NDArray[np.float32]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise UserError(f"num_channels is {self.channels}: it must be 1 (grey) or 3 (RGB)")
        rows, columns = self.grid
        if rows * columns == 0 or len(self.offsets) != rows * columns:
            raise UserError(
                f"{len(self.offsets)} positions for an image of {self.height} x {self.width} "
                f"pixels in patches of {self.patch[0]} x {self.patch[1]}: it must be one for each "
                f"of the {rows * columns} patches, and 1 or more"
            )

    @property
    def channels(self) -> int:
        return int(self.projection.shape[1])

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch."""
        return int(self.projection.shape[2]), int(self.projection.shape[3])

    @property
    def grid(self) -> tuple[int, int]:
        """Patches from top to bottom, and from left to right."""
        return self.height // self.patch[0], self.width // self.patch[1]

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """What the rows are called: the names of those before, then line and column of a patch."""
        rows, columns = self.grid
        return (
            *self.names,
            *(f"{row},{column}" for row in range(rows) for column in range(columns)),
        )

    def __str__(self) -> str:
        rows, columns = self.grid
        colours = "RGB" if self.channels == 3 else "grey"
        before = f"{', '.join(self.names)} and " if self.names else ""
        return (
            f"images of {self.height} x {self.width} {colours} pixels: {before}{rows} x {columns} "
            f"patches of {self.patch[0]} x {self.patch[1]}"
        )

    def image(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The image [height, width] or [height, width, 3] as the model sees it, as pixels.

        Grey is made of RGB, or the other way round, as Pillow does. Raises InputError for what is
        no image, and for a size that the steps do not bring to the one of the model.
        """
        image = check(image, "the image")
        picture = Image.fromarray(image).convert("L" if self.channels == 1 else "RGB")
        found = self.steps.shown(np.asarray(picture))
        if found.shape[:2] != (self.height, self.width):
            changed = "" if self.steps == Steps() else f", {found.shape[0]} x {found.shape[1]} as "
            after = f"{changed}preprocessed" if changed else ""
            raise InputError(
                f"the image is {image.shape[0]} x {image.shape[1]} pixels{after}: the model takes "
                f"{self.height} x {self.width} (height x width): resize or cut it first"
            )
        return found

    def pixels(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The model's input [C, height, width]: what transformers calls pixel_values."""
        return self._values(self.image(image))

    def _values(self, shown: NDArray[np.uint8]) -> NDArray[np.float32]:
        x = self.steps.values(shown if shown.ndim == 3 else shown[:, :, None])
        return np.ascontiguousarray(x.transpose(2, 0, 1))

    def rows(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The rows of the residual stream [S + P, H] of an image [h, w] or [h, w, 3].

        Sums are in float64 and rounded once, so that they do not depend on the machine. Raises
        InputError as `image`.
        """
        return self.rows_of(self.image(image))

    def rows_of(self, shown: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The same of what `image` gives."""
        (rows, columns), (height, width) = self.grid, self.patch
        x = self._values(shown)[:, : rows * height, : columns * width].astype(np.float64)
        x = x.reshape(self.channels, rows, height, columns, width).transpose(1, 3, 0, 2, 4)
        weight = self.projection.reshape(len(self.projection), -1).astype(np.float64)
        patches = x.reshape(rows * columns, -1) @ weight.T + self.offsets
        return np.concatenate([self.before, patches.astype(np.float32)])

    @property
    def facts(self) -> dict[str, Any]:
        """As JSON values, with the hash of the arrays in their place."""
        digest = sha256()
        for name in _ARRAYS:
            array: Floats = getattr(self, name)
            digest.update(f"{name} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array, "<f4").tobytes())
        steps = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.steps).items()
        }
        return {
            "sha256": digest.hexdigest(),
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "patch": list(self.patch),
            "before": list(self.names),
            "steps": steps | {"resample": int(self.steps.resample)},
        }

    def save(self, folder: Path) -> None:
        """Write the arrays to `front.npz` in ``folder``; the rest is in `facts`."""
        content = io.BytesIO()
        np.savez(content, **{name: getattr(self, name) for name in _ARRAYS})
        files.write(folder / FILE, content.getvalue())


def stored(folder: Path, facts: Mapping[str, Any]) -> Front:
    """The front end that calibration wrote. CheckpointError where it is not that of this model."""
    file = folder / FILE
    try:
        with file.open("rb") as content, np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in _ARRAYS}
        steps: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in facts["steps"].items()
        }
        front = Front(
            steps=Steps(**steps),
            height=facts["height"],
            width=facts["width"],
            names=tuple(facts["before"]),
            **arrays,
        )
        same = front.facts == dict(facts)
    except OSError as error:
        why = error.strerror or "it is no .npz file"
        raise CheckpointError(f"cannot read {file}: {why}: calibrate again") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise CheckpointError(f"{file} is damaged: calibrate again") from None
    except (KeyError, TypeError, AttributeError, IndexError):
        raise CheckpointError(
            f"{folder / store.DESCRIPTION}: it does not say how an image is read: calibrate again"
        ) from None
    if not same:
        raise CheckpointError(
            f"{file}: its arrays are not those in {store.DESCRIPTION}: calibrate again"
        )
    return front
