"""Choosing a picture on a page: an own one, one of a few shown, or another few."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

from apps.page_style import plain
from apps.picture_items import record_items
from apps.query_state import PictureRef
from apps.resources import Resources
from apps.screens.picture_wall import Action, show_wall
from apps.screens.upload_area import show_upload_area
from tpips_model.aspects import MAX_TEXT_LENGTH
from tpips_model.errors import TpipsError

__all__ = ["PageSession", "begin_words", "read_refs", "show_choice", "show_notices"]

SHOWN = 14
SENSE = "sense"


@dataclass
class PageSession:
    """What one session of a page remembers.

    Attributes:
        refs: The pictures that were chosen, by what they are for.
        uploads: Counts uploads, so that every one finds an empty area.
        seed: Which few pictures are shown to choose from.
        notices: What went wrong, to be shown once.
        written: What the address bar holds, or ``None`` before the first run.
        acted: Whether the user has just chosen something, rather than gone back or opened a link.
        words: The senses that were chosen, or ``None`` for those that the page begins with.
        followed: Whether the address bar has just named others.
    """

    refs: dict[str, list[PictureRef]] = field(default_factory=dict)
    uploads: int = 0
    seed: int = 0
    notices: list[str] = field(default_factory=list)
    written: dict[str, list[str]] | None = None
    acted: bool = False
    words: list[str] | None = None
    followed: bool = False

    def put(self, name: str, refs: list[PictureRef]) -> None:
        """Take pictures that the user has just chosen."""
        self.refs[name] = refs
        self.touch()

    def touch(self) -> None:
        """Take note that the user has just chosen something."""
        self.acted = True

    def show_in_address(self) -> None:
        """Write the pictures and the senses into the address bar."""
        written = {name: [str(ref) for ref in refs] for name, refs in self.refs.items()}
        written[SENSE] = self.words or []
        self.written = {name: values for name, values in written.items() if values}
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


def begin_words(session: PageSession, key: str, first: Sequence[str]) -> None:
    """Let a choice of senses stand at those that the address names, or that stood there before another page was shown.

    Args:
        session: The page's session.
        key: The choice's name on the page.
        first: The senses that the page begins with.
    """
    if session.followed or key not in st.session_state:
        st.session_state[key] = list(first if session.words is None else session.words)
    session.followed = False


def read_refs(session: PageSession, most: Mapping[str, int], words: int) -> None:
    """Take the pictures and senses that the address bar names, after a link was opened or the browser's back button.

    Args:
        session: The page's session.
        most: What pictures are for, and how many there may be.
        words: How many senses there may be.
    """
    acted, session.acted = session.acted, False
    given = {name: values for name in (*most, SENSE) if (values := st.query_params.get_all(name))}
    # A click that overtook the last change of the address brings the address before it: the click counts.
    if acted or not given or given == session.written:
        return
    named = [text[:MAX_TEXT_LENGTH] for text in given.pop(SENSE, [])[:words] if text.strip()]
    session.words, session.followed = list(dict.fromkeys(named)) or None, True
    for name, texts in given.items():
        refs = []
        for text in texts[: most[name]]:
            try:
                refs.append(PictureRef.parse(text))
            except TpipsError as error:
                session.notices.append(str(error))
        session.refs[name] = refs
