"""Where a user drops, chooses or takes a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import streamlit as st

from apps.resources import Resources
from tpips_model.errors import TpipsError
from tpips_model.images import IMAGE_SUFFIXES

__all__ = ["UploadSession", "show_upload_area"]

CAMERA = "tpips-camera"


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
    camera: bool = True,
) -> None:
    """Show an area that takes a picture.

    Args:
        resources: What all sessions share.
        session: The page's session.
        label: What the area says.
        key: Its name; another one gives an empty area.
        use: Called with the picture's hash.
        camera: Whether to offer the camera.
    """

    def take(name: str) -> None:
        given: Any = st.session_state.get(name)
        for file in given if isinstance(given, list) else [given]:
            if file is None:
                continue
            try:
                use(resources.uploads.add(file.getvalue(), file.name))
            except TpipsError as error:
                session.notices.append(str(error))
        session.uploads += 1

    kinds = [suffix.removeprefix(".") for suffix in sorted(IMAGE_SUFFIXES)]
    st.file_uploader(label, kinds, key=f"file-{key}", on_change=take, args=(f"file-{key}",))
    if camera and st.toggle("Use the camera", key=f"{CAMERA}-{key}"):
        st.camera_input("Take a picture", key=f"camera-{key}", on_change=take, args=(f"camera-{key}",))
