"""Senses: what one picture is like, in every sense at once (Figure 7)."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from apps.aspect_words import explanation
from apps.live_looks import looked_at, show_indexing, shown_progress
from apps.page_style import heading_html, lead_html, picture_html, plain
from apps.picture_items import hit_items, term_records
from apps.query_state import LOOKS, PictureRef
from apps.resources import Resources
from apps.screens.picture_choice import PageSession, read_refs, show_choice, show_notices
from apps.screens.picture_wall import Action, show_wall
from apps.screens.sense_choice import choose_senses
from search import Hits, Term
from search.live import LiveLook
from tpips_model.errors import TpipsError
from tpips_model.images import ImageLike
from tpips_model.remarks import remark_on

__all__ = ["show"]

COUNT = 12
MAX_OWN = 4
PAPERS_PENALTY = 0.3


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: PageSession = st.session_state.setdefault("senses", PageSession())
    read_refs(session, {"picture": 1}, MAX_OWN)
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
            with st.container(width=460):
                own = choose_senses(
                    resources, f"And in words of your own, up to {MAX_OWN}: a row for each", "senses-words",
                    most=MAX_OWN, session=session, offered=(), placeholder="Type, and press Enter",
                )  # fmt: skip
    _explain_penalty(resources)
    own = [words for words in own if words not in resources.aspects]
    _show_rows(resources, picture, [*own, *resources.aspects], penalties, use)
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


def _answers(
    resources: Resources, image: ImageLike, senses: list[str], penalties: list[float]
) -> tuple[list[str], list[list[Hits]]]:
    """Return what can be answered, and for each penalty an answer to each sense."""
    place = st.empty()
    own = senses[: len(senses) - len(resources.aspects)]
    look = LiveLook(LOOKS[0], shown_progress(place.progress, own))
    queries = [[Term(image, aspect)] for aspect in senses]
    try:
        return senses, [resources.searcher.query_batch(queries, COUNT, penalty, live=look) for penalty in penalties]
    except TpipsError as error:
        if not own:
            raise
        st.info(plain(error), icon=":material/info:")
        return _answers(resources, image, list(resources.aspects), penalties)
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
        _show_heading(resources, aspect, answers[0][number])
        for penalty, hits in zip(penalties, answers, strict=True):
            if len(penalties) > 1:
                st.caption("as they come" if penalty == 0.0 else f"look-alikes held back by {penalty:g}")
            show_wall(
                resources, hit_items(hits[number]), f"senses-{aspect}-{penalty == 0.0}",
                label=f"Alike by {aspect}", actions={"look": action}, strip=True, height=150,
                terms=term_records(hits[number]),
            )  # fmt: skip


def _show_heading(resources: Resources, aspect: str, hits: Hits) -> None:
    model = resources.searcher.index.manifest.model.name
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        said = " ".join(filter(None, (looked_at(hits), remark_on(model, aspect)))) or explanation(aspect)
        st.html(heading_html(aspect, said), width="content")
        if hits.live is not None and hits.live.aspects:
            show_indexing(resources, hits.live.aspects, f"index-{aspect}")
