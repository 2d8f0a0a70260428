"""Connections that are slow, leave early, or send what is no request: each ends, and none leaves a trace in the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn

from apps.server import ServerSettings, make_application
from apps.server.connection import MAX_HEAD_BYTES, Connection
from indexer import IndexDirectory
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import KEYS, write_gallery

QUERY = json.dumps({"key": KEYS[20], "aspect": "brushwork"}).encode()
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[[], Awaitable[Opened]]


class Impatient(Connection):
    """Waits for a fraction of a second."""

    head_seconds = 0.2


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> IndexDirectory:
    return IndexDirectory.open(write_gallery(tmp_path_factory.mktemp("connection") / "index"))


@asynccontextmanager
async def served(index: IndexDirectory) -> AsyncIterator[Open]:
    app = make_application(index, ServerSettings(), embedder=StubEmbedder())
    config = uvicorn.Config(app, port=0, log_config=None, ws="none", http=Impatient, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    try:
        while not server.started:
            assert not task.done(), "the server ended"
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        server.should_exit = True
        await task


def post(body: bytes, length: int) -> bytes:
    head = f"POST /similar HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + body


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """Read one answer, and leave the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    return head + await reader.readexactly(int(length.partition(b":")[2]))


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes."""
    return await asyncio.wait_for(reader.read(), 30.0)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (b"GET /hea", b"408 Request Timeout"),
        (HEALTH[:-2], b"408 Request Timeout"),
    ],
    ids=["nothing", "an empty line", "half a line", "headers without an end"],
)
@pytest.mark.parametrize("before", [False, True], ids=["first", "after an answer"])
def test_a_head_that_does_not_come_is_given_up(
    index: IndexDirectory, sent: bytes, answered: bytes, before: bool
) -> None:
    """So is a kept connection between two requests, once anything but a request has come."""

    async def ask() -> bytes:
        async with served(index) as connect:
            reader, writer = await connect()
            if before:
                writer.write(HEALTH)
                assert b"200 OK" in await answer_of(reader)
                if not sent:
                    return b""  # uvicorn's own limit holds
            writer.write(sent)
            return await rest_of(reader)

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 " + answered if answered else b"")


def test_a_head_that_dribbles_is_given_up(index: IndexDirectory) -> None:
    """However steadily it comes."""

    async def ask() -> bytes:
        async with served(index) as connect:
            reader, writer = await connect()
            answer = asyncio.create_task(answer_of(reader))
            writer.write(b"GET /health HTTP/1.1\r\nX: ")
            while not answer.done():
                writer.write(b"x")
                await asyncio.sleep(0.01)
            return await answer

    assert b"408" in asyncio.run(ask())


def test_an_endless_head_is_given_up(index: IndexDirectory) -> None:
    async def ask() -> bytes:
        async with served(index) as connect:
            reader, writer = await connect()
            writer.write(b"GET /health HTTP/1.1\r\nX: ")
            for _ in range(2 + MAX_HEAD_BYTES // 8192):
                writer.write(b"x" * 8192)
                await asyncio.sleep(0.001)
            return await answer_of(reader)

    assert b"431" in asyncio.run(ask())


def test_requests_that_take_their_time_between_heads_are_answered(index: IndexDirectory) -> None:
    """The limit is on a head alone: neither on a body, nor on a pause, nor on what is sent ahead."""

    async def ask() -> list[bytes]:
        answers = []
        async with served(index) as connect:
            reader, writer = await connect()
            writer.write(post(b"", len(QUERY)))
            await asyncio.sleep(2 * Impatient.head_seconds)
            writer.write(QUERY)
            answers.append(await answer_of(reader))
            await asyncio.sleep(2 * Impatient.head_seconds)
            writer.write(HEALTH + post(QUERY, len(QUERY)) + HEALTH[:10])
            answers += [await answer_of(reader), await answer_of(reader)]
            writer.write(HEALTH[10:])
            answers.append(await answer_of(reader))
        return answers

    answers = asyncio.run(ask())
    assert [answer[:15] for answer in answers] == [b"HTTP/1.1 200 OK"] * 4
    assert [b'"hits"' in answer for answer in answers] == [True, False, True, False]


@pytest.mark.parametrize(
    ("kind", "body"),
    [("application/json", b""), ("application/json", b'{"key"'), ("multipart/form-data; boundary=x", b"--x\r\n")],
)
def test_a_client_that_leaves_within_a_body_leaves_no_trace(
    index: IndexDirectory, caplog: pytest.LogCaptureFixture, kind: str, body: bytes
) -> None:
    caplog.set_level(logging.WARNING)

    async def leave() -> bytes:
        async with served(index) as connect:
            for _ in range(3):
                _, writer = await connect()
                writer.write(post(body, 100).replace(b"application/json", kind.encode()))
                await writer.drain()
                await asyncio.sleep(0.05)
                writer.close()
                await writer.wait_closed()
            reader, writer = await connect()
            while True:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                counts = await answer_of(reader)
                if b'route="/similar",status="400"} 3.0' in counts:
                    return counts
                await asyncio.sleep(0.01)

    assert b'status="500"' not in asyncio.run(leave())
    assert caplog.records == []
