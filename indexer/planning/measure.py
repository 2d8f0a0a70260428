"""How long a model takes for a sample of pictures, how many tokens it makes of each, and what rows they become."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.building.embedding import Decoded, embed, in_batches
from indexer.building.shard_rows import ShardJob, ShardRows
from indexer.sources import BadSample, Indexed, Sample, Shard
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError

__all__ = ["Measured", "Tokens", "measured", "seconds_to_embed", "tokens_of"]


@dataclass(frozen=True)
class Tokens:
    """What a Qwen3-VL model sees of one image.

    Attributes:
        vision: Tokens of the picture, in the mean over the sample.
        text: Tokens of words and markup: those before the picture once, and those of every aspect.
    """

    vision: float
    text: int

    @property
    def per_image(self) -> float:
        """All of them."""
        return self.vision + self.text


@dataclass(frozen=True)
class Measured:
    """What became of a sample.

    Attributes:
        pictures: The pictures that can be decoded.
        decode_seconds: What decoding took for each, on one thread.
        embed_seconds: What embedding took for each; ``None`` if none can be embedded.
        rows: Items, ledger lines, vectors and thumbnails, as of a shard that holds just these.
    """

    pictures: list[Decoded[Sample]]
    decode_seconds: float
    embed_seconds: float | None
    rows: ShardRows


@dataclass
class _Given:
    """A source of one shard: samples that are in memory."""

    samples: Sequence[Sample | BadSample]
    kind: str = "sample"
    root: Path = Path()

    def shards(self, indexed: Indexed) -> list[Shard]:
        return [Shard("sample", samples=len(self.samples))]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        yield from self.samples


def measured(
    samples: Sequence[Sample | BadSample],
    embedder: Embedder,
    aspects: Sequence[Aspect],
    *,
    batch_size: int,
    thumbnail_side: int | None,
    advance: Callable[[], Any],
) -> Measured:
    """Decode a sample and embed it under some aspects as a build does, and time both apart.

    The first picture is decoded, and the first batch embedded, once before it is timed.
    """
    source = _Given(samples)
    (shard,) = source.shards(Indexed())
    work = ShardJob(source, tuple(aspects), batch_size, thumbnail_side).work(shard, embedder, frozenset())
    pictures: list[Decoded[Sample]] = []
    decoding, tried = 0.0, 0
    for owner, data in work.read():
        outcome: Decoded[Sample] | ImageError | None = None
        if isinstance(owner, Sample) and data is not None:
            for _ in range(1 if tried else 2):
                began = time.perf_counter()
                try:
                    outcome = work.decode(owner, data)
                except ImageError as error:
                    outcome = error
                took = time.perf_counter() - began
            decoding, tried = decoding + took, tried + 1
        picture = work.accept(owner, outcome)
        pictures += [picture] if picture is not None else []
        advance()
    embed_seconds, embedded = _embedded(embedder, pictures, aspects, batch_size)
    for batch, given in zip(in_batches(pictures, batch_size), embedded, strict=True):
        work.take(batch, *given)
    return Measured(pictures, decoding / max(tried, 1), embed_seconds, work.result())


def seconds_to_embed(
    embedder: Embedder, pictures: Sequence[Decoded[Any]], aspects: Sequence[Aspect], *, batch_size: int
) -> float | None:
    """Return how long embedding takes for each picture; ``None`` without pictures or aspects.

    The first batch is embedded once before it is timed.
    """
    return _embedded(embedder, pictures, aspects, batch_size)[0] if aspects else None


def _embedded(
    embedder: Embedder, pictures: Sequence[Decoded[Any]], aspects: Sequence[Aspect], batch_size: int
) -> tuple[float | None, list[tuple[NDArray[np.float32], dict[int, str]]]]:
    """Return how long embedding takes for each picture, and what ``embed`` gave of each batch."""
    batches = list(in_batches(pictures, batch_size))
    if not batches:
        return None, []
    embed(embedder, batches[0], aspects)
    began = time.perf_counter()
    embedded = [embed(embedder, batch, aspects) for batch in batches]
    return (time.perf_counter() - began) / len(pictures), embedded


def tokens_of(embedder: Embedder, pictures: Sequence[Decoded[Any]], aspects: Sequence[Aspect]) -> Tokens | None:
    """Return how many tokens a Qwen3-VL model makes of an image under all aspects; ``None`` for another model.

    The picture and what stands before it go through the model once, and the words of every aspect after it.
    """
    backbone = getattr(embedder, "backbone", None)
    if backbone is None or not pictures:
        return None
    from tpips_model.qwen.chat import late_prefix, late_suffix
    from tpips_model.qwen.late_fusion import PROMPTS, LateFusion

    if not isinstance(embedder, LateFusion):
        return None
    vision = sum(backbone.preprocess.tokens(one.image.height, one.image.width) for one in pictures) / len(pictures)
    before = len(late_prefix(backbone.chat, 0, instruction=embedder.instruction))
    words = sum(len(late_suffix(backbone.chat, PROMPTS[embedder.prompt](aspect))) for aspect in aspects)
    return Tokens(vision, before + words)
