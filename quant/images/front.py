"""How an image becomes rows of the residual stream, on the host.

An encoder of images (Dosovitskiy et al., "An image is worth 16 x 16 words", 2021) reads patches,
each projected to the hidden size and with its position, behind a class token and others.
transformers' image processor for Pillow makes pixel values, without torch, and NumPy the rows.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from golden.model import TOKENS_MAX
from quant.model.spec import CheckpointError, Floats, InputError, saying

PREPROCESSOR = "preprocessor_config.json"
PROCESSORS = (PREPROCESSOR, "processor_config.json")
"""The files that may hold the options of an image processor."""

_ARRAYS, _OTHERS = ("before", "offsets", "projection"), ("height", "width", "names", "options")
_LONGEST = 100  # times the shorter side: an image resized by that would fill the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Front:
    """A front end: image processor, patches and their projection; H hidden, C channels, P patches.

    options: of the image processor. height, width: of the image in patches; what is left over at
    the right and at the bottom is not read. projection: [H, C, h, w] of a patch of h x w pixels; C
    is 1 (grey) or 3 (RGB). offsets: of each patch [P, H], its position and the projection's bias.
    before: the rows before the patches [S, H] with their positions; names: [CLS], [DIST], ...
    """

    FILE: ClassVar = "front.npz"

    options: Mapping[str, Any]
    height: int
    width: int
    projection: Floats
    offsets: Floats
    before: Floats
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        count, most = len(self.offsets), TOKENS_MAX - len(self.names)
        if not 0 < self.grid[0] * self.grid[1] == count <= most or self.channels not in (1, 3):
            needed = f"one is needed for each patch, 1 to {most:,}, and 1 or 3 channels"
            raise UserError(f"{self}, and the weights have {count:,} positions: {needed}")

    def __str__(self) -> str:
        before = "".join(f"{name} and " for name in self.names)
        return (
            f"images of {self.height} x {self.width} x {self.channels}: {before}{self.grid[0]} x "
            f"{self.grid[1]} patches of {self.patch[0]} x {self.patch[1]}"
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
        """The names of the rows; that of a patch is its line and column."""
        return *self.names, *(f"{row},{column}" for row, column in np.ndindex(self.grid))

    @cached_property
    def processor(self) -> Any:
        with TemporaryDirectory() as folder:
            (Path(folder) / PREPROCESSOR).write_text(json.dumps(self.options))
            return _processor(Path(folder))

    def pixels(self, image: NDArray[np.uint8], **options: Any) -> Floats:
        """The pixel_values [C, height, width] of an image [h, w] or [h, w, 3].

        options: in place of the processor's own. Raises InputError for what is no image, and for a
        size that the processor does not bring to the one of the model.
        """
        shape, sides = list(image.shape), image.shape[:2]
        pixels = image.dtype == np.uint8 and (image.ndim == 2 or shape[2:] == [3])
        if not pixels or not 0 < max(sides) <= _LONGEST * min(sides):
            right = f"[height, width, 3], one side at most {_LONGEST} times the other"
            what = f"the image is {image.dtype} {shape}"
            raise InputError(f"{what}: it must be uint8 [height, width] or {right}")
        found = _values(self.processor, Image.fromarray(image), self.channels, **options)
        wanted = [self.channels, self.height, self.width]
        if (made := list(found.shape)) != wanted:
            what = f"the image is {shape}, and {PREPROCESSOR} makes {made} of it"
            raise InputError(f"{what}: the model takes {wanted}: resize or cut it first")
        return found

    def seen(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The image [height, width] or [height, width, 3] as the model sees it."""
        found = self.pixels(image, do_rescale=False, do_normalize=False).clip(0, 255)
        return (found[0] if self.channels == 1 else found.transpose(1, 2, 0)).astype(np.uint8)

    def rows(self, pixels: Floats) -> Floats:
        """The rows [S + P, H] of what `pixels` gives.

        Sums are in float64 and rounded once, so that they do not depend on the machine.
        """
        (rows, columns), (height, width) = self.grid, self.patch
        x = pixels[:, : rows * height, : columns * width].astype(np.float64)
        x = x.reshape(self.channels, rows, height, columns, width).transpose(1, 3, 0, 2, 4)
        weight = self.projection.reshape(len(self.projection), -1).astype(np.float64)
        patches = x.reshape(rows * columns, -1) @ weight.T + self.offsets
        return np.concatenate([self.before, patches.astype(np.float32)])

    @cached_property
    def content(self) -> bytes:
        """The arrays as a .npz file, which goes into a quantized model's folder."""
        file = io.BytesIO()
        np.savez(file, **{name: getattr(self, name) for name in _ARRAYS})
        return file.getvalue()

    @property
    def facts(self) -> dict[str, Any]:
        """The other members as JSON values, and the hash of the arrays."""
        others = {name: getattr(self, name) for name in _OTHERS}
        return others | {"names": list(self.names), "sha256": sha256(self.content).hexdigest()}

    @classmethod
    def of(cls, content: bytes, facts: Mapping[str, Any]) -> Self:
        """The front end that has this `content` and these `facts` but the hash."""
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in _ARRAYS}
        return cls(**arrays, **{**facts, "names": tuple(facts["names"])})


def read(
    folder: Path, channels: int, size: tuple[int, int]
) -> tuple[dict[str, Any], tuple[int, int]]:
    """The options of a checkpoint's image processor, and height and width of what it makes.

    That is ``size`` where it depends on the image. Raises CheckpointError where transformers runs
    no such processor by Pillow, or its pixel values are not finite [channels, height, width].
    """
    processor, shapes = _processor(folder), set()
    for factors in ((1, 1), (2, 3), (3, 2)):
        picture = Image.new("L", (size[1] * factors[0], size[0] * factors[1]))
        found = _values(processor, picture, channels)
        if found.ndim != 3 or len(found) != channels or not np.isfinite(found).all():
            made = f"{folder}: {PREPROCESSOR} makes {list(found.shape)} of an image"
            raise CheckpointError(f"{made}: it must be finite [{channels}, height, width]")
        shapes.add((found.shape[1], found.shape[2]))
    return json.loads(processor.to_json_string()), shapes.pop() if len(shapes) == 1 else size


def _processor(folder: Path) -> Any:
    from transformers import AutoImageProcessor

    what = f"{folder} has no image processor that transformers runs by Pillow"
    with saying(CheckpointError, what, f"{' or '.join(PROCESSORS)} must name one"):
        options = {"trust_remote_code": False, "local_files_only": True}
        found = AutoImageProcessor.from_pretrained(folder, backend="pil", **options)
        if found.backend != "pil":
            raise ValueError(f"{type(found).__name__} needs torchvision")
        return found


def _values(processor: Any, image: Image.Image, channels: int, **options: Any) -> Floats:
    what = f"{type(processor).__name__} takes no image of {image.height} x {image.width} pixels"
    advice = f"mend {PREPROCESSOR}, or give another image"
    with saying(InputError, what, advice), np.errstate(all="ignore"):
        image = image.convert("L" if channels == 1 else "RGB")
        found = processor(image, return_tensors="np", **options)["pixel_values"]
        return np.asarray(found[0], np.float32)
