"""Numpy arrays and torch tensors of every shape and type, with the pixels they must become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.fixtures.pictures import WHITE, only_colour, pixels
from tpips_model.errors import ImageError
from tpips_model.images import to_rgb, to_rgb_with_size


class TestArrays:
    @pytest.mark.parametrize("wrap", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            (np.full((5, 6), 7, dtype=np.uint8), (7, 7, 7)),
            (np.full((5, 6, 1), 7, dtype=np.uint8), (7, 7, 7)),
            (np.full((1, 5, 6), 7, dtype=np.uint8), (7, 7, 7)),
            (np.full((5, 6, 2), [0, 51], dtype=np.uint8), (204, 204, 204)),
            (np.full((5, 6, 3), [1, 2, 3], dtype=np.uint8), (1, 2, 3)),
            (np.full((5, 6, 3), [1, 2, 3], dtype=np.uint8).transpose(2, 0, 1), (1, 2, 3)),
            (np.full((5, 6, 4), [1, 2, 3, 0], dtype=np.uint8).transpose(2, 0, 1), WHITE),
            (np.full((5, 6, 3), [0, 128 * 257, 65535], dtype=np.uint16), (0, 128, 255)),
            (np.full((5, 6, 3), [0, 0.5, 1], dtype=np.float64), (0, 128, 255)),
            (np.full((5, 6, 3), [0, 0.5, 1], dtype=np.float32), (0, 128, 255)),
            (np.full((5, 6, 3), [0, 0.5, 1], dtype=np.float16), (0, 128, 255)),
            (np.full((5, 6, 3), [-0.004, 0.5, 1.004], dtype=np.float32), (0, 128, 255)),
            (np.ones((5, 6), dtype=bool), WHITE),
        ],
    )
    def test_one_colour(self, wrap: Any, array: np.ndarray, expected: tuple[int, int, int]) -> None:
        rgb, size = to_rgb_with_size(wrap(array))
        assert size == rgb.size == (6, 5)
        assert only_colour(wrap(array)) == expected

    def test_where_both_readings_fit_numpy_has_channels_last_and_torch_first(self) -> None:
        array = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
        assert np.array_equal(pixels(array), array)
        assert np.array_equal(pixels(torch.from_numpy(array)), array.transpose(1, 2, 0))

    def test_bfloat16_with_a_gradient(self) -> None:
        tensor = torch.ones((3, 2, 2), dtype=torch.bfloat16, requires_grad=True)
        assert only_colour(tensor) == WHITE

    def test_byte_order_and_strides(self) -> None:
        array = (np.arange(60, dtype=np.uint16).reshape(5, 12) * 1000).astype(">u2")[::-2, ::3]
        assert np.array_equal(pixels(array)[..., 0], np.round(array / 257).astype(np.uint8))

    @pytest.mark.parametrize(
        ("array", "match"),
        [
            (np.full((2, 2), np.nan, dtype=np.float32), "NaN or infinite"),
            (np.full((2, 2), np.inf, dtype=np.float32), "NaN or infinite"),
            (np.full((2, 2, 3), 200.0), r"from 200 to 200; expected \[0, 1\]"),
            (np.full((2, 2, 3), -0.5), r"from -0.5 to -0.5; expected \[0, 1\]"),
            (np.zeros((2, 2), dtype=np.int64), "values of type int64"),
            (np.zeros((2, 2), dtype=complex), "values of type complex128"),
            (np.array([["a"]], dtype=object), "values of type object"),
            (np.zeros((1, 3, 8, 8), dtype=np.uint8), "one by one"),
            (np.zeros((5, 8, 8), dtype=np.uint8), "channels"),
            (np.zeros(5, dtype=np.uint8), r"expected the shape \(H, W\)"),
            (np.zeros((0, 5, 3), dtype=np.uint8), "no pixels"),
            (torch.zeros((3, 2, 2)) - 2, r"tensor \(shape \(3, 2, 2\), torch.float32\).*from -2 to -2"),
        ],
    )
    def test_refused(self, array: Any, match: str) -> None:
        with pytest.raises(ImageError, match=match):
            to_rgb(array)

    def test_the_bound_holds_for_arrays(self) -> None:
        with pytest.raises(ImageError, match="10×10 pixels, over the bound of 99"):
            to_rgb(np.zeros((10, 10), dtype=np.uint8), max_pixels=99)
