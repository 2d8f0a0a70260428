"""What an export's writers are told, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from indexer.records import ModelRecord

__all__ = ["ExportRequest"]


@dataclass(frozen=True)
class ExportRequest:
    """How to write an export.

    Attributes:
        model: The model that made the vectors, as the export names it.
        dtype: The type of the vectors in the export, ``"float16"`` or ``"float32"``.
        rows_per_file: How many rows a file of the laion layout holds.
        advance: Called with how many more items are written.
    """

    model: ModelRecord
    dtype: str
    rows_per_file: int
    advance: Callable[[int], object]
