"""What a run makes small: Equation 2, and what is offered beside it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from train.loss import odd_one_out_loss, odd_one_out_similarities

__all__ = ["aspect_contrast_losses", "choice_losses", "choice_scores", "cut"]

# Votes of two aspects that differ by less (total variation) say much the same, and are no contrast.
LEAST_CONTRAST = 0.5


def choice_scores(vectors: Tensor, choices: int) -> Tensor:
    """Return how strongly vectors speak for each choice.

    Args:
        vectors: float (A, 3, D), unit rows: an item's three pictures under A aspects.
        choices: 3 for odd-one-out (section 4.1), 2 for 2AFC, whose first picture is the reference (section 3.2).

    Returns:
        float (A, 3), the similarity of the two others; or (A, 2), each candidate's similarity to the reference.
    """
    if choices == 3:
        return odd_one_out_similarities(vectors)
    return (vectors[:, :1] * vectors[:, 1:]).sum(-1)


def choice_losses(scores: Tensor, votes: Tensor, *, temperature: float) -> Tensor:
    """Return each example's cross entropy between votes and softmax(scores / τ) (Equation 2).

    For 2AFC it is the same over two candidates: Appendix C.3 turns similarities into a choice so.

    Args:
        scores: float (A, 3) or (A, 2).
        votes: float, of the same shape, rows that sum to one.
        temperature: τ.

    Returns:
        float (A,).
    """
    if scores.shape[1] == 3:
        rows = zip(scores.split(1), votes.split(1), strict=True)
        return torch.stack([odd_one_out_loss(score, vote, temperature=temperature) for score, vote in rows])
    return functional.cross_entropy(scores / temperature, votes, reduction="none")


def aspect_contrast_losses(scores: Tensor, votes: Tensor, *, temperature: float) -> Tensor:
    """Return for each aspect of an item how badly its choice tells people's votes from those under other aspects.

    With ℓ_ab = Σ_k y_ak log ŷ_bk, the log likelihood of aspect a's votes under the model's choice for aspect b, it is
    −log (exp ℓ_bb / Σ_a exp ℓ_ab), a over b itself and the aspects whose votes differ from b's by at least
    ``LEAST_CONTRAST``: the same pictures under another aspect are the hard negative target. The paper trains every
    aspect by itself, and finds its metric not disentangled from content (section 6).

    Args:
        scores: float (A, C).
        votes: float (A, C).
        temperature: τ.

    Returns:
        float (A,), 0 where no other aspect of the step differs enough.

    Examples:
        >>> votes = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> alike = aspect_contrast_losses(torch.zeros(2, 3), votes, temperature=1.0)
        >>> told = aspect_contrast_losses(4 * votes, votes, temperature=1.0)
        >>> [round(value, 3) for value in (*alike.tolist(), *told.tolist())]
        [0.693, 0.693, 0.018, 0.018]
    """
    likelihood = votes @ (scores / temperature).log_softmax(-1).T  # [a, b]
    apart = (votes[:, None] - votes[None, :]).abs().sum(-1) / 2
    counted = (apart >= LEAST_CONTRAST) | torch.eye(len(votes), dtype=torch.bool, device=votes.device)
    masked = likelihood.masked_fill(~counted, -torch.inf)
    return masked.logsumexp(0) - likelihood.diagonal()


def cut(vectors: Tensor, dim: int | None) -> Tensor:
    """Return unit vectors, float (..., D), cut to their first ``dim`` coordinates (None: all), of unit length again."""
    return vectors if dim is None else functional.normalize(vectors[..., :dim], dim=-1)
