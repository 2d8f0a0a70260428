"""Pictures that users bring: checked, bounded, shared by content hash, and kept in memory only."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from tpips_model.errors import ImageError
from tpips_model.images import to_rgb

__all__ = ["MAX_UPLOAD_BYTES", "UploadStore"]

MAX_UPLOAD_BYTES = 20 << 20
# Decoding a picture of so many pixels takes about 0.2 GB for a moment.
MAX_UPLOAD_PIXELS = 50_000_000
MAX_KEPT_BYTES = 256 << 20
HASH_LENGTH = 32


class UploadStore:
    """The latest pictures that users brought, by a hash of their bytes; threads may share it.

    Whoever knows a picture's hash can see it, and nobody can guess one: that is what lets a link work for others, for
    as long as the server keeps the picture.

    Args:
        max_bytes: How much is kept; beyond it the pictures that were used longest ago go.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes, name: str) -> str:
        """Keep a picture and return its hash.

        Raises:
            ImageError: It is too large, or no picture.
        """
        if len(data) > MAX_UPLOAD_BYTES:
            raise ImageError(
                f"{name} has {len(data) / 1e6:.0f} MB; pictures of up to {MAX_UPLOAD_BYTES >> 20} MB can be used. "
                "Save it smaller and try again"
            )
        digest = hashlib.sha256(data).hexdigest()[:HASH_LENGTH]
        if self.get(digest) is not None:
            return digest
        try:
            to_rgb(data, max_pixels=MAX_UPLOAD_PIXELS, at_least=64)
        except ImageError as error:
            raise ImageError(f"{name} could not be opened as a picture: {error}") from error
        with self._lock:
            self._kept[digest] = (name, data)
            while len(self._kept) > 1 and sum(len(held) for _, held in self._kept.values()) > self._max_bytes:
                self._kept.popitem(last=False)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a picture's bytes, or ``None`` if it is not kept any more."""
        with self._lock:
            if digest not in self._kept:
                return None
            self._kept.move_to_end(digest)
            return self._kept[digest][1]

    def name(self, digest: str) -> str:
        """Return the name under which a picture was first brought."""
        with self._lock:
            return self._kept[digest][0] if digest in self._kept else "an uploaded picture"
