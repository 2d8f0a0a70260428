"""Which items of an index are the same picture, byte for byte, and which hardly anybody could tell apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.codes import CODES_FROM_ROWS
from indexer.source_number import split_number
from search.duplicates.near_groups import stars_by_codes, stars_of_all_pairs
from search.engine import Engine
from search.terms import QueryError
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL
from tpips_model.progress_bar import ProgressBar

__all__ = ["DuplicateGroup", "DuplicateReport", "find_duplicates"]

_COLUMNS = ["key", "file", "member", "offset", "size", "width", "height"]
_READ_TOGETHER = 1024


@dataclass(frozen=True)
class DuplicateGroup:
    """Items that are alike.

    Attributes:
        keys: Their keys; first the one that stands for the others: the most pixels, then the most bytes, then the
            first row.
        sizes: The bytes of each one's picture file.
        cosines: How near each one's overall vector is to the first one's; of items of the same bytes, all 1.
    """

    keys: tuple[str, ...]
    sizes: tuple[int, ...]
    cosines: tuple[float, ...]

    @property
    def saved(self) -> int:
        """The bytes of all but the first."""
        return sum(self.sizes[1:])


@dataclass(frozen=True)
class DuplicateReport:
    """What was found.

    Attributes:
        items: How many items were looked at: all that are not removed.
        cosine: From which cosine of the overall vectors on two items are near.
        identical: Groups of the same bytes.
        near: Groups of near items; of items of the same bytes the first one alone takes part. ``None`` if the index has
            no overall vectors.
        exact: Whether no near pair can have been missed.
        compared: How many items' bytes were read and compared: those of the size, width and height of another one.
        unreadable: The keys of items whose bytes could not be compared, and why.
        away: The folders that pictures of items should be in, and that are not there.
        without_picture: How many items name no picture at all.
    """

    items: int
    cosine: float
    identical: tuple[DuplicateGroup, ...]
    near: tuple[DuplicateGroup, ...] | None
    exact: bool
    compared: int
    unreadable: tuple[tuple[str, str], ...]
    away: tuple[str, ...]
    without_picture: int

    def spare_keys(self, limit: int | None = None) -> list[str]:
        """Return the keys of all but the first of each group: each has another item that is like it and stays.

        Args:
            limit: Only those of so many groups of each kind.
        """
        groups = (*self.identical[:limit], *(self.near or ())[:limit])
        return [key for group in groups for key in group.keys[1:]]


def find_duplicates(index: IndexDirectory, *, cosine: float = 0.98, progress: bool = True) -> DuplicateReport:
    """Find the groups of an index's items that are not removed.

    Bytes are compared among items of one size, width and height alone. Overall vectors are compared pair by pair up to
    ``CODES_FROM_ROWS`` items, and beyond where there are no codes; with codes, as an approximate search finds what is
    near.

    Args:
        index: The index.
        cosine: From which cosine of the overall vectors on two items are near, in (0, 1].
        progress: Whether progress bars are shown on standard error.

    Raises:
        QueryError: The cosine is out of range.
        IndexDirectoryError: A part cannot be read, or vectors are damaged.
    """
    if not 0.0 < cosine <= 1.0:
        raise QueryError(f"the cosine must be above 0 and at most 1, but is {cosine}; 0.98 finds what looks the same")
    table = index.live_items(_COLUMNS)
    items = _Items(index, table)
    candidates = _of_equal_size(items)
    same, unreadable = _same_bytes(items, candidates, progress)
    identical = [items.group(places, np.ones(len(places))) for places in same]
    copies = np.concatenate([np.empty(0, np.int64), *(places[1:] for places in same)])
    near, exact = None, True
    if OVERALL in index.aspects:
        distinct = np.delete(np.arange(len(table)), copies)
        near, exact = _near_groups(items, items.preferred(distinct), cosine, progress)
    return DuplicateReport(
        items=len(table),
        cosine=cosine,
        identical=_largest_first(identical),
        near=None if near is None else _largest_first(near),
        exact=exact,
        compared=len(candidates) - len(unreadable),
        unreadable=tuple(unreadable),
        away=items.away(),
        without_picture=int((~items.pictured).sum()),
    )


class _Items:
    """The items that are looked at, by their places among them."""

    def __init__(self, index: IndexDirectory, table: pa.Table) -> None:
        self.index = index
        self.table = table
        live = index.live_rows()
        self.rows = np.arange(len(table), dtype=np.int64) if live is None else live
        self.sizes: NDArray[np.int64] = table["size"].to_numpy()
        self.sides = [table[name].to_numpy().astype(np.int64) for name in ("width", "height")]
        self.pictured = np.array([file != "" for file in table["file"].to_pylist()], bool)

    def away(self) -> tuple[str, ...]:
        """Return the data roots of items with pictures that are not there."""
        files = pc.unique(self.table["file"]).to_pylist()
        sources = sorted({split_number(file)[0] for file in files if file})
        roots = [self.index.data_roots[source] for source in sources if source < len(self.index.data_roots)]
        return tuple(str(root) for root in roots if not root.is_dir())

    def preferred(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return places in the order in which they may stand for others."""
        pixels = self.sides[0][places] * self.sides[1][places]
        return places[np.lexsort((places, -self.sizes[places], -pixels))]

    def records(self, places: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(places), _READ_TOGETHER):
            yield from self.table.take(pa.array(places[start : start + _READ_TOGETHER])).to_pylist()

    def group(self, places: NDArray[np.int64], cosines: NDArray[np.float64]) -> DuplicateGroup:
        keys = self.table["key"].take(pa.array(places)).to_pylist()
        return DuplicateGroup(tuple(keys), tuple(self.sizes[places].tolist()), tuple(cosines.tolist()))


def _same_bytes(
    items: _Items, candidates: NDArray[np.int64], progress: bool
) -> tuple[list[NDArray[np.int64]], list[tuple[str, str]]]:
    """Return the places of those items that have the same bytes, each group in row order, and what cannot be read."""
    by_digest: dict[bytes, list[int]] = {}
    unreadable = []
    records = zip(candidates.tolist(), items.records(candidates), strict=True)
    for place, record in ProgressBar(records, "reading", len(candidates), unit=" images", disable=not progress):
        try:
            data = items.index.item_bytes(record)
        except IndexDirectoryError as error:
            unreadable.append((record["key"], str(error)))
        else:
            by_digest.setdefault(hashlib.sha256(data).digest(), []).append(place)
    return [np.array(places, np.int64) for places in by_digest.values() if len(places) > 1], unreadable


def _of_equal_size(items: _Items) -> NDArray[np.int64]:
    """Return the places of the items whose picture another one's may be, ascending."""
    places = np.flatnonzero(items.pictured)
    facts = np.stack([items.sizes[places], *(side[places] for side in items.sides)], axis=1)
    _, which, counts = np.unique(facts, axis=0, return_inverse=True, return_counts=True)
    return places[counts[which.reshape(-1)] > 1]


def _near_groups(
    items: _Items, places: NDArray[np.int64], cosine: float, progress: bool
) -> tuple[list[DuplicateGroup], bool]:
    index = items.index
    store = StoredVectors.of_index(index)
    rows = items.rows[places]
    by_codes = len(rows) > CODES_FROM_ROWS and OVERALL in index.coded_aspects
    with ProgressBar(total=len(rows), desc="comparing", unit=" images", disable=not progress) as bar:
        if by_codes:
            owner = stars_by_codes(rows, Engine(store, index), store, cosine, advance=bar.update)
        else:
            owner = stars_of_all_pairs(rows, store, cosine, advance=bar.update)
    groups = []
    own = np.arange(len(rows))
    order = np.lexsort((own, owner != own, owner))  # of each group first what stands for it
    for members in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        if len(members) > 1:
            vectors = store.gather(OVERALL.slug, rows[members])
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            groups.append(items.group(places[members], np.clip(vectors @ vectors[0], -1.0, 1.0)))
    return groups, not by_codes


def _largest_first(groups: list[DuplicateGroup]) -> tuple[DuplicateGroup, ...]:
    return tuple(sorted(groups, key=lambda group: (-len(group.keys), -group.saved, group.keys)))
