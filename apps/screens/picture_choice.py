"""Choosing a picture on a page: an own one, one of a few shown, or another few."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from apps.page_style import plain
from apps.picture_items import record_items
from apps.query_state import PictureRef
from apps.resources import Resources
from apps.screens.picture_wall import Action, show_wall
from apps.screens.upload_area import show_upload_area
from tpips_model.errors import TpipsError

__all__ = ["PageSession", "read_refs", "show_choice", "show_notices"]

SHOWN = 14


@dataclass
class PageSession:
    """What one session of a page remembers.

    Attributes:
        refs: The pictures that were chosen, by what they are for.
        uploads: Counts uploads, so that every one finds an empty area.
        seed: Which few pictures are shown to choose from.
        notices: What went wrong, to be shown once.
        written: What the address bar holds, or ``None`` before the first run.
        acted: Whether the user has just chosen a picture, rather than gone back or opened a link.
    """

    refs: dict[str, list[PictureRef]] = field(default_factory=dict)
    uploads: int = 0
    seed: int = 0
    notices: list[str] = field(default_factory=list)
    written: dict[str, list[str]] | None = None
    acted: bool = False

    def put(self, name: str, refs: list[PictureRef]) -> None:
        """Take pictures that the user has just chosen."""
        self.refs[name] = refs
        self.acted = True

    def show_in_address(self) -> None:
        """Write the pictures into the address bar."""
        self.written = {name: [str(ref) for ref in refs] for name, refs in self.refs.items()}
        st.query_params.from_dict(self.written)


def show_choice(
    resources: Resources, session: PageSession, name: str, label: str, use: Callable[[PictureRef], None]
) -> None:
    """Show what a picture can be chosen with.

    Args:
        resources: What all sessions share.
        session: The page's session.
        name: What the picture is for; names the widgets.
        label: What the upload area says.
        use: Called with the picture that was chosen.
    """
    show_upload_area(
        resources, session, label, f"{name}-{session.uploads}", lambda digest: use(PictureRef("upload", digest))
    )
    st.caption("Or click one of these:")
    choose = Action("", [], lambda key, _: use(PictureRef("key", key)))
    items = record_items(resources, resources.view.sample_rows(SHOWN, session.seed))
    show_wall(
        resources, items, f"choose-{name}", label="Pictures to choose from", actions={"choose": choose},
        strip=True, height=92, pick="choose",
    )  # fmt: skip
    if st.button("Show others", icon=":material/shuffle:", key=f"others-{name}"):
        session.seed += 1
        st.rerun()


def show_notices(session: PageSession) -> None:
    """Show what went wrong, once."""
    for notice in session.notices:
        st.warning(plain(notice), icon=":material/warning:")
    session.notices = []


def read_refs(session: PageSession, most: Mapping[str, int]) -> None:
    """Take the pictures that the address bar names, if a link was opened or the browser's back button used.

    Args:
        session: The page's session.
        most: What pictures are for, and how many there may be.
    """
    acted, session.acted = session.acted, False
    given = {name: values for name in most if (values := st.query_params.get_all(name))}
    # A click that overtook the last change of the address brings the address before it: the click counts.
    if acted or not given or given == session.written:
        return
    for name, texts in given.items():
        refs = []
        for text in texts[: most[name]]:
            try:
                refs.append(PictureRef.parse(text))
            except TpipsError as error:
                session.notices.append(str(error))
        session.refs[name] = refs
