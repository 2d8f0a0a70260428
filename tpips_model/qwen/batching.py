"""Which pictures go through the model together."""

from __future__ import annotations

from collections.abc import Sequence

from tpips_model.errors import ModelError

__all__ = ["DEFAULT_MAX_TOKENS_PER_BATCH", "plan_batches"]

DEFAULT_MAX_TOKENS_PER_BATCH = 16384


def plan_batches(tokens: Sequence[int], max_tokens: int = DEFAULT_MAX_TOKENS_PER_BATCH) -> list[list[int]]:
    """Pack rows of similar lengths, so that padding is small and no batch exceeds the budget.

    Args:
        tokens: For each row how many tokens it has.
        max_tokens: Bound on rows × longest row of a batch, padding included. A row over the bound is a batch of its
            own.

    Returns:
        Indices of the rows, each once: within a batch and between batches from long to short, so that a batch too
        large for the memory is the first.

    Raises:
        ModelError: The budget is not positive.

    Examples:
        >>> plan_batches([100, 900, 120, 1000], max_tokens=2000)
        [[3, 1], [2, 0]]
    """
    if max_tokens < 1:
        raise ModelError(f"max_tokens_per_batch is {max_tokens}; give a positive number, such as 16384")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(tokens)), key=lambda row: -tokens[row]):
        if batches and longest * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = tokens[index]
    return batches
