"""Terms: what a query asks for, one image and one aspect at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.errors import TpipsError
from tpips_model.images import ImageLike

__all__ = ["QueryError", "Term", "TermLike", "parse_terms"]

_EXPECTED = "give a list of terms, each (image, aspect) or (image, aspect, weight)"


class QueryError(TpipsError, ValueError):
    """A query that cannot be answered: its terms, weights, penalty, number of hits or selection."""


@dataclass(frozen=True, eq=False)
class Term:
    """One sense of similarity to one image.

    Args:
        image: A picture in any form that ``tpips_model.images.to_rgb`` takes, or the key of an indexed item. A ``str``
            is a key if the index has it, else the path of a file.
        aspect: The sense of similarity.
        weight: How much it counts, in [-inf, inf] without the ends; negative asks for dissimilarity.

    Raises:
        QueryError: The weight is no finite number, or there is no image.
        AspectError: The aspect is none.

    Examples:
        >>> Term("a.jpg", "color palette", 0.7).weight
        0.7
    """

    image: ImageLike
    aspect: AspectLike
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.image is None:
            raise QueryError("a term's image must be a picture or the key of an indexed item, not None")
        object.__setattr__(self, "aspect", Aspect.of(self.aspect))
        object.__setattr__(self, "weight", finite_number(self.weight, f"the weight of aspect {str(self.aspect)!r}"))

    @classmethod
    def of(cls, value: TermLike) -> Term:
        """Return ``value`` as a term."""
        if isinstance(value, Term):
            return value
        if not isinstance(value, (tuple, list)) or len(value) not in (2, 3):
            raise QueryError(
                f"a term must be (image, aspect) or (image, aspect, weight), not {_shown(value)}; {_EXPECTED}"
            )
        return cls(*value)


TermLike = Term | tuple[ImageLike, AspectLike] | tuple[ImageLike, AspectLike, float]


def parse_terms(values: Iterable[TermLike]) -> tuple[Term, ...]:
    """Return the terms of a query.

    Raises:
        QueryError: There are none, one is malformed, or all weights are zero.
        AspectError: An aspect is none.
    """
    if isinstance(values, (str, bytes, Term)) or not isinstance(values, Iterable):
        raise QueryError(f"a query must be a list of terms, not {_shown(values)}; {_EXPECTED}")
    terms = tuple(Term.of(value) for value in values)
    if not terms:
        raise QueryError(f"a query must have at least one term; {_EXPECTED}")
    if all(term.weight == 0.0 for term in terms):
        raise QueryError("all weights of the query are zero, so that no item scores above another; give one a weight")
    return terms


def finite_number(value: Any, what: str) -> float:
    """Return ``value`` as a float.

    Raises:
        QueryError: It is no real number (bool and text are none), infinite or NaN.
    """
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        raise QueryError(f"{what} must be a finite number, not one too large for a float") from None
    if not math.isfinite(number):
        raise QueryError(f"{what} must be a finite number, not {_shown(value)}")
    return number


def _shown(value: object) -> str:
    return (
        f"{value!r} ({type(value).__name__})" if isinstance(value, (str, int, float, bytes)) else type(value).__name__
    )
