"""From what the Compose page asks to a query of the Searcher."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from apps.filter_choices import filter_text
from apps.query_state import QueryState
from apps.resources import Resources
from search import Hits, Term
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError, TpipsError

__all__ = ["NEAR_DUPLICATE", "Question", "ask"]

NEAR_DUPLICATE = 0.98


@dataclass(frozen=True)
class Question:
    """A query as the Searcher takes it.

    Attributes:
        terms: Those of the rows that can be asked.
        remarks: Why other rows are left out, in plain words.
        state: What the page asks.
        penalty: λ.
    """

    terms: tuple[Term, ...]
    remarks: tuple[str, ...]
    state: QueryState
    penalty: float

    @classmethod
    def of(cls, state: QueryState, resources: Resources) -> Question:
        """Make a query of what a page asks, leaving out rows that cannot be answered."""
        indexed = {aspect.slug for aspect in resources.searcher.aspects}
        terms, remarks = [], []
        for row in state.active:
            try:
                aspect = Aspect.of(row.aspect)
                if aspect.slug not in indexed:
                    remarks.append(not_indexed(aspect, resources))
                    continue
                terms.append(Term(resources.image(row.picture), aspect, row.weight))
            except AspectError as error:
                remarks.append(f"{row.aspect!r} cannot be a sense of similarity: {error}")
            except TpipsError as error:
                remarks.append(f"A row is left out: {error}")
        recommended = resources.searcher.index.manifest.model.recommended_overall_penalty
        return cls(tuple(terms), tuple(remarks), state, state.effective_penalty(recommended))


def not_indexed(aspect: Aspect, resources: Resources) -> str:
    """Return, kindly, that an aspect has no vectors yet and what adds them."""
    command = (
        f"tpips-index build --out {shlex.quote(str(resources.settings.index))} --aspect {shlex.quote(aspect.text)}"
    )
    return (
        f"The pictures have not been looked at for “{aspect.text}” yet, so this row is left out. They can be asked "
        f"for {', '.join(resources.aspects)}. To add it, run this in a terminal; the app finds it at your next click: "
        f"{command}"
    )


def ask(resources: Resources, question: Question, *, count: int | None = None) -> Hits:
    """Return the page of results that is asked for.

    Args:
        resources: What all sessions share.
        question: The query.
        count: How many of the best instead of a page.

    Raises:
        TpipsError: As ``Searcher.query``.
    """
    state = question.state
    return resources.searcher.query(
        question.terms,
        k=count if count is not None else state.page_size,
        overall_penalty=question.penalty,
        where=filter_text(state.choices, state.where),
        dedupe=NEAR_DUPLICATE if state.collapse else None,
        offset=0 if count is not None else (state.page - 1) * state.page_size,
    )
