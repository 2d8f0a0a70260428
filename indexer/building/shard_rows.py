"""From a shard's samples to the rows of a part: items, vectors and ledger lines that cannot drift apart."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.building.embedding import Decoded, decode
from indexer.columns import Item, LedgerLine
from indexer.sources.source import BadSample, Sample, Shard, Source
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["ShardJob", "ShardRows", "picture_place", "repeat_reason"]

# What the rows of a Python object per item take, roughly; vectors and thumbnails are counted.
_BYTES_PER_ITEM = 1000


@dataclass(frozen=True)
class ShardRows:
    """What a part will hold: row i of every vector array, and thumbnail i, belong to item i."""

    items: list[Item]
    errors: list[LedgerLine]
    vectors: dict[Aspect, NDArray[np.float32]]
    thumbnails: list[bytes] | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of items and ledger lines."""
        return [item.key for item in self.items] + [line.key for line in self.errors]

    @property
    def nbytes(self) -> int:
        """About how much memory the rows take."""
        vectors = sum(rows.nbytes for rows in self.vectors.values())
        return vectors + sum(map(len, self.thumbnails or ())) + _BYTES_PER_ITEM * (len(self.items) + len(self.errors))


@dataclass(frozen=True)
class ShardJob:
    """How shards become rows; the same wherever it is done.

    Attributes:
        source: Where the shards are read.
        aspects: A aspects.
        batch_size: How many pictures are embedded at once.
        thumbnail_side: The longest side of the small pictures that are made, if any.
    """

    source: Source
    aspects: tuple[Aspect, ...]
    batch_size: int
    thumbnail_side: int | None = None

    def work(self, task: Shard, embedder: Embedder, taken: Container[str]) -> _ShardWork:
        """Begin a shard.

        Args:
            task: The shard.
            embedder: The model.
            taken: Keys of items that the index holds already; a sample of such a key becomes a ledger line.
        """
        return _ShardWork(self, task, embedder, taken)


class _ShardWork:
    def __init__(self, job: ShardJob, shard: Shard, embedder: Embedder, taken: Container[str]) -> None:
        self.name = shard.name
        self.aspects = job.aspects
        self._job = job
        self._shard = shard
        self._at_least = embedder.decode_at_least
        self._taken = taken
        self._seen: dict[str, str] = {}
        self._items: list[Item] = []
        self._errors: list[LedgerLine] = []
        self._thumbnails: list[bytes] = []
        self._blocks = [np.empty((0, len(job.aspects), embedder.dim), np.float32)]

    def read(self) -> Iterator[tuple[Sample | BadSample, bytes | None]]:
        for sample in self._job.source.read(self._shard):
            if isinstance(sample, BadSample):
                yield sample, None
            else:
                yield replace(sample, data=b""), sample.data  # the bytes are let go once they are decoded

    def decode(self, owner: Sample, data: bytes) -> Decoded[Sample]:
        return decode(owner, data, at_least=self._at_least, thumbnail_side=self._job.thumbnail_side)

    def accept(self, owner: Sample | BadSample, outcome: Decoded[Sample] | ImageError | None) -> Decoded[Sample] | None:
        if isinstance(owner, BadSample):
            reason = owner.reason
        elif owner.key in self._taken or owner.key in self._seen:
            reason = repeat_reason(picture_place(owner.file, owner.member), self._seen.get(owner.key))
        elif isinstance(outcome, Decoded):
            self._seen[owner.key] = picture_place(owner.file, owner.member)
            return outcome
        else:
            reason = str(outcome)
        self._errors.append(LedgerLine(owner.key, reason))
        return None

    def take(self, batch: list[Decoded[Sample]], vectors: NDArray[np.float32], refused: dict[int, str]) -> None:
        self._blocks.append(vectors)
        for position, picture in enumerate(batch):
            if position in refused:
                self._errors.append(LedgerLine(picture.owner.key, refused[position]))
                continue
            self._items.append(_item(picture))
            if picture.thumbnail is not None:
                self._thumbnails.append(picture.thumbnail)

    def reached(self, owner: Any) -> int | None:
        return owner.offset + owner.size if isinstance(owner, Sample) and owner.offset is not None else None

    def result(self) -> ShardRows:
        # One aspect at a time, so that at most one extra copy of a part's vectors is in memory.
        vectors = {a: np.concatenate([b[:, i] for b in self._blocks]) for i, a in enumerate(self.aspects)}
        thumbnails = self._thumbnails if self._job.thumbnail_side is not None else None
        return ShardRows(self._items, self._errors, vectors, thumbnails)


def picture_place(file: str, member: str | None) -> str:
    """Return how a ledger's line names where a picture is."""
    return file if member is None else f"{file}:{member}"


def repeat_reason(place: str, first: str | None = None) -> str:
    """Return why a picture whose key is taken is not indexed.

    Args:
        place: Where it is.
        first: Where the one is that has the key, if that is known.
    """
    earlier = f" ({first})" if first is not None else ""
    return f"{place} has the key of an earlier picture{earlier}, which is kept"


def _item(picture: Decoded[Sample]) -> Item:
    sample = picture.owner
    return Item(
        key=sample.key,
        file=sample.file,
        member=sample.member,
        offset=sample.offset,
        size=sample.size,
        width=picture.width,
        height=picture.height,
        metadata=sample.metadata,
    )
