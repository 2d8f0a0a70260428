"""Images that are refused: too large, damaged, missing, or no images at all."""

from __future__ import annotations

import io
import os
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.fixtures.pictures import encoded, png
from tpips_model.errors import ImageError
from tpips_model.images import MAX_PIXELS, to_rgb


class TestBound:
    def test_refused_before_decoding(self) -> None:
        # The pixels are missing: decoding would complain of that instead.
        with pytest.raises(ImageError, match=r"bytes \(\d+ bytes\): it has 1000×1000 pixels, over the bound of 999999"):
            to_rgb(png(1000, 1000), max_pixels=999_999)

    def test_inside_the_bound_is_decoded(self) -> None:
        assert to_rgb(png(10, 10, rows=bytes(11 * 10)), max_pixels=100).size == (10, 10)

    def test_pillows_error(self) -> None:
        with pytest.raises(ImageError, match="DecompressionBombError"):
            to_rgb(png(60_000, 60_000), max_pixels=10**12)

    def test_pillows_warning_where_warnings_are_errors(self) -> None:
        side = int((MAX_PIXELS * 0.75) ** 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ImageError, match="DecompressionBombWarning"):
                to_rgb(png(side, side))

    def test_pillows_warning_alone_does_not_refuse(self) -> None:
        side = int((MAX_PIXELS * 0.75) ** 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ImageError, match="truncated"):
                to_rgb(png(side, side))

    def test_a_lazy_pil_image_is_checked_before_it_is_decoded(self) -> None:
        with pytest.raises(ImageError, match="over the bound"):
            to_rgb(Image.open(io.BytesIO(png(1000, 1000))), max_pixels=10)

    def test_a_text_chunk_that_explodes(self) -> None:
        bomb = b"note\0\0" + zlib.compress(bytes(8 << 20), 9)
        with pytest.raises(ImageError, match="too large"):
            to_rgb(png(2, 2, rows=bytes(6), chunks=[(b"zTXt", bomb)]))


class TestBadFiles:
    @pytest.mark.parametrize("image_format", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
    @pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
    def test_truncated(self, tmp_path: Path, image_format: str, share: float) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        data = encoded(Image.fromarray(noise), image_format)
        path = tmp_path / "cut.jpg"
        path.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(ImageError, match=r"cannot read image '.*cut\.jpg': \S+"):
            to_rgb(path)

    def test_truncated_inside_a_pil_image(self) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        data = encoded(Image.fromarray(noise), "JPEG")
        with pytest.raises(ImageError, match="truncated"):
            to_rgb(Image.open(io.BytesIO(data[: len(data) // 2])))

    def test_random_damage_never_raises_another_kind(self) -> None:
        generator = np.random.default_rng(7)
        noise = Image.fromarray(generator.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        refused = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for image_format in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "JPEG2000", "ICO"):
                whole = np.frombuffer(encoded(noise, image_format), dtype=np.uint8)
                for _ in range(60):
                    damaged = whole.copy()
                    places = generator.integers(0, len(whole), 8)
                    places[:4] %= 64  # headers are where decoders stumble
                    damaged[places] = generator.integers(0, 256, 8)
                    try:
                        assert to_rgb(damaged.tobytes(), max_pixels=10**6).mode == "RGB"
                    except ImageError:
                        refused += 1
        assert refused > 50

    def test_text_named_jpg(self, tmp_path: Path) -> None:
        path = tmp_path / "letter.jpg"
        path.write_text("Dear Sir, please find the picture attached.")
        with pytest.raises(ImageError, match=r"letter\.jpg': it begins with b'Dear Sir, please', which is none of"):
            to_rgb(path)

    def test_zero_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "none.png").touch()
        with pytest.raises(ImageError, match=r"none\.png': it is empty \(0 bytes\)"):
            to_rgb(tmp_path / "none.png")
        with pytest.raises(ImageError, match=r"bytes \(0 bytes\): it is empty"):
            to_rgb(b"")

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match=r"gone\.png': No such file"):
            to_rgb(tmp_path / "gone.png")

    def test_home_is_not_expanded(self) -> None:
        with pytest.raises(ImageError, match=r"'~/tpips-no-such-picture\.png': No such file"):
            to_rgb("~/tpips-no-such-picture.png")

    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match="is a directory"):
            to_rgb(tmp_path)

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.png")
        with pytest.raises(ImageError, match="not a regular file"):
            to_rgb(tmp_path / "pipe.png")

    def test_null_character(self) -> None:
        with pytest.raises(ImageError, match="null"):
            to_rgb("a\0b.png")

    def test_postscript_does_not_run(self) -> None:
        with pytest.raises(ImageError, match="none of the formats"):
            to_rgb(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")

    def test_heic_says_what_to_do(self) -> None:
        with pytest.raises(ImageError, match="convert them to JPEG"):
            to_rgb(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40))

    @pytest.mark.parametrize("value", [None, 3, ["a.png"], io.BytesIO(b"x")])
    def test_another_type(self, value: Any) -> None:
        with pytest.raises(ImageError, match=f"a value of type {type(value).__name__}; give a path"):
            to_rgb(value)
