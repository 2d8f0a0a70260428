"""Compose: pictures alike in one sense, or in several senses of several pictures."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import streamlit as st

from apps.components import component, take_action
from apps.compose_session import ComposeSession
from apps.page_style import lead_html, picture_html, plain
from apps.picture_items import hit_items, record_items, term_records
from apps.query_state import PAGE_SIZES, PictureRef, QueryRow, QueryState
from apps.resources import Resources
from apps.screens.compose_answer import Question
from apps.screens.compose_export import show_export
from apps.screens.compose_filters import show_filters
from apps.screens.compose_live import answer, show_look
from apps.screens.compose_rows import show_add_card, show_row
from search import Hits
from tpips_model.errors import TpipsError

__all__ = ["LEAD", "SAMPLE", "TITLE", "show"]

SAMPLE = 36
EXAMPLES = 3
WALL = "compose-wall"
TITLE = "Find pictures that are alike in one sense"
LEAD = (
    "The colors of one picture, the brushwork of another: choose a picture, say in which sense others should be like "
    "it (from the list, or in words of your own), and add more pictures for more senses."
)


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: ComposeSession = st.session_state.setdefault("compose", ComposeSession())
    params = {name: st.query_params.get_all(name) for name in st.query_params}
    session.read_link(params, entering=st.session_state["entering"])
    if session.now.rows:
        _show_query(resources, session)
    else:
        _show_start(resources, session)
    written = session.now.to_params()
    if written != {name: st.query_params.get_all(name) for name in st.query_params}:
        st.query_params.from_dict(written)
    session.written = written


def _show_start(resources: Resources, session: ComposeSession) -> None:
    st.title(TITLE)
    st.html(lead_html(LEAD))
    _show_notices(session)
    with st.container(horizontal=True, gap="small", key="starts"):
        show_add_card(resources, session, width=330)
        _show_examples(resources, session)
    st.caption(f"Or click one of these; {len(resources.searcher):,} pictures are here.")
    seed = st.session_state.setdefault("sample", 0)
    _show_wall(
        resources, session, {"height": 150, "items": record_items(resources, resources.view.sample_rows(SAMPLE, seed))}
    )
    if st.button("Show others", icon=":material/shuffle:", key="shuffle"):
        st.session_state["sample"] = seed + 1
        st.rerun()


def _show_examples(resources: Resources, session: ComposeSession) -> None:
    senses = [aspect for aspect in resources.aspects if aspect != "overall"] or list(resources.aspects)
    rows = resources.view.sample_rows(2 * EXAMPLES, seed=12)
    if len(rows) < 2 * EXAMPLES:
        return
    keys = [record["key"] for record in resources.view.records(rows)]
    for place in range(EXAMPLES):
        pair = [
            QueryRow(PictureRef("key", keys[2 * place + side]), senses[(place + side) % len(senses)])
            for side in range(min(2, len(senses)))
        ]
        with st.container(border=True, width=262, key=f"example-{place}"):
            with st.container(horizontal=True, gap="small", wrap=False):
                for side, row in enumerate(pair):
                    with st.container(gap=None):
                        st.html(picture_html(resources.address(row.picture, 360), row.picture.name))
                        st.caption(plain(f"{'+ ' if side else ''}its {row.aspect}"))
            st.button(
                "Try this", key=f"try-{place}", width="stretch", icon=":material/add:",
                on_click=session.change, args=(QueryState(rows=tuple(pair)),),
                help=plain("Find: " + " and ".join(f"the {row.aspect} of {row.picture.name}" for row in pair)),
            )  # fmt: skip


def _show_query(resources: Resources, session: ComposeSession) -> None:
    _show_notices(session)
    rows, tools, answer = st.container(horizontal=True, gap="small", key="rows"), st.container(), st.container()
    # The pictures come first: they are what one waits for, and widgets take browsers longer to draw.
    with answer:
        _show_answer(resources, session)
    with rows:
        for place, row in enumerate(session.now.rows):
            show_row(resources, session, place, row)
        show_add_card(resources, session)
    with tools:
        _show_tools(resources, session)


def _show_answer(resources: Resources, session: ComposeSession) -> None:
    state = session.now
    started = time.perf_counter()
    question = Question.of(state, resources)
    hits, fault = None, None
    if question.terms:
        try:
            question, hits = answer(resources, question)
        except TpipsError as error:
            fault = error
    for remark in question.remarks:
        st.info(plain(remark), icon=":material/info:")
    if fault is not None:
        st.error(plain(fault), icon=":material/error:")
        return
    if hits is None:
        if not question.remarks:
            st.write("Switch on a row to see pictures.")
        return
    seconds = time.perf_counter() - started
    session.answered(state, hits.keys)
    _show_summary(session, hits, seconds)
    show_look(resources, session, hits)
    items = hit_items(hits, session.before if state.page == 1 else ())
    _show_wall(resources, session, {"items": items, "terms": term_records(hits)})
    _show_paging(session, len(hits), _total(session.now, hits))
    show_export(resources, hits, question)


def _total(state: QueryState, hits: Hits) -> int:
    """Return how many results there are on all pages, as far as this one tells: the query's own are left out."""
    if len(hits) == state.page_size:
        return hits.selected
    return hits[-1].rank if hits else (state.page - 1) * state.page_size


def _show_summary(session: ComposeSession, hits: Hits, seconds: float) -> None:
    if not hits and session.now.page > 1:
        st.info("There are not so many results. Go back a page.", icon=":material/last_page:")
        return
    if not hits:
        st.info("No picture matches the filters. Take one away to see more.", icon=":material/filter_alt_off:")
        return
    words = f"Pictures {hits[0].rank:,}–{hits[-1].rank:,} of {_total(session.now, hits):,}, best first"
    how = f"Answered in {seconds * 1000:.0f} ms."
    if not hits.exact and hits.live is None:
        how += f" Found by the index's codes; the best {hits.rescored:,} were scored exactly."
    came = sum(key not in session.before for key in hits.keys)
    if session.before and session.now.page == 1 and came < len(hits):
        words += f" · since the last change {came} new, {len(hits) - came} kept"
    elif session.before and session.now.page == 1:
        words += " · since the last change all are new"
    st.caption(words, help=how, width="content")


def _show_tools(resources: Resources, session: ComposeSession) -> None:
    with st.container(horizontal=True, gap="small", key="tools"):
        _show_penalty(resources, session)
        show_filters(resources, session)
        with st.popover("View", icon=":material/tune:"):
            _show_view(session)
        st.button("Undo", icon=":material/undo:", key="undo", on_click=session.undo, disabled=session.history.at == 0)
        last = session.history.at == len(session.history.states) - 1
        st.button("Redo", icon=":material/redo:", key="redo", on_click=session.redo, disabled=last)
        st.button(
            "Start over", icon=":material/restart_alt:", key="over", on_click=session.change, args=(QueryState(),)
        )


def _show_penalty(resources: Resources, session: ComposeSession) -> None:
    recommended = resources.searcher.index.manifest.model.recommended_overall_penalty
    penalty = session.now.effective_penalty(recommended)
    key = f"penalty-{session.generation}"

    def change() -> None:
        session.change(replace(session.now, penalty=float(st.session_state[key]), page=1), redraw=False)

    with st.popover("Look-alikes", icon=":material/compare:"):
        st.slider("Hold back look-alikes", 0.0, 1.0, penalty, 0.05, key=key, on_change=change, width=300)
        st.caption(
            "At 0 you get whatever is nearest. Higher values hold back pictures that are alike in everything, so that "
            "those come forward that share this one sense and differ otherwise. This is the overall penalty: the "
            f"paper uses 0.3 for one row; this index's model recommends {recommended:g}."
        )


def _show_view(session: ComposeSession) -> None:
    collapse, size = f"collapse-{session.generation}", f"size-{session.generation}"
    st.toggle(
        "Show near-duplicates once",
        session.now.collapse,
        key=collapse,
        on_change=lambda: session.change(
            replace(session.now, collapse=bool(st.session_state[collapse]), page=1), redraw=False
        ),
        help="Of pictures that hardly anyone tells apart only the best is shown; its details name the others.",
    )
    st.selectbox(
        "Pictures on a page",
        PAGE_SIZES,
        PAGE_SIZES.index(session.now.page_size),
        key=size,
        on_change=lambda: session.change(
            replace(session.now, page_size=int(st.session_state[size]), page=1), redraw=False
        ),
    )


def _show_paging(session: ComposeSession, shown: int, selected: int) -> None:
    state = session.now
    if selected <= state.page_size and state.page == 1:
        return
    pages = max(-(-selected // state.page_size), state.page if shown else 1)
    with st.container(horizontal=True, horizontal_alignment="center", vertical_alignment="center"):
        for label, icon, page, off in (
            ("Previous", ":material/chevron_left:", state.page - 1, state.page == 1),
            ("Next", ":material/chevron_right:", state.page + 1, state.page >= pages or shown < state.page_size),
        ):
            st.button(
                label, icon=icon, key=f"page-{label}", disabled=off, on_click=session.change,
                args=(replace(state, page=page),), icon_position="left" if label == "Previous" else "right",
            )  # fmt: skip
            if label == "Previous":
                st.write(f"Page {state.page:,} of {pages:,}")


def _show_wall(resources: Resources, session: ComposeSession, data: dict[str, Any]) -> None:
    aspects = [{"label": aspect, "value": aspect} for aspect in resources.aspects]
    rows = [
        {"label": f"row {place} ({row.aspect})", "value": str(place - 1)}
        for place, row in enumerate(session.now.rows, start=1)
    ]
    actions = [{"action": "only", "label": "Find more like this one by", "choices": aspects}]
    if rows:
        actions.append({"action": "add", "label": "Add it to the query as “like this by”", "choices": aspects})
        actions.append({"action": "swap", "label": "Put it in place of the picture of", "choices": rows})

    def on_act() -> None:
        session.attempt(lambda: acted_on(session.now, take_action(WALL), resources))

    data = {"label": "Pictures", "terms": [], "actions": actions} | data
    component("pictures", data, key=WALL, on_act=on_act)


def acted_on(state: QueryState, act: dict[str, str], resources: Resources) -> QueryState:
    """Return the query after something was done with a picture of the wall.

    Raises:
        TpipsError: It cannot be done.
    """
    picture = PictureRef("key", str(act.get("key")))
    resources.image(picture)
    choice = str(act.get("choice"))
    if act.get("action") == "only":
        return replace(state, rows=(QueryRow(picture, choice),), page=1)
    if act.get("action") == "add":
        return state.adding(QueryRow(picture, choice))
    if act.get("action") == "swap" and choice.isdigit() and int(choice) < len(state.rows):
        return state.with_row(int(choice), replace(state.rows[int(choice)], picture=picture))
    raise TpipsError(f"nothing can be done with {act.get('action')!r}; reload the page")


def _show_notices(session: ComposeSession) -> None:
    for notice in session.notices:
        st.warning(plain(notice), icon=":material/warning:")
    session.notices = []
