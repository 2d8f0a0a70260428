"""Near-duplicates: items that overall look so alike that one of them stands for the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from search.engine import Ranker
from search.exact import ROW_NORM
from search.vectors import RowVectors
from tpips_model.aspects import OVERALL

__all__ = ["collapse", "near_duplicates"]

# Two identical vectors give a cosine of 1 only to rounding.
ROUNDING = 1e-9
BLOCK_ROWS = 256
FIRST_NEIGHBOURS = 64
MORE_NEIGHBOURS = 8


def collapse(rows: NDArray[np.int64], store: RowVectors, threshold: float, most: int) -> NDArray[np.int64]:
    """Choose, from the best row on, every row that is near none that was chosen before.

    Args:
        rows: int64 (K,), the best first.
        store: The stored vectors, overall among them.
        threshold: The cosine of the overall vectors from which two rows are near, in (0, 1].
        most: How many are enough.

    Returns:
        int64, ascending: the places in ``rows`` of the chosen.
    """
    chosen: list[int] = []
    vectors = np.empty((0, store.dim), np.float64)
    for start in range(0, len(rows), BLOCK_ROWS):
        first = len(chosen)
        block = _unit_overall(store, rows[start : start + BLOCK_ROWS])
        open_ = ~(block @ vectors.T >= threshold - ROUNDING).any(axis=1)
        alike = block @ block.T >= threshold - ROUNDING
        for place in range(len(block)):
            if open_[place]:
                open_ &= ~alike[place]
                chosen.append(start + place)
                if len(chosen) == most:
                    return np.array(chosen, np.int64)
        vectors = np.concatenate([vectors, block[np.array(chosen[first:], np.int64) - start]])
    return np.array(chosen, np.int64)


def near_duplicates(
    rows: NDArray[np.int64],
    engine: Ranker,
    store: RowVectors,
    threshold: float,
    *,
    among: NDArray[np.int64] | None,
    exact: bool | None,
    nprobe: int | None,
) -> list[NDArray[np.int64]]:
    """Return what each of the rows that ``collapse`` chose stands for.

    A row that is near several of them belongs to the first. That is what a collapse of the whole ranking would give
    it to: what is near a chosen row and ranks above it is near an earlier one, else it would have been chosen instead.

    Args:
        rows: int64 (K,), the chosen rows, the best first.
        engine: Finds each one's neighbours.
        store: The stored vectors, overall among them.
        threshold: As for ``collapse``.
        among: int64, ascending: the rows that were ranked; ``None`` means all.
        exact: As ``Engine.top_k`` takes it.
        nprobe: Likewise.

    Returns:
        One int64 array for each row, without the row itself.
    """
    vectors = _unit_overall(store, rows)
    neighbours = _neighbours(vectors, engine, threshold, among=among, exact=exact, nprobe=nprobe)
    taken = {int(row) for row in rows}
    groups = []
    for vector, found in zip(vectors, neighbours, strict=True):
        near = found[_unit_overall(store, found) @ vector >= threshold - ROUNDING]
        group = [row for row in near.tolist() if row not in taken]
        taken.update(group)
        groups.append(np.array(group, np.int64))
    return groups


def _neighbours(
    vectors: NDArray[np.float64],
    engine: Ranker,
    threshold: float,
    *,
    among: NDArray[np.int64] | None,
    exact: bool | None,
    nprobe: int | None,
) -> list[NDArray[np.int64]]:
    """Return for each vector rows among which are all that are near it."""
    found: dict[int, NDArray[np.int64]] = {}
    wanted = FIRST_NEIGHBOURS
    while len(found) < len(vectors):
        left = [number for number in range(len(vectors)) if number not in found]
        queries = [{OVERALL.slug: vectors[number]} for number in left]
        rankings = engine.top_k_batch(queries, wanted, rows=among, exact=exact, nprobe=nprobe)
        for number, ranking in zip(left, rankings, strict=True):
            # The scores are inner products with rows as they are stored, of unit length up to ROW_NORM only.
            if len(ranking.rows) < wanted or ranking.scores[-1] < (threshold - ROUNDING) / ROW_NORM:
                found[number] = ranking.rows
        wanted *= MORE_NEIGHBOURS
    return [found[number] for number in range(len(vectors))]


def _unit_overall(store: RowVectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    vectors = store.gather(OVERALL.slug, rows)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
