"""Requests over kept-alive connections at as little processor time as Python can: what loads a server next to it.

A request is bytes made beforehand, and an answer is parsed by httptools, as the server parses requests; httpx takes
longer for a request than the server does, and would itself be what is measured.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import httptools

__all__ = ["Connections", "request_bytes"]


def request_bytes(host: str, path: str, query: Mapping[str, Any]) -> bytes:
    """Return a POST of JSON as it goes over a connection."""
    body = json.dumps(query).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connections:
    """Connections to one server; a request waits until one is free.

    Args:
        host: The server.
        port: Its port.
        most: How many there are at most.
    """

    def __init__(self, host: str, port: int, most: int) -> None:
        self._host, self._port = host, port
        self._free: deque[_Connection] = deque()
        self._room = asyncio.Semaphore(most)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer.

        Raises:
            OSError: There is no connection, or it ended before the answer.
        """
        async with self._room:
            connection = self._kept() or await self._opened()
            answer = await connection.ask(request)
            self._free.append(connection)
            return answer

    def _kept(self) -> _Connection | None:
        # The one used last, so that those that a rush has opened rest, until the server closes them.
        while self._free:
            connection = self._free.pop()
            if connection.is_open:
                return connection
        return None

    def close(self) -> None:
        """Close all."""
        for connection in self._free:
            connection.close()

    async def _opened(self) -> _Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(_Connection, self._host, self._port))[1]


class _Connection(asyncio.Protocol):
    """One connection, one request at a time; also what httptools calls back."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._lost = False

    @property
    def is_open(self) -> bool:
        return not self._lost and not self._transport.is_closing()

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._answer, self._body = answer, bytearray()
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)
        return answer

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"no HTTP: {error}"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), bytes(self._body)))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()

    def _fail(self, error: Exception) -> None:
        self._lost = True
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
