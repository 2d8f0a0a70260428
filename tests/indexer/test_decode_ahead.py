from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from PIL import Image

from indexer.building import decode_ahead
from indexer.building.decode_ahead import DecodeAhead
from indexer.building.embedding import Decoded
from tpips_model import ImageError


@dataclass
class Work:
    """Pictures by their number; what its names say happens to some."""

    name: str
    count: int
    side: int = 4
    bad: frozenset[int] = frozenset()
    breaks_at: int | None = None
    read_so_far: list[int] = field(default_factory=list)

    def read(self) -> Iterator[tuple[Any, bytes | None]]:
        for number in range(self.count):
            if number == self.breaks_at:
                raise OSError("the disk is gone")
            self.read_so_far.append(number)
            yield (self.name, number), None if number in self.bad else b"x"

    def decode(self, owner: Any, data: bytes) -> Decoded[Any]:
        if owner[1] % 5 == 4:
            raise ImageError("no picture")
        time.sleep(0.002 * (owner[1] % 3))  # so that they are done out of order
        return Decoded(owner, Image.new("RGB", (self.side, self.side)), self.side, self.side)


def taken(works: list[Work], **options: Any) -> list[Any]:
    found: list[Any] = []
    with DecodeAhead(works, **{"threads": 3, "ahead": 8, **options}) as ahead:
        for work in ahead.works():
            found += [(owner, type(outcome)) for owner, outcome in ahead.pictures()]
            found.append(work.name)
    return found


def test_everything_comes_in_order() -> None:
    works = [Work("a", 23, bad=frozenset({3, 7})), Work("b", 0), Work("c", 2)]
    kinds = {True: type(None), False: Decoded}
    expected: list[Any] = []
    for work in works:
        for number in range(work.count):
            kind = kinds[number in work.bad]
            expected.append(((work.name, number), ImageError if kind is Decoded and number % 5 == 4 else kind))
        expected.append(work.name)
    assert taken(works) == expected


def waits_at(work: Work, *, ahead: int, threads: int = 1) -> int:
    """How many pictures are read while nobody takes any."""
    with DecodeAhead([work], threads=threads, ahead=ahead) as reading:
        next(reading.works())
        before = -1
        while before != len(work.read_so_far):
            before = len(work.read_so_far)
            time.sleep(0.1)
        return before


def test_what_is_read_ahead_is_bounded_in_number_and_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits_at(Work("a", 100), ahead=10) == 11  # and the one that waits to be let in
    # A picture beyond the bound comes alone, and comes.
    monkeypatch.setattr(decode_ahead, "MAX_AHEAD_BYTES", 1)
    assert len(taken([Work("a", 9, side=40)])) == 10


def test_what_is_decoded_ahead_is_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    class Counted(Work):
        def decode(self, owner: Any, data: bytes) -> Decoded[Any]:
            decoded.append(owner[1])
            return super().decode((self.name, 0), data)

    monkeypatch.setattr(decode_ahead, "MAX_AHEAD_BYTES", 4 * 40 * 40 * 3)
    for threads in (1, 3):
        decoded.clear()
        waits_at(Counted("a", 100, side=40), ahead=50, threads=threads)
        assert 4 <= len(decoded) <= 4 + threads - 1


def test_an_error_is_raised_where_its_picture_would_have_been() -> None:
    found: list[Any] = []

    def take_all(works: list[Work]) -> None:
        with DecodeAhead(works, threads=2, ahead=50) as ahead:
            for _ in ahead.works():
                found.extend(owner for owner, _ in ahead.pictures())

    with pytest.raises(OSError, match="the disk is gone"):
        take_all([Work("a", 3), Work("b", 9, breaks_at=2), Work("c", 3)])
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_an_error_of_ours_while_decoding_is_raised_too() -> None:
    class Broken(Work):
        def decode(self, owner: Any, data: bytes) -> Decoded[Any]:
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        taken([Broken("a", 3)])


def test_leaving_early_ends_the_threads() -> None:
    before = threading.active_count()
    with DecodeAhead([Work("a", 1000)], threads=2, ahead=5) as ahead:
        next(ahead.works())
        next(ahead.pictures())
    assert threading.active_count() == before
