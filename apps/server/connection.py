"""One client's connection: uvicorn's, which gives up requests whose head comes too slowly or grows too large."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

__all__ = ["Connection"]

# Beyond the read that it begins in, which the event loop bounds.
MAX_HEAD_BYTES = 1 << 16


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with a time limit on heads; bodies have theirs from ``Gate``, pauses theirs from uvicorn.

    Attributes:
        head_seconds: How long a request's line and headers may take to arrive, from the opening of the connection or
            from their first byte.
    """

    head_seconds: float = 10.0

    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Read what has come, and wait for the rest of a head that it leaves unfinished."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431)
                return
        super().data_received(data)
        # An empty line between two requests begins none, and yet ends uvicorn's own waiting.
        if (self._in_head or self._idle) and self._head_timer is None and not self.transport.is_closing():
            self._watch_head()

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that it is whole."""
        self._in_head = False
        self._head_bytes = 0
        self._forget_head()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget_head()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if self._idle:
            self._refuse(408 if self._in_head else None)
        else:  # while an earlier request is answered, reading may rest
            self._watch_head()

    def _refuse(self, status: int | None) -> None:
        """Close, with a bare answer to what was no request that a route could answer."""
        self._forget_head()
        if self.transport.is_closing():
            return
        if status is not None and self._idle:  # else it would land within an answer
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
