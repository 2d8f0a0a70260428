"""Imported vectors made fit to be stored: finite, of unit length, in half precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.importing.vector_input import EmbeddingsError
from indexer.part import NORM_TOLERANCE
from indexer.verifying.vectors import STORED_NORM_TOLERANCE

__all__ = ["unit_halves"]

PIECE_ROWS = 4096


def unit_halves(
    block: NDArray[Any], *, keys: Sequence[str], first: int, shown: str, normalise: bool
) -> NDArray[np.float16]:
    """Return vectors as an index stores them; those that are halves already stay as they are, to the last bit.

    Args:
        block: float16, float32 or float64 (rows, D).
        keys: The rows' keys.
        first: The first row's number in the input.
        shown: What to call the input in messages.
        normalise: Whether to scale every vector to unit length.

    Returns:
        float16 (rows, D), rows of unit length to 2e-3.

    Raises:
        EmbeddingsError: A vector is zero, not finite or, unless they are scaled, not of unit length.
    """
    halves = np.empty(block.shape, "<f2")
    for start in range(0, len(block), PIECE_ROWS):
        piece = block[start : start + PIECE_ROWS].astype(np.float64)
        where = _Rows(keys[start:], first + start, shown)
        peaks = np.abs(piece).max(axis=1)
        where.refuse(~np.isfinite(peaks), "a vector that is not finite", "mend it, or leave it out of all inputs")
        where.refuse(peaks == 0.0, "a vector of zeros", "which has no direction; leave it out of all inputs")
        if normalise:
            piece /= peaks[:, None]  # first, since the squares of large values overflow
            piece /= np.linalg.norm(piece, axis=1, keepdims=True)
        else:
            _check_lengths(piece, where)
        halves[start : start + PIECE_ROWS] = piece
    return halves


def _check_lengths(piece: NDArray[np.float64], where: _Rows) -> None:
    scaled = np.abs(piece).max(axis=1, keepdims=True)
    norms = np.linalg.norm(piece / scaled, axis=1) * scaled[:, 0]
    off = np.abs(norms - 1.0) > NORM_TOLERANCE
    if off.any():
        # What an index holds was of unit length before it was rounded, and may be a little further off since.
        with np.errstate(over="ignore"):  # what overflows is no half
            rounded = (piece[off].astype(np.float16) == piece[off]).all(axis=1)
        off[np.flatnonzero(off)[rounded]] = np.abs(norms[off][rounded] - 1.0) > STORED_NORM_TOLERANCE
    worst = norms[np.argmax(off)]
    where.refuse(
        off,
        f"a vector of length {worst:.6g}",
        f"and an index holds vectors of unit length (±{NORM_TOLERANCE}); add --normalise to scale them all",
    )


class _Rows:
    """Some rows of an input, for messages."""

    def __init__(self, keys: Sequence[str], first: int, shown: str) -> None:
        self._keys = keys
        self._first = first
        self._shown = shown

    def refuse(self, bad: NDArray[np.bool_], what: str, advice: str) -> None:
        """Raise an error if any row is bad, naming the first."""
        if bad.any():
            row = int(np.argmax(bad))
            raise EmbeddingsError(
                f"{self._shown} holds {what} in row {self._first + row:,} (rows count from 0; key "
                f"{self._keys[row]!r:.200}), {advice}"
            )
