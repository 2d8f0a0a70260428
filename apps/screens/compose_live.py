"""Words that are not indexed on the Compose page: the likeliest pictures are looked at while the user waits."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from apps.compose_session import ComposeSession
from apps.live_looks import looked_at, show_indexing, shown_progress
from apps.page_style import plain
from apps.query_state import LOOKS
from apps.resources import Resources
from apps.screens.compose_answer import Question, ask
from search import Hits
from tpips_model.errors import TpipsError

__all__ = ["answer", "show_look"]


def answer(resources: Resources, question: Question) -> tuple[Question, Hits]:
    """Return what was answered, and the page of results; without the words that are not indexed where it must be.

    Args:
        resources: What all sessions share.
        question: What is asked.

    Raises:
        TpipsError: As ``Searcher.query``.
    """
    if not question.live:
        return question, ask(resources, question)
    place = st.empty()
    try:
        return question, ask(resources, question, progress=shown_progress(place.progress, question.live))
    except TpipsError as error:
        without = Question.of(question.state, resources, live=False)
        if not without.terms:
            raise
        hits = ask(resources, without)  # whatever else is wrong is wrong here too
        st.info(plain(str(error)), icon=":material/info:")
        return without, hits
    finally:
        place.empty()


def show_look(resources: Resources, session: ComposeSession, hits: Hits) -> None:
    """Say which pictures were looked at, and offer to look at more."""
    if hits.live is None or not hits.live.of:
        return
    further = next((look for look in LOOKS if look > session.now.look), None)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="looked"):
        st.caption(plain(looked_at(hits)), width="content")
        # Where fewer were looked at than might have been, there are no more.
        if further is not None and not hits.exact and hits.selected + hits.live.unreadable >= session.now.look:
            st.button(
                f"Look at {min(further, hits.live.of):,}",
                icon=":material/visibility:",
                key=f"look-{further}",
                on_click=session.change,
                args=(replace(session.now, look=further, page=1),),
                help="Only those that have not been looked at yet take time.",
            )
        show_indexing(resources, hits.live.aspects, "index-words")
