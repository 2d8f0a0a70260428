"""The filter language: ``style = "Cubism" and year >= 1900`` as a pyarrow expression.

As in SQL, "and" binds closer than "or", a test of a missing value is neither true nor false, keywords may be in
capitals, and a quotation mark inside text is doubled. Nothing in a filter is ever run as code.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken

from search.filter_conditions import EXAMPLE, Condition, ConditionBuilder, shown
from search.terms import QueryError

__all__ = ["FilterLanguage"]

GRAMMAR = r"""
?start: any
any: all (_OR all)*
all: negation (_AND negation)*
?negation: _NOT negation -> negated
    | test
?test: "(" any ")"
    | column -> truth
    | operand COMPARISON operand -> comparison
    | column _IS _NULL -> missing
    | column _IS _NOT _NULL -> present
    | column _IN values -> member
    | column _NOT _IN values -> no_member
    | column MATCH text -> match
    | column _NOT MATCH text -> no_match
?operand: column | literal
?literal: text | number | true | false | null
values: "[" [literal ("," literal)* [","]] "]" | "(" [literal ("," literal)* [","]] ")"
?column: NAME -> bare_name
    | QUOTED_NAME -> quoted_name
text: TEXT
number: NUMBER
true: _TRUE
false: _FALSE
null: _NULL

COMPARISON: "==" | "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
_OR.2: /or\b/i
_AND.2: /and\b/i
_NOT.2: /not\b/i
_IS.2: /is\b/i
_IN.2: /in\b/i
_NULL.2: /null\b/i
_TRUE.2: /true\b/i
_FALSE.2: /false\b/i
MATCH.2: /(like|contains)\b/i
NAME: /[^\W\d][\w.-]*/
QUOTED_NAME: /`[^`]+`/
TEXT: /"(?:[^"]|"")*"|'(?:[^']|'')*'/
NUMBER: /[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])/
%ignore /\s+/
"""


class FilterLanguage:
    """Reads filters over given columns.

    Args:
        schema: The columns that a filter may name.

    Examples:
        >>> FilterLanguage(pa.schema([("year", pa.int64())])).expression("year >= 1900")
        <pyarrow.compute.Expression (year >= 1900)>
    """

    def __init__(self, schema: pa.Schema) -> None:
        # The tree is never built: a transformer that walked one would recurse as deep as the text is nested.
        self._parser = Lark(GRAMMAR, parser="lalr", transformer=ConditionBuilder(schema), maybe_placeholders=False)

    def expression(self, text: str) -> pc.Expression:
        """Return a filter as an expression that is null or false for the rows it drops.

        Raises:
            QueryError: It cannot be read, names a column that there is not, or compares what cannot be compared.
        """
        if re.search("[\ud800-\udfff]", text):
            raise QueryError(f"the filter {shown(text)} holds bytes that are no text; write it anew")
        try:
            condition: Condition = self._parser.parse(text)  # type: ignore[assignment]
        except UnexpectedInput as error:
            raise QueryError(_unreadable(text, error)) from error
        return condition.expression


def _unreadable(text: str, error: UnexpectedInput) -> str:
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    position = error.pos_in_stream or 0
    place = "its end" if at_end else f"{shown(text[position:], 20)} (character {position + 1})"
    return (
        f"cannot read the filter {shown(text)} at {place}; write for example {EXAMPLE}, with text in quotes, and a "
        "column of an unusual name in backquotes"
    )
