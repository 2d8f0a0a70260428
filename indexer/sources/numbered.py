"""A source after the first of an index, whose items, shards and files are never mistaken for another's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from indexer.source_number import numbered, split_number
from indexer.sources.source import BadSample, Indexed, Sample, Shard, Source

__all__ = ["NumberedSource"]


class NumberedSource:
    """A source whose names bear its number, and whose keys bear its prefix.

    Args:
        source: The source.
        number: Its place among the sources of the index; the first one's names stay as they are.
        prefix: What its keys begin with, before a slash; empty for none.
    """

    def __init__(self, source: Source, *, number: int, prefix: str) -> None:
        self.kind = source.kind
        self.root: Path = source.root
        self._source = source
        self._number = number
        self._prefix = f"{prefix}/" if prefix else ""

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return what is still to be indexed of this source, in a fixed order."""
        own = (split_number(name) for name in indexed.shards)
        names = frozenset(name for number, name in own if number == self._number)
        cut = len(self._prefix)
        keys = frozenset(key[cut:] for key in indexed.keys if key.startswith(self._prefix)) if cut else indexed.keys
        found = self._source.shards(Indexed(keys=keys, shards=names))
        return [replace(shard, name=numbered(self._number, shard.name)) for shard in found]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give a shard's samples in a fixed order."""
        _, name = split_number(shard.name)
        for sample in self._source.read(replace(shard, name=name)):
            if isinstance(sample, BadSample):
                yield replace(sample, key=self._prefix + sample.key)
            else:
                yield replace(sample, key=self._prefix + sample.key, file=numbered(self._number, sample.file))
