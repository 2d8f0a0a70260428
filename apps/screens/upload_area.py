"""Where a user drops, chooses or takes a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import streamlit as st

from apps.resources import Resources
from apps.web_pictures import download_picture
from tpips_model.errors import TpipsError
from tpips_model.images import IMAGE_SUFFIXES

__all__ = ["UploadSession", "show_upload_area"]

CAMERA = "tpips-camera"
CAMERA_NAME = "picture by camera"


class UploadSession(Protocol):
    """What an upload area needs of a page's session: a counter for fresh areas, and room for what went wrong."""

    uploads: int
    notices: list[str]


def show_upload_area(
    resources: Resources,
    session: UploadSession,
    label: str,
    key: str,
    use: Callable[[str], None],
    *,
    folded: bool = False,
) -> None:
    """Show an area that takes a picture: a file, one at an address that is pasted, or one of the camera.

    Args:
        resources: What all sessions share.
        session: The page's session.
        label: What the area says.
        key: Its name; another one gives an empty area.
        use: Called with the picture's hash.
        folded: Whether all but files is kept in pop-overs, to take little room.
    """

    def attempt(picture: Callable[[], tuple[bytes, str]]) -> None:
        try:
            use(resources.uploads.add(*picture()))
        except TpipsError as error:
            session.notices.append(str(error))
        session.uploads += 1

    def take(name: str) -> None:
        given: Any = st.session_state.get(name)
        if given is not None:
            attempt(lambda: (given.getvalue(), given.name))

    def shoot(name: str) -> None:
        given: Any = st.session_state.get(name)
        if given is not None:
            attempt(lambda: (given.getvalue(), CAMERA_NAME))

    def fetch(name: str) -> None:
        address = str(st.session_state.get(name) or "")
        if address.strip():
            attempt(lambda: download_picture(address))

    kinds = [suffix.removeprefix(".") for suffix in sorted(IMAGE_SUFFIXES)]
    st.file_uploader(label, kinds, key=f"file-{key}", on_change=take, args=(f"file-{key}",))
    with st.container(horizontal=True, gap="small") if folded else st.container(gap="small"):
        if resources.settings.web:
            name = f"address-{key}"
            with st.popover("Address", icon=":material/link:") if folded else st.container():
                st.text_input(
                    "Paste the address of a picture", key=name, max_chars=4000, placeholder="https://…",
                    on_change=fetch, args=(name,),
                )  # fmt: skip
        # The camera runs only while it is asked for: a pop-over that is shut must not hold it.
        name = f"{CAMERA}-{key}"
        area: Any
        if folded:
            area = st.popover("Camera", icon=":material/photo_camera:", key=name, on_change="rerun")
            asked = bool(area.open)
        else:
            area, asked = st.container(), st.toggle("Use the camera", key=name)
        with area:
            if asked:
                # Otherwise a picture has as many pixels as the area on the page, few on a phone.
                st.camera_input(
                    "Take a picture", key=f"camera-{key}", on_change=shoot, args=(f"camera-{key}",), resolution="720p"
                )
