"""Senses: what one picture is like, in every sense at once (Figure 7)."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from apps.aspect_words import explanation
from apps.live_looks import looked_at, shown_progress
from apps.page_style import heading_html, lead_html, picture_html, plain
from apps.picture_items import hit_items, term_records
from apps.query_state import LOOKS, PictureRef
from apps.resources import Resources
from apps.screens.picture_choice import PageSession, read_refs, show_choice, show_notices
from apps.screens.picture_wall import Action, show_wall
from search import Hits, Term
from search.live import LiveLook
from tpips_model.aspects import new_aspects
from tpips_model.errors import AspectError, TpipsError
from tpips_model.images import ImageLike

__all__ = ["show"]

COUNT = 12
PAPERS_PENALTY = 0.3


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: PageSession = st.session_state.setdefault("senses", PageSession())
    read_refs(session, {"picture": 1})
    refs = session.refs.setdefault("picture", [])
    if not refs:
        first = resources.view.records(resources.view.sample_rows(1, seed=5))[0]["key"]
        refs.append(PictureRef("key", first))

    def use(picture: PictureRef) -> None:
        session.put("picture", [picture])

    st.title("One picture, every sense")
    st.html(lead_html("What a picture is like depends on what you look at. Each row looks at one sense only."))
    show_notices(session)
    picture = refs[0]
    with st.container(horizontal=True, gap="medium", key="about"):
        with st.container(width=210, key="about-picture"):
            st.html(picture_html(resources.address(picture, 720), f"The picture: {resources.label(picture)}"))
            st.caption(plain(resources.label(picture)))
        with st.container(width="stretch"):
            with st.popover("Another picture", icon=":material/image:"):
                show_choice(resources, session, "senses", "A picture of your own", use)
            penalties = _choose_penalties(resources)
            words = st.text_input(
                "And in words of your own", key="senses-words", max_chars=200, width=320,
                placeholder="evening mood, rhythm of the lines, …",
            )  # fmt: skip
    _explain_penalty(resources)
    _show_rows(resources, picture, _senses(resources, words), penalties, use)
    session.show_in_address()


def _choose_penalties(resources: Resources) -> list[float]:
    """Show how far look-alikes are held back; return what every row is shown with, one value or two."""
    recommended = resources.searcher.index.manifest.model.recommended_overall_penalty
    penalty = st.slider(
        "Hold back look-alikes", 0.0, 1.0, recommended, 0.05, key="senses-penalty", width=320,
        help="The overall penalty: how much being alike in everything is taken off, so that those come forward that "
        "share this one sense and differ otherwise.",
    )  # fmt: skip
    both = st.toggle("Show each row with and without", key="senses-both")
    return [penalty or PAPERS_PENALTY, 0.0] if both else [penalty]


def _explain_penalty(resources: Resources) -> None:
    recommended = resources.searcher.index.manifest.model.recommended_overall_penalty
    start = "holds back nothing" if recommended == 0.0 else f"holds back {recommended:g}"
    st.caption(
        f"At first this page {start}, as Compose does for one row: that is what this index’s model recommends. The "
        f"paper, whose Figure 7 shows every row with and without, holds back {PAPERS_PENALTY:g}."
    )


def _senses(resources: Resources, words: str) -> list[str]:
    """Return the senses of the rows: a user's own words first, unless they are indexed."""
    try:
        own = new_aspects([words], known=resources.searcher.aspects) if words.strip() else ()
    except AspectError as error:
        st.warning(plain(error))
        own = ()
    indexed = {aspect.slug for aspect in resources.searcher.aspects}
    return [aspect.text for aspect in own if aspect.slug not in indexed] + list(resources.aspects)


def _answers(
    resources: Resources, image: ImageLike, senses: list[str], penalties: list[float]
) -> tuple[list[str], list[list[Hits]]]:
    """Return what can be answered, and for each penalty an answer to each sense."""
    place = st.empty()
    look = LiveLook(LOOKS[0], shown_progress(place.progress, senses[:1]))
    queries = [[Term(image, aspect)] for aspect in senses]
    try:
        return senses, [resources.searcher.query_batch(queries, COUNT, penalty, live=look) for penalty in penalties]
    except TpipsError as error:
        indexed = list(resources.aspects)
        if senses == indexed:
            raise
        st.info(plain(error), icon=":material/info:")
        return _answers(resources, image, indexed, penalties)
    finally:
        place.empty()


def _show_rows(
    resources: Resources,
    picture: PictureRef,
    senses: list[str],
    penalties: list[float],
    use: Callable[[PictureRef], None],
) -> None:
    action = Action("Look at this one instead", [("In every sense", "")], lambda key, _: use(PictureRef("key", key)))
    try:
        image = resources.image(picture)
        senses, answers = _answers(resources, image, senses, penalties)
    except TpipsError as error:
        st.error(plain(error), icon=":material/error:")
        return
    for number, aspect in enumerate(senses):
        st.html(heading_html(aspect, looked_at(answers[0][number]) or explanation(aspect)))
        for penalty, hits in zip(penalties, answers, strict=True):
            if len(penalties) > 1:
                st.caption("as they come" if penalty == 0.0 else f"look-alikes held back by {penalty:g}")
            show_wall(
                resources, hit_items(hits[number]), f"senses-{aspect}-{penalty == 0.0}",
                label=f"Alike by {aspect}", actions={"look": action}, strip=True, height=150,
                terms=term_records(hits[number]),
            )  # fmt: skip
