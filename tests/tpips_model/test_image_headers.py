"""Sizes read from headers are those that decoding finds, and no pixel is decoded for them."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path

import pytest
from PIL import Image, features

from tpips_model.errors import ImageError
from tpips_model.images import header_size, to_rgb_with_size
from tpips_model.png_exif import exif_behind_pixels

FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM", "ICO", "QOI"]
WITH_EXIF = ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")


def exif(orientation: int) -> Image.Exif:
    made = Image.Exif()
    made[0x0112] = orientation
    return made


def chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


@pytest.mark.parametrize("orientation", [1, 3, 6, 8, 9])
@pytest.mark.parametrize("format", FORMATS)
def test_the_header_tells_what_decoding_finds(
    tmp_path: Path, format: str, orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if format == "AVIF" and not features.check("avif"):
        pytest.skip("this build of Pillow has no AVIF")
    options = {"exif": exif(orientation)} if format in WITH_EXIF else {}
    path = tmp_path / "picture"
    Image.new("RGB", (48, 32), "red").save(path, format, **options)
    expected = to_rgb_with_size(path)[1]
    if format != "ICO":  # which Pillow decodes to open
        monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("a pixel was decoded"))
    assert header_size(path) == expected
    assert (expected == (32, 48)) == (orientation in (6, 8) and bool(options))


@pytest.mark.parametrize("behind", [b"", b"x" * 5000])
def test_a_png_may_keep_its_exif_behind_its_pixels(tmp_path: Path, behind: bytes) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((90, 60), 50).save(buffer, "PNG")
    data = buffer.getvalue()
    body, end = data[:-12], data[-12:]
    path = tmp_path / "late.png"
    path.write_bytes(body + chunk(b"eXIf", exif(6).tobytes()[6:]) + chunk(b"ruSt", behind) + end)
    assert header_size(path) == to_rgb_with_size(path)[1] == (60, 90)
    # What only looks like such a chunk has no checksum.
    path.write_bytes(body + chunk(b"ruSt", b"\0\0\0\4eXIfMM\0*" + behind) + end)
    assert header_size(path) == to_rgb_with_size(path)[1] == (90, 60)
    assert exif_behind_pixels(io.BytesIO(b"eXIf")) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"it begins with b'', which is none of"),
        (b"no picture", "it begins with b'no picture', which is none of"),
        (b"P6 20000 20000 255 ", "over the bound of 178956970|exceeds limit of 178956970"),
    ],
)
def test_a_header_that_tells_no_size_is_an_error(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=f"cannot read image '.*a.png': .*({message})"):
        header_size(path)


def test_what_is_no_file_is_an_error_and_nothing_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "it is not a regular file"), ("", "it is a directory"), ("gone", "No such file")):
        with pytest.raises(ImageError, match=message):
            header_size(tmp_path / name)
