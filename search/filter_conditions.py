"""The conditions of a filter as pyarrow expressions, made from the inside out."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lark import Transformer, v_args

from search.terms import QueryError

__all__ = ["EXAMPLE", "Condition", "ConditionBuilder", "columns_in_words", "shown"]

EXAMPLE = 'style = "Cubism" and year >= 1900'
# Arrow walks an expression by recursion, which overflows the stack at some ten thousand levels.
MAX_DEPTH = 200
# Arrow turns a balanced tree of "and" or "or" back into a chain when it runs it, and some thousands overrun the stack.
MAX_CONDITIONS = 1_000
MAX_SHOWN = 200
INT64 = range(-(1 << 63), 1 << 63)
COMPARISONS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def columns_in_words(schema: pa.Schema) -> str:
    """Return the columns with their types, as an error shows them."""
    return ", ".join(f"{column.name} ({column.type})" for column in schema)


def shown(text: str, length: int = MAX_SHOWN) -> str:
    """Return a text as an error quotes it."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


@dataclass(frozen=True, eq=False)
class _Value:
    """A column or a literal.

    Attributes:
        expression: It.
        kind: text, number, truth, or what Arrow calls the type of another column.
        words: What an error calls it.
        value: The literal, or the column's name.
        is_column: Which of the two it is.
    """

    expression: pc.Expression
    kind: str
    words: str
    value: Any
    is_column: bool = False


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition, how deep it nests, and of how many tests it consists."""

    expression: pc.Expression
    depth: int = 1
    tests: int = 1


@v_args(inline=True)
class ConditionBuilder(Transformer):
    """Makes expressions of what the grammar recognises, from the inside out; one method a rule."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__()
        self._schema = schema

    def bare_name(self, token: str) -> _Value:
        return self._column(str(token))

    def quoted_name(self, token: str) -> _Value:
        return self._column(token[1:-1])

    def text(self, token: str) -> _Value:
        quote = token[0]
        value = token[1:-1].replace(2 * quote, quote)
        return _Value(pc.scalar(value), "text", f"the text {shown(value)}", value)

    def number(self, token: str) -> _Value:
        whole = re.fullmatch(r"[+-]?[0-9]{1,19}", token) and int(token) in INT64
        value = int(token) if whole else float(token)
        return _Value(pc.scalar(value), "number", f"the number {token:.30}", value)

    def true(self) -> _Value:
        return _Value(pc.scalar(True), "truth", "true", True)

    def false(self) -> _Value:
        return _Value(pc.scalar(False), "truth", "false", False)

    def null(self) -> _Value:
        raise QueryError("nothing equals null in a filter; ask `column is null` or `column is not null`")

    def values(self, *values: _Value) -> tuple[_Value, ...]:
        return values

    def truth(self, column: _Value) -> Condition:
        if column.kind != "truth":
            raise QueryError(f"{column.words} is neither true nor false; compare it with a value, as in {EXAMPLE}")
        return Condition(column.expression)

    def comparison(self, left: _Value, sign: str, right: _Value) -> Condition:
        if not (left.is_column or right.is_column):
            raise QueryError(f"the filter compares {left.words} with {right.words}; a comparison must name a column")
        self._check_comparable(left, right)
        if left.kind == "truth" and COMPARISONS[sign] not in (operator.eq, operator.ne):
            raise QueryError(f"{left.words} and {right.words} are true or false, which are only = or !=, not {sign}")
        whole = all(self._is_whole(value) for value in (left, right))
        one, other = (value.expression if whole else _as_double(value) for value in (left, right))
        return Condition(COMPARISONS[sign](one, other))

    def missing(self, column: _Value) -> Condition:
        return Condition(column.expression.is_null())

    def present(self, column: _Value) -> Condition:
        return Condition(column.expression.is_valid())

    def member(self, column: _Value, values: tuple[_Value, ...]) -> Condition:
        for value in values:
            self._check_comparable(column, value)
        literals = [value.value for value in values]
        expression, kind = column.expression, self._schema.field(column.value).type
        if column.kind == "number":
            whole = all(self._is_whole(value) for value in (column, *values))
            kind = pa.int64() if whole else pa.float64()
            expression = expression.cast(kind) if whole else _as_double(column)
            literals = literals if whole else [float(literal) for literal in literals]
        found = pa.array(literals, kind)
        # Arrow says that null is no member; here it is neither that nor the contrary, so that "not in" drops it too.
        return Condition(pc.if_else(column.expression.is_valid(), expression.isin(found), pa.scalar(None, pa.bool_())))

    def no_member(self, column: _Value, values: tuple[_Value, ...]) -> Condition:
        return self.negated(self.member(column, values))

    def match(self, column: _Value, how: str, text: _Value) -> Condition:
        if column.kind != "text":
            raise QueryError(f"{column.words} is no text, which {how.lower()} needs; columns: {self._columns}")
        if how.lower() == "like":
            return Condition(pc.match_like(column.expression, text.value))
        return Condition(pc.match_substring(column.expression, text.value, ignore_case=True))

    def no_match(self, column: _Value, how: str, text: _Value) -> Condition:
        return self.negated(self.match(column, how, text))

    def negated(self, condition: Condition) -> Condition:
        return self._checked(~condition.expression, condition.depth + 1, condition.tests)

    def all(self, *conditions: Condition) -> Condition:
        return self._joined(operator.and_, conditions)

    def any(self, *conditions: Condition) -> Condition:
        return self._joined(operator.or_, conditions)

    def _joined(self, join: Callable[[Any, Any], pc.Expression], conditions: tuple[Condition, ...]) -> Condition:
        if (tests := sum(condition.tests for condition in conditions)) > MAX_CONDITIONS:
            raise QueryError(
                f"the filter has {tests:,} conditions, and {MAX_CONDITIONS:,} are the most; many values of one column "
                "are one condition with: column in [...]"
            )
        # In halves: a chain would nest as deep as it is long.
        if len(conditions) == 1:
            return conditions[0]
        left, right = (
            self._joined(join, half)
            for half in (conditions[: len(conditions) // 2], conditions[len(conditions) // 2 :])
        )
        return self._checked(
            join(left.expression, right.expression), 1 + max(left.depth, right.depth), left.tests + right.tests
        )

    def _checked(self, expression: pc.Expression, depth: int, tests: int) -> Condition:
        if depth > MAX_DEPTH:
            raise QueryError(f"the filter nests deeper than {MAX_DEPTH} levels; write it flatter")
        return Condition(expression, depth, tests)

    def _column(self, name: str) -> _Value:
        if name not in self._schema.names:
            near = difflib.get_close_matches(name, self._schema.names, 1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "text to compare with goes in quotes; columns of your own come with csv:, parquet: and the like"
            )
            raise QueryError(f"there is no column {shown(name)} to filter by ({hint}); columns: {self._columns}")
        kind = _kind(self._schema.field(name).type)
        described = f"the column {name} ({self._schema.field(name).type})"
        return _Value(pc.field(name), kind, described, name, is_column=True)

    def _check_comparable(self, left: _Value, right: _Value) -> None:
        if left.kind != right.kind:
            raise QueryError(f"{left.words} cannot be compared with {right.words}; columns: {self._columns}")

    def _is_whole(self, value: _Value) -> bool:
        """Tell whether a value needs no floating point: text, truth and whole numbers."""
        if value.is_column:
            return not pa.types.is_floating(self._schema.field(value.value).type)
        return not isinstance(value.value, float)

    @property
    def _columns(self) -> str:
        return columns_in_words(self._schema)


def _as_double(value: _Value) -> pc.Expression:
    # Left to itself Arrow compares whole numbers with 1.5 as 32-bit floats, and fails where they do not fit.
    return value.expression.cast(pa.float64(), safe=False)


def _kind(column: pa.DataType) -> str:
    if pa.types.is_string(column) or pa.types.is_large_string(column):
        return "text"
    if pa.types.is_integer(column) or pa.types.is_floating(column):
        return "number"
    return "truth" if pa.types.is_boolean(column) else str(column)
