"""Compare: which of several pictures is closest to a reference, sense by sense (Figure 1)."""

from __future__ import annotations

import streamlit as st

from apps.comparison_example import MAX_CANDIDATES, candidates_for, example
from apps.gauges import gauges_html, verdict
from apps.page_style import lead_html, plain
from apps.picture_items import chosen_items
from apps.picture_vectors import compare_pictures
from apps.query_state import PictureRef
from apps.resources import Resources
from apps.screens.picture_choice import PageSession, read_refs, show_choice, show_notices
from apps.screens.picture_wall import Action, show_wall
from apps.screens.sense_choice import choose_senses
from tpips_model.errors import TpipsError

__all__ = ["show"]

MAX_SENSES = 12


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: PageSession = st.session_state.setdefault("compare", PageSession())
    read_refs(session, {"reference": 1, "candidate": MAX_CANDIDATES}, MAX_SENSES)
    _complete(resources, session)
    st.title("Which one is closest? It depends.")
    st.html(
        lead_html(
            "One reference, several candidates. Each sense has an answer of its own; bars compare within "
            "a row, since senses have scales of their own."
        )
    )
    show_notices(session)
    _show_choices(resources, session)
    aspects = choose_senses(
        resources, "Senses to compare by: those of the index, or your own words", "compare-aspects",
        most=MAX_SENSES, session=session,
    )  # fmt: skip
    (reference, *_), candidates = session.refs["reference"], session.refs["candidate"]
    if candidates and aspects:
        _show_comparison(resources, reference, candidates, aspects)
    else:
        st.info("Add a candidate and a sense to compare by.")
    session.show_in_address()


def _complete(resources: Resources, session: PageSession) -> None:
    """See to it that there is a reference, and candidates unless there are to be none."""
    try:
        for reference in session.refs.get("reference", []):
            resources.image(reference)
            if "candidate" not in session.refs:
                session.refs["candidate"] = candidates_for(resources, reference)
    except TpipsError as error:
        session.notices.append(f"The link's reference cannot be shown: {error}")
        session.refs.clear()
    if not session.refs.get("reference"):
        reference, session.refs["candidate"] = example(resources, session.seed)
        session.refs["reference"] = [reference]


def _show_choices(resources: Resources, session: PageSession) -> None:
    def use_reference(picture: PictureRef) -> None:
        session.put("reference", [picture])

    def add_candidate(picture: PictureRef) -> None:
        held = session.refs["candidate"]
        if picture not in held:
            session.put("candidate", [*held, picture][-MAX_CANDIDATES:])

    def choose() -> None:
        session.seed += 1
        reference, candidates = example(resources, session.seed)
        session.put("reference", [reference])
        session.put("candidate", candidates)

    with st.container(horizontal=True, gap="small"):
        with st.popover("Another reference", icon=":material/image:"):
            show_choice(resources, session, "reference", "A picture of your own", use_reference)
        with st.popover("Add a candidate", icon=":material/add_photo_alternate:"):
            show_choice(resources, session, "candidate", "A picture of your own", add_candidate)
        st.button("Choose for me", icon=":material/shuffle:", key="compare-choose", on_click=choose)
        if session.refs["candidate"]:
            with st.popover("Take away", icon=":material/close:", key="compare-take-away"):
                _show_taking_away(resources, session)


def _show_taking_away(resources: Resources, session: PageSession) -> None:
    held = session.refs["candidate"]

    def take_away(ref: str, _: str) -> None:
        session.put("candidate", [one for one in held if str(one) != ref])

    st.caption("Click the candidate that is to go:")
    show_wall(
        resources, chosen_items(resources, held), "compare-held", label="Candidates, to be taken away",
        actions={"take-away": Action("", [], take_away)}, strip=True, height=92, pick="take-away",
    )  # fmt: skip
    st.button("All of them", key="compare-clear", on_click=session.put, args=("candidate", []))


def _show_comparison(
    resources: Resources, reference: PictureRef, candidates: list[PictureRef], aspects: list[str]
) -> None:
    try:
        with st.spinner("Comparing…", show_time=True):
            comparison = compare_pictures(resources, reference, candidates, aspects)
    except TpipsError as error:
        st.error(plain(error), icon=":material/error:")
        return
    st.html(
        gauges_html(
            comparison,
            (resources.label(reference), resources.address(reference, 360)),
            [resources.address(candidate, 360) for candidate in candidates],
        )
    )
    st.markdown(verdict(comparison))
    st.download_button(
        "Table (Markdown)", comparison.to_markdown(), "comparison.md", "text/markdown", on_click="ignore",
        icon=":material/download:",
    )  # fmt: skip
