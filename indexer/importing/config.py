"""What an import of vectors is asked to do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from indexer.records import ModelRecord
from tpips_model.aspects import Aspect

__all__ = ["ImportConfig", "ImportSummary"]


@dataclass(frozen=True)
class ImportConfig:
    """One import.

    Attributes:
        out: The index directory to make.
        vectors: For each aspect the place of its vectors.
        export: What ``tpips-index export`` wrote, all aspects of which are taken.
        keys: The place of keys and metadata; by default what lies beside the first aspect's vectors, else numbers.
        pictures: The folder that the items' files are relative to.
        normalise: Whether to scale every vector to unit length.
        model_name: What ``load_model`` takes to embed pictures for queries.
        fingerprint: The model's; by default what an export says, else one of these vectors alone.
        progress: Whether a progress bar is shown on standard error.
    """

    out: Path
    vectors: tuple[tuple[Aspect, str], ...] = ()
    export: str | None = None
    keys: str | None = None
    pictures: Path | None = None
    normalise: bool = False
    model_name: str | None = None
    fingerprint: str | None = None
    progress: bool = True


@dataclass(frozen=True)
class ImportSummary:
    """What one import did.

    Attributes:
        items: N.
        aspects: The aspects.
        model: What the index says of the model.
        key: The column that the keys came from; ``None`` if the items are numbered.
        pictured: How many items name a file of their picture.
        missing: How many items' pictures are not in the folder that was given.
        missing_example: The first of them.
        unsized: How many pictures that are there have no header that tells their size.
        unsized_example: Why, for the first of them.
        left_out: Columns that cannot be metadata: lists, structs, bytes.
    """

    items: int
    aspects: tuple[Aspect, ...]
    model: ModelRecord
    key: str | None
    pictured: int
    missing: int
    missing_example: str
    unsized: int
    unsized_example: str
    left_out: tuple[str, ...]
