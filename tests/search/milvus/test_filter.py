"""Filters in Milvus hold for the rows that they describe; what Milvus cannot evaluate is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings

from search import Searcher
from search.milvus.index import MilvusIndex
from search.milvus.selection import MilvusSelections
from search.terms import QueryError
from tests.fixtures.indices import write_index
from tests.search.conftest import unit
from tests.search.milvus.conftest import COUNT, push
from tests.search.test_filter_language import ROWS, Condition, conditions

# A number that is none is missing in Milvus, and Milvus Lite compares no column of doubles with such whole numbers.
FILTERED = [
    {
        **row,
        "price": None if row["price"] != row["price"] else row["price"],
        "year": 1 << 50 if row["year"] == 2**60 + 1 else row["year"],
    }
    for row in ROWS
]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> MilvusSelections:
    folder = tmp_path_factory.mktemp("filters")
    vectors = unit(np.random.default_rng(0).standard_normal((len(ROWS), 4))).astype(np.float32)
    index = write_index(folder / "index", {"overall": vectors}, metadata=FILTERED, rows_per_part=50)
    push(index, f"milvus:{folder / 'filters.db'}/rows")
    index_there = MilvusIndex.open(f"milvus:{folder / 'filters.db'}/rows")
    return MilvusSelections(index_there.connection, index_there.facts)


@settings(max_examples=80, deadline=None)
@given(condition=conditions)
def test_filters_hold_for_the_rows_that_they_describe(filtered: MilvusSelections, condition: Condition) -> None:
    refused = re.search("contains", condition.text, re.IGNORECASE) or "1" + 30 * "0" in condition.text
    assume(not refused)
    selection = filtered.of(condition.text)
    found = selection.spread(COUNT)
    assert len(found) == selection.count
    assert found.tolist() == [number for number, row in enumerate(FILTERED) if condition.holds(row)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ('artist contains "x"', r'Milvus cannot look for text regardless of capitals.*artist like "%x%"'),
        (r'artist like "a\b"', "has a backslash that is not before"),
        ("year > 1e30", "Milvus cannot compare the whole numbers of year with 1e.30 exactly"),
        ("year >", "cannot read the filter 'year >' at its end"),
        ("color = 1", "there is no column 'color' to filter by"),
        (
            pc.field("year") > 1950,
            "filtered by text such as 'year >= 1900', not by Expression; pyarrow expressions are",
        ),
    ],
)
def test_filters_that_milvus_cannot_evaluate(address: str, where: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Searcher.open(address).query([("picture-000001", "brushwork")], where=where)
