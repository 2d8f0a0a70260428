"""The filters of the Compose page: one widget a column, and a line in the filter language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import streamlit as st

from apps.compose_session import ComposeSession
from apps.filter_choices import Facet, FilterChoice, filter_text
from apps.page_style import plain
from apps.resources import Resources

__all__ = ["example_filter", "show_filters"]


def show_filters(resources: Resources, session: ComposeSession) -> None:
    """Show the filters in a pop-over that says how many are set."""
    state = session.now
    count = len({(choice.column) for choice in state.choices}) + bool(state.where)
    with st.popover(f"Filters ({count})" if count else "Filters", icon=":material/filter_alt:", key="filters"):
        if count:
            st.button(
                "Clear all filters", key="clear-filters",
                on_click=lambda: session.change(replace(session.now, choices=(), where="", page=1)),
            )  # fmt: skip
        for facet in resources.view.facets:
            _show_facet(session, facet)
        _show_free_filter(resources, session)


def _show_facet(session: ComposeSession, facet: Facet) -> None:
    key = f"filter-{facet.column}-{session.generation}"
    held = [choice for choice in session.now.choices if choice.column == facet.column]
    chosen: Callable[[], Iterable[FilterChoice]]
    # Read inside the callback, when the widget holds what the user has just chosen.
    if facet.kind == "choices":
        default = [choice.value for choice in held if choice.value in facet.values]
        chosen = lambda: (FilterChoice(facet.column, "any", value) for value in st.session_state[key])  # noqa: E731
        st.multiselect(plain(facet.column), facet.values, default, key=key, on_change=_setter(session, facet, chosen))
    elif facet.kind == "text":
        text = next((choice.value for choice in held if choice.how == "has"), "")
        chosen = lambda: [FilterChoice(facet.column, "has", v) for v in [st.session_state[key]] if v]  # noqa: E731
        label = f"{plain(facet.column)} contains"
        st.text_input(label, text, key=key, max_chars=200, on_change=_setter(session, facet, chosen))
    elif facet.kind == "truth":
        options = ["any", "true", "false"]
        default_truth = next((choice.value for choice in held if choice.how == "is"), "any")
        chosen = lambda: [FilterChoice(facet.column, "is", v) for v in [st.session_state[key]] if v != "any"]  # noqa: E731
        place = options.index(default_truth)
        st.radio(
            plain(facet.column), options, place, key=key, horizontal=True, on_change=_setter(session, facet, chosen)
        )
    else:
        chosen = lambda: _range(facet, *st.session_state[key])  # noqa: E731
        step = 1.0 if facet.whole else None
        form = "%d" if facet.whole else None
        ends = (facet.low, facet.high, _ends(facet, held))
        st.slider(plain(facet.column), *ends, step, form, key=key, on_change=_setter(session, facet, chosen))


def _setter(session: ComposeSession, facet: Facet, chosen: Callable[[], Iterable[FilterChoice]]) -> Callable[[], None]:
    def change() -> None:
        others = tuple(choice for choice in session.now.choices if choice.column != facet.column)
        session.change(replace(session.now, choices=(*others, *chosen()), page=1), redraw=False)

    return change


def _ends(facet: Facet, held: list[FilterChoice]) -> tuple[float, float]:
    ends = {choice.how: float(choice.value) for choice in held if choice.how in ("min", "max")}
    low = min(max(ends.get("min", facet.low), facet.low), facet.high)
    high = max(min(ends.get("max", facet.high), facet.high), low)
    return low, high


def _range(facet: Facet, low: float, high: float) -> list[FilterChoice]:
    # An end left where it was asks nothing: items beyond it, and those without a value, stay in.
    lower = [FilterChoice(facet.column, "min", f"{low:.12g}")] if low > facet.low else []
    return lower + ([FilterChoice(facet.column, "max", f"{high:.12g}")] if high < facet.high else [])


def example_filter(facets: Sequence[Facet]) -> str:
    """Return a filter over columns that the index has."""
    for facet in facets:
        column = facet.column if facet.column.isidentifier() else f"`{facet.column}`"
        if facet.kind == "choices" and facet.values and '"' not in facet.values[0]:
            return f'{column} = "{facet.values[0]}"'
        if facet.kind == "number":
            return f"{column} >= {facet.low:g}"
    return 'key contains "sea"'


def _show_free_filter(resources: Resources, session: ComposeSession) -> None:
    key = f"where-{session.generation}"
    st.text_input(
        "A filter of your own",
        session.now.where,
        key=key,
        max_chars=1000,
        placeholder=example_filter(resources.view.facets),
        on_change=lambda: session.change(
            replace(session.now, where=str(st.session_state[key]).strip(), page=1), redraw=False
        ),
        help="The filter language of tpips-index query --where; it holds besides the choices above.",
    )
    if whole := filter_text(session.now.choices, session.now.where):
        st.code(whole, language=None, wrap_lines=True)
