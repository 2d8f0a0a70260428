"""What may be among the best, by a device's scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search.row_scores import DAMAGED

if TYPE_CHECKING:
    import torch

__all__ = ["Best", "Found"]


@dataclass(frozen=True, eq=False)
class Found:
    """Rows that may be among the best of a query.

    Attributes:
        queries: int64 (C,), the number of the query.
        rows: int64 (C,), rows in the whole index.
        scores: float32 (C,), a device's scores, of the scaled query.
    """

    queries: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def concatenated(cls, several: Sequence[Found]) -> Found:
        """Return what several devices or segments have found as one."""
        return cls(
            np.concatenate([each.queries for each in several]),
            np.concatenate([each.rows for each in several]),
            np.concatenate([each.scores for each in several]),
        )


class Best:
    """The columns seen so far that may be among the best of each query.

    Args:
        counts: int64 (B,), how many each query wants, over all devices.
        slack: float32 (B,), by how much a row of the true top k may fall short of the k-th best score.
    """

    def __init__(self, counts: torch.Tensor, slack: torch.Tensor) -> None:
        self._most = int(counts.max())
        self._last = (counts - 1)[:, None]
        self._slack = slack[:, None]
        self._scores = slack.new_empty((len(slack), 0))  # the best of each query, the best first
        self._found = [Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]

    def add(self, scores: torch.Tensor, first: int) -> None:
        """Take scores, float32 (B, columns), of the columns from ``first`` on.

        Raises:
            IndexDirectoryError: One of them is not finite.
        """
        import torch

        if not torch.isfinite(scores).all():
            raise IndexDirectoryError(DAMAGED)
        own = torch.topk(scores, min(self._most, scores.shape[1])).values
        both = torch.cat([self._scores, own], dim=1)
        self._scores = torch.topk(both, min(self._most, both.shape[1])).values
        seen = self._scores.shape[1]
        kth_best = self._scores.gather(1, self._last.clamp(max=seen - 1))
        floor = torch.where(self._last < seen, kth_best - self._slack, -torch.inf)
        queries, columns = (scores >= floor).nonzero(as_tuple=True)
        values = scores[queries, columns]
        self._found.append(Found(queries.cpu().numpy(), (columns + first).cpu().numpy(), values.cpu().numpy()))

    def found(self) -> Found:
        """Return what has been found, columns in place of rows."""
        return Found.concatenated(self._found)
