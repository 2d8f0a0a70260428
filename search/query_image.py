"""The images of a query: keys of indexed items or pictures, told apart, embedded once, and recognised again."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexer import IndexDirectory, IndexDirectoryError
from indexer.thumbnails import make_thumbnail
from search.items import Items
from search.small_pictures import JPEG_QUALITY, item_thumbnail
from search.terms import QueryError
from search.vectors import RowVectors
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError, ModelError
from tpips_model.images import ImageLike, to_rgb

__all__ = ["QueryImage", "embed_pictures", "find_image", "stored_unit_vectors"]

UNIT_TOLERANCE = 1e-3
MAX_LABEL = 60
# Decoded, twelve megapixels take 36 MB.
PICTURES_AT_ONCE = 16


@dataclass(eq=False)
class QueryImage:
    """One distinct image of a query.

    Attributes:
        label: What to call it: the key, the file's name, or the kind of picture.
        identity: Equal for two terms that give the same image.
        row: The item's row, if the image was given by key.
        picture: The picture, if it was not.
        vectors: float64 (D,), unit vectors by slug, once embedded.
    """

    label: str
    identity: tuple[str, object]
    row: int | None
    picture: ImageLike | None
    index: IndexDirectory = field(repr=False)
    items: Items = field(repr=False)
    vectors: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @property
    def stored_size(self) -> int | None:
        """The bytes of the image's file, or ``None`` if it came as pixels or its file has vanished."""
        if self.row is not None:
            return int(self.items.sizes[self.row])
        if isinstance(self.picture, (str, os.PathLike)):
            return Path(self.picture).stat().st_size if _is_file(Path(self.picture)) else None
        return len(self.picture) if isinstance(self.picture, bytes) else None

    def stored_bytes(self) -> bytes | None:
        """Return the bytes of the image's file, or ``None`` if it came as pixels or its file has vanished.

        They serve to recognise an indexed copy; without them it is recognised by its vectors alone.
        """
        try:
            if self.row is not None:
                return self.index.item_bytes(self._record())
            if isinstance(self.picture, (str, os.PathLike)):
                return Path(self.picture).read_bytes()
        except (IndexDirectoryError, OSError):
            return None
        return self.picture if isinstance(self.picture, bytes) else None

    def image(self, *, at_least: int | None = None) -> Image.Image:
        """Return the image as RGB; ``at_least`` as in ``tpips_model.images.to_rgb``.

        Raises:
            IndexDirectoryError: The item's picture cannot be read where it was when it was indexed.
            ImageError: The picture cannot be decoded.
        """
        if self.row is not None:
            return to_rgb(self.index.item_bytes(self._record()), at_least=at_least)
        assert self.picture is not None
        return to_rgb(self.picture, at_least=at_least)

    def thumbnail(self, side: int) -> bytes:
        """Return the image as an upright JPEG of at most ``side`` pixels a side; the index's thumbnail, if it will do.

        Raises:
            IndexDirectoryError: The item's picture cannot be read, and has no thumbnail.
            ImageError: The picture cannot be decoded.
        """
        if self.row is not None:
            return item_thumbnail(self.index, self.row, self._record(), side)
        return make_thumbnail(self.image(at_least=side), side, quality=JPEG_QUALITY)

    def _record(self) -> dict[str, Any]:
        return self.items.records(np.array([self.row], np.int64))[0]


def find_image(image: ImageLike, index: IndexDirectory, items: Items) -> QueryImage:
    """Tell what a term's image is.

    Args:
        image: A ``str`` is looked up among the keys first and is the path of a file otherwise; all else is a picture.
        index: The index.
        items: The index's items.

    Raises:
        QueryError: A ``str`` that is neither a key nor a file, or a path without a file.
    """
    if isinstance(image, str):
        row = items.keys.row(image)
        if row is not None:
            return QueryImage(image, ("row", row), row, None, index, items)
    if isinstance(image, (str, os.PathLike)):
        path = Path(image)
        if not _is_file(path):
            raise QueryError(_not_found(image, index, items))
        return QueryImage(path.name, ("path", os.path.realpath(path)), None, image, index, items)
    if isinstance(image, bytes):
        return QueryImage(f"picture of {len(image):,} bytes", ("bytes", image), None, image, index, items)
    name = getattr(image, "filename", None) if isinstance(image, Image.Image) else None
    label = Path(name).name if isinstance(name, str) and name else f"{type(image).__name__} picture"
    return QueryImage(label, ("object", id(image)), None, image, index, items)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long for the file system, or with a null character, is no file
        return False


def _not_found(image: str | os.PathLike[str], index: IndexDirectory, items: Items) -> str:
    name = str(image)
    shown = repr(name if len(name) <= 4 * MAX_LABEL else name[: 4 * MAX_LABEL] + "…")
    reasons = [line["reason"] for line in index.errors().to_pylist() if line["key"] == name]
    if reasons:
        return f"{shown} is not indexed: it was skipped, because {reasons[0]}"
    near = items.keys.near(name)
    hint = f"; keys like it: {', '.join(map(repr, near))}" if near else ""
    if not isinstance(image, str):
        return f"there is no picture file {shown}{hint}{' (give a key as text)' if near else ''}"
    return f"{shown} is neither the key of an indexed item nor an existing picture file{hint}"


def stored_unit_vectors(
    store: RowVectors, row: int, slugs: Sequence[str], *, key: str
) -> dict[str, NDArray[np.float64]]:
    """Return an indexed item's vectors, float64 (D,) by slug.

    They are brought back to unit length, which half precision changes by up to 5e-4, so that a picture weighs the
    same whether it is given by its key or as a file.

    Raises:
        IndexDirectoryError: A vector is not finite, or zero.
    """
    vectors = {slug: store.vector(slug, row) for slug in slugs}
    # What np.linalg.norm computes, at a third of its cost for so short a vector.
    norms = {slug: math.sqrt(vector.dot(vector)) for slug, vector in vectors.items()}
    if not all(0.0 < norm < np.inf for norm in norms.values()):  # also true of NaN
        raise IndexDirectoryError(
            f"the stored vectors of {key!r} are damaged (tpips-index info --verify tells which); build the index anew"
        )
    return {slug: vector / norms[slug] for slug, vector in vectors.items()}


def embed_pictures(
    images: Sequence[QueryImage], aspects: Sequence[Aspect], embedder: Embedder
) -> list[dict[str, NDArray[np.float64]]]:
    """Embed pictures under all aspects together, decoded as the indexer decodes.

    Returns:
        For each picture float64 (D,) by slug, unit vectors.

    Raises:
        ImageError: A picture cannot be read.
        ModelError: The model gives something else than unit vectors.
    """
    embedded = []
    for start in range(0, len(images), PICTURES_AT_ONCE):
        pixels = [_pixels(image, embedder) for image in images[start : start + PICTURES_AT_ONCE]]
        vectors: Any = embedder.embed(pixels, aspects)
        expected = (len(pixels), len(aspects), embedder.dim)
        if getattr(vectors, "shape", None) != expected:
            raise ModelError(f"the model {embedder.name!r} gave {getattr(vectors, 'shape', vectors)}, not {expected}")
        vectors = np.asarray(vectors, np.float64)
        norms = np.linalg.norm(vectors, axis=2)
        if not (np.abs(norms - 1.0) <= UNIT_TOLERANCE).all():  # also true of NaN
            raise ModelError(f"the model {embedder.name!r} gave vectors of length {norms.tolist()} instead of 1")
        slugs = [aspect.slug for aspect in aspects]
        embedded += [dict(zip(slugs, of_image, strict=True)) for of_image in vectors]
    return embedded


def _pixels(image: QueryImage, embedder: Embedder) -> Image.Image:
    assert image.picture is not None
    try:
        return to_rgb(image.picture, at_least=embedder.decode_at_least)
    except ImageError as error:
        raise ImageError(f"the query's {image.label}: {error}") from error
