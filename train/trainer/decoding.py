"""Pictures decoded ahead of the updates that need them, each once an update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from PIL import Image

from train.judgements.records import PictureSource
from train.trainer.order import MicroBatch

__all__ = ["DecodedPictures"]


class DecodedPictures:
    """Decodes in threads; while one update is computed, the next one's pictures are made ready.

    Args:
        workers: Threads.
    """

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="decode")
        self._pending: dict[PictureSource, Future[Image.Image]] = {}

    def of(
        self, batches: Iterable[MicroBatch], ahead: Iterable[MicroBatch] = ()
    ) -> Mapping[PictureSource, Image.Image]:
        """Return the pictures of an update, and begin on those of the next.

        Raises:
            ImageError: One cannot be read; the message names it.
        """
        now, later = _sources(batches), _sources(ahead)
        pending = {source: self._pending.get(source) or self._pool.submit(source.load) for source in now}
        self._pending = {source: pending.get(source) or self._begun(source) for source in later}
        return {source: future.result() for source, future in pending.items()}

    def _begun(self, source: PictureSource) -> Future[Image.Image]:
        return self._pending.get(source) or self._pool.submit(source.load)

    def __enter__(self) -> DecodedPictures:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _sources(batches: Iterable[MicroBatch]) -> list[PictureSource]:
    """The pictures of micro-batches, each once, in order; repeats of weight 0 count, since they are computed."""
    return list(
        dict.fromkeys(picture for batch in batches for judgement in batch.judgements for picture in judgement.pictures)
    )
