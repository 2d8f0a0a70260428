"""Grouping all items by their overall vectors: stars, in which every item is near the one that stands for the group.

Groups are not chains. If a is near b and b near c, but a is not near c, then c stays: whoever removes all but the first
of each group still has, for every item removed, one that is at least as near to it as was asked. It is what ``dedupe``
does with a ranking, done with all items.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from search.engine import Engine
from search.near_duplicates import ROUNDING, collapse, near_duplicates
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL

__all__ = ["stars_by_codes", "stars_of_all_pairs"]

# Rows whose products with all later ones are computed together, and how many of those at once: 32 MB of products.
BLOCK_ROWS = 2048
TILE_ROWS = 4096
# Queries that the engine answers together.
CODED_BLOCK_ROWS = 256
CHECKED_PAIRS = 4096


def stars_of_all_pairs(
    rows: NDArray[np.int64], store: StoredVectors, threshold: float, *, advance: Callable[[int], object]
) -> NDArray[np.int64]:
    """Give every row to the first row that it is near, by the products of all pairs.

    Args:
        rows: int64 (K,), in order of preference: a row is never given to a later one.
        store: The stored vectors, overall among them.
        threshold: The cosine of the overall vectors from which two rows are near, in (0, 1].
        advance: Called with how many more rows are dealt with.

    Returns:
        int64 (K,): the place in ``rows`` of what each row belongs to; its own if it stands for itself.
    """
    stars = _Stars(rows, store, threshold)
    for start in range(0, len(rows), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(rows))
        chosen = stars.choose(start, stop)
        if len(chosen):
            vectors = stars.singles(chosen)
            left = stars.open_places(start, len(rows))
            for first in range(0, len(left), TILE_ROWS):
                stars.give(left[first : first + TILE_ROWS], chosen, vectors)
        advance(stop - start)
    return stars.owners()


def stars_by_codes(
    rows: NDArray[np.int64],
    engine: Engine,
    store: StoredVectors,
    threshold: float,
    *,
    advance: Callable[[int], object],
) -> NDArray[np.int64]:
    """Return what ``stars_of_all_pairs`` does, as far as an approximate search finds what is near."""
    stars = _Stars(rows, store, threshold)
    among = np.sort(rows)
    places = np.argsort(rows)
    for start in range(0, len(rows), CODED_BLOCK_ROWS):
        stop = min(start + CODED_BLOCK_ROWS, len(rows))
        chosen = stars.choose(start, stop)
        if len(chosen):
            found = near_duplicates(rows[chosen], engine, store, threshold, among=among, exact=False, nprobe=None)
            for star, near in zip(chosen.tolist(), found, strict=True):
                stars.take(places[np.searchsorted(among, near)], star)
            # What is near a star of its own block is known, whether or not the search has found it.
            stars.give(stars.open_places(start, stop), chosen, stars.singles(chosen))
        advance(stop - start)
    return stars.owners()


class _Stars:
    """Rows by their places in order of preference, and what each of them belongs to so far."""

    def __init__(self, rows: NDArray[np.int64], store: StoredVectors, threshold: float) -> None:
        self._rows = rows
        self._store = store
        self._threshold = threshold
        self._owner = np.full(len(rows), -1, np.int64)

    def choose(self, start: int, stop: int) -> NDArray[np.int64]:
        """Let stand for themselves, from the first on, all open places that are near none chosen before."""
        places = self.open_places(start, stop)
        if len(places):
            places = places[collapse(self._rows[places], self._store, self._threshold, len(places))]
            self._owner[places] = places
        return places

    def open_places(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the places from ``start`` to ``stop`` that belong to none yet, ascending."""
        return start + np.flatnonzero(self._owner[start:stop] < 0)

    def take(self, places: NDArray[np.int64], star: int) -> None:
        """Give those of some places that are open to a star."""
        self._owner[places[self._owner[places] < 0]] = star

    def give(self, places: NDArray[np.int64], stars: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Give each of some open places to the first of the stars that it is near, if there is one.

        Products in float32 tell which pairs may be near; those that rounding leaves open are computed in float64.

        Args:
            places: The places.
            stars: Stars, ascending.
            vectors: float32 (S, D), the stars' ``singles``.
        """
        least = self._threshold - ROUNDING
        # γ of Higham's section 3.1 for the sum, with three roundings more for each of the vectors.
        slack = 2.0 * (vectors.shape[1] + 8) * 2.0**-24
        places = places[np.argsort(self._rows[places])]  # read in the order in which they are stored
        products = vectors @ self.singles(places).T
        left, right = np.nonzero(products >= np.float32(least - slack))
        near = products[left, right] > least + slack
        unsure = np.flatnonzero(~near)
        for start in range(0, len(unsure), CHECKED_PAIRS):
            pairs = unsure[start : start + CHECKED_PAIRS]
            one, other = self._unit(stars[left[pairs]]), self._unit(places[right[pairs]])
            near[pairs] = (one * other).sum(axis=1) >= least
        # The pairs come star by star, so written from the last to the first the first star stays.
        self._owner[places[right[near][::-1]]] = stars[left[near][::-1]]

    def owners(self) -> NDArray[np.int64]:
        """Return the place that each place belongs to."""
        return np.where(self._owner < 0, np.arange(len(self._owner)), self._owner)

    def singles(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the overall vectors of some places at unit length, float32 (rows, D)."""
        rows = self._rows[places]
        order = np.argsort(rows)
        halves = np.empty((len(rows), self._store.dim), np.float16)
        self._store.gather_halves(OVERALL.slug, rows[order], halves)
        vectors = np.empty(halves.shape, np.float32)
        vectors[order] = halves
        norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
        vectors /= norms[:, None].astype(np.float32)
        return vectors

    def _unit(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        vectors = self._store.gather(OVERALL.slug, self._rows[places])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
