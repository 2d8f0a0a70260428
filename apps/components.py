"""The app's own parts of a page, drawn by the browser: walls of pictures and what belongs to other pages."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

__all__ = ["component", "take_action"]

ASSETS = Path(__file__).with_name("assets")


@lru_cache(maxsize=16)
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def component(name: str, data: dict[str, Any], *, key: str, on_act: Any = None) -> Any:
    """Show a part of a page.

    Args:
        name: The part: ``assets/NAME.js`` and ``assets/NAME.css``.
        data: What it shows, JSON types only.
        key: Its name on the page.
        on_act: Called when the user does something with it; ``take_action`` then tells what.
    """
    mount = st.components.v2.component(
        f"tpips_{name}",
        html=f'<div class="{name}"></div>',
        css=_asset(f"{name}.css"),
        js=_asset(f"{name}.js"),
    )
    return mount(data=data, key=key, on_act_change=on_act if on_act is not None else _nothing)


def take_action(key: str) -> dict[str, Any]:
    """Return what the user has just done with the part of this name, or nothing."""
    state = st.session_state.get(key)
    act = state.get("act") if state is not None else None
    return dict(act) if isinstance(act, dict) else {}


def _nothing() -> None:
    """Take note of nothing: the page is drawn again."""
