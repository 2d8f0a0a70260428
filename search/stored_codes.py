"""What an index stores of its coded aspects: codes, quantisers, and inverted lists if it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.index_codes import IndexCodes
from indexer.quantizer import Quantizer
from search.exact import default_threads
from tpips_model.aspects import Aspect

__all__ = ["StoredCodes"]

# A range is a thread's share of the rows within these bounds; so many are held twice while an index is assembled.
MIN_RANGE_ROWS, MAX_RANGE_ROWS = 1 << 14, 1 << 18


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """What an index stores of its coded aspects.

    Attributes:
        part_rows: How many rows each part holds.
        codes: Gives the parts of an aspect's codes by its slug, uint8 (rows of the part, M / 2).
        quantizer: Gives an aspect's quantiser by its slug.
        slugs: The aspects that are coded.
        list_count: How many inverted lists there are; 0 for none.
        lists: Gives the parts' lists, unsigned (rows of the part,).
    """

    part_rows: Sequence[int]
    codes: Callable[[str], Sequence[NDArray[np.uint8]]]
    quantizer: Callable[[str], Quantizer]
    slugs: frozenset[str]
    list_count: int = 0
    lists: Callable[[], Sequence[NDArray[Any]]] = tuple

    @classmethod
    def of_index(cls, index: IndexDirectory) -> StoredCodes:
        """Return the codes of an opened index."""
        stored = IndexCodes(index)
        aspects: Mapping[str, Aspect] = {aspect.slug: aspect for aspect in index.coded_aspects}
        return cls(
            part_rows=[part.rows for part in index.manifest.parts],
            codes=lambda slug: stored.codes(aspects[slug]),
            quantizer=lambda slug: stored.quantizer(aspects[slug]),
            slugs=frozenset(aspects),
            list_count=index.manifest.list_count,
            lists=stored.lists,
        )

    @cached_property
    def list_numbers(self) -> NDArray[Any]:
        """Each row's list, unsigned (N,).

        Raises:
            IndexDirectoryError: There is no such list.
        """
        numbers = np.concatenate([np.asarray(part) for part in self.lists()])
        if len(numbers) and int(numbers.max()) >= self.list_count:
            raise IndexDirectoryError(
                f"the index's lists are damaged: one has the number {int(numbers.max()):,}, and there are "
                f"{self.list_count:,}; make them anew: tpips-index codes --lists 0, then tpips-index codes --lists N"
            )
        return numbers

    @cached_property
    def list_sizes(self) -> NDArray[np.int64]:
        """How many rows each list holds, int64 (lists,); without lists, of each of the ranges that stand for them."""
        if self.list_count:
            return np.bincount(self.list_numbers, minlength=self.list_count)
        rows = sum(self.part_rows)
        step = max(MIN_RANGE_ROWS, min(MAX_RANGE_ROWS, -(-rows // default_threads())))
        return np.diff([*range(0, rows, step), rows])
