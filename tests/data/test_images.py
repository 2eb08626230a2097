import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from workbench import DataError
from workbench.data.images import decode_image, resize_image

RED, WHITE = (255, 0, 0), (255, 255, 255)


def png(image: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def test_decodes_bytes_and_files_alike(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    data = png(Image.fromarray(pixels))
    (tmp_path / "image.png").write_bytes(data)
    assert np.array_equal(decode_image(data, None, 3), pixels)
    assert np.array_equal(decode_image(tmp_path / "image.png", None, 3), pixels)


def test_grey_becomes_rgb():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    decoded = decode_image(png(Image.fromarray(pixels)), None, 3)
    assert np.array_equal(decoded, np.repeat(pixels[..., None], 3, axis=2))


def test_rgb_becomes_luma():
    decoded = decode_image(png(Image.new("RGB", (2, 2), RED)), None, 1)
    assert decoded.shape == (2, 2, 1)
    assert np.all(decoded == 76)  # 0.299 * 255


def test_16_bit_grey_keeps_its_upper_bits():
    pixels = np.array([[0, 256, 65535]], dtype=np.uint16)
    assert decode_image(png(Image.fromarray(pixels)), None, 1).ravel().tolist() == [0, 1, 255]


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_transparency_is_laid_on_white(mode):
    image = Image.new("RGBA", (2, 1), (*RED, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    assert decode_image(png(image.convert(mode)), None, 3).tolist() == [[[*RED], [*WHITE]]]


def test_exif_orientation_is_applied():
    image = Image.new("RGB", (4, 2), WHITE)
    image.putpixel((0, 0), RED)
    exif = Image.Exif()
    exif[0x0112] = 6  # To be turned by 90 degrees clockwise.
    decoded = decode_image(png(image, exif=exif), None, 3)
    assert decoded.shape == (4, 2, 3)
    assert decoded[0, 1].tolist() == [*RED]


def test_the_longer_side_is_cut_about_the_centre():
    pixels = np.zeros((4, 8, 3), dtype=np.uint8)
    pixels[:, 2:6] = 200
    assert np.all(decode_image(png(Image.fromarray(pixels)), 4, 3) == 200)
    assert np.all(decode_image(png(Image.fromarray(pixels.transpose(1, 0, 2))), 4, 3) == 200)


def test_shrinking_is_antialiased():
    checks = np.indices((64, 64)).sum(axis=0) % 2 * 255
    decoded = decode_image(png(Image.fromarray(checks.astype(np.uint8))), 8, 1)
    assert np.all(np.abs(decoded.astype(int) - 127) <= 2)


def test_resize_image_follows_the_same_rule():
    pixels = np.random.default_rng(1).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    assert np.array_equal(resize_image(pixels, 6), decode_image(png(Image.fromarray(pixels)), 6, 3))
    assert resize_image(pixels[..., :1], 6).shape == (6, 6, 1)
    assert resize_image(pixels, None) is pixels


def test_a_truncated_jpeg_is_named(tmp_path):
    path = tmp_path / "rose.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(DataError, match=r"rose\.jpg: this image cannot be decoded \(.*truncated"):
        decode_image(path, None, 3)


def test_other_bytes_are_named():
    with pytest.raises(DataError, match=r"a.tfrec, record 3: this image cannot be decoded \(no format that Pillow"):
        decode_image(b"not an image", None, 3, name="a.tfrec, record 3")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png: no such image file"):
        decode_image(tmp_path / "gone.png", None, 3)


FLAT = {
    "lossless WebP": ("RGB", RED, "WEBP", {"lossless": True}, RED),
    "transparent WebP": ("RGBA", (0, 0, 0, 0), "WEBP", {"lossless": True}, WHITE),
    "CMYK JPEG": ("CMYK", (0, 255, 255, 0), "JPEG", {"quality": 100}, RED),
    "grey JPEG": ("L", 77, "JPEG", {"quality": 100}, (77, 77, 77)),
    "grey with alpha": ("LA", (9, 0), "PNG", {}, WHITE),
    "palette": ("P", 0, "PNG", {}, (0, 0, 0)),
    "one bit": ("1", 1, "PNG", {}, WHITE),
    "BMP": ("RGB", RED, "BMP", {}, RED),
    "TIFF": ("RGB", RED, "TIFF", {}, RED),
    "CMYK TIFF": ("CMYK", (0, 255, 255, 0), "TIFF", {}, RED),
    "16-bit TIFF": ("I;16", 0x4D12, "TIFF", {}, (77, 77, 77)),
}


@pytest.mark.parametrize(("mode", "color", "format_name", "options", "expected"), FLAT.values(), ids=FLAT.keys())
def test_formats_and_modes(mode, color, format_name, options, expected):
    buffer = io.BytesIO()
    Image.new(mode, (20, 12), color).save(buffer, format_name, **options)
    decoded = decode_image(buffer.getvalue(), 8, 3)
    assert (decoded.shape, decoded.dtype) == ((8, 8, 3), np.uint8)
    # JPEG's colours are rounded.
    assert np.abs(decoded.astype(int) - expected).max() <= (2 if format_name == "JPEG" else 0)


@pytest.mark.parametrize("format_name", ["GIF", "WEBP", "PNG", "TIFF"])
def test_animations_give_their_first_frame(format_name):
    first, second = Image.new("RGB", (8, 8), RED), Image.new("RGB", (8, 8), (0, 0, 255))
    buffer = io.BytesIO()
    options = {"lossless": True} if format_name == "WEBP" else {}
    first.save(buffer, format_name, save_all=True, append_images=[second], **options)
    assert decode_image(buffer.getvalue(), None, 3)[4, 4].tolist() == [*RED]


def test_16_bit_colour_keeps_its_upper_bits():
    # Pillow writes none: red 0x4D12, green 0xFFFF, blue 0 in one pixel.
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + struct.pack(">HHH", 0x4D12, 0xFFFF, 0))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    assert decode_image(data, None, 3).tolist() == [[[0x4D, 255, 0]]]
