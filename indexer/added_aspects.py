"""Adding aspects to parts that are in an index already, from the pictures they were made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from indexer.build_config import BuildError
from indexer.directory import IndexDirectory
from indexer.embedding import Decoded, decode, embed, in_batches
from indexer.file_names import vectors_file
from indexer.manifest import PartRecord
from indexer.part import write_vectors
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["add_aspects"]

_COLUMNS = ("key", "file", "member", "offset", "size", "width", "height")


def add_aspects(
    index: IndexDirectory,
    part: PartRecord,
    embedder: Embedder,
    aspects: Sequence[Aspect],
    *,
    batch_size: int,
    advance: Callable[[], None],
) -> PartRecord:
    """Embed a part's pictures again under the aspects it lacks, and write their vectors.

    Args:
        index: The index.
        part: The part.
        embedder: The model that made the index.
        aspects: The aspects that the part lacks.
        batch_size: As in the first pass, so that the vectors are the same as if asked for at once.
        advance: Called once for each picture.

    Returns:
        The part with the new files; until a manifest names it, nothing has changed.

    Raises:
        BuildError: A picture is no longer what it was.
        IndexDirectoryError: A picture cannot be read, or a file cannot be written.
    """
    rows = index.part_items(part, _COLUMNS).to_pylist()
    blocks = [np.empty((0, len(aspects), embedder.dim), np.float32)]
    for batch in in_batches(_decoded(index, rows, embedder), batch_size):
        vectors, refused = embed(embedder, batch, aspects)
        for position, reason in refused.items():
            raise _changed(batch[position].owner, reason)
        blocks.append(vectors)
        for _ in batch:
            advance()
    keys = [row["key"] for row in rows]
    files = dict(part.files)
    for number, aspect in enumerate(aspects):
        vectors = np.concatenate([block[:, number] for block in blocks])
        files[vectors_file(aspect, part.id)] = write_vectors(
            index.path, part.id, aspect=aspect, vectors=vectors, keys=keys
        )
    return replace(part, files=files)


def _decoded(
    index: IndexDirectory, rows: Sequence[Mapping[str, Any]], embedder: Embedder
) -> Iterator[Decoded[Mapping[str, Any]]]:
    for row in rows:
        try:
            picture = decode(row, index.item_bytes(row), embedder)
        except ImageError as error:
            raise _changed(row, str(error)) from error
        if (picture.width, picture.height) != (row["width"], row["height"]):
            raise _changed(
                row, f"it was {row['width']}×{row['height']} pixels large and is now {picture.width}×{picture.height}"
            )
        yield picture


def _changed(row: Mapping[str, Any], reason: str) -> BuildError:
    return BuildError(
        f"item {row['key']!r} has changed since it was indexed: {reason}; restore the picture, or build a new index"
    )
