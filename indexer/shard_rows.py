"""From a shard's samples to the rows of a part: items, vectors and ledger lines that cannot drift apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer.columns import Item, LedgerLine
from indexer.embedding import Decoded, decode, embed, in_batches
from indexer.sources.source import BadSample, Sample
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["ShardRows", "embed_shard"]


@dataclass(frozen=True)
class ShardRows:
    """What a part will hold: row i of every vector array belongs to item i."""

    items: list[Item]
    errors: list[LedgerLine]
    vectors: dict[Aspect, NDArray[np.float32]]


def embed_shard(
    samples: Iterable[Sample | BadSample],
    embedder: Embedder,
    aspects: Sequence[Aspect],
    *,
    batch_size: int,
    taken: Set[str],
    advance: Callable[[Sample | BadSample], None],
) -> ShardRows:
    """Decode and embed a shard's samples under all aspects in one pass.

    Args:
        samples: The shard's samples in order.
        embedder: The model.
        aspects: A aspects.
        batch_size: How many pictures are embedded at once.
        taken: Keys of items that the index holds already; a sample of such a key becomes a ledger line.
        advance: Called with each sample once it is dealt with.
    """
    items: list[Item] = []
    errors: list[LedgerLine] = []
    blocks = [np.empty((0, len(aspects), embedder.dim), np.float32)]
    for batch in in_batches(_decoded(samples, embedder, taken, errors, advance), batch_size):
        vectors, refused = embed(embedder, batch, aspects)
        blocks.append(vectors)
        for position, picture in enumerate(batch):
            if position in refused:
                errors.append(LedgerLine(picture.owner.key, refused[position]))
            else:
                items.append(_item(picture))
            advance(picture.owner)
    # One aspect at a time, so that at most one extra copy of a part's vectors is in memory.
    return ShardRows(items, errors, {a: np.concatenate([b[:, i] for b in blocks]) for i, a in enumerate(aspects)})


def _decoded(
    samples: Iterable[Sample | BadSample],
    embedder: Embedder,
    taken: Set[str],
    errors: list[LedgerLine],
    advance: Callable[[Sample | BadSample], None],
) -> Iterator[Decoded[Sample]]:
    seen: dict[str, str] = {}
    for sample in samples:
        picture = None
        if isinstance(sample, BadSample):
            reason = sample.reason
        elif sample.key in taken or sample.key in seen:
            reason = f"{_place(sample)} has the key of an earlier picture{_earlier(seen.get(sample.key))}"
        else:
            try:
                picture = decode(sample, sample.data, embedder)
            except ImageError as error:
                reason = str(error)
        if picture is None:
            errors.append(LedgerLine(sample.key, reason))
            advance(sample)
        else:
            seen[sample.key] = _place(picture.owner)
            yield picture


def _place(sample: Sample) -> str:
    return sample.file if sample.member is None else f"{sample.file}:{sample.member}"


def _earlier(place: str | None) -> str:
    return f" ({place}), which is kept" if place is not None else ", which is kept"


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
