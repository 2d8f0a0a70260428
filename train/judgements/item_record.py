"""One item as JSON: its votes under every aspect, in the layout that JSON lines and our shards share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError
from train.judgements.records import Judgement, PictureSource

__all__ = [
    "NO_ASPECT",
    "NO_LABEL",
    "RecordError",
    "factor_records",
    "item_judgements",
    "known_aspect",
    "slug_of",
    "words",
]

# Rules by which something is left out, as reports name them.
NO_LABEL = "factor without a label"
NO_ASPECT = "item without aspects"

# What sums to one but for the rounding of three printed digits.
_TOLERANCE = 2e-3
_EXACT = 1e-9
_MAX_NAME = 500
_MAX_RATERS = 1_000_000


class RecordError(ValueError):
    """A record that cannot be used; the message is the reason alone, for a refusal."""


def item_judgements(
    record: Mapping[str, Any],
    *,
    item: str,
    pictures: Sequence[PictureSource],
    members: int,
    subset: str,
    dropped: Counter[str],
) -> list[Judgement]:
    """Read an item's ``factors``: a list of {"name", "label", "probs"} and, if known, "raters".

    Args:
        record: The item as JSON.
        item: Its id.
        pictures: Three.
        members: How many a label may name: three ("p0", "p1", "p2"), or two ("p0", "p1") for 2AFC.
        subset: What the judgements belong to.
        dropped: Counts factors without a label, and items left without aspects.

    Raises:
        RecordError: A label is unknown, probs are no distribution, an aspect cannot be used or stands twice, or all
            pictures are one.
    """
    if len(set(pictures)) == 1:
        raise RecordError(f"its three pictures are one and the same, {pictures[0].key!r:.200}; nothing sets them apart")
    factors = record.get("factors")
    if not isinstance(factors, list):
        raise RecordError(f'"factors" must be a list of {{"name", "label", "probs"}}, but is {factors!r:.80}')
    labels = [f"p{number}" for number in range(members)]
    judgements: list[Judgement] = []
    slugs: set[str] = set()
    unlabelled = 0
    for factor in factors:
        if not isinstance(factor, dict):
            raise RecordError(f'a factor must be {{"name", "label", "probs"}}, but is {factor!r:.80}')
        aspect = known_aspect(factor.get("name"))
        if slug_of(aspect) in slugs:
            raise RecordError(f"aspect {aspect.text!r:.80} stands twice")
        if factor.get("label") in (None, ""):
            unlabelled += 1
            continue
        slugs.add(slug_of(aspect))
        votes = _votes(factor, aspect, labels)
        judgements.append(Judgement(item, tuple(pictures), aspect, votes, subset, _raters(factor, aspect)))
    dropped[NO_LABEL] += unlabelled
    dropped[NO_ASPECT] += not judgements
    return judgements


def factor_records(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Return one item's judgements as ``factors``; the label is the member most votes fell on, the first of a tie."""
    records = []
    for judgement in judgements:
        record: dict[str, Any] = {
            "name": judgement.aspect.text,
            "label": f"p{judgement.votes.index(max(judgement.votes))}",
            "probs": list(judgement.votes),
        }
        if judgement.raters is not None:
            record["raters"] = judgement.raters
        records.append(record)
    return records


def words(record: Mapping[str, Any], name: str, *, otherwise: str) -> str:
    """Return a short printable text of a record, such as its id or its subset.

    Raises:
        RecordError: It is no such text.
    """
    value = record.get(name, otherwise)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or len(value) > _MAX_NAME or not value.isprintable():
        raise RecordError(f'"{name}" must be a short printable text, but is {value!r:.80}')
    return value


def _votes(factor: Mapping[str, Any], aspect: Aspect, labels: Sequence[str]) -> tuple[float, ...]:
    label, probs = factor["label"], factor.get("probs")
    if label not in labels:
        raise RecordError(
            f"aspect {aspect.text!r:.80} has the unknown label {label!r:.40}; expected {', '.join(labels)}"
        )
    if (
        not isinstance(probs, list)
        or len(probs) != len(labels)
        or not all(
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1 for value in probs
        )
    ):
        raise RecordError(
            f"aspect {aspect.text!r:.80} needs {len(labels)} probs from 0 to 1, one for each of {', '.join(labels)}, "
            f"but has {probs!r:.80}"
        )
    total = math.fsum(probs)
    if abs(total - 1) > _TOLERANCE:
        raise RecordError(f"aspect {aspect.text!r:.80} has probs {probs} that sum to {total:.4g} instead of one")
    if probs[labels.index(label)] < max(probs):
        raise RecordError(f"aspect {aspect.text!r:.80} has the label {label}, but its probs {probs} favour another")
    return tuple(float(value) if abs(total - 1) <= _EXACT else value / total for value in probs)


def _raters(factor: Mapping[str, Any], aspect: Aspect) -> int | None:
    raters = factor.get("raters")
    if raters is not None and (
        not isinstance(raters, int) or isinstance(raters, bool) or not 1 <= raters <= _MAX_RATERS
    ):
        raise RecordError(
            f"aspect {aspect.text!r:.80} has {raters!r:.40} raters; expected a whole number from 1 to {_MAX_RATERS:,}"
        )
    return raters


def known_aspect(name: object) -> Aspect:
    """Return a name as an aspect.

    Raises:
        RecordError: It cannot be one.
    """
    if not isinstance(name, str):
        raise RecordError(f"an aspect's name must be words, but is {name!r:.80}")
    try:
        return _aspect_of(name)
    except AspectError as error:
        raise RecordError(str(error)) from error


# Thousands of distinct aspects stand in a million factors, and each takes a while to bring to its form.
@lru_cache(maxsize=65536)
def _aspect_of(name: str) -> Aspect:
    return Aspect(name)


@lru_cache(maxsize=65536)
def slug_of(aspect: Aspect) -> str:
    """Return an aspect's slug, remembered."""
    return aspect.slug
