"""What an index and a query ask of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tpips_model.aspects import AspectLike
from tpips_model.errors import ImageError
from tpips_model.images import ImageLike

__all__ = ["Embedder", "images_to_embed"]


@runtime_checkable
class Embedder(Protocol):
    """A late-fusion model g(image, aspect) → unit vector (section 4.2 of the paper).

    Attributes:
        name: What ``load_model`` takes to load this model again, such as ``"mini"`` or a directory.
        dim: D, the length of a vector.
        fingerprint: A short string that differs whenever the vectors would: weights, preprocessing, prompt. An index
            stores it, and a query embedded by a model of another fingerprint is refused.
        prompt_template: How an aspect becomes the model's text, for the record in the index.
        recommended_overall_penalty: λ of ``score = f_aspect − λ·f_overall`` that serves this model best (0.3 for
            TPIPS), the default of ``Searcher.similar`` and of the app.
        decode_at_least: How many pixels a side the model needs at least, or ``None`` if it needs all. Index and query
            both hand it to ``to_rgb`` as ``at_least``, so that one file becomes the same pixels in either.
    """

    name: str
    dim: int
    fingerprint: str
    prompt_template: str
    recommended_overall_penalty: float
    decode_at_least: int | None

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Embed every image under every aspect.

        Args:
            images: B images in any form that ``to_rgb`` takes.
            aspects: A aspects.

        Returns:
            float32 (B, A, D), every row of unit length. What else is in the batch does not change a row beyond
            rounding.

        Raises:
            ImageError: An image cannot be read; nothing is returned for the others. Or the images are one image.
            AspectError: The aspects are no list, or one of them is no words.
        """
        ...


def images_to_embed(images: Iterable[ImageLike]) -> list[ImageLike]:
    """Return what ``Embedder.embed`` is given as a list: an array or tensor of four dimensions is B images.

    Raises:
        ImageError: It is one image, which would be read as a batch of its letters or rows, or is in no order.
    """
    alone = isinstance(images, (str, bytes, bytearray, memoryview, Mapping, Set)) or getattr(images, "ndim", 4) != 4
    if alone or not isinstance(images, Iterable) or getattr(images, "is_nested", False):
        raise ImageError(
            f"the images to embed are one value of type {type(images).__name__}; give a list, though it holds one image"
        )
    return list(images)
