"""Removing items: they stay stored until the index is compacted, and no reader that opens it afterwards sees them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from indexer.columns import LedgerLine
from indexer.directory import IndexDirectory
from indexer.file_checks import removed_rows
from indexer.file_names import removed_file
from indexer.index_changes import recorded
from indexer.manifest import PartRecord
from indexer.output_folder import remove_leftovers
from indexer.part import with_ledger, write_array

__all__ = ["REMOVED", "RETURNING", "allow_again", "remove_rows"]

# The reason in the ledger that keeps a build from indexing a removed picture again.
REMOVED = "removed from the index"
RETURNING = "was removed from the index, and may be indexed again"


def remove_rows(index: IndexDirectory, rows: NDArray[np.int64], *, again: bool = False) -> IndexDirectory:
    """Remove items, all of them or none; the caller holds the index's lock.

    Args:
        index: The index.
        rows: int64, ascending; those that are removed already are passed over.
        again: Whether a build may index the pictures again, should it meet them.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A file cannot be written.
    """
    parts, first = [], 0
    for part in index.manifest.parts:
        low, high = np.searchsorted(rows, [first, first + part.rows])
        parts.append(_without(index, part, rows[low:high] - first, again=again) if high > low else part)
        first += part.rows
    if all(new is old for new, old in zip(parts, index.manifest.parts, strict=True)):
        return index
    index = recorded(index, replace(index.manifest, parts=tuple(parts)))
    remove_leftovers(index.path, index)
    return index


def allow_again(index: IndexDirectory, keys: Set[str] | None = None) -> tuple[IndexDirectory, int]:
    """Let ``build --retry-failed`` index removed pictures again; the caller holds the index's lock.

    Args:
        index: The index.
        keys: Of which pictures; ``None`` means all.

    Returns:
        The index as it is now, and how many pictures these are.

    Raises:
        IndexDirectoryError: A file cannot be written.
    """
    parts, count = [], 0
    for part in index.manifest.parts:
        before = index.part_errors(part) if part.errors else []
        lines = [
            replace(line, reason=RETURNING) if line.reason == REMOVED and (keys is None or line.key in keys) else line
            for line in before
        ]
        changed = sum(new is not old for new, old in zip(lines, before, strict=True))
        if changed:
            part = with_ledger(index.path, part, lines)
        parts.append(part)
        count += changed
    if count:
        index = recorded(index, replace(index.manifest, parts=tuple(parts)))
        remove_leftovers(index.path, index)
    return index, count


def _without(index: IndexDirectory, part: PartRecord, rows: NDArray[np.int64], *, again: bool) -> PartRecord:
    before = removed_rows(index.path, part)
    rows = np.setdiff1d(rows, before, assume_unique=True)
    if len(rows) == 0:
        return part
    dead = np.union1d(before, rows)
    files = {name: file for name, file in part.files.items() if name != part.removal_file}
    name = removed_file(part.id, len(dead))
    files[name] = write_array(index.path / name, dead.astype("<u4"))
    thinned = replace(part, files=files, removed=len(dead))
    if again:
        return thinned
    keys = index.part_items(part, ["key"])["key"].take(rows).to_pylist()
    return with_ledger(index.path, thinned, [*index.part_errors(part), *(LedgerLine(key, REMOVED) for key in keys)])
