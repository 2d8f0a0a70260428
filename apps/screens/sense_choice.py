"""Choosing senses on a page: those of the index, and a user's own words."""

from __future__ import annotations

import streamlit as st

from apps.page_style import plain
from apps.resources import Resources
from tpips_model.aspects import new_aspects
from tpips_model.errors import TpipsError

__all__ = ["choose_senses"]


def choose_senses(resources: Resources, label: str, key: str, *, most: int) -> list[str]:
    """Show what senses are chosen with, all of the index's at first; return those that can be asked for.

    Args:
        resources: What all sessions share.
        label: What the choice says.
        key: Its name on the page.
        most: How many may be chosen.
    """
    given = st.multiselect(
        label,
        resources.aspects,
        list(resources.aspects)[:most],
        key=key,
        accept_new_options=True,
        max_selections=most,
    )
    chosen: list[str] = []
    for words in given:
        try:
            chosen.append(new_aspects([words], known=resources.searcher.aspects)[0].text)
        except TpipsError as error:
            st.warning(plain(error))
    return chosen
