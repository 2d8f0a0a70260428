"""Every mode of a PIL image, every transparency and every profile, with the pixels it must become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from tests.fixtures.icc import cyan_is_black_profile, linear_grey_profile, srgb_profile, swapped_profile
from tests.fixtures.pictures import BLACK, BLUE, QUARTERS, RED, WHITE, encoded, only_colour, palette_image, pixels
from tpips_model.errors import ImageError
from tpips_model.images import to_rgb


class TestPilModes:
    @pytest.mark.parametrize(
        ("mode", "value", "expected"),
        [
            ("1", 1, WHITE),
            ("1", 0, BLACK),
            ("L", 77, (77, 77, 77)),
            ("LA", (100, 255), (100, 100, 100)),
            ("LA", (100, 0), WHITE),
            ("LA", (0, 51), (204, 204, 204)),
            ("RGB", (1, 2, 3), (1, 2, 3)),
            ("RGBA", (9, 8, 7, 0), WHITE),
            ("RGBA", (255, 0, 0, 51), (255, 204, 204)),
            ("RGBX", (1, 2, 3, 0), (1, 2, 3)),
            ("CMYK", (255, 0, 0, 0), (0, 255, 255)),
            ("CMYK", (0, 0, 0, 255), BLACK),
            ("HSV", (170, 255, 255), BLUE),
            ("I;16", 65535, WHITE),
            ("I;16", 200, (1, 1, 1)),
            ("I;16", 128 * 257, (128, 128, 128)),
            ("I;16L", 128 * 257, (128, 128, 128)),
            ("I;16B", 128 * 257, (128, 128, 128)),
            ("I;16N", 128 * 257, (128, 128, 128)),
            ("I", 128, (128, 128, 128)),
            ("I", 128 * 257, (128, 128, 128)),
            ("F", 0.5, (128, 128, 128)),
            ("F", 64.0, (64, 64, 64)),
            ("F", 128.0 * 257, (128, 128, 128)),
        ],
    )
    def test_one_colour(self, mode: str, value: Any, expected: tuple[int, int, int]) -> None:
        assert only_colour(Image.new(mode, (3, 2), value)) == expected

    def test_premultiplied_alpha_is_divided_out_before_white_is_laid_under(self) -> None:
        assert only_colour(Image.new("RGBA", (2, 2), (200, 0, 0, 128)).convert("RGBa")) == only_colour(
            Image.new("RGBA", (2, 2), (200, 0, 0, 128))
        )
        assert only_colour(Image.new("LA", (2, 2), (0, 51)).convert("La")) == (204, 204, 204)

    def test_palette(self) -> None:
        assert pixels(palette_image()).tolist() == [[[10, 20, 30], [40, 60, 100]]]

    def test_palette_with_one_transparent_index(self) -> None:
        image = palette_image()
        image.info["transparency"] = 0
        assert pixels(image).tolist() == [[list(WHITE), [40, 60, 100]]]

    def test_palette_with_alpha_of_every_entry(self) -> None:
        image = palette_image()
        image.info["transparency"] = bytes([255, 51])
        assert pixels(image).tolist() == [[[10, 20, 30], [212, 216, 224]]]

    def test_palette_in_rgba(self) -> None:
        assert pixels(palette_image(alpha=True)).tolist() == [[list(WHITE), [100, 100, 200]]]

    def test_palette_beside_an_alpha_band(self) -> None:
        image = palette_image().convert("PA")
        image.putalpha(Image.fromarray(np.array([[255, 0]], dtype=np.uint8)))
        assert pixels(image).tolist() == [[[10, 20, 30], list(WHITE)]]

    def test_ycbcr(self) -> None:
        image = Image.new("RGB", (2, 2), (200, 100, 50)).convert("YCbCr")
        assert np.abs(pixels(image).astype(int) - (200, 100, 50)).max() <= 2

    def test_lab(self) -> None:
        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        image = ImageCms.profileToProfile(Image.new("RGB", (2, 2), (200, 100, 50)), srgb, lab, outputMode="LAB")
        assert image is not None
        assert np.abs(pixels(image).astype(int) - (200, 100, 50)).max() <= 3

    @pytest.mark.parametrize("mode", ["I", "F"])
    @pytest.mark.parametrize("value", [-1, 65536])
    def test_unknown_range_is_refused(self, mode: str, value: int) -> None:
        with pytest.raises(ImageError, match="expected 0…1, 0…255 or 0…65535"):
            to_rgb(Image.new(mode, (1, 1), value))

    def test_not_a_number_is_refused(self) -> None:
        with pytest.raises(ImageError, match=r"PIL image \(mode F, 2×1\): it holds NaN"):
            to_rgb(Image.fromarray(np.array([[0.5, np.nan]], dtype=np.float32)))

    def test_no_pixels(self) -> None:
        with pytest.raises(ImageError, match="no pixels"):
            to_rgb(Image.new("RGB", (0, 5)))

    def test_the_given_image_is_left_as_it_was_and_shares_nothing(self) -> None:
        given = Image.new("RGB", (2, 2), RED)
        given.info["icc_profile"] = swapped_profile()
        result = to_rgb(given)
        result.putpixel((0, 0), (1, 2, 3))
        assert only_colour(given) == BLUE
        assert given.getpixel((0, 0)) == RED
        assert given.info.keys() == {"icc_profile"}

    def test_twice_is_once(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        data = encoded(Image.fromarray(QUARTERS), "PNG", exif=exif, icc_profile=swapped_profile())
        once = to_rgb(data)
        assert np.array_equal(pixels(once), np.asarray(once))
        assert once.info == {}


class TestProfile:
    @pytest.mark.parametrize("image_format", ["PNG", "TIFF", "WEBP"])
    def test_rgb_profile_is_applied(self, image_format: str) -> None:
        options = {"lossless": True} if image_format == "WEBP" else {}
        data = encoded(Image.new("RGB", (4, 4), (200, 100, 50)), image_format, icc_profile=swapped_profile(), **options)
        assert np.abs(pixels(data).astype(int) - (50, 100, 200)).max() <= 1

    def test_jpeg_profile_is_applied(self) -> None:
        data = encoded(Image.new("RGB", (16, 16), (200, 100, 50)), "JPEG", icc_profile=swapped_profile(), quality=100)
        assert np.abs(pixels(data).astype(int) - (50, 100, 200)).max() <= 3

    def test_alpha_is_laid_over_white_after_the_profile(self) -> None:
        image = Image.new("RGBA", (2, 2), (255, 0, 0, 51))
        assert only_colour(encoded(image, "PNG", icc_profile=swapped_profile())) == (204, 204, 255)

    def test_palette_image_with_a_profile(self) -> None:
        result = pixels(encoded(palette_image(), "PNG", icc_profile=swapped_profile())).astype(int)
        assert np.abs(result - [[[30, 20, 10], [100, 60, 40]]]).max() <= 1

    @pytest.mark.parametrize("mode", ["L", "LA", "I;16"])
    def test_grey_profile(self, mode: str) -> None:
        value = {"L": 128, "LA": (128, 255), "I;16": 128 * 257}[mode]
        image = Image.new(mode, (2, 2), value)  # type: ignore[arg-type]
        image.info["icc_profile"] = linear_grey_profile()
        assert only_colour(image) == (188, 188, 188)

    @pytest.mark.parametrize("cyan", [0, 255])
    def test_cmyk_profile(self, cyan: int) -> None:
        image = Image.new("CMYK", (16, 16), (cyan, 255, 0, 0))
        data = encoded(image, "TIFF", icc_profile=cyan_is_black_profile())
        assert np.abs(pixels(data).astype(int) - (255 - cyan)).max() <= 2

    def test_srgb_changes_nothing(self) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        assert np.array_equal(pixels(encoded(Image.fromarray(noise), "PNG", icc_profile=srgb_profile())), noise)

    @pytest.mark.parametrize(
        "profile",
        [b"not a profile", srgb_profile()[:200], bytes(588), linear_grey_profile(), cyan_is_black_profile()],
        ids=["text", "truncated", "zeros", "grey", "cmyk"],
    )
    def test_a_broken_or_foreign_profile_is_ignored(self, profile: bytes) -> None:
        assert only_colour(encoded(Image.new("RGB", (2, 2), (200, 100, 50)), "PNG", icc_profile=profile)) == (
            200,
            100,
            50,
        )
