"""Words that are not indexed on the Compose page: the likeliest pictures are looked at while the user waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from apps.compose_session import ComposeSession
from apps.page_style import plain
from apps.query_state import LOOKS
from apps.resources import Resources
from apps.screens.compose_answer import Question, add_command, ask
from search import Hits
from tpips_model.errors import TpipsError

__all__ = ["answer", "show_look"]

# What is known already comes sooner than this, and a bar would only flicker.
SHOWN_AFTER_SECONDS = 0.2


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
        return question, ask(resources, question, progress=_bar(place.progress, question))
    except TpipsError as error:
        without = Question.of(question.state, resources, live=False)
        if not without.terms:
            raise
        hits = ask(resources, without)  # whatever else is wrong is wrong here too
        st.info(plain(str(error)), icon=":material/info:")
        return without, hits
    finally:
        place.empty()


def _bar(show: Callable[[float, str], object], question: Question) -> Callable[[int, int], None]:
    began = time.monotonic()
    words = _quoted(question.live)

    def progress(done: int, total: int) -> None:
        if total and time.monotonic() - began > SHOWN_AFTER_SECONDS:
            show(min(done / total, 1.0), plain(f"Looking at pictures for {words}: {done:,} of {total:,}"))

    return progress


def show_look(resources: Resources, session: ComposeSession, hits: Hits) -> None:
    """Say which pictures were looked at, and offer to look at more."""
    if hits.live is None:
        return
    looked, of = hits.selected, hits.live.of
    words = _quoted(hits.live.aspects)
    verb = "is" if len(hits.live.aspects) == 1 else "are"
    if hits.exact:
        said = f"{words} {verb} not indexed: all {of:,} pictures were looked at just now."
    else:
        said = f"{words} {verb} not indexed: the {looked:,} likeliest of {of:,} pictures were looked at just now."
    if hits.live.unreadable:
        said += f" {hits.live.unreadable:,} more could not be read."
    further = next((look for look in LOOKS if look > session.now.look), None)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="looked"):
        st.caption(plain(said), width="content")
        if further is not None and looked + hits.live.unreadable < of:
            st.button(
                f"Look at {min(further, of):,}",
                icon=":material/visibility:",
                key=f"look-{further}",
                on_click=session.change,
                args=(replace(session.now, look=further, page=1),),
                help="Only those that have not been looked at yet take time.",
            )
        with st.popover("Index this sense", icon=":material/database:"):
            st.write("Run this in a terminal once; the app finds the new sense at your next click.")
            st.code(add_command(hits.live.aspects, resources), language=None, wrap_lines=True)


def _quoted(words: tuple[str, ...]) -> str:
    return " and ".join(f"“{one}”" for one in words)
