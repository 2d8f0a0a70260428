"""Decoding pictures and embedding them in batches whose composition depends on the pictures alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexer.thumbnails import make_thumbnail
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError, ModelError
from tpips_model.images import to_rgb_with_size

__all__ = ["Decoded", "decode", "embed", "in_batches"]

# Bounds the memory of a batch of large pictures (3 bytes a pixel).
MAX_BATCH_PIXELS = 128_000_000

_Owner = TypeVar("_Owner")


@dataclass(frozen=True)
class Decoded(Generic[_Owner]):
    """A decoded picture and what it belongs to; a small one of it as a file, if that was asked for."""

    owner: _Owner
    image: Image.Image
    width: int
    height: int
    thumbnail: bytes | None = None


def decode(owner: _Owner, data: bytes, *, at_least: int | None, thumbnail_side: int | None = None) -> Decoded[_Owner]:
    """Decode a picture's bytes.

    Args:
        owner: What they belong to.
        data: The bytes.
        at_least: The embedder's ``decode_at_least``: a large picture may be decoded at reduced scale.
        thumbnail_side: The longest side in pixels of the small picture to make of it; ``None`` makes none.

    Raises:
        ImageError: They cannot be decoded; the message is the reason alone.
    """
    try:
        image, (width, height) = to_rgb_with_size(data, at_least=at_least)
        thumbnail = None
        if thumbnail_side is not None:
            # The embedder's picture is kept as it is, so that thumbnails change no vector.
            large_enough = at_least is None or thumbnail_side <= at_least
            thumbnail = make_thumbnail(
                image if large_enough else to_rgb_with_size(data, at_least=thumbnail_side)[0], thumbnail_side
            )
    except ImageError as error:
        raise ImageError(str(error).removeprefix(f"cannot read image bytes ({len(data)} bytes): ")) from error
    return Decoded(owner, image, width, height, thumbnail)


def in_batches(decoded: Iterable[Decoded[_Owner]], batch_size: int) -> Iterator[list[Decoded[_Owner]]]:
    """Give batches of at most ``batch_size`` pictures and ``MAX_BATCH_PIXELS`` pixels, in order."""
    batch: list[Decoded[_Owner]] = []
    pixels = 0
    for picture in decoded:
        more = picture.image.width * picture.image.height
        if batch and (len(batch) == batch_size or pixels + more > MAX_BATCH_PIXELS):
            yield batch
            batch, pixels = [], 0
        batch.append(picture)
        pixels += more
    if batch:
        yield batch


def embed(
    embedder: Embedder, batch: Sequence[Decoded[_Owner]], aspects: Sequence[Aspect]
) -> tuple[NDArray[np.float32], dict[int, str]]:
    """Embed a batch; a picture that the embedder refuses is left out, and the others are embedded one by one.

    Returns:
        float32 (pictures that were embedded, A, D), and the reason for each position in the batch that was refused.
    """
    try:
        return _embed(embedder, batch, aspects), {}
    except ImageError:
        refused: dict[int, str] = {}
        vectors = [np.empty((0, len(aspects), embedder.dim), np.float32)]
        for position, picture in enumerate(batch):
            try:
                vectors.append(_embed(embedder, [picture], aspects))
            except ImageError as error:
                refused[position] = str(error)
        return np.concatenate(vectors), refused


def _embed(embedder: Embedder, batch: Sequence[Decoded[_Owner]], aspects: Sequence[Aspect]) -> NDArray[np.float32]:
    vectors = embedder.embed([picture.image for picture in batch], aspects)
    expected = (len(batch), len(aspects), embedder.dim)
    if vectors.shape != expected or vectors.dtype != np.float32:
        raise ModelError(
            f"the model {embedder.name!r} gave {vectors.dtype} {vectors.shape} for {expected[0]} pictures under "
            f"{expected[1]} aspects, where float32 {expected} is expected"
        )
    return vectors
