"""Work that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from apps.server.attending import Patience, run_while_attended
from apps.server.faults import RefusedError
from apps.server.lanes import Lane


class Client:
    """A request whose client goes away after so many looks."""

    def __init__(self, looks: int | None) -> None:
        self.left = looks

    async def is_disconnected(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0


def run(client: Client, lane: Lane, work: Any, patience: Patience) -> Any:
    return asyncio.run(run_while_attended(client, lane, work, patience))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.server.attending.SECONDS_BETWEEN", 0.01)


@pytest.fixture
def lane() -> Lane:
    return Lane("live", threads=1, waiting=2, seconds=30.0)


def until_free(lane: Lane) -> None:
    deadline = time.monotonic() + 10.0
    while lane.held:
        assert time.monotonic() < deadline, "a place is held for nobody"
        time.sleep(0.005)


def test_who_waits_is_answered(lane: Lane) -> None:
    assert run(Client(None), lane, lambda: time.sleep(0.05) or 7, Patience.of(9.0)) == 7  # type: ignore[func-returns-value]
    with pytest.raises(RefusedError, match="why"):
        run(Client(None), lane, lambda: refuse("why"), Patience.of(9.0))
    until_free(lane)


def refuse(words: str) -> None:
    raise RefusedError(422, "query", words)


def test_work_that_runs_is_told_that_nobody_waits(lane: Lane) -> None:
    patience = Patience.of(30.0)
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        try:
            while True:
                patience.check(1, 2)
                time.sleep(0.005)
        finally:
            ended.set()

    with pytest.raises(ClientDisconnect, match="went away"):
        run(Client(3), lane, work, patience)
    assert began.is_set()
    assert ended.wait(10.0)
    until_free(lane)


def test_work_that_waits_is_never_begun(lane: Lane) -> None:
    busy, begun = threading.Event(), []
    holding = threading.Thread(target=lambda: run(Client(None), lane, lambda: busy.wait(20.0), Patience.of(30.0)))
    holding.start()
    while not lane.held:
        time.sleep(0.005)
    with pytest.raises(ClientDisconnect, match="went away"):
        run(Client(2), lane, lambda: begun.append(1), Patience.of(30.0))
    assert lane.held == 1
    busy.set()
    holding.join()
    until_free(lane)
    assert begun == []


def test_time_counts_from_the_request() -> None:
    patience = Patience.of(0.05)
    patience.check(0, 9)
    time.sleep(0.06)
    with pytest.raises(RefusedError, match="only 3 of 9 items"):
        patience.check(3, 9)
