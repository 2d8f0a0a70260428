"""One model for all sessions, loaded when a picture first needs it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from indexer import ModelRecord
from indexer.importing.model import loadable_model
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.images import ImageLike, to_rgb
from tpips_model.loading import load_embedder

__all__ = ["SharedEmbedder"]

MAX_KEPT_VECTORS = 4096


class SharedEmbedder:
    """The ``Embedder`` that made an index, loaded at first use, with the latest vectors kept; threads take turns.

    Args:
        record: What the index's manifest says about its model.
    """

    def __init__(self, record: ModelRecord) -> None:
        self.name = record.name
        self.dim = record.dim
        self.fingerprint = record.fingerprint
        self.prompt_template = record.prompt_template
        self.recommended_overall_penalty = record.recommended_overall_penalty
        self._kept: OrderedDict[tuple[str, str], NDArray[np.float32]] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def decode_at_least(self) -> int | None:
        """The model's own ``decode_at_least``."""
        return self._model.decode_at_least

    def warm(self) -> None:
        """Load the model and run it once, so that the first user does not wait.

        Raises:
            ModelError: As ``embed``.
        """
        self.embed([np.zeros((64, 64, 3), np.uint8)], ["overall"])

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Embed every image under every aspect, as ``Embedder.embed`` does; float32 (B, A, D).

        Raises:
            ModelError: The model cannot be had, or is not the one that made the index.
            ImageError: An image cannot be read.
        """
        asked = [Aspect.of(aspect) for aspect in aspects]
        with self._lock:
            pixels = [to_rgb(image, at_least=self.decode_at_least) for image in images]
            names = [hashlib.sha256(f"{one.size}".encode() + one.tobytes()).hexdigest() for one in pixels]
            # The prompt is made of the aspect's words, so vectors are kept by them.
            new = [
                place
                for place, name in enumerate(names)
                if any((name, aspect.text) not in self._kept for aspect in asked)
            ]
            found = {(name, aspect.text): self._kept.get((name, aspect.text)) for name in names for aspect in asked}
            if new:
                made = self._model.embed([pixels[place] for place in new], asked)
                for place, vectors in zip(new, made, strict=True):
                    for aspect, vector in zip(asked, vectors, strict=True):
                        found[names[place], aspect.text] = self._kept[names[place], aspect.text] = vector
            while len(self._kept) > MAX_KEPT_VECTORS:
                self._kept.popitem(last=False)
            return np.array([[found[name, aspect.text] for aspect in asked] for name in names], np.float32)

    @cached_property
    def _model(self) -> Embedder:
        with self._lock:
            model = load_embedder(loadable_model(self.name))
            if (model.fingerprint, model.dim) != (self.fingerprint, self.dim):
                raise ModelError(
                    f"the index was made by {self.name!r} of fingerprint {self.fingerprint}, but that name now gives "
                    f"{model.fingerprint}, whose vectors cannot be compared with it; build the index anew"
                )
            return model
