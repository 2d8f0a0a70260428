"""Works read, decoded, embedded and handed on, all at once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.building.decode_ahead import DecodeAhead, Readable
from indexer.building.embedding import Decoded, embed, in_batches
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["Advance", "Result", "Work", "embedded"]

# Called with the name of a work, how many of its bytes are read by now, how many more of its pictures are dealt with,
# and whether they were embedded: those of a batch together, so that it is known exactly which batch is under way.
Advance = Callable[[str, int | None, int, bool], None]


class Result(Protocol):
    """What a work becomes; it can be sent from one process to another."""

    @property
    def keys(self) -> list[str]:
        """The keys of all its pictures, embedded or not."""
        ...

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        ...


class Work(Readable, Protocol):
    """Pictures that are embedded together: a shard, or those of a part that lacks aspects.

    Attributes:
        name: What it is called in the progress.
        aspects: A aspects, under which the pictures are embedded.
    """

    name: str
    aspects: tuple[Aspect, ...]

    def accept(self, owner: Any, outcome: Decoded[Any] | ImageError | None) -> Decoded[Any] | None:
        """Return the picture to be embedded, or note why there is none."""
        ...

    def take(self, batch: list[Decoded[Any]], vectors: NDArray[np.float32], refused: dict[int, str]) -> None:
        """Take an embedded batch, as ``embed`` gives it."""
        ...

    def reached(self, owner: Any) -> int | None:
        """Return how many of the work's bytes are read once this picture is, if that can be told."""
        ...

    def result(self) -> Result:
        """Return what the work became, once all its batches are taken."""
        ...


def embedded(
    works: Iterable[Work], embedder: Embedder, *, batch_size: int, threads: int, advance: Advance
) -> Generator[Result, None, None]:
    """Give what each work becomes, in order; while one is embedded the next pictures are read and decoded.

    What is in a batch depends on the work's pictures alone. Close the iterator if it is not taken to its end.

    Args:
        works: The works; may wait until there are more.
        embedder: The model.
        batch_size: How many pictures are embedded at once.
        threads: How many threads decode.
        advance: Called for each batch, and for each picture that is not embedded.
    """
    with DecodeAhead(works, threads=threads, ahead=2 * batch_size + threads) as ahead:
        for work in ahead.works():
            for batch in in_batches(_accepted(work, ahead, advance), batch_size):
                work.take(batch, *embed(embedder, batch, work.aspects))
                advance(work.name, work.reached(batch[-1].owner), len(batch), True)
            yield work.result()


def _accepted(work: Work, ahead: DecodeAhead[Work], advance: Advance) -> Iterator[Decoded[Any]]:
    for owner, outcome in ahead.pictures():
        picture = work.accept(owner, outcome)
        if picture is None:
            advance(work.name, work.reached(owner), 1, False)
        else:
            yield picture
