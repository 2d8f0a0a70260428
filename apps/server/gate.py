"""The gate before the routes: who may come in, and how much they may bring."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.server.faults import RefusedError
from apps.server.settings import ServerSettings

__all__ = ["OPEN_PATHS", "Gate"]

# What needs no API key: nothing of the index shows here.
OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json"})


class Gate:
    """Refuses requests of unknown hosts, without the API key, or with too large or too slow a body.

    Bodies are counted while they arrive, whatever length they claim.

    Args:
        app: What answers.
        settings: The limits.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._key = None if settings.api_key is None else _digest(settings.api_key.encode())
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._settings, self)
        try:
            self._check(scope)
        except RefusedError as refusal:
            await refusal.response()(scope, receive, send)
            return
        try:
            await self._app(scope, body.receive, send)
        finally:
            self._held -= body.taken

    def take(self, count: int) -> None:
        """Count bytes of a body that is held in memory now.

        Raises:
            RefusedError: All bodies together take too much.
        """
        if self._held + count > self._settings.max_held:
            raise RefusedError.busy("too many uploads at once")
        self._held += count

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._hosts and _host_name(headers.get("host", "")) not in self._hosts:
            raise RefusedError(
                400, "host", "this server is asked by a name that it does not answer to; see tpips-serve --allowed-host"
            )
        if self._key is not None and scope["path"] not in OPEN_PATHS and not self._knows(headers):
            raise RefusedError(
                401,
                "api_key",
                "the API key is missing or wrong; send it as the header Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and length.isascii() and int(length[:20]) > self._settings.max_body:
            raise _too_large(self._settings)

    def _knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        assert self._key is not None
        # Digests have one length, so that the time tells nothing about the key's. Headers are latin-1 by the standard.
        return hmac.compare_digest(_digest(given.strip().encode("latin-1")), self._key) and scheme.lower() == "bearer"


class _Body:
    """A request's body as it arrives.

    Attributes:
        taken: How many bytes have been counted.
    """

    def __init__(self, receive: Receive, settings: ServerSettings, gate: Gate) -> None:
        self._receive = receive
        self._settings = settings
        self._gate = gate
        self._deadline: float | None = None
        self._whole = False
        self.taken = 0

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._settings.body_seconds
        try:
            message = await asyncio.wait_for(self._receive(), self._deadline - now)
        except asyncio.TimeoutError as error:
            seconds = self._settings.body_seconds
            raise RefusedError(408, "time", f"the body did not arrive within {seconds:g} seconds") from error
        if message["type"] == "http.request":
            count = len(message.get("body", b""))
            if self.taken + count > self._settings.max_body:
                raise _too_large(self._settings)
            self._gate.take(count)
            self.taken += count
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message


def _too_large(settings: ServerSettings) -> RefusedError:
    return RefusedError(
        413,
        "size",
        f"the request is larger than {settings.max_body:,} bytes, which is room for pictures of "
        f"{settings.max_upload:,} bytes in base64; send smaller or fewer pictures",
        # Without it, the rest of the body would be taken for the next request.
        headers={"Connection": "close"},
    )


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _host_name(header: str) -> str:
    if header.startswith("["):  # an IPv6 address
        return header[: header.find("]") + 1].lower()
    return header.partition(":")[0].lower()
