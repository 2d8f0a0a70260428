"""The script that Streamlit runs for every session and every change: opens the shared things and shows one page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from apps.app_server import shared_resources
from apps.app_settings import AppSettings
from apps.page_style import STYLE, plain
from apps.resources import Resources
from apps.screens import annotate, compare, compose, index, senses, video
from tpips_model.errors import TpipsError

__all__ = ["run"]

# A picture of our own: Streamlit would fetch one of its icons from elsewhere.
ICON = Path(__file__).with_name("assets") / "icon.png"
SCREENS = {
    "compose": (compose.show, "Compose", ":material/auto_awesome_mosaic:"),
    "senses": (senses.show, "Senses", ":material/view_list:"),
    "compare": (compare.show, "Compare", ":material/compare:"),
    "video": (video.show, "Video", ":material/movie:"),
    "annotate": (annotate.show, "Annotate", ":material/how_to_vote:"),
    "index": (index.show, "Index", ":material/inventory_2:"),
}


def run() -> None:
    """Show the page that the address names."""
    st.set_page_config(page_title="Many senses of similarity", page_icon=ICON, layout="wide")
    st.html(STYLE)
    pages = {
        name: st.Page(show, title=title, icon=icon, url_path=name, default=name == "compose")
        for name, (show, title, icon) in SCREENS.items()
    }
    chosen = st.navigation(list(pages.values()), position="top")
    # On a phone Streamlit hides the pages behind an arrow; this bar stands there instead.
    with st.container(horizontal=True, gap=None, key="pages"):
        for page in pages.values():
            st.page_link(page)
    name = next(known for known, page in pages.items() if page == chosen)
    st.session_state["entering"] = st.session_state.get("screen") not in (None, name)
    st.session_state["screen"] = name
    try:
        resources = st.session_state["resources"] = shared_resources(AppSettings.from_environment())
        _show_state(resources)
        if len(resources.searcher) == 0:
            st.info("This index holds no pictures any more. Those that tpips-index add puts into it appear here.")
            return
        if st.session_state.pop("go", None) == "compose" and name != "compose":
            st.switch_page(pages["compose"])
        chosen.run()
    except TpipsError as error:
        st.error(plain(error))


def _show_state(resources: Resources) -> None:
    """Follow the index, and say what is not as it should be."""
    try:
        resources.refresh()
    except TpipsError as error:
        st.warning(f"The index has changed, and cannot be read; you see it as it was. {plain(error)}")
    if (away := resources.view.away()) is not None:
        st.info(plain(away), icon=":material/hide_image:")


if __name__ == "__main__":
    run()
