"""Pictures of items, each decoded once for all models and aspects, a few batches at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from PIL import Image

from tpips_model.aspects import Aspect
from train.evaluation.items import Item
from train.judgements.records import Kind, PictureSource

__all__ = ["OpenItem", "OpenPicture", "open_items"]

# A picture stays open until the last item that shows it. Where a data set shows its pictures all over, this many are
# kept and the least recently shown is decoded again when its turn comes: some gigabytes at a megapixel each.
MOST_OPEN = 2048


# eq=False: compared and hashed as the object it is, so that judges can keep what they computed of it, weakly.
@dataclass(frozen=True, eq=False)
class OpenPicture:
    """A decoded picture.

    Attributes:
        image: RGB, upright.
        aspects: All aspects that any item asks of it.
    """

    image: Image.Image
    aspects: tuple[Aspect, ...]


@dataclass(frozen=True)
class OpenItem:
    """An item with its pictures decoded; attributes as ``Item``."""

    kind: Kind
    pictures: tuple[OpenPicture, ...]
    aspects: tuple[Aspect, ...]


def open_items(items: Sequence[Item], *, batch: int, workers: int = 2) -> Iterator[list[OpenItem]]:
    """Yield items in their order, a batch at a time; the next batch's pictures are decoded meanwhile.

    Args:
        items: What to open.
        batch: How many items at a time, at least one.
        workers: Threads that decode.

    Raises:
        ImageError: A picture cannot be read; the message names it.
    """
    uses = Counter(source for item in items for source in set(item.pictures))
    asked = _asked_aspects(items)
    held: dict[PictureSource, Future[OpenPicture]] = {}
    batches = [items[start : start + batch] for start in range(0, len(items), batch)]
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    try:
        for number, now in enumerate(batches):
            for item in (*now, *(batches[number + 1] if number + 1 < len(batches) else ())):
                for source in item.pictures:
                    if source not in held:
                        held[source] = pool.submit(_open, source, asked[source])
            yield [
                OpenItem(item.kind, tuple(held[source].result() for source in item.pictures), item.aspects)
                for item in now
            ]
            _close(held, uses, now)
    finally:
        pool.shutdown(cancel_futures=True)


def _asked_aspects(items: Sequence[Item]) -> Mapping[PictureSource, tuple[Aspect, ...]]:
    asked: dict[PictureSource, dict[Aspect, None]] = {}
    for item in items:
        for source in item.pictures:
            asked.setdefault(source, {}).update(dict.fromkeys(item.aspects))
    return {source: tuple(aspects) for source, aspects in asked.items()}


def _open(source: PictureSource, aspects: tuple[Aspect, ...]) -> OpenPicture:
    return OpenPicture(source.load(), aspects)


def _close(held: dict[PictureSource, Future[OpenPicture]], uses: Counter[PictureSource], shown: Sequence[Item]) -> None:
    """Let go of the pictures that no later item shows, and of the least recently shown beyond ``MOST_OPEN``."""
    for item in shown:
        for source in set(item.pictures):
            uses[source] -= 1
            future = held.pop(source, None)
            if uses[source] and future is not None:
                held[source] = future  # behind all others: the most recently shown
    for source in list(held)[: max(len(held) - MOST_OPEN, 0)]:
        del held[source]
