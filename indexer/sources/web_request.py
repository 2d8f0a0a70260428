"""One request to a web server: where its connections lead, how long they last, and what its failure means."""

from __future__ import annotations

import functools
import http.client
import ipaddress
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from indexer.sources.urls import is_web_url, without_secrets

__all__ = ["FetchError", "RequestGuard"]

_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)
_MAX_REDIRECTS = 5


class FetchError(Exception):
    """A remote file cannot be read; the message is the reason alone, without secrets.

    Attributes:
        transient: Whether trying again may help.
        unreachable: Whether no server answered at all.
        pause: How many seconds the server asks to wait.
    """

    def __init__(
        self, reason: str, *, transient: bool = False, unreachable: bool = False, pause: float | None = None
    ) -> None:
        super().__init__(reason)
        self.transient = transient
        self.unreachable = unreachable
        self.pause = pause


class RequestGuard:
    """Watches over one request.

    Args:
        url: Its address.
        private: Whether it may lead to this machine or a private network.
        seconds: How long it may take, until the answer is read.

    Attributes:
        expired: Whether it took longer.
    """

    def __init__(self, url: str, *, private: bool, seconds: float | None) -> None:
        self.expired = False
        self._url = url
        self._private = private
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._expire) if seconds is not None else None

    def __enter__(self) -> RequestGuard:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def connected(self, connection: socket.socket) -> None:
        """Take a new connection, before anything is sent over it."""
        self._sockets.append(connection)
        # The address that was reached, not the name that was asked for: a name may mean another one each time.
        peer = ipaddress.ip_address(str(connection.getpeername()[0]).partition("%")[0])
        if not self._private and not (getattr(peer, "ipv4_mapped", None) or peer).is_global:
            connection.close()
            raise FetchError("leads to this machine or a private network, where pictures are not fetched from")

    def proxied(self, connection: socket.socket) -> None:
        """Take a new connection to the system's proxy."""
        self._sockets.append(connection)

    def opener(self) -> urllib.request.OpenerDirector:
        """Return an opener that knows http, https and the system's proxies, and nothing else."""
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            _Redirects(),
            _Web(self),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            opener.add_handler(handler)
        return opener

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn whatever goes wrong with the request into a ``FetchError`` without secrets."""
        try:
            yield
        except (FetchError, urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            if self.expired:
                raise FetchError("took too long") from error
            if isinstance(error, FetchError):
                raise
            raise self._fetch_error(error) from error

    def _fetch_error(self, error: Exception) -> FetchError:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            redirect = ", a redirect that is not followed" if error.code // 100 == 3 else f" {error.reason}"
            return FetchError(
                f"answered {error.code}{without_secrets(redirect, self._url)}"[:200],
                transient=error.code in _TRANSIENT_STATUS,
                pause=_seconds(error.headers.get("Retry-After")),
            )
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        unreachable = isinstance(error, urllib.error.URLError)
        what = "cannot be reached" if unreachable else "broke off"
        return FetchError(
            f"{what}: {without_secrets(str(cause) or type(cause).__name__, self._url)}"[:200],
            transient=not isinstance(cause, ValueError),
            unreachable=unreachable,
        )

    def _expire(self) -> None:
        self.expired = True
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended by itself
                continue


class _Web(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections that the guard watches."""

    def __init__(self, guard: RequestGuard) -> None:
        urllib.request.HTTPSHandler.__init__(self)
        self._guard = guard

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(functools.partial(_Connection, watch=self._watch(request)), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(functools.partial(_SecureConnection, watch=self._watch(request)), request)

    def _watch(self, request: urllib.request.Request) -> Callable[[socket.socket], None]:
        # Behind a proxy, which is the user's own, it is the proxy that reaches out.
        tunnel = getattr(request, "_tunnel_host", None)
        return self._guard.proxied if tunnel or request.has_proxy() else self._guard.connected


class _Connection(http.client.HTTPConnection):
    def __init__(self, *arguments: Any, watch: Callable[[socket.socket], None], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch(self.sock)


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, *arguments: Any, watch: Callable[[socket.socket], None], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch(self.sock)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _MAX_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_web_url(newurl):
            raise FetchError(f"is redirected to an address of the kind {newurl.partition(':')[0]!r:.20}, not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() and len(header) < 6 else None
