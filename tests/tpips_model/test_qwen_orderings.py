"""Averaging over orderings undoes the ordering."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from tpips_model.qwen.orderings import (
    PAIR_ORDERINGS,
    TRIPLET_ORDERINGS,
    average_over_orderings,
    to_original_places,
)


def test_all_orderings_are_used() -> None:
    assert sorted(TRIPLET_ORDERINGS) == sorted(permutations(range(3)))
    assert sorted(PAIR_ORDERINGS) == sorted(permutations(range(2)))


@pytest.mark.parametrize("orderings", [TRIPLET_ORDERINGS, PAIR_ORDERINGS], ids=["triplet", "pair"])
def test_a_model_that_sees_only_the_image_is_left_as_it_is(orderings: tuple[tuple[int, ...], ...]) -> None:
    by_image = torch.rand(5, len(orderings[0])).softmax(-1)
    shown = torch.stack([by_image[:, list(ordering)] for ordering in orderings], dim=1)
    torch.testing.assert_close(average_over_orderings(shown, orderings), by_image)


@pytest.mark.parametrize("orderings", [TRIPLET_ORDERINGS, PAIR_ORDERINGS], ids=["triplet", "pair"])
def test_a_model_that_sees_only_the_place_becomes_undecided(orderings: tuple[tuple[int, ...], ...]) -> None:
    places = torch.tensor([0.7, 0.2, 0.1])[: len(orderings[0])]
    averaged = average_over_orderings(places.expand(len(orderings), -1), orderings)
    torch.testing.assert_close(averaged, places.mean().expand_as(places))


def test_each_row_has_its_own_ordering() -> None:
    images = torch.rand(6, 3)
    orderings = torch.tensor(TRIPLET_ORDERINGS)
    torch.testing.assert_close(to_original_places(images.gather(1, orderings), orderings), images)
