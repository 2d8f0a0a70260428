"""Sharing and taking along what the Compose page shows."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import streamlit as st

from apps.exports import contact_sheet, to_csv, to_zip
from apps.query_state import QueryState
from apps.resources import Resources
from apps.screens.compose_answer import Question, ask
from search import Hits
from tpips_model.errors import TpipsError

__all__ = ["link", "show_export"]


def link(state: QueryState, base: str = "") -> str:
    """Return the address that reproduces a query."""
    return f"{base}?{urlencode(state.to_params(), doseq=True)}"


def show_export(resources: Resources, hits: Hits, question: Question) -> None:
    """Show the link and the files of this page of results, each made only when it is asked for."""
    if not hits:
        return
    state = question.state
    with st.container(horizontal=True, horizontal_alignment="center"):
        with st.popover("Link", icon=":material/link:"):
            st.write("This link brings back this query, with its filters, on this index:")
            st.code(link(state, (st.context.url or "").split("?")[0]), language=None, wrap_lines=True)
            if any(row.picture.kind == "upload" for row in state.rows):
                st.caption(
                    "It holds no pictures. Those you uploaded are found again only in this running app, and only until "
                    "newer ones need the room."
                )
        with st.popover("Export this page", icon=":material/download:"):
            stem = "similar-pictures"
            st.download_button("Table (CSV)", to_csv(hits), f"{stem}.csv", "text/csv", on_click="ignore")
            st.download_button("JSON", hits.to_json(indent=1), f"{stem}.json", "application/json", on_click="ignore")
            # Made when they are asked for, of what is there then: a button that kept the hits would keep the files of
            # their version of the index for as long as somebody leaves the page open.
            sheet, packed = _later(resources, question, contact_sheet), _later(resources, question, to_zip)
            st.download_button("Contact sheet (PNG)", sheet, f"{stem}.png", "image/png", on_click="ignore")
            st.download_button("Pictures (ZIP)", packed, f"{stem}.zip", "application/zip", on_click="ignore")


def _later(resources: Resources, question: Question, make: Callable[[Hits], bytes]) -> Callable[[], bytes]:
    def made() -> bytes:
        try:
            return make(ask(resources, question))
        except TpipsError as error:
            return f"This could not be made: {error}\n".encode()

    return made
