"""What a server may spend on its clients, and whom it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.uploads import MAX_UPLOAD_BYTES, MAX_UPLOAD_PIXELS

__all__ = ["ServerSettings"]

# What a request holds besides its pictures.
_WORDS_BYTES = 1 << 20


@dataclass(frozen=True)
class ServerSettings:
    """The limits of a server; the defaults suit one machine of a few cores.

    Attributes:
        api_key: What clients must send as ``Authorization: Bearer``; ``None`` lets everybody in.
        max_upload: Bytes of the pictures of one request.
        max_pixels: Width × height of one uploaded picture, or of one that a thumbnail is made of.
        max_held: Bytes of all the bodies that are held in memory at one time.
        body_seconds: How long a request's body may take to arrive.
        search_threads: How many queries by key run at once.
        picture_threads: How many thumbnails and files are read at once.
        waiting: How many requests may wait for a thread of a kind, beyond those that have one.
        search_seconds: How long a query by key, or a picture of the index, may take, waiting included.
        embed_seconds: How long a query with an uploaded picture may take, waiting included.
        max_live: How many items a request may have embedded under words that are not indexed; 0 allows no such words.
        live_seconds: How long such a request may take, waiting included.
        allowed_hosts: The names that the ``Host`` header may give; none means any. It keeps web pages of other
            sites, whose names can be made to point here, from reading a server that listens on loopback.
        cors_origins: The web sites whose scripts may ask; none by default.
        preload: Whether the model is loaded at the start instead of at the first uploaded picture.
    """

    api_key: str | None = field(default=None, repr=False)
    max_upload: int = MAX_UPLOAD_BYTES
    max_pixels: int = MAX_UPLOAD_PIXELS
    max_held: int = 256 << 20
    body_seconds: float = 30.0
    search_threads: int = 2
    picture_threads: int = 2
    waiting: int = 64
    search_seconds: float = 10.0
    embed_seconds: float = 60.0
    max_live: int = 256
    live_seconds: float = 60.0
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    preload: bool = False

    @property
    def max_body(self) -> int:
        """Bytes of one request's body: the pictures as base64, and the rest."""
        return self.max_upload * 4 // 3 + _WORDS_BYTES
