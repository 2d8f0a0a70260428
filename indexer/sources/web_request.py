"""One request to a web server: where its connections lead, how long they last, and what its failure means."""

from __future__ import annotations

import functools
import http.client
import ipaddress
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from indexer.sources.name_lookup import host_addresses
from indexer.sources.urls import is_web_url, without_secrets

__all__ = ["FetchError", "RequestGuard"]

_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)
_MAX_REDIRECTS = 5
_LONGEST_REASON = 200
_LATE = "took too long"
# Of IPv6, nothing else is given out to hosts of the public internet (RFC 4291, section 2.4).
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_Connect = Callable[..., socket.socket]


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
        self._url = url
        self._private = private
        self._deadline = None if seconds is None else time.monotonic() + seconds
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
        for connection in self._sockets:
            connection.close()

    @property
    def expired(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def connect(self, address: tuple[str, int], timeout: float, source: tuple[str, int] | None = None) -> socket.socket:
        """Connect as ``socket.create_connection`` does, but to no private address unless that is allowed.

        Raises:
            FetchError: The host has an address that is not public (it is not connected to), or the time is over.
        """
        # What is looked at is what is connected to, and not the name: it may mean another address the next time.
        found = self._looked_up(address, timeout)
        return self._connect_to(found if self._private else _all_public(found), address[1], timeout, source)

    def proxied(self, address: tuple[str, int], timeout: float, source: tuple[str, int] | None = None) -> socket.socket:
        """Connect to the system's proxy, wherever it is.

        Raises:
            FetchError: The time is over.
        """
        return self._connect_to(self._looked_up(address, timeout), address[1], timeout, source)

    def connected(self, connection: socket.socket, timeout: float) -> socket.socket:
        """Take a new connection, before anything is sent over it, and return it.

        Raises:
            FetchError: The time is over; the connection is closed.
        """
        # A second handle: encryption takes the first one away from its socket.
        self._sockets.append(connection.dup())
        # Looked at after it is kept: either this sees that the time is over, or what ends the time sees the connection.
        if self.expired:
            connection.close()
            raise FetchError(_LATE)
        connection.settimeout(timeout)
        return connection

    def check_time(self) -> None:
        """Raise a ``FetchError`` if the request has taken too long."""
        if self.expired:
            raise FetchError(_LATE)

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
                raise FetchError(_LATE) from error
            if isinstance(error, FetchError):
                raise
            raise self._fetch_error(error) from error

    def _fetch_error(self, error: Exception) -> FetchError:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            redirect = ", a redirect that is not followed" if error.code // 100 == 3 else f" {error.reason}"
            return FetchError(
                _line(f"answered {error.code}{without_secrets(redirect, self._url)}"),
                transient=error.code in _TRANSIENT_STATUS,
                pause=_seconds(error.headers.get("Retry-After")),
            )
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        unreachable = isinstance(error, urllib.error.URLError)
        what = "cannot be reached" if unreachable else "broke off"
        return FetchError(
            _line(f"{what}: {without_secrets(str(cause) or type(cause).__name__, self._url)}"),
            transient=not isinstance(cause, ValueError),
            unreachable=unreachable,
        )

    def _looked_up(self, address: tuple[str, int], timeout: float) -> list[str]:
        left = self._left(timeout)
        try:
            return host_addresses(*address, left)
        except TimeoutError as error:
            if left < timeout:  # it is the request's own time that is over
                raise FetchError(_LATE) from error
            raise

    def _connect_to(
        self, targets: list[str], port: int, timeout: float, source: tuple[str, int] | None
    ) -> socket.socket:
        for target in targets[:-1]:
            try:
                return self.connected(socket.create_connection((target, port), self._left(timeout), source), timeout)
            except OSError:  # such as no route to IPv6: the last address says what is wrong
                continue
        return self.connected(socket.create_connection((targets[-1], port), self._left(timeout), source), timeout)

    def _left(self, most: float) -> float:
        left = most if self._deadline is None else min(most, self._deadline - time.monotonic())
        if left <= 0:
            raise FetchError(_LATE)
        return left

    def _expire(self) -> None:
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
        return self.do_open(functools.partial(_Connection, connect=self._connect(request)), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(functools.partial(_SecureConnection, connect=self._connect(request)), request)

    def _connect(self, request: urllib.request.Request) -> _Connect:
        # Behind a proxy, which is the user's own, it is the proxy that reaches out.
        tunnel = getattr(request, "_tunnel_host", None)
        return self._guard.proxied if tunnel or request.has_proxy() else self._guard.connect


class _Connection(http.client.HTTPConnection):
    def __init__(self, *arguments: Any, connect: _Connect, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._create_connection = connect  # in place of ``socket.create_connection``


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, *arguments: Any, connect: _Connect, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._create_connection = connect  # before encryption, which goes by the host's name


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


def _all_public(found: list[str]) -> list[str]:
    # The same words whether anything listens there or not: they must not tell who may paste an address.
    if not all(_is_public(ipaddress.ip_address(one.partition("%")[0])) for one in found):
        raise FetchError("leads to this machine or a private network, where pictures are not fetched from")
    return found


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is None:
            return address in _PUBLIC_IPV6 and address.teredo is None and address.is_global
        address = inside
    return address.is_global and not address.is_multicast


def _line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text[:_LONGEST_REASON])
