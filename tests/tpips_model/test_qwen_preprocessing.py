"""The size rule, and pixels to patches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from tests.fixtures.qwen import pictures
from tpips_model.errors import ImageError, ModelError
from tpips_model.qwen.preprocessing import DEFAULT_MAX_PIXELS, DEFAULT_MIN_PIXELS, Preprocessor

SIDES = st.integers(1, 20_000)


@given(SIDES, SIDES)
@settings(max_examples=100, deadline=None)
def test_sizes_are_the_stock_processors_wherever_it_has_one(height: int, width: int) -> None:
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(ValueError, match="aspect ratio"):
            smart_resize(height, width, factor=32)
        return
    expected = smart_resize(height, width, factor=32, min_pixels=DEFAULT_MIN_PIXELS, max_pixels=DEFAULT_MAX_PIXELS)
    assert Preprocessor().target_size(height, width) == expected


@given(SIDES, SIDES, st.integers(1, 10**6), st.integers(1024, 10**6))
@settings(max_examples=100, deadline=None)
def test_every_picture_has_a_size_within_the_budget(height: int, width: int, least: int, most: int) -> None:
    assume(least <= max(most, DEFAULT_MIN_PIXELS))
    rows, columns = Preprocessor(min_pixels=least, max_pixels=most).target_size(height, width)
    assert rows % 32 == columns % 32 == 0
    assert 1024 <= rows * columns <= most


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (3, 4000), (31, 33), (256, 256)])
def test_tiny_and_long_pictures_become_patches(size: tuple[int, int]) -> None:
    patches = Preprocessor()(Image.new("RGB", size, (255, 0, 128)))
    rows, columns = patches.grid
    assert patches.values.shape == (rows * columns, 1536)
    assert patches.tokens == Preprocessor().tokens(size[1], size[0]) == rows * columns // 4
    # one colour stays that colour, padding included
    pixels = patches.values.unflatten(1, (3, -1))
    expected = torch.tensor([1.0, -1.0, 128 / 127.5 - 1])[None, :, None].expand_as(pixels)
    torch.testing.assert_close(pixels, expected, atol=1e-5, rtol=0)


def test_a_very_large_picture_is_shrunk_and_said_to_be() -> None:
    pixels = torch.rand(3, 1000, 8500)
    with pytest.warns(UserWarning, match="shrunk"):
        shrunk = Preprocessor().resize(pixels)
    assert shrunk.shape[1] * shrunk.shape[2] <= DEFAULT_MAX_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a bound that was asked for is no surprise
        assert Preprocessor(max_pixels=65536).resize(pixels).numel() <= 3 * 65536


def test_patches_come_in_the_order_of_the_vision_tower() -> None:
    pixels = torch.arange(3 * 64 * 96, dtype=torch.float32).reshape(3, 64, 96)
    patches = Preprocessor(min_pixels=1, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)).patchify(pixels)
    assert patches.grid == (4, 6)
    cut = patches.values.unflatten(1, (3, 2, 16, 16))
    torch.testing.assert_close(cut[:, :, 0], cut[:, :, 1])  # a still picture is two equal frames
    # the second patch lies right of the first, the third below it, and the fifth opens the next token
    for index, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]):
        block = pixels[:, row * 16 : row * 16 + 16, column * 16 : column * 16 + 16]
        torch.testing.assert_close(cut[index, :, 0], block)


def test_a_float_tensor_is_the_picture_and_keeps_its_gradient() -> None:
    (picture,) = pictures([(300, 260)])
    pixels = (torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255).requires_grad_()
    patches = Preprocessor()(pixels)
    torch.testing.assert_close(patches.values, Preprocessor()(picture).values)
    patches.values.sum().backward()
    assert pixels.grad is not None
    assert bool((pixels.grad.abs().sum(0) > 0).all())


def test_resizing_does_not_clamp() -> None:
    edge = torch.zeros(3, 300, 300)
    edge[:, :, 150:] = 1.0
    assert Preprocessor().resize(edge).max() > 1.0001


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (torch.full((3, 8, 8), 200.0), "expected \\[0, 1\\]"),
        (torch.full((3, 8, 8), float("nan")), "expected \\[0, 1\\]"),
        (torch.zeros(3, 0, 8), "no pixels"),
        (torch.zeros(5, 8, 8, 3), "shape"),
    ],
)
def test_other_tensors_are_refused(pixels: torch.Tensor, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        Preprocessor()(pixels)


def test_impossible_budgets_are_refused() -> None:
    with pytest.raises(ModelError, match="max_pixels is 100"):
        Preprocessor(max_pixels=100)
    with pytest.raises(ModelError, match="min_pixels is 0"):
        Preprocessor(min_pixels=0)
    for bound in (float("nan"), 65536.5, "65536", None):
        with pytest.raises(ModelError, match="give a whole number of pixels"):
            Preprocessor(min_pixels=bound)  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="give a whole number of pixels"):
            Preprocessor(max_pixels=bound)  # type: ignore[arg-type]


def test_a_min_pixels_that_would_enlarge_every_picture_is_refused() -> None:
    message = r"min_pixels is 8,388,609, .*enlarged to 8,388,608 pixels \(8,192 tokens\).*'NAME\?min_pixels=65536'"
    with pytest.raises(ModelError, match=message):
        Preprocessor(min_pixels=DEFAULT_MAX_PIXELS + 1)
    with pytest.raises(ModelError, match="beyond max_pixels"):
        Preprocessor(min_pixels=DEFAULT_MIN_PIXELS + 1, max_pixels=DEFAULT_MIN_PIXELS)
    # A small bound of the user's own wins over the usual least size: no picture costs more than was asked for.
    assert Preprocessor(max_pixels=4096).tokens(10, 10) <= 4
