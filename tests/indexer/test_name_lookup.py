"""Names of hosts are looked up within a time, however long the system's resolver hangs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import indexer.sources.name_lookup
from indexer.sources.name_lookup import host_addresses
from indexer.sources.web import fetch, open_web
from indexer.sources.web_request import FetchError, RequestGuard

NAME = "pictures.example"


class Resolver:
    """Answers at once for what it knows, and for ``NAME`` only when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        if host == NAME:
            assert self.let_go.wait(30)
        found = ["93.184.216.34", "2606:4700::1", "93.184.216.34"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """A resolver that hangs, with three look-ups at once; all threads have ended behind the test."""
    made = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    monkeypatch.setattr(indexer.sources.name_lookup, "_free", threading.BoundedSemaphore(3))
    yield made
    made.let_go.set()
    for thread in waiting():
        thread.join(30)
    assert waiting() == []


def waiting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "name look-up"]


def test_addresses_come_in_order_and_once(resolver: Resolver) -> None:
    assert host_addresses("h", 80, 30) == ["93.184.216.34", "2606:4700::1"]


def test_what_the_resolver_says_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        host_addresses("h", 80, 30)
    with (
        pytest.raises(FetchError, match=r"cannot be reached: .*Name or service not known") as told,
        open_web(f"http://{NAME}/x", private=False, seconds=30),
    ):
        pass
    assert (told.value.unreachable, told.value.transient) == (True, True)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_hangs_ends_with_the_requests_time(resolver: Resolver, private: bool, scheme: str) -> None:
    with pytest.raises(FetchError, match="took too long") as told:
        fetch(f"{scheme}://{NAME}/x", max_bytes=9, seconds=0.1, private=private)
    assert not told.value.transient
    assert resolver.asked == [NAME]
    assert [thread.daemon for thread in waiting()] == [True]  # it does not keep the program from ending


def test_a_proxys_name_that_hangs_ends_with_the_requests_time(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{NAME}:3128")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(FetchError, match="took too long"):
        fetch("http://h/x", max_bytes=9, seconds=0.1, private=False)
    assert resolver.asked == [NAME]


def test_without_a_time_of_its_own_the_silence_bounds_it(resolver: Resolver) -> None:
    with (
        RequestGuard(f"http://{NAME}/", private=True, seconds=None) as guard,
        pytest.raises(FetchError, match=r"not found within 0\.1 seconds") as told,
        guard.faults(),
    ):
        guard.connect((NAME, 80), 0.1)
    assert told.value.transient


def test_look_ups_that_hang_do_not_pile_up(resolver: Resolver) -> None:
    for _ in range(5):
        with pytest.raises(FetchError, match="took too long"):
            fetch(f"http://{NAME}/x", max_bytes=9, seconds=0.05, private=False)
    assert len(waiting()) == len(resolver.asked) == 3
    with pytest.raises(TimeoutError, match=r"not found within 0\.05 seconds"):
        host_addresses("h", 80, 0.05)
    resolver.let_go.set()  # where they end, their places are free again
    assert host_addresses("h", 80, 30) == ["93.184.216.34", "2606:4700::1"]
