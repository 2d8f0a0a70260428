from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from indexer.building.commits import Commits
from indexer.manifest import IndexDirectoryError, Manifest, ModelRecord, SourceRecord

EMPTY = Manifest(ModelRecord("stub", "stub:1", 4, "{aspect}", 0.0), (SourceRecord("folder", ".", ""),), (), ())


class Clock:
    """Time that passes only where it is said to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def run(clock: Clock, steps: int, *, step_takes: float, write_takes: float) -> list[int]:
    """Return the epochs that were written, where step n gives epoch n."""
    written: list[int] = []

    def write(manifest: Manifest) -> None:
        clock.now += write_takes
        written.append(manifest.epoch)

    def step(manifest: Manifest) -> Manifest:
        clock.now += step_takes
        return replace(manifest, epoch=manifest.epoch + 1)

    with Commits(EMPTY, write) as commits:
        for _ in range(steps):
            commits.add(step)
    assert commits.manifest.epoch == steps
    return written


def test_where_steps_take_their_time_each_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(Clock(monkeypatch), 50, step_takes=21.0, write_takes=1.0) == list(range(1, 51))


def test_where_steps_are_fast_a_twentieth_of_the_time_goes_into_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    written = run(clock, 1000, step_takes=0.1, write_takes=1.0)
    assert written[0] == 1
    assert written[-1] == 1000
    assert len(written) <= 1 + clock.now / 20 + 1


def stopped(steps: int, error: BaseException, *, fails_at: int | None = None, full: bool = False) -> list[int]:
    """Take steps and raise an error, with nothing committed before that; return the epochs that were written."""
    written: list[int] = []

    def write(manifest: Manifest) -> None:
        if full:
            raise IndexDirectoryError("the disk is full")
        written.append(manifest.epoch)

    def step(manifest: Manifest) -> Manifest:
        if manifest.epoch == fails_at:
            raise IndexDirectoryError("this one fails")
        return replace(manifest, epoch=manifest.epoch + 1)

    def take_all() -> None:
        with Commits(EMPTY, write) as commits:
            commits._took = float("inf")
            for _ in range(steps):
                commits.add(step)
            raise error

    with pytest.raises(type(error), match="first"):
        take_all()
    return written


def test_what_is_done_is_committed_whatever_happens() -> None:
    assert stopped(5, KeyboardInterrupt("first")) == [5]
    assert stopped(0, KeyboardInterrupt("first")) == []


def test_what_went_wrong_first_is_what_is_seen() -> None:
    assert stopped(1, ValueError("first"), full=True) == []
    assert stopped(1, ValueError("first"), fails_at=0) == []


def test_behind_a_step_that_fails_none_is_done() -> None:
    written: list[int] = []

    def step(manifest: Manifest) -> Manifest:
        if manifest.epoch == 2:
            raise IndexDirectoryError("this one fails")
        return replace(manifest, epoch=manifest.epoch + 1)

    def take_all() -> None:
        with Commits(EMPTY, lambda manifest: written.append(manifest.epoch)) as commits:
            for _ in range(9):
                commits.add(step)

    with pytest.raises(IndexDirectoryError, match="this one fails"):
        take_all()
    assert written[-1] == 2


def test_a_manifest_that_cannot_be_written_is_an_error() -> None:
    def write(manifest: Manifest) -> None:
        raise IndexDirectoryError("the disk is full")

    def take_one() -> None:
        with Commits(EMPTY, write) as commits:
            commits.add(lambda manifest: replace(manifest, epoch=1))

    with pytest.raises(IndexDirectoryError, match="the disk is full"):
        take_one()


def test_at_most_one_step_waits() -> None:
    go, begun = threading.Event(), threading.Event()

    def slow(manifest: Manifest) -> Manifest:
        begun.set()
        go.wait()
        return manifest

    with Commits(EMPTY, lambda manifest: None) as commits:
        commits.add(slow)
        commits.add(slow)
        begun.wait()
        third = threading.Thread(target=commits.add, args=(slow,))
        third.start()
        third.join(0.2)
        assert third.is_alive()
        go.set()
        third.join()
