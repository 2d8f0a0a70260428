"""The names of the files inside an index directory."""

from __future__ import annotations

from tpips_model.aspects import Aspect

__all__ = [
    "CLUSTERING_FILE",
    "codes_file",
    "errors_file",
    "items_file",
    "lists_file",
    "quantizer_file",
    "vectors_file",
]

# What makes an item's list out of its vectors.
CLUSTERING_FILE = "lists/clustering.safetensors"


def items_file(part: int) -> str:
    """Return the path of a part's items."""
    return f"items/part-{part:05d}.parquet"


def errors_file(part: int) -> str:
    """Return the path of a part's error ledger."""
    return f"errors/part-{part:05d}.parquet"


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
