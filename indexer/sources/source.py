"""What every source of pictures offers: its shards, and the samples of a shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from indexer.columns import Scalar
from tpips_model.errors import TpipsError

__all__ = ["BadSample", "Indexed", "Sample", "Shard", "Source", "SourceError"]


class SourceError(TpipsError):
    """A place that pictures cannot be read from; the message says what it looks like and what to give instead."""


@dataclass(frozen=True)
class Sample:
    """One picture as the source holds it, not yet decoded.

    Attributes:
        key: Its name in the index, unique within the source and the same on every run.
        data: The bytes of the picture file.
        file: The file that holds them, relative to the source's root, posix slashes.
        member: Its name inside a tar, if it lies in one.
        offset: Where its bytes begin in ``file``; ``None`` if they are the whole file.
        size: How many bytes.
        metadata: Further columns; names must not be those of ``ITEM_SCHEMA``.
    """

    key: str
    data: bytes
    file: str
    member: str | None
    offset: int | None
    size: int
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class BadSample:
    """A line for the error ledger: something that cannot be indexed, or not wholly, and why."""

    key: str
    reason: str


@dataclass(frozen=True)
class Shard:
    """One unit of input work, which becomes one part of the index.

    Attributes:
        name: Unique within the source and the same on every run.
        samples: How many samples and bad samples it gives, if known beforehand.
        size: Its size in bytes, if known; progress is estimated by it where ``samples`` is unknown.
        content: What the source needs to read it.
    """

    name: str
    samples: int | None = None
    size: int | None = None
    content: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Indexed:
    """What an index holds already: keys of items and of ledger lines, and names of shards."""

    keys: Set[str] = frozenset()
    shards: frozenset[str] = frozenset()


class Source(Protocol):
    """A place that pictures come from.

    Attributes:
        kind: Its name in the registry and in the manifest.
        root: The folder that every sample's ``file`` is relative to.
    """

    kind: str
    root: Path

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return what is still to be indexed, in a fixed order.

        Raises:
            SourceError: There are no pictures at all; the message says what is there instead.
        """
        ...

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give a shard's samples in a fixed order, and a bad sample for whatever cannot be read."""
        ...
