from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from search import Term
from search.terms import QueryError, parse_terms
from tpips_model.errors import AspectError


def test_tuples_lists_and_terms() -> None:
    as_list: Any = ["b.jpg", "color", -0.5]
    terms = parse_terms([("a.jpg", "brushwork"), as_list, Term("c.jpg", "Overall", np.float32(2))])
    assert [(term.image, str(term.aspect), term.weight) for term in terms] == [
        ("a.jpg", "brushwork", 1.0),
        ("b.jpg", "color", -0.5),
        ("c.jpg", "Overall", 2.0),
    ]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "0.5", True, None, 1j, np.array([1.0])])
def test_weight_must_be_a_finite_number(weight: object) -> None:
    with pytest.raises(QueryError, match="the weight of aspect 'brushwork' must be a finite number"):
        parse_terms([("a.jpg", "brushwork", weight)])  # type: ignore[list-item]


def test_one_zero_weight_is_fine_and_all_are_not() -> None:
    parse_terms([("a.jpg", "brushwork", 0.0), ("a.jpg", "color", 1)])
    with pytest.raises(QueryError, match="all weights of the query are zero"):
        parse_terms([("a.jpg", "brushwork", 0.0), ("a.jpg", "color", -0.0)])


@pytest.mark.parametrize(
    "terms",
    [("a.jpg", "brushwork"), ("a.jpg", "brushwork", 1.0), [("a.jpg",)], [("a", "b", 1, 2)], ["a.jpg"], [None]],
)
def test_what_is_no_term(terms: object) -> None:
    with pytest.raises(QueryError, match=r"a term must be .*; give a list of terms"):
        parse_terms(terms)  # type: ignore[arg-type]


@pytest.mark.parametrize("terms", ["a.jpg", b"bytes", Term("a.jpg", "brushwork"), 5])
def test_what_is_no_list_of_terms(terms: object) -> None:
    with pytest.raises(QueryError, match="a query must be a list of terms"):
        parse_terms(terms)  # type: ignore[arg-type]


def test_no_terms() -> None:
    with pytest.raises(QueryError, match="at least one term"):
        parse_terms([])


def test_aspect_is_checked() -> None:
    with pytest.raises(AspectError, match="must not be empty"):
        parse_terms([("a.jpg", " ")])


def test_weight_beyond_a_float() -> None:
    with pytest.raises(QueryError, match="must be a finite number, not one too large"):
        parse_terms([("a.jpg", "brushwork", 10**400)])
