"""The model of an index, loaded when a query first holds a picture."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from indexer.importing.model import loadable_model
from search.query_image import QueryImage, embed_pictures
from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder

__all__ = ["QueryEmbedder"]


class QueryEmbedder:
    """Embeds the pictures of queries; threads take turns.

    Args:
        index: The index whose model embeds.
        model: Embeds instead of the model that the index names; it must have the same fingerprint.

    Raises:
        ModelError: ``model`` is not the one that made the index.
    """

    def __init__(self, index: IndexDirectory, model: Embedder | None) -> None:
        # Not the index itself, whose superseded files would stay for as long as the model does.
        self._path, self._record = index.path, index.manifest.model
        if model is not None:
            self._check(model)
        self._given = model
        self._model = model
        self._lock = threading.Lock()

    def of_index(self, index: IndexDirectory) -> QueryEmbedder:
        """Return what embeds for another version of the index: this, unless it was made anew by another model.

        Raises:
            ModelError: The model that was given, and not loaded by name, is not the one that made the index.
        """
        if index.manifest.model == self._record:
            return self
        return QueryEmbedder(index, self._given)

    @property
    def decode_at_least(self) -> int | None:
        """The model's ``decode_at_least``.

        Raises:
            ModelError: The model that made the index cannot be had.
        """
        with self._lock:
            return self._loaded().decode_at_least

    def __call__(self, images: Sequence[QueryImage], aspects: Sequence[Aspect]) -> list[dict[str, NDArray[np.float64]]]:
        """Return the unit vectors (D,) of each picture by the aspects' slugs.

        Raises:
            ModelError: The model that made the index cannot be had.
            ImageError: A picture cannot be read.
        """
        with self._lock:
            return embed_pictures(images, aspects, self._loaded())

    def _loaded(self) -> Embedder:
        if self._model is None:
            model = load_embedder(loadable_model(self._record.name))
            self._check(model)
            self._model = model
        return self._model

    def _check(self, model: Embedder) -> None:
        record = self._record
        if (model.fingerprint, model.dim) != (record.fingerprint, record.dim):
            raise ModelError(
                f"the index {self._path} was made by the model {record.name!r} (fingerprint {record.fingerprint}, "
                f"{record.dim} dimensions), and pictures would be embedded by {model.name!r} (fingerprint "
                f"{model.fingerprint}, {model.dim} dimensions), whose vectors cannot be compared with it; use the "
                "model that made the index, query by keys alone, or build a new index"
            )
