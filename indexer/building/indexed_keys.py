"""The keys that an index holds, for a build that goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import cached_property

import numpy as np

from indexer.building.key_set import KeySet
from indexer.directory import IndexDirectory
from indexer.file_checks import removed_rows
from indexer.manifest import PartRecord

__all__ = ["IndexedKeys", "item_keys", "live_keys"]


def live_keys(index: IndexDirectory, part: PartRecord) -> list[str]:
    """Return the keys of a part's items that are not removed."""
    keys = index.part_items(part, ["key"])["key"]
    if part.removal_file is not None:
        live = np.ones(part.rows, np.bool_)
        live[removed_rows(index.path, part)] = False
        keys = keys.filter(live)
    found: list[str] = keys.to_pylist()
    return found


def item_keys(before: IndexDirectory | None, written: Callable[[int], list[str]]) -> KeySet:
    """Return the keys of an index's items, to which those of new parts will be added.

    Args:
        before: The index as it is, if there is one.
        written: Gives the keys of a part that is not in it.
    """
    parts = {part.id: part for part in before.manifest.parts} if before is not None else {}

    def stored(number: int) -> list[str]:
        if before is not None and number in parts:
            return live_keys(before, parts[number])
        return written(number)

    keys = KeySet(stored)
    for number in parts:
        keys.add(stored(number), number)
    return keys


class IndexedKeys(Set[str]):
    """The keys of the items and ledger lines of one source of an index, read once somebody asks: most sources do not.

    Args:
        index: The index.
        source: The number of the source. Another's keys may look like this one's, and are not its pictures.
    """

    def __init__(self, index: IndexDirectory, source: int) -> None:
        self._index = index
        self._source = source

    def __contains__(self, key: object) -> bool:
        return key in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> frozenset[str]:
        parts = [part for part in self._index.manifest.parts if part.source == self._source]
        items = (key for part in parts for key in live_keys(self._index, part))
        return frozenset(items).union(line.key for part in parts for line in self._index.part_errors(part))
