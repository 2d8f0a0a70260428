"""The rows that may still be among the k best, by scores that are right to within a bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["Candidates"]


class Candidates:
    """Rows seen so far whose float32 score is within ``slack`` of the k-th best.

    Args:
        k: How many are wanted.
        slack: By how much a row of the true top k may fall short of the k-th best score.
    """

    def __init__(self, k: int, slack: float) -> None:
        self.k = k
        self.rows = np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)
        self._slack = slack
        self._floor = np.float32(-math.inf)

    def offer(self, scores: NDArray[np.float32], rows: NDArray[np.int64] | int) -> None:
        """Take what is good enough of scores, in any order, of the rows given or counted from a first one."""
        good = np.flatnonzero(scores >= self._floor)  # mostly none
        if len(good) == 0:
            return
        self.scores = np.concatenate([self.scores, scores[good]])
        self.rows = np.concatenate([self.rows, good + rows if isinstance(rows, int) else rows[good]])
        if len(self.scores) >= self.k:
            cut = len(self.scores) - self.k
            kth_best = float(np.partition(self.scores, cut)[cut])
            # Rounded down to a float32, since that is what it is compared with.
            self._floor = np.nextafter(np.float32(kth_best - self._slack), np.float32(-math.inf))
            kept = self.scores >= self._floor
            self.scores, self.rows = self.scores[kept], self.rows[kept]
