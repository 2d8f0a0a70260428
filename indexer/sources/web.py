"""Reading from http and https servers: bounded in size and time, tried again, never led to another kind of address."""

from __future__ import annotations

import base64
import http.client
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from indexer.sources.urls import is_web_url
from indexer.sources.web_request import FetchError, RequestGuard

__all__ = ["FetchError", "WebAnswer", "fetch", "open_web", "tried_again"]

_PAUSES = (0.5, 2.0, 8.0)
_LONGEST_PAUSE = 30.0
_SILENCE = 30.0  # seconds without a byte after which a server counts as gone
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_Result = TypeVar("_Result")


@dataclass
class WebAnswer:
    """A server's answer, to be read.

    Attributes:
        start: Which byte of the file it begins with.
        total: How many bytes the file has, if the server says.
        version: What tells this file from a later one of the same address, if the server says.
    """

    start: int
    total: int | None
    version: str | None
    _response: Any = field(repr=False)
    _guard: RequestGuard = field(repr=False)

    def read(self, count: int) -> bytes:
        """Return what has come, at least one byte and at most ``count``; nothing at the end.

        Raises:
            FetchError: The connection broke, the body ends too early, or the time is over.
        """
        with self._guard.faults():
            data: bytes = self._response.read1(count)
            self._guard.check_time()
            if not data and self._response.length:
                raise http.client.IncompleteRead(b"", self._response.length)
            return data


def tried_again(work: Callable[[], _Result]) -> _Result:
    """Do some work, up to four times where trying again may help.

    Raises:
        FetchError: It cannot be done.
    """
    for pause in (*_PAUSES, None):
        try:
            return work()
        except FetchError as error:
            if pause is None or not error.transient:
                raise
            time.sleep(min(error.pause or pause, _LONGEST_PAUSE))
    raise AssertionError("the last try returns or raises")


def fetch(url: str, *, max_bytes: int, seconds: float, private: bool) -> bytes:
    """Read a small file, such as a picture, whose address may come from anybody.

    Args:
        url: Its address.
        max_bytes: How large it may be.
        seconds: How long one try may take, redirects and all.
        private: Whether it may lie on this machine or in a private network.

    Raises:
        FetchError: It cannot be read within these bounds.
    """

    def work() -> bytes:
        with open_web(url, private=private, seconds=seconds) as answer:
            if (answer.total or 0) > max_bytes:
                raise FetchError(f"has {answer.total:,} bytes; at most {max_bytes:,} are fetched")
            data = bytearray()
            while chunk := answer.read(1 << 16):
                data += chunk
                if len(data) > max_bytes:
                    raise FetchError(f"has more than {max_bytes:,} bytes, which is all that is fetched")
            return bytes(data)

    return tried_again(work)


@contextmanager
def open_web(
    url: str,
    *,
    private: bool,
    start: int = 0,
    last: int | None = None,
    version: str | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Iterator[WebAnswer]:
    """Ask a server for a file, or for its rest, or for its end.

    Args:
        url: An http or https address; ``user:password@`` is sent to this host alone.
        private: Whether it may lead to this machine or a private network.
        start: From which byte on, if the file still is ``version``; otherwise the answer starts at 0.
        last: Instead, ask for the last so many bytes.
        version: As an earlier answer gave it.
        headers: Sent to this host alone, and not to where it redirects.
        seconds: How long all of it may take.

    Raises:
        FetchError: There is no such file, or no answer.
    """
    request = _request(url, start, last, version, headers or {})
    with RequestGuard(url, private=private, seconds=seconds) as guard:
        with guard.faults():
            response = guard.opener().open(request, timeout=min(_SILENCE, seconds or _SILENCE))
        with response:
            yield _answer(response, guard)


def _request(
    url: str, start: int, last: int | None, version: str | None, headers: Mapping[str, str]
) -> urllib.request.Request:
    if _CONTROL.search(url):  # urlsplit would leave some of them out
        raise FetchError("holds a control character, such as a line break, which no address has")
    try:
        parts = urlsplit(url)
        hostname = parts.hostname
    except ValueError as error:  # such as a bracket that does not close
        raise FetchError(f"is no address ({error})") from error
    if not is_web_url(url) or not hostname:
        raise FetchError("is no http or https address")
    user, at, host = parts.netloc.rpartition("@")
    # Spaces and letters beyond ASCII, which addresses in tables often hold, are sent percent-encoded.
    path = quote(parts.path, safe="%/:=&?~#+!$,;'@()*[]")
    query = quote(parts.query, safe="%/:=&?~#+!$,;'@()*[]")
    request = urllib.request.Request(
        urlunsplit((parts.scheme, _ascii_host(host), path, query, "")),
        headers={"User-Agent": "tpips-retrieval", "Accept-Encoding": "identity"},
    )
    if at:
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(unquote(user).encode()).decode()}")
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    if last is not None:
        request.add_header("Range", f"bytes=-{last}")
    elif start and version is not None:
        request.add_header("Range", f"bytes={start}-")
        request.add_header("If-Range", version)
    return request


def _ascii_host(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise FetchError(f"has a host name that no host can have ({error})") from error


def _answer(response: Any, guard: RequestGuard) -> WebAnswer:
    start, total = 0, response.length
    if response.status == 206:
        unit, _, place = response.headers.get("Content-Range", "").partition(" ")
        span, _, whole = place.partition("/")
        first = span.partition("-")[0]
        if unit != "bytes" or not first.isdecimal():
            raise FetchError("sent a part of the file without saying which")
        start, total = int(first), int(whole) if whole.isdecimal() else None
    elif response.status != 200:
        raise FetchError(f"answered with status {response.status}")
    tag = response.headers.get("ETag")
    # A weak tag does not promise the same bytes.
    version = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
    return WebAnswer(start, total, version, response, guard)
