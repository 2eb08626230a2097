"""Decoding and resizing of images: one rule for data sets and for prediction.

1. EXIF orientation is applied.
2. Transparency is laid on white; 16-bit greyscale keeps its upper 8 bits.
3. Three channels: converted to RGB (greyscale is repeated). One channel: ITU-R 601-2 luma.
4. With an image size: the shorter side is resized to it and the longer side cut to it about the centre.
   This is one step, the largest centred square resized with Pillow's bilinear filter, which is antialiased
   when it shrinks. Without an image size the image keeps its own height and width.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from workbench.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt


def decode_image(
    data: bytes | Path, image_size: int | None, channels: int = 3, *, name: str | None = None
) -> npt.NDArray[np.uint8]:
    """Decodes a JPEG, PNG or other file that Pillow reads, by the rule of this module.

    Args:
        data: the file's bytes, or its path.
        image_size: height and width in pixels of the result, or None for the image's own.
        channels: 1 or 3.
        name: how messages call the image; by default its path.

    Returns:
        uint8 `(height, width, channels)`, 0 to 255.

    Raises:
        DataError: the image cannot be read or is broken.
    """
    name = name or (str(data) if isinstance(data, Path) else "the image")
    try:
        with Image.open(data if isinstance(data, Path) else io.BytesIO(data)) as opened:
            ImageOps.exif_transpose(opened, in_place=True)
            image = _fit(_with_channels(opened, channels), image_size)
            array = _array(image, channels)
    except FileNotFoundError as error:
        raise DataError(f"{name}: no such image file") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # Pillow's message for unknown bytes holds the address of a BytesIO.
        reason = "no format that Pillow knows" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{name}: this image cannot be decoded ({reason}); replace or remove it") from error
    return array


def resize_image(image: npt.NDArray[np.uint8], image_size: int | None) -> npt.NDArray[np.uint8]:
    """Resizes a decoded image by step 4 of the rule.

    Args:
        image: uint8 `(height, width, channels)`, channels 1 or 3.
        image_size: height and width in pixels of the result, or None for no change.

    Returns:
        uint8 `(image_size, image_size, channels)`, or the image itself.
    """
    height, width, channels = image.shape
    if image_size is None or (height, width) == (image_size, image_size):
        return image
    picture = Image.fromarray(image[..., 0] if channels == 1 else image)
    return _array(_fit(picture, image_size), channels)


def _with_channels(image: Image.Image, channels: int) -> Image.Image:
    if channels not in (1, 3):
        raise DataError(f"images have 1 or 3 channels; received channels={channels!r}")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    mode = "RGB" if channels == 3 else "L"
    return image if image.mode == mode else image.convert(mode)


def _fit(image: Image.Image, image_size: int | None) -> Image.Image:
    if image_size is None or image.size == (image_size, image_size):
        return image
    return ImageOps.fit(image, (image_size, image_size), method=Image.Resampling.BILINEAR)


def _array(image: Image.Image, channels: int) -> npt.NDArray[np.uint8]:
    return np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, channels)
