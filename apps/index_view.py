"""One version of the index as the app shows it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from apps.filter_choices import Facet, facets_of
from indexer import IndexDirectory
from indexer.file_names import items_file
from indexer.manifest import PartRecord
from indexer.part_of_row import part_of_row
from indexer.thumbnails import THUMBNAIL_SIDE
from search.vectors import StoredVectors

__all__ = ["IndexView", "picture_address", "picture_stamp"]

KEPT_PARTS = 32


class IndexView:
    """What the app makes of one version of an index, once for all sessions; threads may share it.

    Args:
        index: The index, as it was opened.
    """

    def __init__(self, index: IndexDirectory) -> None:
        self.index = index

    @cached_property
    def aspects(self) -> tuple[str, ...]:
        """The aspects that can be asked for, overall last."""
        found = sorted(self.index.aspects, key=lambda aspect: aspect.is_overall)
        return tuple(aspect.text for aspect in found)

    @cached_property
    def facets(self) -> tuple[Facet, ...]:
        """The columns that can be filtered by."""
        return facets_of(self.index)

    @cached_property
    def stamp(self) -> str:
        """What tells this version of the index from others, and from other indices."""
        return "-".join((str(self.index.path), *map(str, self.index.version)))

    @cached_property
    def store(self) -> StoredVectors:
        """The stored vectors."""
        return StoredVectors.of_index(self.index)

    def record(self, row: int) -> dict[str, Any]:
        """Return all columns of one item.

        Raises:
            TpipsError: There is no such row.
        """
        part, place = part_of_row(self.index, row)
        record: dict[str, Any] = self._part(part.id).slice(place, 1).to_pylist()[0]
        return record

    def records(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return all columns of some items, reading only the parts that hold them."""
        return [self.record(row) for row in rows]

    @cached_property
    def _part(self) -> Callable[[int], pa.Table]:
        parts: dict[int, PartRecord] = {part.id: part for part in self.index.manifest.parts}
        return lru_cache(maxsize=KEPT_PARTS)(lambda number: self.index.part_items(parts[number]))

    def sample_rows(self, count: int, seed: int = 0) -> list[int]:
        """Return some rows of items that are not removed, drawn at random but the same for the same seed."""
        live = self.index.live_rows()
        total = self.index.live_count
        places = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        return [int(row) for row in (places if live is None else live[places])]

    def away(self) -> str | None:
        """Return, kindly, that the pictures are not where the index says, or ``None`` where their folder is there."""
        gone = [root for root in self.index.data_roots if not root.exists()]
        if not gone:
            return None
        where = " or ".join(map(str, gone))
        if any(part.has_thumbnails for part in self.index.manifest.parts):
            shown = "Small versions that the index keeps are shown instead; searching works as ever"
        else:
            command = f"tpips-index thumbnails {shlex.quote(str(self.index.path))} --side {THUMBNAIL_SIDE}"
            shown = (
                "Searching works all the same, but there is nothing to show: this index keeps no small versions (made, "
                f"where the pictures are, by {command})"
            )
        return f"The pictures are not in {where}. {shown}. If they have moved, start the app with --data-root FOLDER."


def picture_stamp(index: IndexDirectory, row: int) -> str:
    """Return what tells the picture of a row from that of the same row in another index, or of a later version.

    Raises:
        TpipsError: There is no such row.
    """
    part, _ = part_of_row(index, row)
    return part.files[items_file(part.id)].sha256[:12]


def picture_address(index: IndexDirectory, row: int, size: int) -> str:
    """Return where a browser finds an indexed picture; another picture has another address, so browsers may keep it.

    Raises:
        TpipsError: There is no such row.
    """
    return f"/picture/{row}?size={size}&of={picture_stamp(index, row)}"
