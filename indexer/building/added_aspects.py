"""Adding aspects to parts that are in an index already, from the pictures they were made of."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.building.build_config import BuildError
from indexer.building.embedding import Decoded, decode
from indexer.directory import IndexDirectory
from indexer.file_checks import removed_rows
from indexer.file_names import vectors_file
from indexer.manifest import Manifest, PartRecord
from indexer.part import write_vectors
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["PartJob", "PartTask", "PartVectors", "with_vectors"]

_COLUMNS = ("key", "file", "member", "offset", "size", "width", "height")
_Row = Mapping[str, Any]


@dataclass(frozen=True)
class PartTask:
    """A part and the aspects it lacks.

    Attributes:
        part: The part.
        aspects: The aspects.
    """

    part: PartRecord
    aspects: tuple[Aspect, ...]

    @property
    def name(self) -> str:
        """The name of the shard it came from."""
        return self.part.shards[0]

    @property
    def samples(self) -> int:
        """How many pictures are embedded."""
        return self.part.live

    @property
    def size(self) -> None:
        """Nothing is estimated by a part's bytes."""
        return None


@dataclass(frozen=True)
class PartVectors:
    """A part's vectors under the aspects it lacked: row i of every array belongs to its item i."""

    task: PartTask
    keys: list[str]
    vectors: dict[Aspect, NDArray[np.float32]]

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        return sum(rows.nbytes for rows in self.vectors.values())


@dataclass(frozen=True)
class PartJob:
    """How a part's pictures are embedded again; the same wherever it is done.

    Attributes:
        index: The index.
        batch_size: As in the first pass, so that the vectors are the same as if asked for at once.
    """

    index: IndexDirectory
    batch_size: int

    def work(self, task: PartTask, embedder: Embedder, taken: Container[str]) -> _PartWork:
        """Begin a part; ``taken`` plays no part."""
        return _PartWork(self.index, task, embedder)


class _PartWork:
    def __init__(self, index: IndexDirectory, task: PartTask, embedder: Embedder) -> None:
        self.name = task.name
        self.aspects = task.aspects
        self._index = index
        self._task = task
        self._at_least = embedder.decode_at_least
        self._rows = index.part_items(task.part, _COLUMNS).to_pylist()
        removed = removed_rows(index.path, task.part)
        self._removed = frozenset(removed.tolist())
        # A removed item's picture may be gone; its row is never looked at, but must hold a vector of unit length.
        self._vectors = np.zeros((len(self._rows), len(task.aspects), embedder.dim), np.float32)
        self._vectors[removed, :, 0] = 1.0

    def read(self) -> Iterator[tuple[tuple[int, _Row], bytes]]:
        for number, row in enumerate(self._rows):
            if number not in self._removed:
                yield (number, row), self._index.item_bytes(row)

    def decode(self, owner: tuple[int, _Row], data: bytes) -> Decoded[tuple[int, _Row]]:
        return decode(owner, data, at_least=self._at_least)

    def accept(
        self, owner: tuple[int, _Row], outcome: Decoded[tuple[int, _Row]] | ImageError | None
    ) -> Decoded[tuple[int, _Row]]:
        row = owner[1]
        if not isinstance(outcome, Decoded):
            raise _changed(row, str(outcome)) from outcome
        if (outcome.width, outcome.height) != (row["width"], row["height"]):
            raise _changed(
                row, f"it was {row['width']}×{row['height']} pixels large and is now {outcome.width}×{outcome.height}"
            )
        return outcome

    def take(
        self, batch: Sequence[Decoded[tuple[int, _Row]]], vectors: NDArray[np.float32], refused: dict[int, str]
    ) -> None:
        for position, reason in refused.items():
            raise _changed(batch[position].owner[1], reason)
        self._vectors[[picture.owner[0] for picture in batch]] = vectors

    def reached(self, owner: object) -> None:
        return None

    def result(self) -> PartVectors:
        vectors = {aspect: np.ascontiguousarray(self._vectors[:, i]) for i, aspect in enumerate(self.aspects)}
        return PartVectors(self._task, [row["key"] for row in self._rows], vectors)


def with_vectors(index: Path, manifest: Manifest, *, added: PartVectors) -> Manifest:
    """Write a part's new vectors, and return the manifest that names them.

    Raises:
        ModelError: A vector must not be stored.
        IndexDirectoryError: A file cannot be written.
    """
    part = added.task.part
    files = dict(part.files)
    for aspect, vectors in added.vectors.items():
        files[vectors_file(aspect, part.id)] = write_vectors(
            index, part.id, aspect=aspect, vectors=vectors, keys=added.keys
        )
    parts = (replace(part, files=files) if known.id == part.id else known for known in manifest.parts)
    return replace(manifest, parts=tuple(parts))


def _changed(row: _Row, reason: str) -> BuildError:
    return BuildError(
        f"item {row['key']!r} has changed since it was indexed: {reason}; restore the picture, or build a new index"
    )
