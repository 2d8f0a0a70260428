"""Pictures at an address that a user has pasted, downloaded within bounds."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from apps.uploads import MAX_UPLOAD_BYTES
from indexer.sources.urls import is_url, is_web_url, redacted
from indexer.sources.web import FetchError, open_web
from tpips_model.errors import ImageError

__all__ = ["download_picture"]

# Somebody is looking at the page meanwhile.
SECONDS = 10.0
MAX_NAME = 60
MAX_SHOWN = 100
_HTML = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)", re.IGNORECASE | re.DOTALL)


def download_picture(address: str) -> tuple[bytes, str]:
    """Return the bytes at an http or https address, and what to call them.

    Neither this machine nor a private network is reached, whatever name the address gives it. Nothing is sent but the
    request.

    Args:
        address: What the user pasted.

    Raises:
        ImageError: There is nothing, or it is not to be had within the bounds.
    """
    url = address.strip()
    url = url if is_url(url) else f"https://{url}"
    if not is_web_url(url):
        raise ImageError(f"{_shown(url)} is no address of the web; paste one that begins with https://")
    data = bytearray()
    try:
        with open_web(url, private=False, seconds=SECONDS) as answer:
            # One byte too many is enough to tell that it is too large.
            while len(data) <= MAX_UPLOAD_BYTES and (chunk := answer.read(1 << 16)):
                data += chunk
    except FetchError as error:
        raise ImageError(
            f"the picture at {_shown(url)} {error}; check the address, or save the picture and drop the file"
        ) from error
    if _HTML.match(data):
        raise ImageError(
            f"{_shown(url)} is a page, and not a picture; copy the address of the picture in it (right click), "
            "or save the picture and drop the file"
        )
    path = unquote(urlsplit(redacted(url)).path).rstrip("/")
    name = "".join(one for one in path.rpartition("/")[2] if one.isprintable())
    return bytes(data), name[-MAX_NAME:] or urlsplit(url).hostname or "a picture of the web"


def _shown(url: str) -> str:
    """Return an address without secrets, on one line that is not too long."""
    line = "".join(one if one.isprintable() else " " for one in redacted(url))
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"
