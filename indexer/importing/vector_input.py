"""Vectors that somebody else has made, as they are read to be imported: in order, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpips_model.errors import TpipsError

__all__ = ["MAX_DIM", "EmbeddingsError", "VectorInput", "check_dim", "rechunked"]

# As many as a manifest may say.
MAX_DIM = 1 << 20


class EmbeddingsError(TpipsError):
    """Vectors or keys that cannot be imported; the message says which, why and what to do. Nothing is imported then."""


@dataclass(frozen=True)
class VectorInput:
    """The vectors of one aspect.

    Attributes:
        shown: What to call the file or folder in messages.
        rows: N.
        dim: D.
        blocks: Gives float16, float32 or float64 (rows, D) arrays in row order, each of at most so many rows.
    """

    shown: str
    rows: int
    dim: int
    blocks: Callable[[int], Iterator[NDArray[Any]]]


def check_dim(dim: int, *, shown: str) -> None:
    """Check the length of a file's vectors.

    Raises:
        EmbeddingsError: No index has vectors of this length.
    """
    if not 1 <= dim <= MAX_DIM:
        raise EmbeddingsError(
            f"{shown} holds vectors of {dim:,} dimensions, and an index has between 1 and {MAX_DIM:,}"
        )


def rechunked(vectors: VectorInput, rows: int) -> Iterator[NDArray[Any]]:
    """Give an input's vectors in blocks of exactly ``rows`` rows, but for the last.

    Raises:
        EmbeddingsError: The file holds fewer vectors than it says, or cannot be read.
    """
    held: list[NDArray[Any]] = []
    taken = done = 0
    for block in vectors.blocks(rows):
        start = 0
        while start < len(block):
            piece = block[start : start + rows - taken]
            held.append(piece)
            taken += len(piece)
            start += len(piece)
            if taken == rows:
                yield held[0] if len(held) == 1 else np.concatenate(held)
                held, done, taken = [], done + taken, 0
    if held:
        yield np.concatenate(held)
    if done + taken != vectors.rows:
        raise EmbeddingsError(
            f"{vectors.shown} says that it holds {vectors.rows:,} vectors, and gave {done + taken:,}; it is damaged"
        )
