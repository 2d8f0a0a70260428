"""The progress bar of a build: images a second and time left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tqdm import tqdm

from indexer.sources.source import BadSample, Sample, Shard

__all__ = ["BuildProgress"]


class BuildProgress:
    """Counts samples; where a source cannot say how many there are, estimates it from the bytes read so far.

    Args:
        bar: The bar to move.
        shards: What will be read.
    """

    def __init__(self, bar: tqdm, shards: Sequence[Shard]) -> None:
        self._bar = bar
        self._bytes = sum(shard.size or 0 for shard in shards)
        self._bytes_before = 0
        self._counted = all(shard.samples is not None for shard in shards)

    def advance(self) -> None:
        """Count one sample."""
        self._bar.update()

    def advance_to(self, sample: Sample | BadSample) -> None:
        """Count this sample of the shard that is being read."""
        self.advance()
        if not self._counted and isinstance(sample, Sample) and sample.offset is not None:
            read = self._bytes_before + sample.offset + sample.size
            self._bar.total = max(self._bar.n, round(self._bar.n * self._bytes / read))

    def end_shard(self, shard: Shard) -> None:
        """Count the rest of a shard's bytes."""
        self._bytes_before += shard.size or 0

    @classmethod
    @contextmanager
    def over(cls, shards: Sequence[Shard], *, label: str, shown: bool) -> Iterator[BuildProgress]:
        """Show a bar over ``shards`` on standard error until the block ends."""
        counts = [shard.samples for shard in shards]
        total = None if None in counts else sum(count or 0 for count in counts)
        with tqdm(total=total, desc=label, unit=" images", disable=not shown, smoothing=0.1) as bar:
            yield cls(bar, shards)
