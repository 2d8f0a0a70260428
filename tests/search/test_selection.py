"""Choosing from a part of the index: what ``where`` selects, and what is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from search import Searcher
from search.items import Items
from search.selection import MAX_KEPT, Selections
from search.terms import QueryError
from tests.fixtures.indices import write_index
from tests.search.conftest import COUNT

TERM = ("picture 01", "brushwork")


@pytest.fixture
def read(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str] | None]:
    """The columns of every reading of items."""
    asked: list[Sequence[str] | None] = []
    real = searcher.index.items

    def items(columns: Sequence[str] | None = None) -> object:
        asked.append(columns)
        return real(columns)

    monkeypatch.setattr(searcher.index, "items", items)
    return asked


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (None, range(COUNT)),
        ("year >= 1910", range(10, COUNT)),
        (pc.field("year") < 1903, range(3)),
        ('artist = "artist 2"', range(2, COUNT, 3)),
        (pc.field("key").isin(["picture 04", "picture 20"]), (4, 20)),
        ("width = 8 and height = 8", range(COUNT)),
        (pc.scalar(True), range(COUNT)),
        (pc.scalar(False), ()),
        ("year < 0", ()),
    ],
)
def test_hits_are_the_best_of_the_selection(
    searcher: Searcher, where: str | pc.Expression | None, rows: Sequence[int]
) -> None:
    everything = searcher.query([TERM], k=COUNT, exclude_queries=False)
    hits = searcher.query([TERM], k=COUNT, exclude_queries=False, where=where)
    assert [(hit.row, hit.score) for hit in hits] == [(hit.row, hit.score) for hit in everything if hit.row in rows]
    assert (hits.selected, hits.total) == (len(rows), COUNT)
    assert hits.where == (None if where is None else str(where))


def test_percentile_is_of_the_selection(searcher: Searcher) -> None:
    hits = searcher.query([TERM], k=COUNT, exclude_queries=False, where="year >= 1910")
    for hit in hits:
        lower = sum(other.score < hit.score for other in hits)
        assert hits.percentile(hit.score) == pytest.approx(100 * lower / len(hits))
    assert searcher.query([TERM], where="year < 0").percentile(0.5) == 0.0


def test_only_the_named_columns_are_read_and_once(searcher: Searcher, read: list[Sequence[str] | None]) -> None:
    selections = Selections(Items(searcher.index))
    first = selections.of('year > 1910 and artist = "artist 1"')
    assert read == [["artist", "year"]]
    again = selections.of((pc.field("year") > 1910) & (pc.field("artist") == "artist 1"))
    assert read == [["artist", "year"]]
    assert again.rows is first.rows
    selections.of(pc.scalar(True))
    assert read == [["artist", "year"]]


def test_long_lists_that_print_alike_are_told_apart(searcher: Searcher) -> None:
    lists = [[f"picture {row:02d}" for row in range(COUNT)] for _ in range(2)]
    lists[1][15] = "another"
    one, other = (pc.field("key").isin(keys) for keys in lists)
    assert str(one) == str(other)
    assert [len(searcher.query([TERM], k=COUNT, exclude_queries=False, where=w)) for w in (one, other)] == [30, 29]


def test_few_selections_are_kept(searcher: Searcher, read: list[Sequence[str] | None]) -> None:
    selections = Selections(Items(searcher.index))
    for year in [*range(1900, 1900 + MAX_KEPT), 1900, 1950, 1900, 1901]:
        selections.of(f"year = {year}")
    # 1901 was the least recently asked for when 1950 came.
    assert len(read) == MAX_KEPT + 2


def test_columns_whose_type_differs_between_parts(tmp_path: Path) -> None:
    metadata = [{"year": 1900, "note": 3}, {"year": 1901.5}, {"year": 1902, "note": "large"}, {}]
    index = write_index(tmp_path / "a=b", {"overall": np.eye(4, dtype=np.float32)}, rows_per_part=1, metadata=metadata)  # type: ignore[arg-type]
    searcher = Searcher.open(index)
    assert [str(searcher.columns.field(name).type) for name in ("year", "note")] == ["double", "string"]
    for where, rows in (("year > 1901", [1, 2]), ('note = "3" or note like "l%"', [0, 2])):
        chosen = searcher.query([("picture-000000", "overall")], where=where, exclude_queries=False)
        assert sorted(hit.row for hit in chosen) == rows


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (pc.field("yaer") == 3, r"cannot filter by \(yaer == 3\): No match for .*; columns: key \(string\), file "),
        (pc.field("artist") == 3, r"no kernel matching .*artist \(string\), year \(int64\)"),
        (pc.field("year") + 1, r"must evaluate to bool.*columns: key"),
        (pc.field("artist").cast("int32") == 1, "Failed to parse string: 'artist "),
        (pc.field(0) == "picture 01", "must name its columns rather than number them"),
        ("yaer = 3", r"no column 'yaer' .*artist \(string\), year \(int64\)"),
        (True, "where must be a filter as text or a pyarrow.compute.Expression, not bool"),
    ],
)
def test_what_cannot_select(searcher: Searcher, where: str | pc.Expression, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        searcher.query([TERM], where=where)


def test_index_without_items(tmp_path: Path) -> None:
    vectors = {"overall": np.empty((0, 4), np.float32)}
    searcher = Searcher.open(write_index(tmp_path / "index", vectors))
    assert Selections(Items(searcher.index)).of("width > 3").count == 0
