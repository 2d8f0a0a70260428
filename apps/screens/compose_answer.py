"""From what the Compose page asks to a query of the Searcher."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apps.filter_choices import filter_text
from apps.near_copies import NEAR_DUPLICATE
from apps.query_state import QueryState
from apps.resources import Resources
from search import Hits, Term
from search.live import LiveLook
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError, TpipsError

__all__ = ["Question", "add_command", "ask"]

FEW_MORE = 0.25


@dataclass(frozen=True)
class Question:
    """A query as the Searcher takes it.

    Attributes:
        terms: Those of the rows that can be asked.
        remarks: Why other rows are left out, in plain words.
        state: What the page asks.
        penalty: λ.
        live: The words among the terms that are not indexed.
    """

    terms: tuple[Term, ...]
    remarks: tuple[str, ...]
    state: QueryState
    penalty: float
    live: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: QueryState, resources: Resources, *, live: bool = True) -> Question:
        """Make a query of what a page asks, leaving out rows that cannot be answered.

        Args:
            state: What the page asks.
            resources: What all sessions share.
            live: Whether pictures may be looked at for words that are not indexed; else their rows are left out.
        """
        indexed = {aspect.slug for aspect in resources.searcher.aspects}
        terms, remarks, words = [], [], {}
        for row in state.active:
            try:
                aspect = Aspect.of(row.aspect)
                if aspect.slug not in indexed and not live:
                    remarks.append(_not_indexed(aspect, resources))
                    continue
                terms.append(Term(resources.image(row.picture), aspect, row.weight))
                if aspect.slug not in indexed:
                    words[aspect.slug] = aspect.text
            except AspectError as error:
                remarks.append(f"{row.aspect!r} cannot be a sense of similarity: {error}")
            except TpipsError as error:
                remarks.append(f"A row is left out: {error}")
        recommended = resources.searcher.index.manifest.model.recommended_overall_penalty
        penalty = state.effective_penalty(recommended)
        return cls(tuple(terms), tuple(remarks), state, penalty, tuple(words.values()))


def add_command(words: Iterable[str], resources: Resources) -> str:
    """Return the command that indexes all pictures under further words."""
    aspects = "".join(f" --aspect {shlex.quote(one)}" for one in words)
    return f"tpips-index build --out {shlex.quote(str(resources.settings.index))}{aspects}"


def _not_indexed(aspect: Aspect, resources: Resources) -> str:
    return (
        f"The pictures have not been looked at for “{aspect.text}” yet, so this row is left out. They can be asked "
        f"for {', '.join(resources.aspects)}. To add it, run this in a terminal; the app finds it at your next click: "
        f"{add_command([aspect.text], resources)}"
    )


def _looked_at(look: int, count: int) -> int:
    # Nobody wants to be asked whether the last few shall be looked at too.
    return count if count <= look * (1 + FEW_MORE) else look


def ask(
    resources: Resources,
    question: Question,
    *,
    count: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Hits:
    """Return the page of results that is asked for.

    Args:
        resources: What all sessions share.
        question: The query.
        count: How many of the best instead of a page.
        progress: Called with how many pictures have been looked at for words that are not indexed, and of how many.

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
        live=LiveLook(_looked_at(state.look, len(resources.searcher)), progress) if question.live else None,
        offset=0 if count is not None else (state.page - 1) * state.page_size,
    )
