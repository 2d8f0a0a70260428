"""Decoding every picture of a set once, to find those that cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tpips_model.errors import ImageError
from train.judgements.records import JudgementSet, PictureSource, Refusal

__all__ = ["distinct_pictures", "undecodable"]

# Pictures that wait for a thread at once; pixels are let go as soon as they are decoded.
_AHEAD = 512


def distinct_pictures(found: JudgementSet) -> list[PictureSource]:
    """Return the pictures of a set, each once, in their first order."""
    return list(dict.fromkeys(picture for judgement in found.judgements for picture in judgement.pictures))


def undecodable(
    found: JudgementSet, *, workers: int | None = None, on_picture: Callable[[], object] | None = None
) -> list[Refusal]:
    """Decode every picture of a set and return a refusal for each that cannot be.

    Args:
        found: The set.
        workers: Threads; by default one a processor.
        on_picture: Called after every picture.
    """
    refusals: list[Refusal] = []
    pictures = iter(distinct_pictures(found))
    with ThreadPoolExecutor(workers or os.cpu_count()) as threads:
        while batch := list(islice(pictures, _AHEAD)):
            for refusal in _checked(batch, threads):
                if refusal is not None:
                    refusals.append(refusal)
                if on_picture:
                    on_picture()
    return refusals


def _checked(pictures: list[PictureSource], threads: ThreadPoolExecutor) -> Iterator[Refusal | None]:
    yield from threads.map(_check, pictures)


def _check(picture: PictureSource) -> Refusal | None:
    try:
        picture.load()
    except ImageError as error:
        return Refusal(picture.key, str(error))
    return None
