"""The painted gallery: settled pictures, factors that each show, and none that goes with another."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from indexer.gallery import FACTORS, FORMATS, Painting, gallery, paint
from indexer.gallery.palettes import PALETTES, mix
from indexer.gallery.surface import along, emboss, shaded, smooth_noise, strokes_along_shapes

PLAIN = Painting(
    subject="house",
    palette="autumn",
    brushwork="mosaic",
    composition="centred",
    lighting="front",
    background="hills",
    seed=5,
)
ALL_FACTORS = {**FACTORS, "format": tuple(FORMATS)}
EVERY_VALUE = [(factor, value) for factor, values in FACTORS.items() for value in values]


@cache
def pixels(painting: Painting) -> np.ndarray:
    return np.asarray(paint(painting)).astype(np.float32)


def colourfulness(painting: Painting) -> float:
    picture = pixels(painting)
    return float((picture.max(axis=2) - picture.min(axis=2)).mean())


class TestPaint:
    @pytest.mark.parametrize(("factor", "value"), EVERY_VALUE)
    def test_every_value_is_settled_and_has_the_size_of_its_format(self, factor: str, value: str) -> None:
        painting = replace(PLAIN, **{factor: value})
        image = paint(painting)
        assert (image.mode, image.size) == ("RGB", FORMATS["landscape"])
        assert np.array_equal(image, pixels(painting))

    @pytest.mark.parametrize("brushwork", FACTORS["brushwork"])
    @pytest.mark.parametrize("picture_format", FORMATS)
    def test_every_technique_fills_every_format(self, brushwork: str, picture_format: str) -> None:
        image = paint(replace(PLAIN, brushwork=brushwork, format=picture_format))
        assert image.size == FORMATS[picture_format]

    def test_another_process_paints_the_same(self) -> None:
        program = (
            "import hashlib; from indexer.gallery import gallery, paint; "
            "print(*[hashlib.sha256(paint(p).tobytes()).hexdigest() for p in gallery(count=8)])"
        )
        there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        here = [hashlib.sha256(paint(painting).tobytes()).hexdigest() for painting in gallery(count=8)]
        assert there.split() == here
        assert len(set(here)) == 8

    @pytest.mark.parametrize("factor", FACTORS)
    def test_every_two_values_of_a_factor_look_different(self, factor: str) -> None:
        # Of the whole picture but for the subject, which covers a part of it only.
        least = 0.5 if factor == "subject" else 2.0
        pictures = {value: pixels(replace(PLAIN, **{factor: value})) for value in FACTORS[factor]}
        for one, two in combinations(pictures, 2):
            assert np.abs(pictures[one] - pictures[two]).mean() > least, (one, two)

    def test_the_seed_changes_the_picture(self) -> None:
        assert not np.array_equal(pixels(PLAIN), pixels(replace(PLAIN, seed=6)))

    @pytest.mark.parametrize("brushwork", FACTORS["brushwork"])
    def test_a_palette_without_colour_paints_without_colour(self, brushwork: str) -> None:
        grey, coloured = (replace(PLAIN, palette=palette, brushwork=brushwork) for palette in ("greys", "autumn"))
        assert colourfulness(grey) < 0.12 * colourfulness(coloured)

    def test_light_falls_from_its_side(self) -> None:
        # Of a picture and its mirror image in shape: averaged over seeds, only the light tells left from right.
        sides = {}
        for lighting in ("from the left", "from the right"):
            pictures = [
                pixels(replace(PLAIN, lighting=lighting, brushwork=brushwork, background="plain")).mean(axis=2)
                for brushwork in ("oil strokes", "mosaic", "charcoal")
            ]
            sides[lighting] = [picture[:, :190].mean() - picture[:, 194:].mean() for picture in pictures]
        assert min(sides["from the left"]) > 10
        assert max(sides["from the right"]) < -10

    def test_keys_of_light(self) -> None:
        means = {lighting: pixels(replace(PLAIN, lighting=lighting)).mean() for lighting in FACTORS["lighting"]}
        assert max(means, key=means.__getitem__) == "high key"
        assert min(means, key=means.__getitem__) == "low key"

    def test_composition_moves_the_subject(self) -> None:
        def middle(composition: str) -> float:
            backdrop = replace(PLAIN, composition=composition, background="plain")
            difference = np.abs(pixels(backdrop) - pixels(replace(backdrop, subject="cat"))).sum(axis=(0, 2))
            return float((difference * np.arange(len(difference))).sum() / difference.sum() / len(difference))

        assert middle("left third") < 0.4 < middle("centred") < 0.6 < middle("right third")


class TestGallery:
    def test_settled_by_its_seed(self) -> None:
        assert gallery(count=40, seed=3) == gallery(count=40, seed=3)
        assert gallery(count=40, seed=3) != gallery(count=40, seed=4)

    def test_every_value_equally_often_and_every_pair_about_as_often(self) -> None:
        paintings = gallery()
        assert len(set(paintings)) == 240
        for factor, values in ALL_FACTORS.items():
            assert set(Counter(getattr(one, factor) for one in paintings).values()) == {240 // len(values)}
        for one, two in combinations(ALL_FACTORS, 2):
            counts = Counter((getattr(each, one), getattr(each, two)) for each in paintings)
            expected = 240 / (len(ALL_FACTORS[one]) * len(ALL_FACTORS[two]))
            for first in ALL_FACTORS[one]:
                for second in ALL_FACTORS[two]:
                    assert counts[first, second] >= 1
                    assert abs(counts[first, second] - expected) < 2, (first, second)

    @pytest.mark.parametrize("count", [0, 1, 7, 100])
    def test_any_count(self, count: int) -> None:
        paintings = gallery(count=count)
        assert len(paintings) == count
        for factor in FACTORS:
            counts = Counter(getattr(one, factor) for one in paintings)
            assert max(counts.values(), default=0) - min((counts[value] for value in FACTORS[factor]), default=0) <= 1


class TestSurface:
    def test_shading_goes_all_the_way_and_nowhere(self) -> None:
        picture = Image.new("RGB", (3, 1), (100, 100, 100))
        light = np.array([[-1, 0, 1]], dtype=np.float32)
        shades = shaded(picture, light, (10, 20, 30), (200, 210, 220))
        assert np.asarray(shades).tolist() == [[[10, 20, 30], [100, 100, 100], [200, 210, 220]]]

    def test_mix(self) -> None:
        assert [mix((0, 100, 255), (100, 0, 255), share) for share in (0, 0.5, 1)] == [
            (0, 100, 255),
            (50, 50, 255),
            (100, 0, 255),
        ]

    def test_palettes_run_from_ink_to_paper(self) -> None:
        for palette in PALETTES.values():
            brightness = {role: sum(getattr(palette, role)) for role in vars(palette)}
            assert min(brightness, key=brightness.__getitem__) == "ink"
            assert max(brightness, key=brightness.__getitem__) == "paper"

    def test_noise_is_centred_and_smooth(self) -> None:
        noise = smooth_noise((200, 300), 20, np.random.default_rng(0))
        assert noise.shape == (200, 300)
        assert abs(noise.mean()) < 0.1
        assert np.abs(np.diff(noise, axis=1)).max() < 0.35

    def test_a_slope_towards_the_light_is_bright(self) -> None:
        rising = np.tile(np.arange(20, dtype=np.float32), (20, 1))
        assert (emboss(rising)[:-1, :-1] < 0).all()
        assert (emboss(-rising)[:-1, :-1] > 0).all()

    def test_strokes_follow_borders(self) -> None:
        stripes = np.zeros((96, 96, 3), dtype=np.uint8)
        stripes[:, 48:] = 255
        upright = strokes_along_shapes(Image.fromarray(stripes), np.random.default_rng(0))[20:76, 47:49]
        assert np.abs(np.sin(upright)).min() > 0.95
        level = strokes_along_shapes(Image.fromarray(stripes.transpose(1, 0, 2)), np.random.default_rng(0))
        assert np.abs(np.cos(level[47:49, 20:76])).min() > 0.95

    def test_averaging_along_a_direction_smooths_that_direction(self) -> None:
        noise = np.random.default_rng(0).standard_normal((80, 80), dtype=np.float32)
        lines = along(noise, np.zeros((80, 80), dtype=np.float32), 4, step=1)
        assert np.diff(lines, axis=1).std() < 0.6 * np.diff(lines, axis=0).std()
        assert 0.8 < lines.std() < 1.2
