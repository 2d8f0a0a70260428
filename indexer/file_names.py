"""The names of the files inside an index directory."""

from __future__ import annotations

import re

from tpips_model.aspects import Aspect

__all__ = [
    "CLUSTERING_FILE",
    "PART_FOLDERS",
    "codes_file",
    "errors_file",
    "items_file",
    "lists_file",
    "quantizer_file",
    "removed_file",
    "revision_of",
    "thumbnails_file",
    "vectors_file",
]

# What makes an item's list out of its vectors.
CLUSTERING_FILE = "lists/clustering.safetensors"
PART_FOLDERS = ("items", "errors", "aspects", "lists", "removed", "thumbnails")

_REVISED = re.compile(r"(errors/part-\d{5,}|removed/part-\d{5,})(?:\.([1-9]\d{0,11}))?\.(parquet|npy)")


def items_file(part: int) -> str:
    """Return the path of a part's items."""
    return f"items/part-{part:05d}.parquet"


def errors_file(part: int, revision: int = 0) -> str:
    """Return the path of a part's error ledger; each time it is written anew its revision is one more."""
    return f"errors/part-{part:05d}.{revision}.parquet" if revision else f"errors/part-{part:05d}.parquet"


def removed_file(part: int, count: int) -> str:
    """Return the path of the tombstones of a part, by how many they are: there are ever more of them."""
    return f"removed/part-{part:05d}.{count}.npy"


def revision_of(name: str) -> int | None:
    """Return the revision of an error ledger or the count of tombstones in a file's name; ``None`` if it is neither.

    >>> revision_of("errors/part-00003.2.parquet"), revision_of("errors/part-00003.parquet"), revision_of("x")
    (2, 0, None)
    """
    match = _REVISED.fullmatch(name)
    return int(match[2] or 0) if match else None


def vectors_file(aspect: Aspect, part: int) -> str:
    """Return the path of a part's vectors under one aspect."""
    return f"aspects/{aspect.slug}/part-{part:05d}.npy"


def codes_file(aspect: Aspect, part: int) -> str:
    """Return the path of a part's codes under one aspect."""
    return f"aspects/{aspect.slug}/part-{part:05d}.codes.npy"


def quantizer_file(aspect: Aspect) -> str:
    """Return the path of what makes an aspect's codes out of its vectors."""
    return f"aspects/{aspect.slug}/quantizer.safetensors"


def lists_file(part: int) -> str:
    """Return the path of the lists that a part's items belong to."""
    return f"lists/part-{part:05d}.npy"


def thumbnails_file(part: int) -> str:
    """Return the path of small pictures of a part's items."""
    return f"thumbnails/part-{part:05d}.parquet"
