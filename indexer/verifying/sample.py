"""Looking closely at a sample of an index: its pictures decoded, embedded again and compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexer.building.embedding import Decoded, embed, in_batches
from indexer.file_names import thumbnails_file, vectors_file
from indexer.manifest import IndexDirectoryError
from indexer.thumbnails import index_thumbnail, make_thumbnail
from indexer.verifying.pictures import SampleRow
from indexer.verifying.stored import StoredIndex
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError
from tpips_model.images import to_rgb, to_rgb_with_size

__all__ = ["SampleFaults", "look_at_sample", "stated_tolerance"]

_BATCH = 32
# 1 − cosine between what is stored and what is made again. Half precision and other batches account for less than 1e-6
# in float32; decoders of other versions, which round other pixels, for the rest. In 16 bits a model rounds more.
_TOLERANCE, _ROUGH_TOLERANCE = 1e-4, 1e-2
# A thumbnail and one made again, both shrunk to so many pixels a side, may differ there by so many of 255 levels.
_SMALL, _LEVELS = 8, 10.0


@dataclass
class SampleFaults:
    """What was found in a sample.

    Attributes:
        decoded: Pictures that cannot be read or decoded, or have another width or height.
        thumbnails: Thumbnails that are not those of their picture.
        vectors: Vectors that are not those of their picture.
        pictures: How many pictures were decoded.
        compared: How many vectors were compared.
        small: How many thumbnails were compared.
        least: The least cosine.
    """

    decoded: list[str] = field(default_factory=list)
    thumbnails: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    pictures: int = 0
    compared: int = 0
    small: int = 0
    least: float = 1.0


def stated_tolerance(model: str) -> float:
    """Return how far the cosine of a vector made again may be below 1 for a model of this name.

    >>> stated_tolerance("mini"), stated_tolerance("models/late?dtype=bfloat16")
    (0.0001, 0.01)
    """
    dtype = parse_qs(model.rpartition("?")[2]).get("dtype", ["float32"])[0]
    return _TOLERANCE if dtype == "float32" else _ROUGH_TOLERANCE


def look_at_sample(
    stored: StoredIndex, sample: Sequence[SampleRow], embedder: Embedder | None, *, tolerance: float
) -> SampleFaults:
    """Decode every picture of a sample once, and compare what is stored of it.

    Args:
        stored: The index.
        sample: What is looked at.
        embedder: The model that made the index; ``None`` leaves the vectors out.
        tolerance: How far a cosine may be below 1.
    """
    found = SampleFaults()
    aspects = [aspect for aspect in stored.index.manifest.aspects if any(row.part.has(aspect) for row in sample)]
    with stored.bar(len(sample), "decoding and embedding", " images") as bar:
        for batch in in_batches(_decoded(stored, sample, embedder, found), _BATCH):
            found.pictures += len(batch)
            for picture in batch:
                _compare_thumbnail(stored, picture, found)
            if embedder is not None:
                vectors, refused = embed(embedder, batch, aspects)
                kept = (one.owner for position, one in enumerate(batch) if position not in refused)
                found.vectors += [
                    f"{batch[position].owner.item['key']!r} can no longer be embedded: {reason}"
                    for position, reason in refused.items()
                ]
                for row, fresh in zip(kept, vectors, strict=True):
                    _compare(stored, row, dict(zip(aspects, fresh, strict=True)), found, tolerance)
            bar.update(len(batch))
    return found


def _decoded(
    stored: StoredIndex, sample: Sequence[SampleRow], embedder: Embedder | None, found: SampleFaults
) -> Iterator[Decoded[SampleRow]]:
    at_least = embedder.decode_at_least if embedder is not None else None
    for row in sample:
        item = row.item
        if not item["file"]:
            continue  # imported without a picture
        try:
            image, (width, height) = to_rgb_with_size(stored.index.item_bytes(item), at_least=at_least)
        except (IndexDirectoryError, ImageError) as error:
            key = repr(item["key"])
            found.decoded.append(str(error) if key in str(error) else f"item {key}: {error}")
            continue
        # Of imported items nobody may have looked at the pictures: 0 is "unknown".
        if item["width"] and item["height"] and (width, height) != (item["width"], item["height"]):
            found.decoded.append(
                f"item {item['key']!r} was {item['width']}×{item['height']} pixels large and is {width}×{height}"
            )
        yield Decoded(row, image, width, height)


def _compare(
    stored: StoredIndex,
    row: SampleRow,
    fresh: dict[Aspect, NDArray[np.float32]],
    found: SampleFaults,
    tolerance: float,
) -> None:
    for aspect, vector in fresh.items():
        if not row.part.has(aspect) or not stored.sound(vectors_file(aspect, row.part.id)):
            continue
        kept = stored.index.part_vectors(row.part, aspect)[row.row].astype(np.float64)
        with np.errstate(invalid="ignore"):  # what is not finite has no cosine, and is found by that
            cosine = float(kept @ vector / max(float(np.linalg.norm(kept) * np.linalg.norm(vector)), 1e-12))
        found.compared += 1
        found.least = min(found.least, cosine)
        if not cosine >= 1.0 - tolerance:
            found.vectors.append(
                f"the vector of {row.item['key']!r} under {aspect.text!r} has cosine {cosine:.6f} with the one that "
                f"its picture gives now, where at least {1.0 - tolerance:g} is expected"
            )


def _compare_thumbnail(stored: StoredIndex, picture: Decoded[SampleRow], found: SampleFaults) -> None:
    row = picture.owner
    if not row.part.has_thumbnails or not stored.sound(thumbnails_file(row.part.id)):
        return
    key = row.item["key"]
    try:
        data = index_thumbnail(stored.index, stored.first_row(row.part) + row.row)
        if not data:
            return  # of a picture that could not be read when the others were made
        thumbnail = to_rgb(data)
    except (IndexDirectoryError, ImageError) as error:
        found.thumbnails.append(f"the thumbnail of {key!r} cannot be read: {error}")
        return
    found.small += 1
    scale = max(thumbnail.size) / max(picture.width, picture.height)
    sides = picture.width * scale, picture.height * scale
    if any(abs(side - wanted) > 1 for side, wanted in zip(thumbnail.size, sides, strict=True)):
        found.thumbnails.append(
            f"the thumbnail of {key!r} is {thumbnail.width}×{thumbnail.height} pixels large, and its picture "
            f"{picture.width}×{picture.height}"
        )
        return
    again = to_rgb(make_thumbnail(picture.image, max(thumbnail.size)))
    off = float(np.abs(_shrunk(thumbnail) - _shrunk(again)).mean())
    if off > _LEVELS:
        found.thumbnails.append(
            f"the thumbnail of {key!r} shows another picture: they differ by {off:.0f} of 255 levels in the mean"
        )


def _shrunk(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image.resize((_SMALL, _SMALL), Image.Resampling.BOX), np.float64)
