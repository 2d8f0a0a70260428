"""The items of an index and their vectors together, block by block, without those that are removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns import concat_items
from indexer.directory import IndexDirectory
from indexer.manifest import IndexDirectoryError, PartRecord
from indexer.source_number import split_number
from tpips_model.aspects import Aspect

__all__ = ["ExportRows", "RowBlock"]

# Bounds what is in memory of a block: 32 MB of halves, and the items beside them.
BLOCK_VALUES = 1 << 24
MAX_BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class RowBlock:
    """Some items and their vectors: row i of each array belongs to row i of the table.

    Attributes:
        items: The items' columns.
        vectors: float16 (rows, D) by aspect.
    """

    items: pa.Table
    vectors: dict[Aspect, NDArray[np.float16]]

    def cut(self, start: int, stop: int) -> RowBlock:
        """Return rows ``start`` to ``stop``."""
        vectors = {aspect: rows[start:stop] for aspect, rows in self.vectors.items()}
        return RowBlock(self.items.slice(start, stop - start), vectors)


class ExportRows:
    """What an index holds, as it leaves it.

    An item of the index's second source or a later one names its file below the source's prefix, as its key does.

    Args:
        index: The index.
        aspects: Complete aspects of it.
    """

    def __init__(self, index: IndexDirectory, aspects: Sequence[Aspect]) -> None:
        self.index = index
        self.aspects = tuple(aspects)
        self.count = index.live_count

    @cached_property
    def schema(self) -> pa.Schema:
        """The items' columns in all parts together."""
        parts = self.index.manifest.parts
        return concat_items([self.index.part_items(part).schema.empty_table() for part in parts]).schema

    def blocks(self, *, cut_at: int | None = None) -> Iterator[RowBlock]:
        """Give all items in row order, in blocks of bounded size.

        Args:
            cut_at: End a block after every so many items, too.

        Raises:
            IndexDirectoryError: A part cannot be read, or a vector is not finite.
        """
        most = max(1, min(MAX_BLOCK_ROWS, BLOCK_VALUES // (self.index.dim * max(len(self.aspects), 1))))
        held: list[RowBlock] = []
        done = taken = 0
        for piece in self._pieces(most):
            start = 0
            while start < len(piece.items):
                room = min(most, cut_at - done % cut_at if cut_at else most) - taken
                stop = min(start + room, len(piece.items))
                held.append(piece.cut(start, stop))
                taken += stop - start
                if stop - start == room:
                    yield self._joined(held)
                    held, done, taken = [], done + taken, 0
                start = stop
        if held:
            yield self._joined(held)

    def _pieces(self, most: int) -> Iterator[RowBlock]:
        live = self.index.live_rows()
        first = 0
        for part in self.index.manifest.parts:
            rows = np.arange(part.rows) if live is None else _between(live, first, first + part.rows) - first
            first += part.rows
            if len(rows) == 0:
                continue
            items = self._files_by_prefix(self.index.part_items(part))
            arrays = {aspect: self.index.part_vectors(part, aspect) for aspect in self.aspects}
            for start in range(0, len(rows), most):
                some = rows[start : start + most]
                vectors = {aspect: self._finite(array[some], aspect, part) for aspect, array in arrays.items()}
                yield RowBlock(items.take(pa.array(some, pa.int64())), vectors)

    def _joined(self, blocks: Sequence[RowBlock]) -> RowBlock:
        items = concat_items([self.schema.empty_table(), *(block.items for block in blocks)]).combine_chunks()
        vectors = {
            aspect: np.concatenate([block.vectors[aspect] for block in blocks]) if len(blocks) > 1 else rows
            for aspect, rows in blocks[0].vectors.items()
        }
        return RowBlock(items, vectors)

    def _files_by_prefix(self, items: pa.Table) -> pa.Table:
        sources = self.index.manifest.sources
        if len(sources) == 1:
            return items
        places = map(split_number, items["file"].to_pylist())
        files = [f"{sources[number].prefix}/{name}" if number else name for number, name in places]
        column = items.schema.get_field_index("file")
        return items.set_column(column, items.schema.field(column), pa.array(files, pa.string()))

    def _finite(self, rows: NDArray[np.float16], aspect: Aspect, part: PartRecord) -> NDArray[np.float16]:
        if not np.isfinite(rows).all():
            raise IndexDirectoryError(
                f"the stored vectors under {aspect.text!r} in part {part.id} of {self.index.path} are damaged "
                "(tpips-index info --verify tells which); build the index anew"
            )
        return rows


def _between(rows: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    low, high = np.searchsorted(rows, [start, stop])
    return rows[low:high]
