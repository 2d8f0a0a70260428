"""Checking that the pictures of an index are where they were, and which of them are looked at closely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from indexer.directory import IndexDirectory
from indexer.manifest import PartRecord
from indexer.pictures import picture_state
from indexer.verifying.check import Faults, NotCheckedError
from indexer.verifying.stored import StoredIndex
from tpips_model.counted import counted

__all__ = ["SampleRow", "parts_with_pictures", "picture_faults", "sample_rows", "where_pictures_are"]

_COLUMNS = ("key", "file", "member", "offset", "size", "width", "height")


@dataclass(frozen=True)
class SampleRow:
    """One item that is looked at closely: its part, its row within the part, and its columns."""

    part: PartRecord
    row: int
    item: dict[str, Any]


def parts_with_pictures(stored: StoredIndex) -> list[PartRecord]:
    """Return the parts whose items can be read and whose data root is there."""
    roots = stored.index.data_roots
    there = [root.is_dir() for root in roots]
    return [part for part in stored.sound_parts() if there[part.source]]


def where_pictures_are(stored: StoredIndex) -> str:
    """Say which data roots are not there; empty if all are."""
    missing = [str(root) for root in stored.index.data_roots if not root.is_dir()]
    return f"no folder {', '.join(missing)}; say with --data-root where the pictures are now" if missing else ""


def picture_faults(stored: StoredIndex) -> Faults:
    """Find the pictures that are gone or have another size, by a look at every file and without reading any."""
    parts = parts_with_pictures(stored)
    missing = where_pictures_are(stored)
    if not parts and missing:
        raise NotCheckedError(missing)
    count = 0
    with stored.bar(sum(part.live for part in parts), "pictures", " images") as bar:
        for part in parts:
            alone = replace(stored.index.manifest, parts=(part,))
            state = picture_state(IndexDirectory(stored.index.path, alone, stored.index.data_roots))
            for key in state.vanished:
                yield f"the picture of {key!r} is gone"
            for key in state.changed:
                yield f"the picture of {key!r} has changed: its file has another size than when it was indexed"
            count += part.live
            bar.update(part.live)
    return f"files of {counted(count, 'item')}{'; ' + missing if missing else ''}"


def sample_rows(stored: StoredIndex, count: int) -> list[SampleRow]:
    """Return so many live items whose pictures can be there; if there are enough, every part has one.

    Args:
        stored: The index.
        count: How many, at least 1; all items, if there are fewer.
    """
    parts = [part for part in parts_with_pictures(stored) if part.live]
    sample = []
    for part, share in zip(parts, _shares([part.live for part in parts], count), strict=True):
        live = np.flatnonzero(stored.live(part))
        rows = live[(2 * np.arange(share) + 1) * len(live) // (2 * max(share, 1))]
        items = stored.index.part_items(part, _COLUMNS).take(rows).to_pylist()
        sample += [SampleRow(part, int(row), item) for row, item in zip(rows, items, strict=True)]
    return sample


def _shares(rows: Sequence[int], count: int) -> list[int]:
    """Deal ``count`` out over parts of so many rows: one each as far as it goes, the rest by their rows.

    >>> _shares([10, 1, 10], 5), _shares([10, 1, 10], 2), _shares([2, 1], 9)
    ([2, 1, 2], [1, 0, 1], [2, 1])
    """
    count = min(count, sum(rows))
    if count < len(rows):
        chosen = {(2 * number + 1) * len(rows) // (2 * count) for number in range(count)}
        return [int(number in chosen) for number in range(len(rows))]
    extra, more = count - len(rows), max(sum(rows) - len(rows), 1)
    ends = np.cumsum([0, *(one - 1 for one in rows)]) * extra // more
    return [1 + int(step) for step in np.diff(ends)]
