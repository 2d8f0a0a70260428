"""What pages say while pictures are looked at for words that are not indexed, and afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import streamlit as st

from apps.page_style import plain
from apps.resources import Resources
from apps.screens.compose_answer import add_command
from search import Hits

__all__ = ["looked_at", "show_indexing", "shown_progress"]

# What is known already comes sooner than this, and a bar would only flicker.
SHOWN_AFTER_SECONDS = 0.2


def shown_progress(show: Callable[[float, str], object], words: Sequence[str]) -> Callable[[int, int], None]:
    """Return what shows how many pictures have been looked at, as ``LiveLook`` calls it.

    Args:
        show: Draws a bar: the share that is done, in [0, 1], and a text.
        words: What they are looked at for.
    """
    began = time.monotonic()

    def progress(done: int, total: int) -> None:
        if total and time.monotonic() - began > SHOWN_AFTER_SECONDS:
            show(min(done / total, 1.0), plain(f"Looking at pictures for {_quoted(words)}: {done:,} of {total:,}"))

    return progress


def looked_at(hits: Hits) -> str:
    """Return in a sentence which pictures were looked at for an answer; nothing where none needed to be."""
    if hits.live is None:
        return ""
    which = f"all {hits.live.of:,}" if hits.exact else f"the {hits.selected:,} likeliest of {hits.live.of:,}"
    verb = "is" if len(hits.live.aspects) == 1 else "are"
    said = f"{_quoted(hits.live.aspects)} {verb} not indexed: {which} pictures were looked at just now."
    if hits.live.unreadable:
        said += f" {hits.live.unreadable:,} more could not be read."
    return said


def show_indexing(resources: Resources, words: Sequence[str], key: str) -> None:
    """Show, behind a button, the command that indexes all pictures under further words.

    Args:
        resources: What all sessions share.
        words: They.
        key: The button's name on the page.
    """
    with st.popover("Index this sense", icon=":material/database:", key=key):
        st.write("Run this in a terminal once; the app finds the new sense at your next click.")
        st.code(add_command(words, resources), language=None, wrap_lines=True)


def _quoted(words: Sequence[str]) -> str:
    return " and ".join(f"“{one}”" for one in words)
