"""What all sessions of the app share: the index, the model, uploads and thumbnails."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import streamlit as st

from apps.app_settings import AppSettings
from apps.filter_choices import Facet, facets_of
from apps.query_state import PictureRef
from apps.shared_embedder import SharedEmbedder
from apps.thumbnails import Thumbnails
from apps.uploads import UploadStore
from indexer import IndexDirectory
from search import Searcher
from tpips_model.embedder import Embedder
from tpips_model.errors import TpipsError
from tpips_model.images import ImageLike

__all__ = ["Resources", "open_resources", "picture_address", "upload_address"]

KEPT_PARTS = 32


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

    @cached_property
    def aspects(self) -> tuple[str, ...]:
        """The aspects that can be asked for, overall last."""
        found = sorted(self.searcher.aspects, key=lambda aspect: aspect.is_overall)
        return tuple(aspect.text for aspect in found)

    @cached_property
    def facets(self) -> tuple[Facet, ...]:
        """The columns that can be filtered by."""
        return facets_of(self.searcher)

    def default_aspect(self) -> str:
        """Return the aspect of a new row."""
        return self.aspects[0]

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
        return self.searcher.index.item_bytes(self.record(row))

    def record(self, row: int) -> dict[str, Any]:
        """Return all columns of one item.

        Raises:
            TpipsError: There is no such row.
        """
        if not 0 <= row < len(self.searcher):
            raise TpipsError(f"the index has no row {row}")
        return self.records([row])[0]

    def records(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return all columns of some items, reading only the parts that hold them."""
        found = []
        for row in rows:
            part = bisect_right(self._starts, row) - 1
            record: dict[str, Any] = self._part(part).slice(row - self._starts[part], 1).to_pylist()[0]
            found.append(record)
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(part.rows for part in self.searcher.index.manifest.parts)][:-1]

    @cached_property
    def _part(self) -> Callable[[int], pa.Table]:
        index = self.searcher.index
        return lru_cache(maxsize=KEPT_PARTS)(lambda number: index.part_items(index.manifest.parts[number]))

    @cached_property
    def stamp(self) -> str:
        """What tells this index from any other, also from itself with more pictures."""
        return _stamp(self.searcher.index)

    def sample_rows(self, count: int, seed: int = 0) -> list[int]:
        """Return some rows, drawn at random but the same for the same seed."""
        total = len(self.searcher)
        rows = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        return [int(row) for row in rows]

    def address(self, ref: PictureRef, size: int) -> str:
        """Return where a browser finds a picture, or nothing if it is not there any more."""
        if ref.kind == "upload":
            return upload_address(ref.name, size) if self.uploads.get(ref.name) is not None else ""
        row = self.searcher.keys.row(ref.name)
        return "" if row is None else picture_address(self.searcher.index, row, size)

    def label(self, ref: PictureRef) -> str:
        """Return what to call a picture."""
        return ref.name if ref.kind == "key" else self.uploads.name(ref.name)


def picture_address(index: IndexDirectory, row: int, size: int) -> str:
    """Return where a browser finds an indexed picture; another index gives another address, so browsers may keep it."""
    return f"/picture/{row}?size={size}&of={_stamp(index)}"


def upload_address(digest: str, size: int) -> str:
    """Return where a browser finds an uploaded picture."""
    return f"/upload/{digest}?size={size}"


def _stamp(index: IndexDirectory) -> str:
    parts = index.manifest.parts
    first = next(iter(parts[0].files.values())).sha256[:12] if parts else "empty"
    return f"{first}-{index.rows}"


@st.cache_resource(show_spinner=False)
def open_resources(index: str, data_root: str, votes: str) -> Resources:
    """Open an index once for all sessions.

    Raises:
        TpipsError: There is no index, or it is damaged.
    """
    settings = AppSettings.of(Path(index), Path(data_root) if data_root else None, Path(votes))
    directory = IndexDirectory.open(settings.index, data_root=settings.data_root)
    embedder = SharedEmbedder(directory.manifest.model)
    searcher = Searcher(directory, model=cast(Embedder, embedder))  # whose decode_at_least is known once it is loaded
    return Resources(settings, searcher, embedder, UploadStore(), Thumbnails(), threading.Lock())
