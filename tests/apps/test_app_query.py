"""A query on the Compose page: its link, its filters, its history."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.aspect_words import explained_by
from apps.compose_session import ComposeSession
from apps.filter_choices import FilterChoice, facets_of, filter_text
from apps.query_state import MAX_ROWS, History, PictureRef, QueryRow, QueryState, state_from_params
from apps.resources import Resources
from apps.screens.compose import acted_on
from apps.screens.compose_export import link
from apps.screens.compose_filters import example_filter
from indexer import IndexDirectory
from search import Searcher
from tests.fixtures.app_gallery import COUNT, STYLES
from tpips_model.errors import TpipsError

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)
rows = st.builds(
    QueryRow,
    st.builds(PictureRef, st.sampled_from(["key", "upload"]), words),
    words.filter(lambda text: text.strip()),
    st.integers(-400, 400).map(lambda number: number / 20),
    st.booleans(),
)
choices = st.one_of(
    st.builds(FilterChoice, words, st.sampled_from(["any", "has"]), words),
    st.builds(FilterChoice, words, st.sampled_from(["min", "max"]), st.integers(-(10**9), 10**9).map(str)),
    st.builds(FilterChoice, words, st.just("is"), st.sampled_from(["true", "false"])),
)


@st.composite
def states(draw: st.DrawFn) -> QueryState:
    # One parameter holds all the values of a column: only their order within it is kept.
    chosen = draw(st.lists(choices, max_size=4, unique_by=lambda choice: (choice.how, choice.column)))
    return QueryState(
        rows=tuple(draw(st.lists(rows, max_size=MAX_ROWS))),
        penalty=draw(st.none() | st.integers(0, 20).map(lambda number: number / 20)),
        choices=tuple(chosen),
        where=draw(st.sampled_from(["", 'style = "Cubism"', "year >= 1900 & 50 %"])),
        collapse=draw(st.booleans()),
        page=draw(st.integers(1, 999)),
        page_size=draw(st.sampled_from([24, 48, 96])),
    )


@given(states())
def test_a_link_brings_back_the_query(state: QueryState) -> None:
    params = parse_qs(link(state).partition("?")[2], keep_blank_values=True)
    assert state_from_params(params) == (state, [])


names = st.sampled_from(["image", "aspect", "weight", "on", "page", "size", "penalty", "min.year", "is.x"])


@given(st.dictionaries(names, st.lists(st.text(), max_size=12)))
def test_no_link_breaks_the_page(params: dict[str, list[str]]) -> None:
    state, _ = state_from_params(params)
    assert len(state.rows) <= MAX_ROWS
    assert state_from_params(state.to_params()) == (state, [])


def test_what_a_link_says_wrong_is_told() -> None:
    given_params = {
        "image": ["key:a", "nonsense", "key:b", "key:c"],
        "aspect": ["mood", "mood", "", "mood"],
        "weight": ["1", "1", "1", "heavy"],
        "page": ["two"],
        "min.year": ["early"],
    }
    state, problems = state_from_params(given_params)
    assert state.rows == (QueryRow(PictureRef("key", "a"), "mood"),)
    assert [problem for problem in problems if "nonsense" in problem or "'heavy'" in problem or "'two'" in problem]
    assert len(problems) == 5


def test_one_row_has_the_recommended_penalty_and_several_none() -> None:
    one = QueryState(rows=(QueryRow(PictureRef("key", "a"), "mood"),))
    two = one.adding(QueryRow(PictureRef("key", "b"), "mood"))
    assert (one.effective_penalty(0.3), two.effective_penalty(0.3)) == (0.3, 0.0)
    off = two.with_row(1, QueryRow(PictureRef("key", "b"), "mood", on=False))
    assert off.effective_penalty(0.3) == 0.3
    assert QueryState(rows=two.rows, penalty=0.1).effective_penalty(0.3) == 0.1


def test_a_query_has_a_bounded_number_of_rows() -> None:
    row = QueryRow(PictureRef("key", "a"), "mood")
    with pytest.raises(TpipsError, match="at most 8 rows"):
        QueryState(rows=(row,) * MAX_ROWS).adding(row)


@given(st.lists(st.sampled_from(["push", "undo", "redo"]), max_size=30))
def test_history_walks_back_and_forth(steps: list[str]) -> None:
    history, trail, at = History(), [QueryState()], 0
    for number, step in enumerate(steps, start=2):
        if step == "push":
            trail, at = [*trail[: at + 1], QueryState(page=number)], at + 1
            history = history.push(QueryState(page=number))
        else:
            at = max(at - 1, 0) if step == "undo" else min(at + 1, len(trail) - 1)
            history = history.undo() if step == "undo" else history.redo()
        assert history.now == trail[at]


def test_filters_of_widgets_select_what_they_say(app_gallery: Path) -> None:
    searcher = Searcher.open(app_gallery)
    asked = [
        FilterChoice("style", "any", "Cubism"),
        FilterChoice("style", "any", "Fauvism"),
        FilterChoice("year", "min", "1910"),
        FilterChoice("year", "max", "1930"),
        FilterChoice("signed", "is", "true"),
        FilterChoice("key", "has", "PICTURE"),
    ]
    found = searcher.query([("picture 00.png", "brushwork")], COUNT, where=filter_text(asked, "year != 1912"))
    expected = {n for n in range(10, 31) if STYLES[n % 3] != "Pointillism" and n % 2 == 0 and n != 12}
    assert {hit.metadata["year"] - 1900 for hit in found} == expected


def test_values_with_quotation_marks_stay_values(app_gallery: Path) -> None:
    searcher = Searcher.open(app_gallery)
    text = filter_text([FilterChoice("style", "any", 'x"] or key contains "'), FilterChoice("style", "has", '"')])
    assert len(searcher.query([("picture 00.png", "brushwork")], where=text)) == 0


def test_facets_tell_what_columns_hold(app_gallery: Path) -> None:
    facets = {facet.column: facet for facet in facets_of(IndexDirectory.open(app_gallery))}
    assert facets["style"].values == tuple(sorted(STYLES))
    assert (facets["year"].low, facets["year"].high, facets["year"].whole) == (1900, 1939, True)
    assert (facets["signed"].kind, facets["key"].kind) == ("truth", "text")
    assert "offset" not in facets


def test_the_address_bar_is_followed_unless_a_click_overtook_it() -> None:
    session = ComposeSession()
    first = QueryState(rows=(QueryRow(PictureRef("key", "a"), "mood"),))
    session.read_link(first.to_params(), entering=False)
    session.written = first.to_params()
    session.change(QueryState(rows=(QueryRow(PictureRef("key", "b"), "mood"),)))
    session.read_link(first.to_params(), entering=False)  # the browser has not heard of the change yet
    assert session.now.rows[0].picture.name == "b"
    session.written = session.now.to_params()
    session.read_link(first.to_params(), entering=False)  # the browser's back button
    assert session.now == first
    session.written = first.to_params()
    session.read_link({}, entering=True)  # back from another page
    assert session.now == first


def test_the_penalty_is_drawn_anew_where_it_follows_the_rows() -> None:
    session = ComposeSession()
    rows = (QueryRow(PictureRef("key", "a"), "mood"), QueryRow(PictureRef("key", "b"), "mood"))
    session.change(QueryState(rows=rows))
    before = session.generation
    session.change(session.now.with_row(1, QueryRow(PictureRef("key", "b"), "mood", 0.5)), redraw=False)
    assert session.generation == before
    session.change(session.now.with_row(1, QueryRow(PictureRef("key", "b"), "mood", on=False)), redraw=False)
    assert session.generation == before + 1


def test_before_and_after_a_change(app_gallery: Path) -> None:
    session, first, second = ComposeSession(), QueryState(page=1, where="a"), QueryState(page=1, where="b")
    session.answered(first, ["a", "b"])
    session.answered(first, ["a", "b"])
    assert session.before == ()
    session.answered(second, ["b", "c"])
    assert session.before == ("a", "b")
    session.answered(QueryState(page=2, where="b"), ["d"])
    assert session.before == ("a", "b")
    session.answered(first, ["a"])
    assert session.before == ("b", "c")


def test_actions_of_a_picture(app_resources: Resources) -> None:
    key = "picture 05.png"
    state = acted_on(QueryState(page=3), {"action": "only", "key": key, "choice": "brushwork"}, app_resources)
    assert (state.rows, state.page) == ((QueryRow(PictureRef("key", key), "brushwork"),), 1)
    more = acted_on(state, {"action": "add", "key": "picture 06.png", "choice": "overall"}, app_resources)
    assert [row.picture.name for row in more.rows] == [key, "picture 06.png"]
    swapped = acted_on(more, {"action": "swap", "key": "picture 07.png", "choice": "0"}, app_resources)
    assert [(row.picture.name, row.aspect) for row in swapped.rows] == [
        ("picture 07.png", "brushwork"),
        ("picture 06.png", "overall"),
    ]
    for bad in ({"action": "swap", "key": key, "choice": "9"}, {"action": "burn", "key": key}):
        with pytest.raises(TpipsError, match="nothing can be done"):
            acted_on(state, bad, app_resources)
    with pytest.raises(TpipsError, match="no picture 'x'"):
        acted_on(state, {"action": "only", "key": "x", "choice": "overall"}, app_resources)


def test_links_name_repeated_parameters() -> None:
    state = QueryState(rows=(QueryRow(PictureRef("key", "a b.jpg"), "mood", -0.5),))
    assert link(state, "http://x/") == "http://x/?" + urlencode(
        {"image": "key:a b.jpg", "aspect": "mood", "weight": "-0.5"}
    )


def test_the_example_of_a_filter_is_one_of_this_index(app_gallery: Path) -> None:
    searcher = Searcher.open(app_gallery)
    for facets in (facets_of(searcher.index), facets_of(searcher.index)[1:], ()):
        assert len(searcher.query([("picture 03.png", "brushwork")], where=example_filter(facets))) >= 0


def test_words_that_the_model_can_only_guess_at_are_told() -> None:
    assert explained_by("mini", "color palette") == "The same colors, in like amounts."
    assert "does not know the word 'qwrtzk'" in explained_by("mini", "qwrtzk")
    assert explained_by("another model", "qwrtzk") == "Alike in qwrtzk alone."
