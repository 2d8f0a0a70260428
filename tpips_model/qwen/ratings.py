"""A rating of 0 to 10 read from the logits of an answer (Appendix C.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tpips_model.errors import ModelError

__all__ = ["RatingTokens", "expected_rating", "rating_distribution"]

HIGHEST = 10


@dataclass(frozen=True)
class RatingTokens:
    """How a tokenizer writes the ratings.

    Qwen's tokenizers write every digit as a token of its own, so "10" is "1" and then "0", and the first token alone
    cannot tell 1 from 10. A tokenizer that has a token for "10" is read from the first token alone.

    Attributes:
        single: The token of each rating that is one token: 0…9, or 0…10.
        prefix: The first token of "10" where it takes two (also the token of rating 1), else None.
        ending: The second token of "10", else None.
    """

    single: tuple[int, ...]
    prefix: int | None = None
    ending: int | None = None

    @classmethod
    def of(cls, encode: Callable[[str], Sequence[int]]) -> RatingTokens:
        """Return the tokens of the ratings under a tokenizer's ``encode``.

        Raises:
            ModelError: A rating is written in another way than one token a digit, or a token for "10".
        """
        written = [tuple(encode(str(rating))) for rating in range(HIGHEST + 1)]
        digits, ten = [word[0] for word in written[:HIGHEST] if len(word) == 1], written[HIGHEST]
        if len(set(digits)) == HIGHEST and ten == (digits[1], digits[0]):
            return cls(tuple(digits), prefix=digits[1], ending=digits[0])
        if len(set(digits)) == HIGHEST and len(ten) == 1 and ten[0] not in digits:
            return cls((*digits, *ten))
        raise ModelError(
            f"the tokenizer writes the ratings 0 to 10 as {written}; expected one token a digit, or one token for 10"
        )


def rating_distribution(answer: torch.Tensor, after_one: torch.Tensor | None, tokens: RatingTokens) -> torch.Tensor:
    """Return P(d) over the eleven ratings, normalised over them.

    Where "10" is two tokens, P(10) = P("1")·P("0" | "1") and P(1) = P("1")·(1 − P("0" | "1")): after "1" either the
    "0" follows or the rating is over. P("0" | "1") is taken over the whole vocabulary.

    Args:
        answer: Floating point (…, V), logits of the answer's first token.
        after_one: Floating point (…, V), logits of the token after the answer "1"; None if "10" is one token.
        tokens: How the tokenizer writes the ratings.

    Returns:
        float32 or wider (…, 11), each row summing to one.

    Raises:
        ValueError: "10" is two tokens, and ``after_one`` is missing.
    """
    wide = torch.promote_types(answer.dtype, torch.float32)
    first = answer[..., list(tokens.single)].to(wide).softmax(-1)
    if tokens.ending is None:
        return first
    if after_one is None:
        raise ValueError("10 is two tokens under this tokenizer, so the logits after 1 are needed")
    ten_given_one = after_one.to(wide).softmax(-1)[..., tokens.ending]
    one = first[..., 1]
    split = torch.stack([one * (1 - ten_given_one), one * ten_given_one], dim=-1)
    return torch.cat([first[..., :1], split[..., :1], first[..., 2:], split[..., 1:]], dim=-1)


def expected_rating(distribution: torch.Tensor) -> torch.Tensor:
    """Return E[d] = Σ d·P(d), in [0, 10], of distributions (…, 11)."""
    ratings = torch.arange(HIGHEST + 1, dtype=distribution.dtype, device=distribution.device)
    return distribution @ ratings
