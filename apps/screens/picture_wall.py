"""A wall or strip of pictures on a page other than Compose, where every picture leads to Compose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from apps.components import component, take_action
from apps.compose_session import ComposeSession
from apps.query_state import PictureRef, QueryRow, QueryState
from apps.resources import Resources

__all__ = ["Action", "open_in_compose", "show_wall"]


@dataclass(frozen=True)
class Action:
    """Something that can be done with a picture of a wall.

    Attributes:
        label: What the group of its buttons says.
        choices: Each button's label and value.
        act: Called with the picture's key and the value.
    """

    label: str
    choices: Sequence[tuple[str, str]]
    act: Callable[[str, str], None]


def show_wall(
    resources: Resources,
    items: Sequence[Mapping[str, Any]],
    key: str,
    *,
    label: str,
    actions: Mapping[str, Action] | None = None,
    **look: Any,
) -> None:
    """Show pictures.

    Args:
        resources: What all sessions share.
        items: What ``hit_items`` or ``record_items`` gives.
        key: The wall's name on the page.
        label: What it shows, for those who do not see it.
        actions: What can be done beside asking for more like a picture.
        look: ``strip``, ``height``, ``terms``, or ``pick``: the action that a click does at once.
    """

    def compose(picture: str, aspect: str) -> None:
        open_in_compose(QueryState(rows=(QueryRow(PictureRef("key", picture), aspect),)))

    known = dict(actions or {})
    known["compose"] = Action("Find more like this one by", [(one, one) for one in resources.aspects], compose)

    def on_act() -> None:
        act = take_action(key)
        chosen = known.get(str(act.get("action")))
        if chosen is not None:
            chosen.act(str(act.get("key")), str(act.get("choice", "")))

    groups = [
        {
            "action": name,
            "label": one.label,
            "choices": [{"label": text, "value": value} for text, value in one.choices],
        }
        for name, one in known.items()
    ]
    component(
        "pictures",
        {"label": label, "terms": [], "actions": groups, "items": list(items), **look},
        key=key,
        on_act=on_act,
    )


def open_in_compose(state: QueryState) -> None:
    """Ask a query on the Compose page and go there."""
    session: ComposeSession = st.session_state.setdefault("compose", ComposeSession())
    session.change(replace(state, penalty=session.now.penalty))
    st.session_state["go"] = "compose"
