"""Where a request may lead, what it may take, and to whom a password goes."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from indexer.sources.web import WebAnswer, fetch, open_web
from indexer.sources.web_request import FetchError, RequestGuard
from tests.fixtures.web_server import Page, WebServer, web_server
from tests.indexer.remote.conftest import BODY


def test_small_files_are_bounded_in_size_and_time(server: WebServer) -> None:
    server.pages["/a"] = Page(BODY)
    server.pages["/b"] = Page(BODY, unsized=True)
    server.pages["/slow"] = Page(BODY, pause=0.05)
    server.pages["/short"] = Page(b"abc", claims=1000)
    with pytest.raises(FetchError, match="has 3,000,000 bytes; at most 9 are"):
        fetch(f"{server.address}/a", max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="has more than 9 bytes"):
        fetch(f"{server.address}/b", max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="took too long"):
        fetch(f"{server.address}/slow", max_bytes=1 << 30, seconds=0.3, private=True)
    with pytest.raises(FetchError, match="broke off"):
        fetch(f"{server.address}/short", max_bytes=9999, seconds=9, private=True)
    assert server.ranges("/short") == [None] * 4
    assert fetch(f"{server.address}/a", max_bytes=1 << 30, seconds=9, private=True) == BODY


def test_where_a_request_may_lead(server: WebServer) -> None:
    server.pages["/file"] = Page(redirect="file:///etc/passwd")
    server.pages["/ftp"] = Page(redirect="ftp://127.0.0.1/x")
    server.pages["/loop"] = Page(redirect="/loop")
    server.pages["/good"] = Page(redirect="/x?a=1")
    server.pages["/x"] = Page(b"here")
    for name in ("file", "ftp", "loop"):
        with pytest.raises(FetchError, match="redirect"):
            fetch(f"{server.address}/{name}", max_bytes=9, seconds=9, private=True)
    assert fetch(f"{server.address}/good", max_bytes=9, seconds=9, private=True) == b"here"
    before = len(server.requests)
    for url in (f"{server.address}/x", server.address.replace("127.0.0.1", "localhost") + "/x"):
        with pytest.raises(FetchError, match="leads to this machine or a private network"):
            fetch(url, max_bytes=9, seconds=9, private=False)
    assert len(server.requests) == before  # nothing was sent
    for url in ("file:///etc/passwd", "ftp://x/y", "http://", "x"):
        with pytest.raises(FetchError, match="is no http or https address"):
            fetch(url, max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="is no address"):
        fetch("http://[bad/x", max_bytes=9, seconds=9, private=True)


def test_a_connection_made_after_the_time_is_closed(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = server.address.removeprefix("http://").split(":")
    with RequestGuard(server.address, private=True, seconds=0) as guard:
        for way in (guard.connect, guard.proxied):
            with pytest.raises(FetchError, match="took too long"):
                way((host, int(port)), 9)
        with socket.create_connection((host, int(port))) as late:
            with pytest.raises(FetchError, match="took too long"):
                guard.connected(late, 9)
            assert late.fileno() == -1
    connect, made = socket.create_connection, []

    def slow(*arguments: Any, **keywords: Any) -> socket.socket:  # as where the name takes long to be looked up
        made.append(connect(*arguments, **keywords))
        threading.Event().wait(0.1)
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", slow)
    with pytest.raises(FetchError, match="took too long"):
        fetch(f"{server.address}/x", max_bytes=9, seconds=0.05, private=True)
    assert [one.fileno() for one in made] == [-1]
    assert server.requests == []


def test_the_time_is_looked_at_with_every_chunk() -> None:
    endless = SimpleNamespace(read1=lambda count: b"x" * count, length=None)
    answer = WebAnswer(0, None, None, endless, RequestGuard("http://h/", private=True, seconds=0))
    with pytest.raises(FetchError, match="took too long"):
        answer.read(9)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_private_hosts_are_not_connected_to_and_ports_not_told_apart(scheme: str) -> None:
    told = set()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        for port in (listening.getsockname()[1], 9):
            with pytest.raises(FetchError, match="leads to this machine or a private network") as caught:
                fetch(f"{scheme}://127.0.0.1:{port}/x", max_bytes=9, seconds=9, private=False)
            told.add(str(caught.value))
        with pytest.raises(BlockingIOError, match="unavailable"):
            listening.accept()
    assert len(told) == 1


def resolving(monkeypatch: pytest.MonkeyPatch, addresses: list[str], port: int) -> list[str]:
    """Let each name have these addresses, and each address lead to a port here; return what is connected to."""
    connect, asked = socket.create_connection, []

    def lead_here(address: tuple[str, int], *arguments: Any) -> socket.socket:
        asked.append(address[0])
        if address[0].startswith("2606:"):
            raise OSError("no route")
        with monkeypatch.context() as real:
            real.setattr(socket, "getaddrinfo", lookup)
            return connect(("127.0.0.1", port), *arguments)

    lookup = socket.getaddrinfo
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", lead_here)
    return asked


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "fec0::1",
        "ff0e::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001::1",
        "2001:0:808:808::1",
    ],
)
def test_private_addresses_of_every_spelling_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(monkeypatch, ["93.184.216.34", address], 9)
    with pytest.raises(FetchError, match="leads to this machine or a private network"):
        fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False)
    assert asked == []


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_what_is_connected_to_is_the_address_that_was_looked_at(
    server: WebServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/x"] = Page(b"here")
    asked = resolving(monkeypatch, ["2606:4700::1", address], int(server.address.rpartition(":")[2]))
    assert fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False) == b"here"
    assert asked == ["2606:4700::1", address]


@pytest.mark.parametrize(("scheme", "name"), [("http", b"Host: pictures.example\r\n"), ("https", b"pictures.example")])
def test_the_host_keeps_its_name_and_a_silent_one_is_left(
    scheme: str, name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = resolving(monkeypatch, ["93.184.216.34"], silent.getsockname()[1])
        with pytest.raises(FetchError, match="took too long"):
            fetch(f"{scheme}://pictures.example/x", max_bytes=9, seconds=0.2, private=False)
        connection, _ = silent.accept()
        with connection:
            assert name in connection.recv(9999)
    assert asked == ["93.184.216.34"]


def test_behind_a_proxy_it_is_the_proxy_that_is_connected_to(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/x"] = Page(b"here")
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False) == b"here"


@pytest.mark.parametrize("address", ["http://x\r\nHost: y/", "http://h/\0", "http://h/?a\x7f"])
def test_control_characters_are_refused(address: str) -> None:
    with pytest.raises(FetchError, match="holds a control character"):
        fetch(address, max_bytes=9, seconds=9, private=True)


def test_a_password_goes_to_its_host_alone(server: WebServer) -> None:
    server.pages["/x"] = Page(b"here")
    with web_server() as other:
        server.pages["/away"] = Page(redirect=f"{other.address}/x")
        other.pages["/x"] = Page(b"there")
        url = server.address.replace("http://", "http://me:se%20cret@")
        assert fetch(f"{url}/away", max_bytes=9, seconds=9, private=True) == b"there"
        assert server.requests[0][2] == "Basic bWU6c2UgY3JldA=="
        assert other.requests[0][2] is None


def test_addresses_of_any_spelling_are_asked_for(server: WebServer) -> None:
    server.pages["/caf%C3%A9%20x/100%25.png"] = Page(b"here")
    with open_web(f"{server.address}/café x/100%25.png", private=True) as answer:
        assert answer.read(99) == b"here"
