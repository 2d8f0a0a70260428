"""Pairs stay in order, and a group's images fit."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tpips_model.qwen.pair_groups import group_pairs, image_size, same_pixels

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(pairs, st.lists(st.integers(1, 9), min_size=6, max_size=6), st.integers(1, 30))
def test_every_pair_is_there_once_in_order_and_groups_fit(
    given_pairs: list[tuple[int, int]], lengths: list[int], max_tokens: int
) -> None:
    left, right = zip(*given_pairs, strict=True)
    groups = group_pairs(left, right, lengths, max_tokens=max_tokens)
    restored = [
        (group.members[i], group.members[j]) for group in groups for i, j in zip(group.left, group.right, strict=True)
    ]
    assert restored == given_pairs
    for group in groups:
        assert len(set(group.members)) == len(group.members)
        assert len(group.left) == 1 or sum(lengths[member] for member in group.members) <= max_tokens


def test_same_pixels_compares_what_is_seen() -> None:
    levels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    picture, tensor = Image.fromarray(levels), torch.rand(3, 6, 8)
    changed = tensor.clone()
    changed[0, 0, 0] += 0.1
    assert image_size(picture) == image_size(tensor) == (6, 8)
    assert same_pixels(picture, picture.copy())
    assert same_pixels(tensor, tensor.clone().requires_grad_())
    assert not same_pixels(picture, picture.rotate(180))
    assert not same_pixels(tensor, changed)
    assert not same_pixels(tensor, tensor[:, :, :4])
    assert not same_pixels(picture, picture.resize((6, 8)))
    assert not same_pixels(picture, tensor)
