"""What every model is asked in an evaluation: scores of an item's choices under each of its aspects.

One protocol for all kinds of models. A judge is made by ``model_names.load_judge`` from a model's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tpips_model.aspects import Aspect
from train.evaluation.open_pictures import OpenItem, OpenPicture
from train.judgements.records import PAIRS, Kind

__all__ = ["EmbeddingJudge", "Judge", "ModelRow", "PairJudge", "TripletJudge"]

Embed = Callable[[Sequence[Image.Image], Sequence[Aspect]], NDArray[np.floating]]
Compare = Callable[[Sequence[Image.Image], Sequence[Image.Image], Sequence[Aspect]], NDArray[np.floating]]
Choose = Callable[[Sequence[Sequence[Image.Image]], Sequence[Aspect]], NDArray[np.floating]]

ALL_KINDS: frozenset[Kind] = frozenset(PAIRS)


@dataclass(frozen=True)
class ModelRow:
    """Where a model stands in Table 3.

    Attributes:
        type: ``"Classic"``, ``"Triplet"``, ``"Early Fusion"``, ``"Mid-Fusion"`` or ``"Late Fusion"``.
        family: The row's family, such as ``"Ours"`` or ``"Qwen3-VL"``; empty if the paper measures no such model.
        size: Parameters, such as ``"8B"``, or ``"–"``.
    """

    type: str
    family: str = ""
    size: str = "–"


@runtime_checkable
class Judge(Protocol):
    """A model as the evaluation sees it.

    Attributes:
        name: What the tables call it.
        fingerprint: Differs whenever its scores would; the cache's key.
        row: Its place in Table 3.
        kinds: The kinds of items it can answer.
    """

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def row(self) -> ModelRow: ...
    @property
    def kinds(self) -> frozenset[Kind]: ...

    def scores(self, items: Sequence[OpenItem]) -> list[NDArray[np.float64]]:
        """Score the choices of each item.

        Args:
            items: Of kinds that the judge answers.

        Returns:
            For each item float64 (A, C): how strongly each of C choices is chosen under each of its A aspects, with
            C = 3 for odd-one-out (entry k: member k is the odd one) and C = 2 for 2AFC (candidate k is closer). Only
            the order within a row matters.
        """
        ...


@dataclass(frozen=True)
class EmbeddingJudge:
    """Cosines of vectors (late fusion). Every picture is embedded once, under all aspects that any item asks of it.

    Attributes:
        embed: Turns B images and A aspects into vectors (B, A, D); they need not be of unit length.
    """

    name: str
    fingerprint: str
    row: ModelRow
    embed: Embed
    kinds: frozenset[Kind] = ALL_KINDS
    _vectors: WeakKeyDictionary[OpenPicture, dict[Aspect, NDArray[np.float64]]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    def scores(self, items: Sequence[OpenItem]) -> list[NDArray[np.float64]]:
        """Return the cosines of each item's pairs; see ``Judge.scores``."""
        self._embed_new(items)
        return [np.array([self._cosines(item, aspect) for aspect in item.aspects]) for item in items]

    def _embed_new(self, items: Sequence[OpenItem]) -> None:
        groups: dict[tuple[Aspect, ...], dict[OpenPicture, None]] = {}
        for item in items:
            for picture in item.pictures:
                if picture not in self._vectors:
                    groups.setdefault(picture.aspects, {})[picture] = None
        for aspects, pictures in groups.items():
            vectors = np.asarray(self.embed([p.image for p in pictures], aspects), dtype=np.float64)
            vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
            for picture, rows in zip(pictures, vectors, strict=True):
                self._vectors[picture] = dict(zip(aspects, rows, strict=True))

    def _cosines(self, item: OpenItem, aspect: Aspect) -> list[float]:
        vectors = [self._vectors[picture][aspect] for picture in item.pictures]
        return [float(vectors[i] @ vectors[j]) for i, j in PAIRS[item.kind]]


@dataclass(frozen=True)
class PairJudge:
    """Similarities of pairs (mid and early fusion, ratings, LPIPS).

    Attributes:
        compare: Turns P first images, P second images and A aspects of different names into similarities (A, P).
    """

    name: str
    fingerprint: str
    row: ModelRow
    compare: Compare
    kinds: frozenset[Kind] = ALL_KINDS

    def scores(self, items: Sequence[OpenItem]) -> list[NDArray[np.float64]]:
        """Return the similarities of each item's pairs; see ``Judge.scores``."""

        def ask(group: Sequence[OpenItem], aspects: Sequence[Aspect]) -> NDArray[np.float64]:
            pairs = PAIRS[group[0].kind]
            sides = [[item.pictures[pair[side]].image for item in group for pair in pairs] for side in (0, 1)]
            found = np.asarray(self.compare(sides[0], sides[1], aspects), dtype=np.float64)
            return found.reshape(len(aspects), len(group), len(pairs))

        return _in_groups(items, ask)


@dataclass(frozen=True)
class TripletJudge:
    """Decisions about three images at once (the triplet head, and questions in words).

    Attributes:
        choose: For each kind that it answers: turns B triplets and A aspects of different names into
            probabilities (A, B, C).
    """

    name: str
    fingerprint: str
    row: ModelRow
    choose: dict[Kind, Choose]

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of items it can answer; the triplet head knows only odd-one-out (Appendix B.1)."""
        return frozenset(self.choose)

    def scores(self, items: Sequence[OpenItem]) -> list[NDArray[np.float64]]:
        """Return the probabilities of each item's choices; see ``Judge.scores``."""

        def ask(group: Sequence[OpenItem], aspects: Sequence[Aspect]) -> NDArray[np.float64]:
            triplets = [[picture.image for picture in item.pictures] for item in group]
            return np.asarray(self.choose[group[0].kind](triplets, aspects), dtype=np.float64)

        return _in_groups(items, ask)


def _in_groups(
    items: Sequence[OpenItem], ask: Callable[[Sequence[OpenItem], Sequence[Aspect]], NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Ask for items of one kind under the same aspects together, for (aspects, items, choices) each."""
    groups: dict[tuple[Kind, tuple[Aspect, ...]], list[int]] = {}
    for number, item in enumerate(items):
        groups.setdefault((item.kind, item.aspects), []).append(number)
    scores: list[NDArray[np.float64]] = [np.empty(0)] * len(items)
    for (_, aspects), numbers in groups.items():
        group = [items[number] for number in numbers]
        asked = [ask(group, round_) for round_ in _rounds(aspects)]
        order = [aspect for round_ in _rounds(aspects) for aspect in round_]
        found = np.concatenate(asked)[[order.index(aspect) for aspect in aspects]]
        for place, number in enumerate(numbers):
            scores[number] = found[:, place]
    return scores


def _rounds(aspects: Sequence[Aspect]) -> Iterator[tuple[Aspect, ...]]:
    """Split aspects so that none shares its slug with another: metrics take each name once."""
    left = list(aspects)
    while left:
        first = {aspect.slug: aspect for aspect in reversed(left)}
        yield tuple(aspect for aspect in left if first[aspect.slug] is aspect)
        left = [aspect for aspect in left if first[aspect.slug] is not aspect]
