"""Equation 2: the loss, its likelihoods and its gradient."""

from __future__ import annotations

import pytest
import torch

from train.loss import odd_one_out_loss, odd_one_out_similarities


def draw(seed: int, count: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    similarities = torch.rand(count, 3, generator=generator, dtype=torch.float64) * 2 - 1
    votes = torch.rand(count, 3, generator=generator, dtype=torch.float64)
    return similarities, votes / votes.sum(1, keepdim=True)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
def test_equals_equation_2_written_out(temperature: float) -> None:
    similarities, votes = draw(1)
    odds = (similarities / temperature).exp()
    likelihoods = odds / odds.sum(1, keepdim=True)
    expected = -(votes * likelihoods.log()).sum(1).mean()
    torch.testing.assert_close(odd_one_out_loss(similarities, votes, temperature=temperature), expected)


def test_does_not_depend_on_the_order_of_members_or_on_a_shift() -> None:
    similarities, votes = draw(2)
    loss = odd_one_out_loss(similarities, votes)
    turned = [2, 0, 1]
    torch.testing.assert_close(odd_one_out_loss(similarities[:, turned], votes[:, turned]), loss)
    torch.testing.assert_close(odd_one_out_loss(similarities + 0.4, votes), loss)


def test_is_least_where_the_likelihoods_equal_the_votes() -> None:
    _, votes = draw(3)
    matched = (0.05 * votes.log()).requires_grad_()
    loss = odd_one_out_loss(matched, votes, temperature=0.05)
    (gradient,) = torch.autograd.grad(loss, matched)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)
    torch.testing.assert_close(loss, -(votes * votes.log()).sum(1).mean())


def test_gradient_is_that_of_finite_differences() -> None:
    similarities, votes = draw(4, count=4)
    similarities.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: odd_one_out_loss(s, votes), similarities)


def test_extreme_similarities_stay_finite() -> None:
    votes = torch.tensor([[1.0, 0.0, 0.0]])
    assert torch.isfinite(odd_one_out_loss(torch.tensor([[-1.0, 1.0, 1.0]]), votes, temperature=1e-3))


def test_similarity_k_leaves_member_k_out() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(5)), dim=-1)
    found = odd_one_out_similarities(vectors)
    for k, (i, j) in enumerate([(1, 2), (0, 2), (0, 1)]):
        torch.testing.assert_close(found[:, k], (vectors[:, i] * vectors[:, j]).sum(-1))


def test_bad_input_is_told() -> None:
    with pytest.raises(ValueError, match=r"one shape \(B, 3\).*\(4, 3\) and \(4, 2\)"):
        odd_one_out_loss(torch.zeros(4, 3), torch.zeros(4, 2))
    with pytest.raises(ValueError, match="temperature must be positive, but is 0"):
        odd_one_out_loss(torch.zeros(4, 3), torch.full((4, 3), 1 / 3), temperature=0)
    with pytest.raises(ValueError, match=r"\(\.\.\., 3, D\), but got the shape \(2, 5\)"):
        odd_one_out_similarities(torch.zeros(2, 5))
