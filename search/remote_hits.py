"""The hits that a server answers, with pictures that are fetched when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexer.thumbnails import make_thumbnail
from search.hits import Hit, Hits, LiveFacts, QueryFacts, QueryTerm
from search.small_pictures import JPEG_QUALITY
from tpips_model.aspects import Aspect
from tpips_model.images import to_rgb

__all__ = ["RemoteHits", "RemoteImage", "read_hits"]


@dataclass(frozen=True, eq=False)
class RemoteImage:
    """The image of a term that was sent.

    Attributes:
        label: What to call it.
        read: Gives the bytes of its file.
    """

    label: str
    read: Callable[[], bytes]

    def image(self, *, at_least: int | None = None) -> Image.Image:
        """Return it as RGB, as ``Hit.image`` does."""
        return to_rgb(self.read(), at_least=at_least)

    def thumbnail(self, side: int) -> bytes:
        """Return it as ``Hit.thumbnail`` does."""
        return make_thumbnail(self.image(at_least=side), side, quality=JPEG_QUALITY)


@dataclass(frozen=True, eq=False)
class _RemoteItems:
    """Where a ``Hit`` gets the bytes of its picture: the place that an index directory has locally."""

    read: Callable[[str], bytes]

    def item_bytes(self, row: Mapping[str, Any]) -> bytes:
        return self.read(row["key"])


class RemoteHits(Hits):
    """Hits as ``Searcher.query`` gives them; ``percentile`` asks the server.

    Args:
        hits: The hits.
        facts: What was asked and how it was answered.
        percentile: Tells a score's percentile for the same query.
    """

    def __init__(self, hits: Sequence[Hit], facts: QueryFacts, percentile: Callable[[float], float]) -> None:
        super().__init__(hits, facts)
        self._percentile = percentile

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> Hits: ...

    def __getitem__(self, index: int | slice) -> Hit | Hits:
        if isinstance(index, slice):
            return RemoteHits(self._hits[index], self._facts, self._percentile)
        return self._hits[index]

    def percentile(self, score: float) -> float:
        """Return how many percent of the items to choose from score lower, as ``Hits.percentile`` does.

        Raises:
            TpipsError: The server cannot be asked any more.
        """
        return self._percentile(score)


def read_hits(
    answer: Mapping[str, Any],
    images: Sequence[RemoteImage],
    *,
    item_bytes: Callable[[str], bytes],
    percentile: Callable[[float], float],
) -> RemoteHits:
    """Return a server's answer as hits.

    Args:
        answer: What ``Hits.to_json`` writes, read.
        images: The images of the terms, in their order.
        item_bytes: Gives the bytes of an item's picture file by its key.
        percentile: As for ``RemoteHits``.

    Raises:
        KeyError, TypeError, ValueError: It is no such answer.
    """
    # Typed as an index directory and a query's image where they are; those read from disk, these from the server.
    items: Any = _RemoteItems(item_bytes)
    sources: list[Any] = list(images)
    facts = QueryFacts(
        terms=tuple(
            QueryTerm(source.label, Aspect(term["aspect"]), float(term["weight"]), source)
            for term, source in zip(answer["terms"], sources, strict=True)
        ),
        overall_penalty=float(answer["overall_penalty"]),
        total=int(answer["total"]),
        where=answer["where"],
        selected=int(answer["selected"]),
        offset=int(answer["offset"]),
        min_score=answer["min_score"],
        dedupe=answer["dedupe"],
        exact=bool(answer["exact"]),
        rescored=int(answer["rescored"]),
        sample_scores=_no_sample,
        probed=answer["probed"],
        live=_live(answer["live"]),
    )
    hits = [
        Hit(
            key=hit["key"],
            score=float(hit["score"]),
            contributions=tuple(float(share) for share in hit["contributions"]),
            row=int(hit["row"]),
            metadata=dict(hit["metadata"]),
            rank=int(hit["rank"]),
            duplicates=tuple(hit["duplicates"]),
            record={"key": hit["key"], **hit["metadata"]},
            index=items,
        )
        for hit in answer["hits"]
    ]
    return RemoteHits(hits, facts, percentile)


def _live(answer: Mapping[str, Any] | None) -> LiveFacts | None:
    if answer is None:
        return None
    return LiveFacts(tuple(answer["aspects"]), int(answer["of"]), int(answer["unreadable"]))


def _no_sample() -> NDArray[np.float64]:
    raise AssertionError("RemoteHits.percentile asks the server and needs no sample of the scores")
