"""A term in one word of a command line: IMAGE:ASPECT[:WEIGHT]."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from search.terms import QueryError, Term
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError

if TYPE_CHECKING:
    from search.searcher import Searcher

__all__ = ["parse_term_text"]


def parse_term_text(text: str, searcher: Searcher) -> Term:
    """Return the term that ``text`` stands for.

    It is read from the right, since an image's name may hold colons (``C:\\a.jpg``, ``12:30.jpg``) and an aspect
    seldom does: a last field that is a number is the weight, the field before it the aspect, and all else the image.
    Two things overrule that, because they are known to exist: an indexed aspect may itself hold colons or look like a
    number, and an image that is a key or a file is preferred to one that is not. The reading with the weight wins
    where both would do.

    Raises:
        QueryError: It has no colon, no image, or no aspect.
        AspectError: The aspect is none.
    """
    readings = list(_readings(text))
    if not readings:
        raise QueryError(
            f"the term {text!r} should be IMAGE:ASPECT or IMAGE:ASPECT:WEIGHT, such as 'a.jpg:color palette:0.7'"
        )
    indexed = {aspect.slug for aspect in searcher.aspects}

    def believable(reading: tuple[str, str, float]) -> tuple[bool, bool]:
        image, aspect, _ = reading
        return _slug(aspect) in indexed, image in searcher.keys or os.path.isfile(image)

    image, aspect, weight = max(readings, key=believable)  # the first of the best
    before, _, last = aspect.rpartition(":")
    if _slug(aspect) not in indexed and _slug(before) in indexed:
        raise QueryError(f"the weight {last!r} of the term {text!r} is no number; give one such as 0.7 or -1")
    return Term(image, aspect, weight)


def _readings(text: str) -> Iterator[tuple[str, str, float]]:
    """Give every way to read ``text``, the likeliest first."""
    fields = text.split(":")
    weight = _number(fields[-1])
    if weight is not None:
        yield from ((image, aspect, weight) for image, aspect in _splits(fields[:-1]))
    yield from ((image, aspect, 1.0) for image, aspect in _splits(fields))


def _splits(fields: list[str]) -> Iterator[tuple[str, str]]:
    for cut in range(len(fields) - 1, 0, -1):
        image, aspect = ":".join(fields[:cut]), ":".join(fields[cut:])
        # Nothing before the first colon is an empty shell variable rather than a name that begins with a colon.
        if fields[0] and aspect.strip():
            yield image, aspect


def _number(text: str) -> float | None:
    # Python's own reading of numbers takes "1_0" and the digits of all scripts besides.
    if not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _slug(aspect: str) -> str | None:
    try:
        return Aspect(aspect).slug
    except AspectError:
        return None
