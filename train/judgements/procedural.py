"""Judgements on procedural pictures, labelled by what was drawn; pictures are drawn only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import overload

import numpy as np
from PIL import Image

from tpips_model.aspects import Aspect
from train.judgements.records import Judgement, JudgementDataError, JudgementSet
from train.scenes import FAMILY_SIZE, Family, family
from train.synthetic import ASPECTS, EVALUATION_SEEDS, TRIPLETS, AspectLabels, aspect_labels

__all__ = ["ProceduralConfig", "ProceduralPicture", "procedural_judgements"]

MAX_SEED, MAX_FAMILIES = 999, 1_000_000
# A picture takes 77 kB.
_DRAWN_KEPT, _FAMILIES_KEPT = 1024, 4096


@dataclass(frozen=True)
class ProceduralConfig:
    """Which procedural judgements to make.

    Attributes:
        families: How many families of eight pictures.
        seed: 0…999; the same seed gives the same judgements, another one shares no family with it.
        triplets: How many of a family's 56 triplets, drawn by the seed.
        evaluation: Whether to use the seeds kept for evaluation, which no training uses.
        held: Whether the values that differ are those kept for evaluation.

    Raises:
        JudgementDataError: A value is out of range.
    """

    families: int = 64
    seed: int = 0
    triplets: int = len(TRIPLETS)
    evaluation: bool = False
    held: bool = False

    def __post_init__(self) -> None:
        bounds = {"families": (1, MAX_FAMILIES), "seed": (0, MAX_SEED), "triplets": (1, len(TRIPLETS))}
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise JudgementDataError(f"procedural {name}={value} is out of range; give {least} to {most:,}")

    @property
    def seeds(self) -> range:
        """The families' seeds; no two configs of different seed or purpose share one."""
        first = (EVALUATION_SEEDS if self.evaluation else 0) + self.seed * MAX_FAMILIES
        return range(first, first + self.families)


@dataclass(frozen=True, slots=True)
class ProceduralPicture:
    """One picture of a procedural family.

    Attributes:
        seed: The family's.
        member: 0…7.
        held: Whether the family's values are those kept for evaluation.
    """

    seed: int
    member: int
    held: bool = False

    @property
    def key(self) -> str:
        """Family and member, as a path."""
        return f"{_family_name(self.seed, self.held)}/{self.member}.png"

    def load(self) -> Image.Image:
        """Draw the picture, RGB; the last thousand or so drawn by this process are remembered."""
        return _drawn(self).copy()

    def encoded(self) -> bytes:
        """Return the picture as the bytes of a PNG file."""
        stream = BytesIO()
        _drawn(self).save(stream, "PNG")
        return stream.getvalue()


def procedural_judgements(config: ProceduralConfig) -> JudgementSet:
    """Label the triplets of procedural families under every aspect that tells their members apart.

    Returns:
        Odd-one-out judgements; the subset is the kind of family. Where nobody could tell, there is none.
    """
    judgements = [judgement for seed in config.seeds for judgement in _of_family(seed, config)]
    return JudgementSet(tuple(judgements), name="procedural")


def _of_family(seed: int, config: ProceduralConfig) -> Iterator[Judgement]:
    drawn = _family(seed, config.held)
    pictures = [ProceduralPicture(seed, member, config.held) for member in range(FAMILY_SIZE)]
    labels = aspect_labels(drawn, _WhenLookedAt(pictures))
    chosen = np.random.default_rng([seed, 11]).permutation(len(TRIPLETS))[: config.triplets]
    for row in sorted(chosen.tolist()):
        members = tuple(pictures[member] for member in TRIPLETS[row])
        for aspect, found in labels.items():
            if found.usable[row]:
                item = f"{_family_name(seed, config.held)}/{row}"
                yield Judgement(item, members, _ASPECTS[aspect], _shares(found, row), drawn.kind)


def _shares(labels: AspectLabels, row: int) -> tuple[float, ...]:
    votes = labels.targets[row].astype(np.float64)
    return tuple((votes / votes.sum()).tolist())


def _family_name(seed: int, held: bool) -> str:
    return f"family-{seed}{'-held' if held else ''}"


# Underscores are for identifiers; a model reads words.
_ASPECTS = {name: Aspect(name.replace("_", " ")) for name in ASPECTS}


class _WhenLookedAt(Sequence[Image.Image]):
    """A family's pictures, each drawn only if its labels must be measured on it."""

    def __init__(self, pictures: Sequence[ProceduralPicture]) -> None:
        self._pictures = pictures

    def __len__(self) -> int:
        return len(self._pictures)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Image.Image]: ...
    def __getitem__(self, index: int | slice) -> Image.Image | Sequence[Image.Image]:
        if isinstance(index, slice):
            return _WhenLookedAt(self._pictures[index])
        return self._pictures[index].load()


@lru_cache(maxsize=_FAMILIES_KEPT)
def _family(seed: int, held: bool) -> Family:
    return family(seed, held=held)


@lru_cache(maxsize=_DRAWN_KEPT)
def _drawn(picture: ProceduralPicture) -> Image.Image:
    return _family(picture.seed, picture.held).pictures[picture.member].draw()
