"""The filter language against Python's own evaluation of the same condition, row by row."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.filter_language import FilterLanguage
from search.terms import QueryError

Row = dict[str, Any]
STYLES = ("Cubism", "cubism%", 'a "quoted" style', "it's", "", "日本画")
ROWS: list[Row] = [
    {
        "style": (*STYLES, None)[number % 7],
        "artist name": (None, "Monet", "monet_2")[number % 3],
        "year": (None, 1900, -5, 2**60 + 1, 1907)[number % 5],
        "price": (1.5, None, float("nan"), 1900.0, 2.0)[number // 2 % 5],
        "seen": (True, None, False)[number // 3 % 3],
    }
    for number in range(105)
]
SCHEMA = pa.schema(
    [
        ("style", pa.string()),
        ("artist name", pa.string()),
        ("year", pa.int64()),
        ("price", pa.float64()),
        ("seen", pa.bool_()),
    ]
)
TABLE = pa.Table.from_pylist(
    [{**row, "row": number} for number, row in enumerate(ROWS)], SCHEMA.append(pa.field("row", pa.int64()))
)
LANGUAGE = FilterLanguage(SCHEMA)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A filter as text, and what it should be for a row: true, false or None, as SQL has it."""

    text: str
    holds: Callable[[Row], bool | None]


def rows_of(expression: pc.Expression) -> list[int]:
    found: list[int] = TABLE.filter(expression)["row"].to_pylist()
    return sorted(found)


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, 2 * quote) + quote


texts = st.sampled_from([*STYLES, "Monet", "b"])
numbers = st.sampled_from([1900, -5, 0, 2**60 + 1, 1.5, 1899.5, -2.0, 1e3, 10**30])
quotes = st.sampled_from(["'", '"'])
keyword = st.sampled_from([str.lower, str.upper])


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    sign = draw(st.sampled_from(sorted(SIGNS)))
    value: Any
    if draw(st.booleans()):
        column, value = draw(st.sampled_from(["style", "artist name"])), draw(texts)
        shown = quoted(value, draw(quotes))
    else:
        column, value = draw(st.sampled_from(["year", "price"])), draw(numbers)
        shown = repr(value)
    name = f"`{column}`" if " " in column or draw(st.booleans()) else column
    compare = SIGNS[sign]
    if draw(st.booleans()):
        return Condition(f"{shown}{sign}{name}", lambda row: _or_none(row[column], lambda v: compare(value, v)))
    return Condition(f"{name} {sign} {shown}", lambda row: _or_none(row[column], lambda v: compare(v, value)))


@st.composite
def memberships(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(["style", "year", "price"]))
    values = draw(st.lists(texts if column == "style" else numbers, max_size=3))
    shown = ", ".join(quoted(value, draw(quotes)) if isinstance(value, str) else repr(value) for value in values)
    open_, close = draw(st.sampled_from([("[", "]"), ("(", ")")]))
    word, negated = draw(st.sampled_from([("in", False), ("NOT in", True)]))
    return Condition(
        f"{column} {word} {open_}{shown}{close}", lambda row: _or_none(row[column], lambda v: (v in values) != negated)
    )


@st.composite
def matches(draw: st.DrawFn) -> Condition:
    pattern = draw(st.sampled_from(["cubism", "Cub%", "%", "", "_ubism", "monet_", 'a "%', "%'s"]))
    how, negated = draw(st.sampled_from(["like", "contains"])), draw(st.booleans())
    expected = re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL)

    def found(value: str) -> bool:
        hit = expected.fullmatch(value) is not None if how == "like" else pattern.lower() in value.lower()
        return hit != negated

    text = f"`artist name` {'not ' if negated else ''}{draw(keyword)(how)} {quoted(pattern, draw(quotes))}"
    return Condition(text, lambda row: _or_none(row["artist name"], found))


presence = st.sampled_from(
    [
        Condition("year is null", lambda row: row["year"] is None),
        Condition("style IS NOT NULL", lambda row: row["style"] is not None),
        Condition("seen", lambda row: row["seen"]),
        Condition("seen = false", lambda row: _or_none(row["seen"], operator.not_)),
        Condition("seen in [true]", lambda row: row["seen"]),
        Condition("price < year", lambda row: _of_both(row["price"], row["year"], operator.lt)),
        Condition("`artist name` > style", lambda row: _of_both(row["artist name"], row["style"], operator.gt)),
    ]
)


def _or_none(value: Any, judge: Callable[[Any], bool]) -> bool | None:
    return None if value is None else judge(value)


def _of_both(one: Any, other: Any, judge: Callable[[Any, Any], bool]) -> bool | None:
    return None if one is None or other is None else judge(one, other)


def _and(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def joined(parts: list[Condition], word: str) -> Condition:
    if word.strip().lower() == "and":
        return Condition(f"({word.join(p.text for p in parts)})", lambda row: _and([p.holds(row) for p in parts]))

    def either(row: Row) -> bool | None:
        none_of_them = _and([_or_none(part.holds(row), operator.not_) for part in parts])
        return _or_none(none_of_them, operator.not_)

    return Condition(f"({word.join(p.text for p in parts)})", either)


conditions = st.recursive(
    st.one_of(comparisons(), memberships(), matches(), presence),
    lambda inner: st.one_of(
        st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from([" and ", " OR ", "\nand\t"])),
        inner.map(lambda c: Condition(f"not ({c.text})", lambda row: _or_none(c.holds(row), operator.not_))),
    ),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None)
@given(conditions)
def test_filters_hold_for_the_rows_that_they_describe(condition: Condition) -> None:
    expected = [number for number, row in enumerate(ROWS) if condition.holds(row)]
    assert rows_of(LANGUAGE.expression(condition.text)) == expected


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ('style = "Cubism" and year >= 1900', (pc.field("style") == "Cubism") & (pc.field("year") >= 1900)),
        ("seen or seen and not seen", pc.field("seen") | (pc.field("seen") & ~pc.field("seen"))),
        ("(seen or seen) and seen", (pc.field("seen") | pc.field("seen")) & pc.field("seen")),
        ("not seen = true", ~(pc.field("seen") == True)),  # noqa: E712
    ],
)
def test_as_expressions(text: str, expression: pc.Expression) -> None:
    assert LANGUAGE.expression(text).equals(expression)


def test_long_and_bracketed_filters() -> None:
    assert rows_of(LANGUAGE.expression(" or ".join(["year = 1907"] * 1000))) == rows_of(pc.field("year") == 1907)
    assert rows_of(LANGUAGE.expression("(" * 1000 + "seen" + ")" * 1000)) == rows_of(pc.field("seen"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read the filter '' at its end; write for example style = "),
        ('style == "x" and', "cannot read the filter .* at its end"),
        ("(seen", "at its end"),
        ("seen)", r"at '\)' \(character 5\)"),
        ("year > 5; drop", r"at '; drop' \(character 9\)"),
        ('style = "Cubism', r"at '\"Cubism' \(character 9\)"),
        ("year = 1_0", "at '1_0'"),
        ("year = ٣", "at '٣'"),
        ("year = 1900and seen", "at '1900and seen'"),
        ("__import__('os')", "there is no column '__import__'|cannot read"),
        (
            "style = Cubism",
            r"no column 'Cubism' to filter by \(text .* goes in quotes; .*\); columns: style \(string\), art",
        ),
        ("yaer = 3", r"no column 'yaer' to filter by \(did you mean year\?\)"),
        ('year = "x"', r"the column year \(int64\) cannot be compared with the text 'x'; columns: style \(string\)"),
        ("style in [3]", r"the column style \(string\) cannot be compared with the number 3"),
        ("style > year", r"the column style \(string\) cannot be compared with the column year \(int64\)"),
        ("seen < true", "which are only = or !=, not <"),
        ("year = null", "ask `column is null`"),
        ("year in [1, null]", "ask `column is null`"),
        ("style", r"the column style \(string\) is neither true nor false"),
        ('year like "19%"', r"the column year \(int64\) is no text, which like needs"),
        ("1 = 1", "a comparison must name a column"),
        ("not " * 300 + "seen", "nests deeper than 200 levels"),
        (" or ".join(["seen"] * 1_001), r"has 1,001 conditions, and 1,000 are the most; .* column in \[\.\.\.\]"),
        (" or ".join(["seen and year > 1"] * 501), "has 1,002 conditions"),
        ('style = "\udc80"', "holds bytes that are no text"),
    ],
)
def test_what_is_no_filter(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        LANGUAGE.expression(text)
