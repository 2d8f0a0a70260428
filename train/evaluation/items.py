"""Judgements gathered by item, so that pictures are read once for all aspects and all models."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpips_model.aspects import Aspect
from tpips_model.errors import ImageError
from train.judgements.picture_sources import FilePicture, TarPicture
from train.judgements.records import Judgement, Kind, PictureSource
from train.scenes import SCENES_VERSION

__all__ = ["Item", "Plan", "item_identity", "plan_items"]


@dataclass(frozen=True)
class Item:
    """Three pictures and all the aspects they are judged under.

    Attributes:
        kind: Odd-one-out or 2AFC.
        pictures: Three members, or reference, first and second candidate.
        aspects: A aspects, each once.
    """

    kind: Kind
    pictures: tuple[PictureSource, ...]
    aspects: tuple[Aspect, ...]


@dataclass(frozen=True)
class Plan:
    """Items, and where each of N judgements finds its scores.

    Attributes:
        items: In the judgements' order; an item judged twice is there once.
        item_of: int64 (N,), a judgement's item.
        aspect_of: int64 (N,), which of the item's aspects.
    """

    items: tuple[Item, ...]
    item_of: NDArray[np.int64]
    aspect_of: NDArray[np.int64]


def plan_items(judgements: Iterable[Judgement]) -> Plan:
    """Gather judgements that show the same pictures in the same places."""
    numbers: dict[tuple[Kind, tuple[PictureSource, ...]], int] = {}
    asked: list[dict[Aspect, int]] = []
    places: list[tuple[int, int]] = []
    for judgement in judgements:
        number = numbers.setdefault((judgement.kind, judgement.pictures), len(numbers))
        if number == len(asked):
            asked.append({})
        aspects = asked[number]
        places.append((number, aspects.setdefault(judgement.aspect, len(aspects))))
    items = tuple(
        Item(kind, pictures, tuple(aspects)) for (kind, pictures), aspects in zip(numbers, asked, strict=True)
    )
    where = np.array(places, dtype=np.int64).reshape(-1, 2)
    return Plan(items, where[:, 0], where[:, 1])


def item_identity(item: Item) -> str:
    """Return a digest of all that an item's scores depend on besides the model: kind, pictures, aspects.

    Raises:
        ImageError: A picture's file is not there.
    """
    facts = [item.kind, [_picture_identity(source) for source in item.pictures], [a.text for a in item.aspects]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _picture_identity(source: PictureSource) -> str:
    if isinstance(source, FilePicture):
        try:
            state = os.stat(source.path)
        except OSError as error:
            raise ImageError(f"cannot read picture {source.key!r} ({source.path}): {error.strerror}") from error
        # A file that was written anew is another picture; reading all of them to tell would take as long as a run.
        return f"{source.path} {state.st_size} {state.st_mtime_ns}"
    if isinstance(source, TarPicture):
        return source.digest
    # Other sources are values, such as a procedural picture's seed; their pixels follow the drawing code.
    return f"{source!r} scenes{SCENES_VERSION}"
