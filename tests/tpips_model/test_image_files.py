"""Files of every format and orientation, whole, with the pixels they must become."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, features

from tests.fixtures.icc import cyan_is_black_profile, swapped_profile
from tests.fixtures.pictures import BLUE, QUARTERS, RED, WHITE, encoded, only_colour, palette_image, pixels, png
from tpips_model.images import IMAGE_SUFFIXES, to_rgb, to_rgb_with_size


class TestFiles:
    def test_str_path_and_bytes_are_one_image(self, tmp_path: Path) -> None:
        path = tmp_path / "naïve ~ 画.png"
        path.write_bytes(encoded(Image.fromarray(QUARTERS), "PNG"))
        for given in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), Image.open(path)):
            assert np.array_equal(pixels(given), QUARTERS)

    @pytest.mark.parametrize("image_format", ["PNG", "WEBP", "TIFF", "BMP", "DIB", "PPM", "JPEG2000", "QOI", "ICO"])
    def test_lossless_formats(self, image_format: str) -> None:
        options = {"lossless": True} if image_format == "WEBP" else {}
        image = Image.fromarray(QUARTERS[:32, :32])
        assert np.array_equal(pixels(encoded(image, image_format, **options)), QUARTERS[:32, :32])

    def test_16_bit_png_is_scaled_not_clipped(self) -> None:
        levels = np.arange(256, dtype=np.uint16)[None] * 257
        assert np.array_equal(pixels(encoded(Image.fromarray(levels), "PNG"))[0, :, 0], np.arange(256))

    def test_16_bit_tiff_and_pgm_are_scaled(self) -> None:
        levels = np.array([[0, 128 * 257, 65535]], dtype=np.uint16)
        assert pixels(encoded(Image.fromarray(levels), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]
        pgm = b"P5 3 1 65535\n" + levels.astype(">u2").tobytes()
        assert pixels(pgm)[0, :, 0].tolist() == [0, 128, 255]

    def test_16_bit_rgb_png(self) -> None:
        row = np.array([[65535, 0, 128 * 257]], dtype=">u2")
        assert only_colour(png(1, 1, depth=16, colour=2, rows=b"\0" + row.tobytes())) == (255, 0, 128)

    @pytest.mark.parametrize(
        ("mode", "value", "key", "expected"),
        [
            ("1", 1, 1, WHITE),
            ("1", 0, 0, WHITE),
            ("L", 7, 7, WHITE),
            ("L", 8, 7, (8, 8, 8)),
            ("RGB", (1, 2, 3), (1, 2, 3), WHITE),
            ("RGB", (1, 2, 4), (1, 2, 3), (1, 2, 4)),
            ("I;16", 514, 514, WHITE),
            ("I;16", 771, 514, (3, 3, 3)),
        ],
    )
    def test_png_with_one_transparent_level(self, mode: str, value: Any, key: Any, expected: Any) -> None:
        assert only_colour(encoded(Image.new(mode, (2, 2), value), "PNG", transparency=key)) == expected

    def test_16_bit_rgb_png_with_one_transparent_colour(self) -> None:
        key = np.array([0x1234, 0x5678, 0x9ABC], dtype=">u2").tobytes()
        other = np.array([0xFFFF, 0x5678, 0x9ABC], dtype=">u2").tobytes()
        data = png(2, 1, depth=16, colour=2, rows=b"\0" + key + other, chunks=[(b"tRNS", key)])
        assert pixels(data).tolist() == [[list(WHITE), [0xFF, 0x56, 0x9A]]]

    def test_cmyk_jpeg_of_adobe_is_not_a_negative(self) -> None:
        data = encoded(Image.new("CMYK", (16, 16), (0, 0, 0, 0)), "JPEG")
        assert only_colour(data) == WHITE

    @pytest.mark.parametrize("image_format", ["GIF", "PNG", "WEBP", "TIFF"])
    def test_first_frame_of_an_animation(self, image_format: str) -> None:
        options = {"lossless": True} if image_format == "WEBP" else {}
        frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE, WHITE)]
        data = encoded(frames[0], image_format, save_all=True, append_images=frames[1:], **options)
        assert getattr(Image.open(io.BytesIO(data)), "n_frames", 1) == 3
        assert only_colour(data) == RED

    def test_a_pil_animation_gives_the_frame_it_stands_at(self) -> None:
        frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
        image = Image.open(io.BytesIO(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])))
        image.seek(1)
        assert only_colour(image) == BLUE

    def test_transparent_gif(self) -> None:
        image = palette_image()
        assert pixels(encoded(image, "GIF", transparency=1)).tolist() == [[[10, 20, 30], list(WHITE)]]

    @pytest.mark.parametrize("size", [(1, 30_000), (30_000, 1)])
    def test_extreme_aspect_ratio(self, size: tuple[int, int]) -> None:
        assert to_rgb(encoded(Image.new("L", size, 9), "PNG")).size == size

    def test_suffixes_are_lower_case_with_a_dot(self) -> None:
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in IMAGE_SUFFIXES)
        assert {".jpg", ".png", ".webp"} <= IMAGE_SUFFIXES

    def test_torch_is_not_imported(self) -> None:
        program = (
            "import sys, numpy as np; from tpips_model.images import to_rgb; "
            "to_rgb(np.zeros((2, 2), np.uint8)); sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class TestOrientation:
    # What the eye should see, from the stored pixels, by the EXIF standard's table of orientations.
    SEEN = {  # noqa: RUF012
        1: QUARTERS,
        2: QUARTERS[:, ::-1],
        3: QUARTERS[::-1, ::-1],
        4: QUARTERS[::-1],
        5: QUARTERS.transpose(1, 0, 2),
        6: np.rot90(QUARTERS, -1),
        7: QUARTERS[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(QUARTERS),
    }

    @pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "TIFF"])
    @pytest.mark.parametrize("orientation", SEEN)
    def test_applied(self, image_format: str, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}.get(image_format, {})
        data = encoded(Image.fromarray(QUARTERS), image_format, exif=exif, **options)
        rgb, size = to_rgb_with_size(data)
        seen = self.SEEN[orientation]
        assert size == rgb.size == seen.shape[1::-1]
        assert np.abs(np.asarray(rgb).astype(int) - seen).max() <= (6 if image_format == "JPEG" else 0)

    @pytest.mark.skipif(not features.check("avif"), reason="this Pillow cannot write AVIF")
    @pytest.mark.parametrize("orientation", [3, 6, 8])
    def test_applied_once_in_avif(self, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = encoded(Image.fromarray(QUARTERS), "AVIF", exif=exif, quality=95)
        assert np.abs(pixels(data)[4::8, 4::8].astype(int) - self.SEEN[orientation][4::8, 4::8]).max() <= 12

    @pytest.mark.parametrize("block", [b"Exif\0\0garbage", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0MM"])
    def test_a_broken_block_is_ignored(self, block: bytes) -> None:
        data = encoded(Image.fromarray(QUARTERS), "JPEG", exif=block, quality=95, subsampling=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's "corrupt EXIF data"
            assert np.abs(pixels(data).astype(int) - QUARTERS).max() <= 6

    @pytest.mark.parametrize("orientation", [0, 9, 65535])
    def test_an_unknown_orientation_is_ignored(self, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        assert np.array_equal(pixels(encoded(Image.fromarray(QUARTERS), "PNG", exif=exif)), QUARTERS)


class TestAtLeast:
    def photograph(self, orientation: int = 1, image_format: str = "JPEG") -> bytes:
        y, x = np.mgrid[0:600, 0:800]
        smooth = np.stack([x * 255 // 800, y * 255 // 600, (x + y) * 255 // 1400], axis=-1).astype(np.uint8)
        exif = Image.Exif()
        exif[0x0112] = orientation
        return encoded(Image.fromarray(smooth), image_format, exif=exif)

    @pytest.mark.parametrize(
        ("at_least", "size"), [(75, (100, 75)), (76, (200, 150)), (300, (400, 300)), (301, (800, 600))]
    )
    def test_smallest_scale_that_suffices(self, at_least: int, size: tuple[int, int]) -> None:
        rgb, full = to_rgb_with_size(self.photograph(), at_least=at_least)
        assert (rgb.size, full) == (size, (800, 600))

    def test_content_and_orientation(self) -> None:
        data = self.photograph(orientation=6)
        small, full = to_rgb_with_size(data, at_least=100)
        assert (small.size, full) == ((150, 200), (600, 800))
        assert np.abs(np.asarray(small).astype(int) - np.asarray(to_rgb(data).reduce(4))).max() <= 4

    def test_other_formats_and_given_pil_images_stay_whole(self) -> None:
        assert to_rgb(self.photograph(image_format="PNG"), at_least=75).size == (800, 600)
        given = Image.open(io.BytesIO(self.photograph()))
        assert to_rgb(given, at_least=75).size == given.size == (800, 600)


def test_threads_agree_with_one_and_global_state_stays(tmp_path: Path) -> None:
    given: list[Any] = [
        encoded(Image.fromarray(QUARTERS), "PNG", icc_profile=swapped_profile()),
        encoded(Image.fromarray(QUARTERS), "JPEG", icc_profile=swapped_profile()),
        encoded(Image.new("CMYK", (64, 64), (30, 90, 0, 9)), "TIFF", icc_profile=cyan_is_black_profile()),
        encoded(Image.fromarray(QUARTERS).convert("P"), "GIF"),
        QUARTERS,
    ] * 8
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)
    expected = [pixels(image) for image in given]
    with ThreadPoolExecutor(8) as pool:
        assert all(np.array_equal(one, two) for one, two in zip(expected, pool.map(pixels, given), strict=True))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters))
