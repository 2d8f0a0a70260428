"""Vectors of any mix of pictures, and what they say of how alike the pictures are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.index_view import IndexView
from apps.query_state import PictureRef
from apps.resources import Resources
from search.query_image import stored_unit_vectors
from tpips_model.aspects import Aspect, unique_aspects
from tpips_model.comparison import Comparison

__all__ = ["compare_pictures", "nearest_in_sample", "sample_vectors", "vectors_of"]


def vectors_of(resources: Resources, ref: PictureRef, aspects: Sequence[Aspect]) -> NDArray[np.float64]:
    """Return a picture's vectors, float64 (A, D), unit rows: those stored, where there are, else made by the model.

    Raises:
        TpipsError: The picture cannot be had, or the model cannot.
    """
    image = resources.image(ref)
    indexed = {aspect.slug for aspect in resources.searcher.aspects}
    if ref.kind == "key" and all(aspect.slug in indexed for aspect in aspects):
        row = resources.searcher.keys.row(ref.name)
        assert row is not None  # ``image`` has found the key
        found = stored_unit_vectors(resources.view.store, row, [aspect.slug for aspect in aspects], key=ref.name)
        return np.array([found[aspect.slug] for aspect in aspects])
    data = image if isinstance(image, bytes) else resources.picture_bytes(ref)
    return resources.embedder.embed([data], aspects)[0].astype(np.float64)


def compare_pictures(
    resources: Resources, reference: PictureRef, candidates: Sequence[PictureRef], aspects: Sequence[str]
) -> Comparison:
    """Compare a reference with candidates under several aspects (Figure 1).

    Raises:
        TpipsError: A picture cannot be had, an aspect is no words, or the model cannot be had.
    """
    asked = unique_aspects(aspects)
    fixed = vectors_of(resources, reference, asked)
    similarity = [(vectors_of(resources, candidate, asked) * fixed).sum(axis=1) for candidate in candidates]
    names = tuple(resources.label(candidate) for candidate in candidates)
    return Comparison(asked, names, np.array(similarity, np.float32).T)


def sample_vectors(view: IndexView, rows: Sequence[int], aspect: str) -> NDArray[np.float64]:
    """Return the stored vectors of some rows, float64 (rows, D)."""
    slug = Aspect(aspect).slug
    return np.asarray(view.store.gather(slug, np.array(rows, np.int64)), np.float64)


def nearest_in_sample(vectors: NDArray[np.float64], place: int, taken: set[int]) -> int:
    """Return the place of the row that is most like the one at ``place``, other than it and those taken."""
    scores = vectors @ vectors[place]
    scores[[place, *taken]] = -np.inf
    return int(scores.argmax())
