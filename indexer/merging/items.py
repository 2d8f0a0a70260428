"""Which items of merged indices are there already, and what the ledger says of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.building.key_set import KeySet
from indexer.building.shard_rows import picture_place, repeat_reason
from indexer.columns import LedgerLine
from indexer.directory import IndexDirectory
from indexer.file_checks import removed_rows
from indexer.merging.sources import PlacedSource
from indexer.records import PartRecord

__all__ = ["Repeat", "Sieve", "Sifted", "with_repeats"]

_COLUMNS = ("key", "file", "member", "offset")


@dataclass(frozen=True)
class Repeat:
    """An item that is left out.

    Attributes:
        row: Its row within its part.
        key: Its new key.
        place: Where its bytes are, in the words of the part that it is taken from.
        line: What the ledger says of it.
    """

    row: int
    key: str
    place: str
    line: LedgerLine


@dataclass(frozen=True, eq=False)
class Sifted:
    """What is taken of a part.

    Attributes:
        rows: int64, ascending, counted within the part; ``None`` for all.
        repeats: What is left out because it is there already, in row order.
        anchors: The row of each item by its new key, removed ones left out; only if there are repeats.
    """

    rows: NDArray[np.int64] | None
    repeats: tuple[Repeat, ...]
    anchors: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class _Taken:
    """What was taken of a part, to be read again where a hash is met twice."""

    index: IndexDirectory
    part: PartRecord
    source: PlacedSource
    rows: NDArray[np.int64] | None

    def items(self) -> list[dict[str, Any]]:
        table = self.index.part_items(self.part, _COLUMNS)
        return (table if self.rows is None else table.take(self.rows)).to_pylist()

    def keys(self) -> list[str]:
        return [self.source.key(item["key"]) for item in self.items()]

    def spots(self) -> list[str]:
        return [_spot(self.source, item) for item in self.items()]


class Sieve:
    """Lets each key pass once, and each picture of one index; parts come in the order of the new index.

    Memory stays at some bytes an item.

    Args:
        shared: The numbers of the sources that several indices have, whose pictures are told by where they lie.
    """

    def __init__(self, shared: frozenset[int]) -> None:
        self._shared = shared
        self._taken: list[_Taken] = []
        self._keys = KeySet(lambda number: self._taken[number].keys())
        self._spots: list[KeySet] = []

    def sift(self, owner: int, index: IndexDirectory, part: PartRecord, source: PlacedSource) -> Sifted:
        """Return what is taken of the next part.

        Args:
            owner: Which of the indices it is of; never less than before.
            index: The index.
            part: The part.
            source: Its source.
        """
        while len(self._spots) <= owner:
            self._spots.append(KeySet(lambda number: self._taken[number].spots()))
        rows = np.delete(np.arange(part.rows, dtype=np.int64), removed_rows(index.path, part))
        items = index.part_items(part, _COLUMNS).take(rows).to_pylist()
        keys = [source.key(item["key"]) for item in items]
        spots = [_spot(source, item) if item["file"] else "" for item in items if source.number in self._shared]
        known_keys = self._keys.among(keys)
        known_spots = frozenset().union(*(earlier.among(spots) for earlier in self._spots[:owner])) - {""}
        repeats = []
        for position, (row, item, key) in enumerate(zip(rows.tolist(), items, keys, strict=True)):
            place = picture_place(source.name(item["file"]), item["member"])
            if spots and spots[position] in known_spots:
                reason = f"{place} is a picture of an earlier index too, whose item is kept"
            elif key in known_keys:
                reason = repeat_reason(place)
            else:
                continue
            repeats.append(Repeat(row, key, picture_place(item["file"], item["member"]), LedgerLine(key, reason)))
        gone = {repeat.row for repeat in repeats}
        stays = np.array([row not in gone for row in rows.tolist()], np.bool_)
        taken = None if len(rows[stays]) == part.rows else rows[stays]
        self._taken.append(_Taken(index, part, source, taken))
        number = len(self._taken) - 1
        self._keys.add([key for key, kept in zip(keys, stays, strict=True) if kept], number)
        if spots:
            self._spots[owner].add([spot for spot, kept in zip(spots, stays, strict=True) if kept and spot], number)
        anchors = dict(zip(keys, rows.tolist(), strict=True)) if repeats else {}
        return Sifted(taken, tuple(repeats), anchors)


def _spot(source: PlacedSource, item: Mapping[str, Any]) -> str:
    return f"{source.name(item['file'])}\0{item['member']}\0{item['offset']}"


def with_repeats(lines: Sequence[LedgerLine], sifted: Sifted) -> list[LedgerLine]:
    """Add what is left out to a part's ledger, as a build would have noted it.

    A line about an item comes behind those about earlier ones. Lines about what never became an item cannot be told
    from each other; they stay where they are.

    Args:
        lines: The part's ledger, with new keys.
        sifted: What is taken of the part.
    """
    places = {repeat.key: repeat.place for repeat in sifted.repeats}
    waiting = deque(sifted.repeats)
    found = []
    for line in lines:
        row = sifted.anchors.get(line.key, -1)
        while waiting and waiting[0].row <= row:
            found.append(waiting.popleft().line)
        # Of two pictures of one key in this part, the first is no longer the one that is kept.
        here = repeat_reason("", places.get(line.key, ""))
        if line.key in places and line.reason.endswith(here):
            line = LedgerLine(line.key, repeat_reason(line.reason.removesuffix(here)))
        found.append(line)
    return [*found, *(repeat.line for repeat in waiting)]
