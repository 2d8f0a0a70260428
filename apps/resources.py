"""What all sessions of the app share: the index, the model, uploads and thumbnails."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import cast

import streamlit as st

from apps.app_settings import AppSettings
from apps.index_view import IndexView, picture_address
from apps.query_state import PictureRef
from apps.shared_embedder import SharedEmbedder
from apps.thumbnails import Thumbnails
from apps.uploads import UploadStore
from indexer import IndexDirectory
from search import Searcher
from tpips_model.embedder import Embedder
from tpips_model.errors import TpipsError
from tpips_model.images import ImageLike

__all__ = ["Resources", "open_resources", "upload_address"]


@dataclass(frozen=True, eq=False)
class Resources:
    """One of each for all sessions; nothing in it belongs to a session.

    Attributes:
        settings: What the app was started with.
        searcher: The index, queried.
        embedder: The model.
        uploads: Pictures that users brought.
        thumbnails: Pictures as they are shown.
        vote_lock: Held by whoever writes a vote.
    """

    settings: AppSettings
    searcher: Searcher
    embedder: SharedEmbedder
    uploads: UploadStore
    thumbnails: Thumbnails
    vote_lock: threading.Lock
    _views: dict[str, IndexView] = field(default_factory=dict, repr=False)

    @property
    def view(self) -> IndexView:
        """The version of the index that is searched now."""
        view = self._views.get("now")
        if view is None or view.index is not self.searcher.index:
            view = self._views["now"] = IndexView(self.searcher.index)
        return view

    def refresh(self) -> None:
        """Go on with the index as it is now; costs a look at one file.

        Raises:
            TpipsError: It has changed, and cannot be opened; the version before goes on serving.
        """
        self.searcher.refresh()

    @property
    def aspects(self) -> tuple[str, ...]:
        """The aspects that can be asked for, overall last."""
        return self.view.aspects

    def image(self, ref: PictureRef) -> ImageLike:
        """Return a picture as the Searcher takes it: an indexed item's key, or the bytes of an upload.

        Raises:
            TpipsError: There is no such item, or the upload is not kept any more.
        """
        if ref.kind == "key":
            if ref.name not in self.searcher.keys:
                near = self.searcher.keys.near(ref.name)
                hint = f"; did you mean {', '.join(near)}?" if near else ""
                raise TpipsError(f"the index has no picture {ref.name!r}{hint}")
            return ref.name
        return self.upload(ref.name)

    def upload(self, digest: str) -> bytes:
        """Return an uploaded picture's bytes.

        Raises:
            TpipsError: It is not kept any more.
        """
        data = self.uploads.get(digest)
        if data is None:
            raise TpipsError(
                "this picture was uploaded earlier and is not kept any more (links keep uploaded pictures only as "
                "long as the app runs and has room); drop it here again"
            )
        return data

    def picture_bytes(self, ref: PictureRef) -> bytes:
        """Return the bytes of a picture's file.

        Raises:
            TpipsError: It cannot be had.
        """
        if ref.kind == "upload":
            return self.upload(ref.name)
        row = self.searcher.keys.row(str(self.image(ref)))
        assert row is not None  # ``image`` has found the key
        view = self.view
        return view.index.item_bytes(view.record(row))

    def address(self, ref: PictureRef, size: int) -> str:
        """Return where a browser finds a picture, or nothing if it is not there any more."""
        if ref.kind == "upload":
            return upload_address(ref.name, size) if self.uploads.get(ref.name) is not None else ""
        row = self.searcher.keys.row(ref.name)
        return "" if row is None else picture_address(self.view.index, row, size)

    def label(self, ref: PictureRef) -> str:
        """Return what to call a picture."""
        return ref.name if ref.kind == "key" else self.uploads.name(ref.name)


def upload_address(digest: str, size: int) -> str:
    """Return where a browser finds an uploaded picture."""
    return f"/upload/{digest}?size={size}"


@st.cache_resource(show_spinner=False, hash_funcs={AppSettings: hash})
def open_resources(settings: AppSettings) -> Resources:
    """Open an index once for all sessions.

    Raises:
        TpipsError: There is no index, or it is damaged.
    """
    directory = IndexDirectory.open(settings.index, data_root=dict(settings.data_root) or None)
    embedder = SharedEmbedder(directory.manifest.model)
    # A SharedEmbedder's decode_at_least is known once it is loaded, and not before.
    searcher = Searcher(directory, model=cast(Embedder, embedder))
    return Resources(settings, searcher, embedder, UploadStore(), Thumbnails(), threading.Lock())
