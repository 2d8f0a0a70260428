"""What the Compare page proposes: a reference, and candidates among which the senses disagree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apps.gauges import closest_places
from apps.near_copies import are_near_copies, telling_aspects
from apps.picture_vectors import compare_pictures, sample_vectors, vectors_of
from apps.query_state import PictureRef
from apps.resources import Resources
from search import Hits, Term
from tpips_model.aspects import Aspect

__all__ = ["MAX_CANDIDATES", "candidates_for", "example"]

MAX_CANDIDATES = 6
SAMPLE = 400
# References that are tried for one example, all in one pass over the vectors.
TRIED = 16
# So deep is looked for a picture that is no near copy of others.
DEPTH = 24


def example(resources: Resources, seed: int) -> tuple[PictureRef, list[PictureRef]]:
    """Return a reference and candidates for it: of a few, those by which most candidates are closest in some sense."""
    rows = resources.view.sample_rows(SAMPLE, seed=3)
    tried = dict.fromkeys(rows[(seed * TRIED + number) % len(rows)] for number in range(TRIED))
    references = [PictureRef("key", record["key"]) for record in resources.view.records(list(tried))]
    proposed = _candidates(resources, references)
    told = [_said(resources, *one) for one in zip(references, proposed, strict=True)]
    best = told.index(max(told))
    return references[best], proposed[best]


def candidates_for(resources: Resources, reference: PictureRef) -> list[PictureRef]:
    """Return for every sense the picture that is most like the reference in it, no near copy of it or of another.

    Raises:
        TpipsError: The reference cannot be had, or the model that it needs.
    """
    return _candidates(resources, [reference])[0]


def _candidates(resources: Resources, references: Sequence[PictureRef]) -> list[list[PictureRef]]:
    aspects = resources.aspects[:MAX_CANDIDATES]
    queries = [[Term(resources.image(one), aspect)] for one in references for aspect in aspects]
    answers = resources.searcher.query_batch(queries, DEPTH)
    each = [answers[start : start + len(aspects)] for start in range(0, len(answers), len(aspects))]
    return [_distinct(resources, *one) for one in zip(references, each, strict=True)]


def _distinct(resources: Resources, reference: PictureRef, answers: Sequence[Hits]) -> list[PictureRef]:
    """Return the best of each answer that differs from the reference and those taken; if none does, simply the best."""
    keys = {hit.row: hit.key for hits in answers for hit in hits}
    telling = telling_aspects(resources.view)
    fixed = vectors_of(resources, reference, [Aspect(aspect) for aspect in telling])
    alike = are_near_copies(
        [
            np.vstack([vector, sample_vectors(resources.view, list(keys), aspect)])
            for vector, aspect in zip(fixed, telling, strict=True)
        ]
    )
    places = {row: place for place, row in enumerate(keys, start=1)}
    taken: dict[int, str] = {}
    for hits in answers:
        held = [0, *(places[row] for row in taken)]
        free = [hit.row for hit in hits if not alike[places[hit.row], held].any()]
        taken |= {row: keys[row] for row in free[:1]}
    chosen = taken.values() or {hit.key for hits in answers for hit in list(hits)[:1]}
    return [PictureRef("key", key) for key in sorted(chosen)]


def _said(resources: Resources, reference: PictureRef, candidates: Sequence[PictureRef]) -> int:
    """Return how many candidates are the closest one in some sense."""
    if not candidates:
        return 0
    similarity = compare_pictures(resources, reference, candidates, resources.aspects).similarity.tolist()
    closest = [closest_places(scores) for scores in similarity]
    return len({places[0] for places in closest if len(places) == 1})
