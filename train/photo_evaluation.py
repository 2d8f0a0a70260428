"""Odd one out and two-alternative choices on real photographs, edited in one aspect at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from tpips_model.errors import TpipsError
from tpips_model.images import IMAGE_SUFFIXES, to_rgb
from train.agreement import Estimate, agreement, estimate
from train.mini_assets import package_folder
from train.paraphrases import HELD_PARAPHRASES
from train.photo_edits import EDITS, edited
from train.retrieval_views import View

__all__ = [
    "BUNDLED_PHOTOS",
    "PhotoBank",
    "PhotoTrials",
    "cross_content",
    "load_photos",
    "photo_odd_one_out",
    "plan_trials",
]

# Colour photographs inside scikit-image's wheel, all in the public domain or CC0 save the Middlebury motorcycle.
BUNDLED_PHOTOS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "rocket.jpg",
)
PHOTO_SIZE = 224


@dataclass
class PhotoBank:
    """Edited photographs, each made once.

    Attributes:
        photos: RGB images of one size.
        made: The (photo, values) of every picture, in the order of ``pictures``.
    """

    photos: Sequence[Image.Image]
    made: dict[tuple[int, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)

    def add(self, photo: int, values: Mapping[str, str]) -> int:
        """Return the number of a photograph under some edits."""
        return self.made.setdefault((photo, tuple(sorted(values.items()))), len(self.made))

    def pictures(self) -> list[Image.Image]:
        """Draw every picture, in order of its number."""
        return [edited(self.photos[photo], dict(values)) for photo, values in self.made]


@dataclass(frozen=True)
class PhotoTrials:
    """Which pictures of a bank are compared.

    Attributes:
        triplets: Factor → rows (three picture numbers, the odd one's place). The members differ in the factor and in
            one other, each of which tells another member apart.
        references: Factor → rows (reference X with edit a, another photograph Y with edit a, X with edit b).
    """

    triplets: Mapping[str, Sequence[tuple[int, int, int, int]]]
    references: Mapping[str, Sequence[tuple[int, int, int]]]


def load_photos(folder: str | os.PathLike[str] | None = None, *, at_most: int = 40, seed: int = 0) -> list[Image.Image]:
    """Load photographs, cut to squares of PHOTO_SIZE.

    Args:
        folder: A folder of the user's own, read with its subfolders; by default BUNDLED_PHOTOS.
        at_most: How many are drawn if there are more.
        seed: Draws them.

    Raises:
        TpipsError: The folder has fewer than two images, or scikit-image is missing.
    """
    if folder is None:
        paths = [package_folder("skimage") / "data" / name for name in BUNDLED_PHOTOS]
    else:
        paths = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
        if len(paths) < 2:
            raise TpipsError(f"{folder} holds {len(paths)} images, but cross-content trials need two or more")
    if len(paths) > at_most:
        chosen = np.random.default_rng(seed).choice(len(paths), at_most, replace=False)
        paths = [paths[number] for number in sorted(chosen)]
    return [ImageOps.fit(to_rgb(path, at_least=2 * PHOTO_SIZE), (PHOTO_SIZE, PHOTO_SIZE)) for path in paths]


def plan_trials(photos: Sequence[Image.Image], *, per_factor: int = 24, seed: int = 0) -> tuple[PhotoBank, PhotoTrials]:
    """Draw which photographs are edited how, and which of them are compared.

    Args:
        photos: Two or more.
        per_factor: Triplets drawn per factor, each of which also serves the second factor that differs in it; four
            times as many references.
        seed: The same seed gives the same trials.
    """
    rng = np.random.default_rng(seed)
    bank = PhotoBank(photos)
    triplets: dict[str, list[tuple[int, int, int, int]]] = {factor: [] for factor in EDITS}
    references: dict[str, list[tuple[int, int, int]]] = {factor: [] for factor in EDITS}
    for factor in EDITS:
        for draw in range(per_factor):
            photo = draw % len(photos)
            other = str(rng.choice([name for name in EDITS if name != factor]))
            (one, two), (this, that) = _two_values(factor, rng), _two_values(other, rng)
            members = (
                bank.add(photo, {factor: one, other: this}),
                bank.add(photo, {factor: one, other: that}),
                bank.add(photo, {factor: two, other: this}),
            )
            triplets[factor].append((*members, 2))
            triplets[other].append((*members, 1))
        # Single edits are few and shared among draws, so more of these cost little.
        for draw in range(4 * per_factor):
            photo = draw % len(photos)
            unlike = (photo + 1 + int(rng.integers(len(photos) - 1))) % len(photos)
            one, two = _two_values(factor, rng)
            pair = bank.add(photo, {factor: one}), bank.add(unlike, {factor: one})
            references[factor].append((*pair, bank.add(photo, {factor: two})))
    return bank, PhotoTrials(triplets, references)


def _two_values(factor: str, rng: np.random.Generator) -> tuple[str, str]:
    first, second = rng.choice(list(EDITS[factor]), 2, replace=False)
    return str(first), str(second)


def photo_odd_one_out(view: View, trials: PhotoTrials) -> dict[str, Estimate]:
    """Measure the share of right odd ones per factor, over all words that training never sees.

    Args:
        view: Of the bank's pictures.
        trials: As ``plan_trials`` drew them.
    """
    found = {}
    for factor, rows in trials.triplets.items():
        drawn = np.array(rows)
        vectors = view(HELD_PARAPHRASES[factor])[drawn[:, :3]]
        first, second, third = vectors.transpose(1, 2, 0, 3)
        scores = np.stack([(second * third).sum(-1), (first * third).sum(-1), (first * second).sum(-1)], -1)
        votes = np.eye(3)[drawn[:, 3]]
        found[factor] = estimate(np.mean([agreement(asked, votes) for asked in scores], axis=0))
    return found


def cross_content(view: View, trials: PhotoTrials, *, by_subject: bool = False) -> dict[str, Estimate]:
    """Measure how often another photograph under the same edit is preferred to the same one under another edit.

    Args:
        view: Of the bank's pictures.
        trials: As ``plan_trials`` drew them.
        by_subject: Ask for the subject instead of the factor; then the same photograph is right.

    Returns:
        Factor → estimate in [0, 1]: 2AFC agreement over all words that training never sees.
    """
    found = {}
    for factor, rows in trials.references.items():
        vectors = view(HELD_PARAPHRASES["subject" if by_subject else factor])[np.array(rows)]
        reference, alike_in_edit, same_photo = vectors.transpose(1, 2, 0, 3)
        scores = np.stack([(reference * alike_in_edit).sum(-1), (reference * same_photo).sum(-1)], -1)
        votes = np.tile([0.0, 1.0] if by_subject else [1.0, 0.0], (len(rows), 1))
        found[factor] = estimate(np.mean([agreement(asked, votes) for asked in scores], axis=0))
    return found
