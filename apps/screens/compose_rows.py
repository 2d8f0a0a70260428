"""The rows of a query on the Compose page, and the card that adds one."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from apps.aspect_words import explained_by
from apps.compose_session import ComposeSession
from apps.page_style import HUES, picture_html, plain
from apps.query_state import MAX_ROWS, PictureRef, QueryRow
from apps.resources import Resources
from apps.screens.upload_area import show_upload_area
from tpips_model.errors import AspectError

__all__ = ["show_add_card", "show_row"]

CARD_WIDTH = 372


def show_row(resources: Resources, session: ComposeSession, place: int, row: QueryRow) -> None:
    """Show one row with its controls."""
    number = place + 1
    with (
        st.container(border=True, width=CARD_WIDTH, key=f"card-{place % len(HUES)}-{place}"),
        st.container(horizontal=True, gap="small", wrap=False),
    ):
        with st.container(width=104, gap="xsmall"):
            alt = f"Picture of row {number}: {resources.label(row.picture)}"
            st.html(picture_html(resources.address(row.picture, 360), alt))
            _show_swap(resources, session, place)
        with st.container(width="stretch", gap=None):
            _show_aspect(resources, session, place, row)
            _show_weight(session, place, row)
            with st.container(horizontal=True, gap="small", vertical_alignment="center"):
                _show_switch(session, place, row)
                st.button(
                    "Remove",
                    icon=":material/close:",
                    key=f"remove-{session.generation}-{place}",
                    type="tertiary",
                    on_click=lambda: session.change(session.now.without_row(place)),
                )


def show_add_card(resources: Resources, session: ComposeSession, width: int = CARD_WIDTH) -> None:
    """Show the card that adds a picture."""
    if len(session.now.rows) >= MAX_ROWS:
        return

    def add(digest: str) -> None:
        row = session.new_row(PictureRef("upload", digest), resources.aspects)
        session.attempt(lambda: session.now.adding(row))

    with st.container(border=True, width=width, gap="xsmall", key="card-add"):
        show_upload_area(resources, session, "Add a picture of your own", f"add-{session.uploads}", add, folded=True)


def _show_swap(resources: Resources, session: ComposeSession, place: int) -> None:
    def swap(digest: str) -> None:
        row = replace(session.now.rows[place], picture=PictureRef("upload", digest))
        session.change(session.now.with_row(place, row))

    with st.popover("Swap", width="stretch", key=f"swap-{session.generation}-{place}"):
        show_upload_area(resources, session, "Another picture", f"swap-{session.uploads}-{place}", swap)
        st.caption("Or click a picture below and choose “Put it in place of”.")


def _show_aspect(resources: Resources, session: ComposeSession, place: int, row: QueryRow) -> None:
    key = f"aspect-{session.generation}-{place}"
    options = list(dict.fromkeys([*resources.aspects, row.aspect]))

    def change() -> None:
        chosen = str(st.session_state[key] or row.aspect)
        session.change(session.now.with_row(place, replace(session.now.rows[place], aspect=chosen)), redraw=False)

    st.selectbox(
        f"In which sense, row {place + 1}" if place else "In which sense? Choose, or type",
        options,
        options.index(row.aspect),
        key=key,
        on_change=change,
        accept_new_options=True,
    )
    try:
        words = explained_by(resources.searcher.index.manifest.model.name, row.aspect)
    except AspectError as error:
        words = str(error)
    st.caption(plain(words))


def _show_weight(session: ComposeSession, place: int, row: QueryRow) -> None:
    key = f"weight-{session.generation}-{place}"
    reach = max(1.0, abs(row.weight))

    def change() -> None:
        weight = float(st.session_state[key])
        session.change(session.now.with_row(place, replace(session.now.rows[place], weight=weight)), redraw=False)

    st.slider(
        f"How much row {place + 1} counts",
        -reach,
        reach,
        row.weight,
        0.05,
        key=key,
        on_change=change,
        format="%.2f",
        label_visibility="collapsed",
    )


def _show_switch(session: ComposeSession, place: int, row: QueryRow) -> None:
    key = f"on-{session.generation}-{place}"

    def change() -> None:
        on = bool(st.session_state[key])
        session.change(session.now.with_row(place, replace(session.now.rows[place], on=on)), redraw=False)

    st.toggle("On", row.on, key=key, on_change=change)
