"""The expected rating, with a tokenizer that has no token for 10."""

from __future__ import annotations

import pytest
import torch

from tpips_model.errors import ModelError
from tpips_model.qwen.ratings import RatingTokens, expected_rating, rating_distribution

VOCABULARY = 20
FIRST_DIGIT = 4


def digit_by_digit(text: str) -> list[int]:
    return [FIRST_DIGIT + int(char) for char in text]


def with_a_ten(text: str) -> list[int]:
    return [FIRST_DIGIT + int(text)]


def logits(**probabilities: float) -> torch.Tensor:
    """Logits of a vocabulary in which the digits named d0, d1, … have these probabilities, other tokens the rest."""
    filled = torch.zeros(VOCABULARY, dtype=torch.float64)
    for name, probability in probabilities.items():
        filled[FIRST_DIGIT + int(name[1:])] = probability
    filled[0] = 1 - filled.sum()
    return filled.log()


def test_ten_is_the_product_of_its_two_tokens() -> None:
    tokens = RatingTokens.of(digit_by_digit)
    # 0.2 of the answer is no digit at all and is left out.
    answer = logits(d0=0.1, d1=0.4, d7=0.3)
    after_one = logits(d0=0.75, d1=0.05)
    distribution = rating_distribution(answer, after_one, tokens)
    expected = torch.zeros(11, dtype=torch.float64)
    expected[[0, 1, 7, 10]] = torch.tensor([0.1, 0.4 * 0.25, 0.3, 0.4 * 0.75], dtype=torch.float64) / 0.8
    torch.testing.assert_close(distribution, expected)
    torch.testing.assert_close(expected_rating(distribution), expected @ torch.arange(11, dtype=torch.float64))


def test_a_sure_ten_is_ten_and_a_sure_one_is_one() -> None:
    tokens = RatingTokens.of(digit_by_digit)
    sure_one = logits(d1=1.0)
    assert expected_rating(rating_distribution(sure_one, logits(d0=1.0), tokens)) == 10
    assert expected_rating(rating_distribution(sure_one, logits(), tokens)) == 1


def test_a_token_for_ten_is_read_directly() -> None:
    tokens = RatingTokens.of(with_a_ten)
    assert tokens.prefix is None
    distribution = rating_distribution(logits(d1=0.25, d10=0.75), None, tokens)
    torch.testing.assert_close(expected_rating(distribution), torch.tensor(7.75, dtype=torch.float64))


def test_distributions_sum_to_one_in_batches() -> None:
    tokens = RatingTokens.of(digit_by_digit)
    torch.manual_seed(0)
    answer, after_one = torch.randn(2, 5, VOCABULARY), torch.randn(2, 5, VOCABULARY)
    distribution = rating_distribution(answer, after_one, tokens)
    assert distribution.shape == (2, 5, 11)
    torch.testing.assert_close(distribution.sum(-1), torch.ones(2, 5))
    single = rating_distribution(answer[1, 3], after_one[1, 3], tokens)
    torch.testing.assert_close(distribution[1, 3], single)


def test_the_second_token_is_not_forgotten() -> None:
    with pytest.raises(ValueError, match="logits after 1 are needed"):
        rating_distribution(torch.zeros(VOCABULARY), None, RatingTokens.of(digit_by_digit))


@pytest.mark.parametrize("encode", [lambda text: [3, *digit_by_digit(text)], lambda text: [5]])
def test_other_tokenizers_are_refused(encode: object) -> None:
    with pytest.raises(ModelError, match="writes the ratings 0 to 10 as"):
        RatingTokens.of(encode)  # type: ignore[arg-type]
