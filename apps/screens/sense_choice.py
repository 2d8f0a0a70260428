"""Choosing senses on a page: those of the index, and a user's own words."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from apps.page_style import plain
from apps.resources import Resources
from apps.screens.picture_choice import PageSession, begin_words
from tpips_model.aspects import new_aspects
from tpips_model.errors import TpipsError

__all__ = ["choose_senses"]


def choose_senses(
    resources: Resources,
    label: str,
    key: str,
    *,
    most: int,
    session: PageSession | None = None,
    offered: Sequence[str] | None = None,
    placeholder: str | None = None,
) -> list[str]:
    """Show what senses are chosen with, all that are offered at first; return those that can be asked for, each once.

    Args:
        resources: What all sessions share.
        label: What the choice says.
        key: Its name on the page.
        most: How many may be chosen.
        session: The page's session, if the address bar names the senses.
        offered: What is offered besides words of one's own; by default the senses of the index.
        placeholder: What stands where nothing is chosen.
    """
    options = list(resources.aspects if offered is None else offered)
    held = session if session is not None else PageSession()
    begin_words(held, key, options[:most])
    given = st.multiselect(
        label,
        options,
        key=key,
        accept_new_options=True,
        max_selections=most,
        placeholder=placeholder,
        on_change=held.touch,
    )
    indexed = {aspect.slug: aspect.text for aspect in resources.searcher.aspects}
    chosen: dict[str, str] = {}
    for words in given:
        try:
            slug = (aspect := new_aspects([words], known=resources.searcher.aspects)[0]).slug
            chosen.setdefault(slug, indexed.get(slug, aspect.text))
        except TpipsError as error:
            st.warning(plain(error))
    senses = list(chosen.values())
    held.words = None if senses == options[:most] else senses
    return senses
