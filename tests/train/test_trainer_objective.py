"""What is made small: Equation 2 example by example, and the offers beside it."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from train.loss import odd_one_out_loss
from train.trainer.objective import aspect_contrast_losses, choice_losses, choice_scores, cut


def test_losses_are_equation_2_example_by_example() -> None:
    torch.manual_seed(0)
    scores, votes = torch.randn(5, 3), torch.rand(5, 3).softmax(-1)
    losses = choice_losses(scores, votes, temperature=0.05)
    torch.testing.assert_close(losses.mean(), odd_one_out_loss(scores, votes, temperature=0.05))


def test_2afc_chooses_among_the_similarities_to_the_reference() -> None:
    vectors = torch.tensor([[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]])  # reference, first, second
    scores = choice_scores(vectors, 2)
    torch.testing.assert_close(scores, torch.tensor([[0.6, 0.0]]))
    loss = choice_losses(scores, torch.tensor([[0.75, 0.25]]), temperature=0.3)
    odds = math.exp(0.6 / 0.3)
    expected = -(0.75 * math.log(odds / (odds + 1)) + 0.25 * math.log(1 / (odds + 1)))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_contrast_counts_only_aspects_on_which_people_differ() -> None:
    scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.5, 0.0, 0.0]])
    votes = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1]])
    losses = aspect_contrast_losses(scores, votes, temperature=1.0)
    for aspect, others in enumerate(([1], [0, 2], [1])):
        log_choice = scores[aspect].log_softmax(-1)
        own = votes[aspect] @ log_choice
        logits = torch.stack([own, *(votes[other] @ log_choice for other in others)])
        expected = -logits.log_softmax(0)[0]
        torch.testing.assert_close(losses[aspect], expected)
    assert aspect_contrast_losses(scores[:1], votes[:1], temperature=1.0).tolist() == [0.0]
    assert aspect_contrast_losses(scores[::2], votes[::2], temperature=1.0).tolist() == [0.0, 0.0]


def test_contrast_pulls_a_choice_away_from_the_other_aspects_votes() -> None:
    scores = torch.zeros(2, 3, requires_grad=True)
    votes = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    aspect_contrast_losses(scores, votes, temperature=1.0).sum().backward()
    step = -scores.grad
    assert step[0, 0] > 0 > step[0, 1]
    assert step[1, 1] > 0 > step[1, 0]
    assert step[0, 2] == pytest.approx(0, abs=1e-7)


def test_cut_vectors_are_of_unit_length_again() -> None:
    vectors = functional.normalize(torch.randn(2, 3, 8), dim=-1)
    torch.testing.assert_close(cut(vectors, 4).norm(dim=-1), torch.ones(2, 3))
    torch.testing.assert_close(cut(vectors, 4), functional.normalize(vectors[..., :4], dim=-1))
    assert cut(vectors, None) is vectors
