"""The odd-one-out objective (Equation 2 of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["DEFAULT_TEMPERATURE", "odd_one_out_loss", "odd_one_out_similarities"]

# Table 8: late and early fusion; mid fusion's is 0.0025.
DEFAULT_TEMPERATURE = 0.05


def odd_one_out_similarities(triplets: Tensor) -> Tensor:
    """Compute s̄: entry k is the similarity of the two members other than k (section 4.1).

    Args:
        triplets: float (..., 3, D), unit rows: the three members' vectors under one aspect.

    Returns:
        float (..., 3) in [−1, 1].

    Raises:
        ValueError: There are not three members.

    Examples:
        >>> s = odd_one_out_similarities(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        >>> s.tolist()  # members 0 and 1 are alike, so 2 is the odd one
        [0.0, 0.0, 1.0]
    """
    if triplets.ndim < 2 or triplets.shape[-2] != 3:
        raise ValueError(f"expected vectors of three members, (..., 3, D), but got the shape {tuple(triplets.shape)}")
    first, second, third = triplets.unbind(-2)
    return torch.stack([(second * third).sum(-1), (first * third).sum(-1), (first * second).sum(-1)], dim=-1)


def odd_one_out_loss(similarities: Tensor, targets: Tensor, *, temperature: float = DEFAULT_TEMPERATURE) -> Tensor:
    """Compute the cross entropy between human votes and the softmax choice model (Equation 2).

    The model chooses member k as the odd one with likelihood ŷ_k = exp(s̄_k / τ) / Σ_m exp(s̄_m / τ), so that the two
    left over are the most similar pair; the loss is the mean over the batch of −Σ_k y_k log ŷ_k.

    Args:
        similarities: float (B, 3); entry k is s̄_k, the similarity of the two members other than k.
        targets: float (B, 3), rows that sum to one; entry k is the share of votes for k as the odd one.
        temperature: τ > 0.

    Returns:
        float (), not negative; zero only where all votes fall on one member and the model is sure of it.

    Raises:
        ValueError: The shapes disagree, or the temperature is not positive.

    Examples:
        Nothing to choose between costs log 3, and the right choice costs less:

        >>> votes = torch.tensor([[0.0, 0.0, 1.0]])
        >>> round(odd_one_out_loss(torch.tensor([[0.2, 0.2, 0.2]]), votes).item(), 4)
        1.0986
        >>> round(odd_one_out_loss(torch.tensor([[0.2, 0.2, 0.3]]), votes, temperature=0.05).item(), 4)
        0.2395
    """
    if similarities.shape != targets.shape or similarities.ndim != 2 or similarities.shape[1] != 3:
        raise ValueError(
            f"expected similarities and targets of one shape (B, 3), but got {tuple(similarities.shape)} and "
            f"{tuple(targets.shape)}"
        )
    if temperature <= 0:
        raise ValueError(f"the temperature must be positive, but is {temperature}")
    return functional.cross_entropy(similarities / temperature, targets)
