"""Which pictures are put before annotators, and which items only test them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apps.index_view import IndexView
from apps.near_copies import are_near_copies, telling_aspects
from apps.picture_vectors import nearest_in_sample, sample_vectors

__all__ = ["KINDS", "AnnotationItem", "AnnotationKind", "make_items"]

AnnotationKind = Literal["odd-one-out", "2afc"]
KINDS: tuple[AnnotationKind, ...] = ("odd-one-out", "2afc")
ITEMS = 40
# One item in so many is a sentinel, the first at this place, so that short sittings meet one too.
SENTINEL_EVERY = 8
FIRST_SENTINEL = 2
SAMPLE = 400


@dataclass(frozen=True)
class AnnotationItem:
    """Three pictures to be judged.

    Attributes:
        id: Tells it from other items, the same in every session.
        kind: Which is most different, or which of two is closer to a reference.
        rows: Odd-one-out: p0, p1, p2. 2AFC: the reference, p0, p1.
        sentinel: The right answer of an item that only tests the session, or ``None``.
    """

    id: str
    kind: AnnotationKind
    rows: tuple[int, int, int]
    sentinel: str | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """The fields of the pictures in the layout of raw votes, in the order of ``rows``."""
        return ("p0_path", "p1_path", "p2_path") if self.kind == "odd-one-out" else ("ref_path", "p0_path", "p1_path")


def make_items(view: IndexView, kind: AnnotationKind, seed: int, count: int = ITEMS) -> list[AnnotationItem]:
    """Return items drawn from an index, the same for the same seed.

    An item holds a picture and its nearest under two different aspects, so that what is alike depends on the sense
    that is asked for. No two are near copies, where there are others: nobody could say how they differ. Every eighth
    is a sentinel: one picture stands in it twice.
    """
    rows = view.sample_rows(SAMPLE, seed=seed)
    aspects = view.aspects
    vectors = [sample_vectors(view, rows, aspect) for aspect in aspects]
    copies = are_near_copies([vectors[aspects.index(aspect)] for aspect in telling_aspects(view)])
    draw = np.random.default_rng(seed)
    made: dict[str, AnnotationItem] = {}
    for number in range(min(count, len(rows)) if len(rows) >= 3 else 0):
        first, second = (int(place) for place in draw.permutation(max(len(aspects), 2))[:2])
        near = _nearest(vectors[first % len(aspects)], copies, number)
        other = _nearest(vectors[second % len(aspects)], copies, number, near)
        picked = [rows[number], rows[near], rows[other]]
        is_sentinel = number % SENTINEL_EVERY == FIRST_SENTINEL
        item = _item(kind, picked, [int(place) for place in draw.permutation(3)], sentinel=is_sentinel)
        made.setdefault(item.id, item)  # pictures that are each other's nearest make the same item twice
    return list(made.values())


def _nearest(vectors: NDArray[np.float64], copies: NDArray[np.bool_], number: int, *taken: int) -> int:
    """Return the picture that is most like one, and no near copy of it or of those taken unless all are."""
    alike = copies[[number, *taken]].any(axis=0)
    return nearest_in_sample(vectors, number, set(taken) if alike.all() else set(np.flatnonzero(alike).tolist()))


def _item(kind: AnnotationKind, picked: Sequence[int], order: Sequence[int], *, sentinel: bool) -> AnnotationItem:
    right = None
    if kind == "odd-one-out":
        # The third is drawn again as a twin of the first; the second is then the odd one.
        group = [picked[0], picked[1], picked[0]] if sentinel else list(picked)
        rows = [group[place] for place in order]
        if sentinel:
            right = f"p{list(order).index(1)}"
    else:
        candidates = [picked[0], picked[2]] if sentinel else list(picked[1:])
        swap = order[0] > order[1]
        rows = [picked[0], *(reversed(candidates) if swap else candidates)]
        if sentinel:
            right = "p1" if swap else "p0"
    name = hashlib.sha256(repr((kind, rows)).encode()).hexdigest()[:12]
    return AnnotationItem(f"{kind}-{name}", kind, (rows[0], rows[1], rows[2]), right)
