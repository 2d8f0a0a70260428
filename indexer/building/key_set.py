"""The keys of all items of an index in twelve bytes each, and still exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeySet"]

# A block is merged into the one before it unless that one is at least this many times as long, so that there are few
# blocks to look into, and each key is moved few times.
_GROWTH = 4
# How many parts' keys are kept at hand; repeats tend to come from the same few parts.
_KEPT_PARTS = 4


class KeySet:
    """Remembers keys by a hash and the part they are in; what a hash says is confirmed by the part's own keys.

    Args:
        stored: Gives the keys of a part; asked only where a hash is known already.

    Examples:
        >>> parts = [["a", "b"], ["c"]]
        >>> keys = KeySet(parts.__getitem__)
        >>> for number, part in enumerate(parts):
        ...     keys.add(part, number)
        >>> "b" in keys, "d" in keys, len(keys), sorted(keys.among(["c", "d", "a"]))
        (True, False, 3, ['a', 'c'])
    """

    def __init__(self, stored: Callable[[int], Iterable[str]]) -> None:
        self._stored = stored
        self._kept: dict[int, frozenset[str]] = {}
        # Sorted hashes with the part of each, the longest block first.
        self._blocks: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._blocks)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        wanted = np.int64(_hash(key))
        return any(self._holds(block, wanted, key) for block in self._blocks)

    def add(self, keys: Sequence[str], part: int) -> None:
        """Remember the keys of one more part."""
        if len(keys) == 0:
            return
        hashes = _hashes(keys)
        hashes.sort()
        self._blocks.append((hashes, np.full(len(hashes), part, np.int32)))
        while len(self._blocks) > 1 and len(self._blocks[-2][0]) < _GROWTH * len(self._blocks[-1][0]):
            one, other = self._blocks.pop(), self._blocks.pop()
            hashes = np.concatenate((other[0], one[0]))
            parts = np.concatenate((other[1], one[1]))
            order = np.argsort(hashes, kind="stable")  # fast on what is two sorted runs
            self._blocks.append((hashes[order], parts[order]))

    def among(self, keys: Iterable[str]) -> frozenset[str]:
        """Return those of ``keys`` that are in the set."""
        asked = list(dict.fromkeys(keys))
        hashes = _hashes(asked)
        found: set[str] = set()
        for block in self._blocks:
            first = np.searchsorted(block[0], hashes)
            hit = np.flatnonzero(block[0][np.minimum(first, len(block[0]) - 1)] == hashes)
            found.update(asked[row] for row in hit if self._holds(block, hashes[row], asked[row]))
        return frozenset(found)

    def _holds(self, block: tuple[NDArray[np.int64], NDArray[np.int32]], wanted: np.int64, key: str) -> bool:
        hashes, parts = block
        first = int(hashes.searchsorted(wanted))
        while first < len(hashes) and hashes[first] == wanted:
            if key in self._keys_of(int(parts[first])):
                return True
            first += 1
        return False

    def _keys_of(self, part: int) -> frozenset[str]:
        if part not in self._kept:
            if len(self._kept) == _KEPT_PARTS:
                del self._kept[next(iter(self._kept))]
            self._kept[part] = frozenset(self._stored(part))
        return self._kept[part]


def _hashes(keys: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(_hash, keys), np.int64, len(keys))


def _hash(key: str) -> int:
    """Return 64 bits that need only be the same within this process."""
    return hash(key)
