"""Decoding pictures and embedding them in batches whose composition depends on the pictures alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

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
    """A decoded picture and what it belongs to."""

    owner: _Owner
    image: Image.Image
    width: int
    height: int


def decode(owner: _Owner, data: bytes, embedder: Embedder) -> Decoded[_Owner]:
    """Decode a picture's bytes, at reduced scale where the embedder says how large it needs them.

    Raises:
        ImageError: They cannot be decoded; the message is the reason alone.
    """
    try:
        image, (width, height) = to_rgb_with_size(data, at_least=embedder.decode_at_least)
    except ImageError as error:
        raise ImageError(str(error).removeprefix(f"cannot read image bytes ({len(data)} bytes): ")) from error
    return Decoded(owner, image, width, height)


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
