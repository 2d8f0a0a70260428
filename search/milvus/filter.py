"""The filter language as Milvus's boolean expressions.

A test of a missing value is neither true nor false in our language, and what it is in Milvus has differed between
versions once it is negated. So every condition is kept as two expressions, one true where it holds and one true where
its contrary does; both are false where it is unknown, negation swaps them, and Milvus is never asked to negate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lark import Lark, Transformer, v_args

from search.filter_conditions import ConditionBuilder
from search.filter_language import GRAMMAR, FilterLanguage
from search.milvus.connection import ROW, quoted
from search.milvus.facts import StoredColumn
from search.terms import QueryError

__all__ = ["MilvusFilterLanguage"]

ALL, NONE = f"{ROW} >= 0", f"{ROW} < 0"
_CONTRARY = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
# Whole numbers beyond are not all doubles.
EXACT = 1 << 53


@dataclass(frozen=True, eq=False)
class _Test:
    """Where a condition holds, and where its contrary does."""

    true: str
    false: str


class MilvusFilterLanguage:
    """Reads filters over given columns.

    Args:
        columns: The columns, and the fields that hold them.
        schema: The same columns with their types.

    Examples:
        >>> columns = [StoredColumn("year", "m_year", "int64")]
        >>> MilvusFilterLanguage(columns, pa.schema([("year", pa.int64())])).expression("not year < 1900.5")
        'm_year >= 1901'
    """

    def __init__(self, columns: Iterable[StoredColumn], schema: pa.Schema) -> None:
        builder = _TestBuilder({column.name: column for column in columns}, schema)
        self._language = FilterLanguage(schema)
        self._parser = Lark(GRAMMAR, parser="lalr", transformer=builder, maybe_placeholders=False)

    def expression(self, text: str) -> str:
        """Return a filter as an expression that is true for the rows it keeps.

        Raises:
            QueryError: It cannot be read, or says what Milvus cannot evaluate as the filter language means it.
        """
        self._language.expression(text)  # which says what is wrong with it
        test: _Test = self._parser.parse(text)  # type: ignore[assignment]
        return test.true


@v_args(inline=True)
class _TestBuilder(Transformer):
    """Makes tests of what the grammar recognises, from the inside out; one method a rule, as ``ConditionBuilder`` has.

    What it is given has passed that builder's checks; names and literals are that builder's too.
    """

    def __init__(self, columns: dict[str, StoredColumn], schema: pa.Schema) -> None:
        super().__init__()
        self._columns = columns
        self._schema = schema
        self._values = ConditionBuilder(schema)

    def bare_name(self, token: str) -> Any:
        return self._values.bare_name(token)

    def quoted_name(self, token: str) -> Any:
        return self._values.quoted_name(token)

    def text(self, token: str) -> Any:
        return self._values.text(token)

    def number(self, token: str) -> Any:
        return self._values.number(token)

    def true(self) -> Any:
        return self._values.true()

    def false(self) -> Any:
        return self._values.false()

    def values(self, *values: Any) -> tuple[Any, ...]:
        return values

    def truth(self, column: Any) -> _Test:
        field = self._field(column)
        return _Test(f"{field} == true", f"{field} == false")

    def comparison(self, left: Any, sign: str, right: Any) -> _Test:
        sign = {"=": "==", "<>": "!="}.get(sign, str(sign))
        if left.is_column and right.is_column:
            there = _and([self._there(left), self._there(right)])
            one, other = self._field(left), self._field(right)
            return _Test(_and([there, f"{one} {sign} {other}"]), _and([there, f"{one} {_CONTRARY[sign]} {other}"]))
        column, value = (left, right.value) if left.is_column else (right, left.value)
        if not left.is_column:
            sign = _MIRRORED.get(sign, sign)
        return _Test(self._compared(column, sign, value), self._compared(column, _CONTRARY[sign], value))

    def missing(self, column: Any) -> _Test:
        nullable = self._columns[column.value].nullable
        return _Test(f"{self._field(column)} is null" if nullable else NONE, self._there(column))

    def present(self, column: Any) -> _Test:
        return self.negated(self.missing(column))

    def member(self, column: Any, values: tuple[Any, ...]) -> _Test:
        there = self._there(column)
        if column.kind == "truth":
            known = {value.value for value in values}
            tests = {truth: self._compared(column, "==", truth) for truth in (True, False)}
            inside, outside = (
                [test for truth, test in tests.items() if (truth in known) is keep] for keep in (True, False)
            )
            return _Test(_or(inside) if inside else NONE, _or(outside) if outside else NONE)
        literals = list(dict.fromkeys(self._literal(column, value.value) for value in values))
        listed = ", ".join(literal for literal in literals if literal is not None)
        if not listed:
            return _Test(NONE, there)
        field = self._field(column)
        return _Test(f"{field} in [{listed}]", _and([there, f"{field} not in [{listed}]"]))

    def no_member(self, column: Any, values: tuple[Any, ...]) -> _Test:
        return self.negated(self.member(column, values))

    def match(self, column: Any, how: str, text: Any) -> _Test:
        if how.lower() == "contains":
            raise QueryError(
                "Milvus cannot look for text regardless of capitals, as contains does; ask for the very letters with "
                f"like, such as {column.value} like {quoted(f'%{text.value}%')}"
            )
        if not re.fullmatch(r"(?:[^\\]|\\[%_\\])*", text.value, re.DOTALL):
            raise QueryError(f"the pattern {text.value!r:.200} has a backslash that is not before %, _ or another one")
        test = f"{self._field(column)} like {quoted(text.value)}"
        return _Test(test, _and([self._there(column), f"not ({test})"]))

    def no_match(self, column: Any, how: str, text: Any) -> _Test:
        return self.negated(self.match(column, how, text))

    def negated(self, test: _Test) -> _Test:
        return _Test(test.false, test.true)

    def all(self, *tests: _Test) -> _Test:
        return _Test(_and([test.true for test in tests]), _or([test.false for test in tests]))

    def any(self, *tests: _Test) -> _Test:
        return _Test(_or([test.true for test in tests]), _and([test.false for test in tests]))

    def _field(self, column: Any) -> str:
        return self._columns[column.value].field

    def _there(self, column: Any) -> str:
        return f"{self._field(column)} is not null" if self._columns[column.value].nullable else ALL

    def _compared(self, column: Any, sign: str, value: Any) -> str:
        field = self._field(column)
        if column.kind == "truth":
            return f"{field} == {'true' if value is (sign == '==') else 'false'}"
        if pa.types.is_integer(self._schema.field(column.value).type) and isinstance(value, float):
            return self._whole_compared(column, sign, value)
        test = f"{field} {sign} {self._literal(column, value)}"
        return _and([self._there(column), test]) if sign == "!=" else test

    def _whole_compared(self, column: Any, sign: str, value: float) -> str:
        """Compare a column of whole numbers, with which Milvus compares whole numbers only."""
        literal = self._literal(column, value)
        if literal is not None:
            return self._compared(column, sign, int(literal))
        if sign in ("==", "!="):
            return NONE if sign == "==" else self._there(column)
        below = sign.startswith("<")
        return f"{self._field(column)} {'<=' if below else '>='} {math.floor(value) if below else math.ceil(value)}"

    def _literal(self, column: Any, value: Any) -> str | None:
        """Return a value as Milvus reads it, or ``None`` if no value of the column can equal it."""
        if isinstance(value, str):
            return quoted(value)
        if pa.types.is_floating(self._schema.field(column.value).type):
            if not math.isfinite(float(value)):
                raise QueryError(f"the number {value} is too large for Milvus")
            return repr(float(value))
        if isinstance(value, float):
            if not abs(value) < EXACT:
                raise QueryError(
                    f"Milvus cannot compare the whole numbers of {column.value} with {value:g} exactly; write it "
                    "without a point"
                )
            return str(int(value)) if value.is_integer() else None
        return str(value)


def _and(tests: Sequence[str]) -> str:
    kept = [test for test in dict.fromkeys(tests) if test != ALL]
    return kept[0] if len(kept) == 1 else "(" + " and ".join(kept) + ")" if kept else ALL


def _or(tests: Sequence[str]) -> str:
    kept = [test for test in dict.fromkeys(tests) if test != NONE]
    return kept[0] if len(kept) == 1 else "(" + " or ".join(kept) + ")" if kept else NONE
