"""Reading and decoding ahead of the model: in order, within bounds, on threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from indexer.building.embedding import Decoded
from tpips_model.errors import ImageError

__all__ = ["DecodeAhead", "Readable"]

# Of the pictures that wait, in bytes: as many undecoded, and as many decoded. Besides, each thread may hold one, since
# nobody knows a picture's size before it is opened.
MAX_AHEAD_BYTES = 192_000_000
_BYTES_PER_PIXEL = 3
# A source may be in the middle of fetching gigabytes; after so many seconds its thread is left to end by itself.
_PATIENCE = 5.0


class Readable(Protocol):
    """Something that pictures are read from, and that knows how each is decoded."""

    def read(self) -> Iterator[tuple[Any, bytes | None]]:
        """Give what each picture belongs to, and its bytes or ``None`` if it has none; runs on the reading thread."""
        ...

    def decode(self, owner: Any, data: bytes) -> Decoded[Any]:
        """Decode one picture; runs on a decoding thread.

        Raises:
            ImageError: It cannot be decoded.
        """
        ...


_Work = TypeVar("_Work", bound=Readable)


@dataclass(frozen=True)
class _Begin(Generic[_Work]):
    work: _Work


@dataclass(frozen=True)
class _End:
    """The end of a work's pictures or of all works, or an error that stands where more would have been."""

    error: BaseException | None = None


@dataclass
class _Picture:
    owner: Any
    number: int
    undecoded: int
    decoded: int = 0
    outcome: Future[Decoded[Any] | ImageError | None] = field(default_factory=Future)


class DecodeAhead(Generic[_Work]):
    """Reads works one after another, and decodes their pictures while the caller is busy with earlier ones.

    A context manager; for each of ``works`` all of ``pictures`` are taken.

    Args:
        works: What is read; may wait until there is more.
        threads: How many threads decode.
        ahead: How many pictures may wait.
    """

    def __init__(self, works: Iterable[_Work], *, threads: int, ahead: int) -> None:
        self._works = works
        self._entries: SimpleQueue[_Begin[_Work] | _Picture | _End] = SimpleQueue()
        self._bound = _Bound(ahead)
        self._numbers = count()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")
        # A daemon, since nothing can interrupt it where it reads.
        self._reader = threading.Thread(target=self._read_all, name="read", daemon=True)

    def __enter__(self) -> DecodeAhead[_Work]:
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bound.close()
        self._reader.join(_PATIENCE)
        self._pool.shutdown(cancel_futures=True)

    def works(self) -> Iterator[_Work]:
        """Give each work when it is its turn; what went wrong where the works come from is raised here."""
        while isinstance(entry := self._entries.get(), _Begin):
            self._bound.leave()
            yield entry.work
        _end_or_raise(entry)

    def pictures(self) -> Iterator[tuple[Any, Decoded[Any] | ImageError | None]]:
        """Give what each picture of the current work belongs to, and what it became; ``None`` if it had no bytes.

        What went wrong while they were read is raised in its turn.
        """
        while isinstance(entry := self._entries.get(), _Picture):
            outcome = entry.outcome.result()
            self._bound.leave(entry)
            yield entry.owner, outcome
        _end_or_raise(entry)

    def _read_all(self) -> None:
        try:
            for work in self._works:
                if not self._bound.enter():
                    return
                self._entries.put(_Begin(work))
                if not self._read(work):
                    return
                self._entries.put(_End())
            self._entries.put(_End())
        except BaseException as error:  # raised where the entries are taken
            self._entries.put(_End(error))

    def _read(self, work: _Work) -> bool:
        for owner, data in work.read():
            picture = _Picture(owner, next(self._numbers), len(data or b""))
            if not self._bound.enter(picture):
                return False
            if data is None:
                picture.outcome.set_result(None)
            else:
                self._pool.submit(self._decode, work, picture, data)
            self._entries.put(picture)
        return True

    def _decode(self, work: _Work, picture: _Picture, data: bytes) -> None:
        outcome: Decoded[Any] | ImageError
        try:
            if not self._bound.before_decoding(picture):
                return  # nobody will take it
            outcome = work.decode(picture.owner, data)
            self._bound.after_decoding(picture, outcome.image.width * outcome.image.height * _BYTES_PER_PIXEL)
        except ImageError as error:
            outcome = error
        except BaseException as error:
            picture.outcome.set_exception(error)
            return
        picture.outcome.set_result(outcome)


def _end_or_raise(entry: object) -> None:
    assert isinstance(entry, _End), "all pictures of a work are taken before the next work"
    if entry.error is not None:
        raise entry.error


class _Bound:
    """Lets so many pictures in, and no more once ``MAX_AHEAD_BYTES`` are inside; the next to be taken always."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside = 0
        self._undecoded = 0
        self._decoded = 0
        self._taken = 0
        self._closed = False
        self._changed = threading.Condition()

    def enter(self, picture: _Picture | None = None) -> bool:
        """Wait for room; return whether there still is anybody to read for."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or self._inside == 0
                    or (self._inside < self._most and self._undecoded < MAX_AHEAD_BYTES)
                )
            )
            self._inside += 1
            self._undecoded += picture.undecoded if picture is not None else 0
            return not self._closed

    def before_decoding(self, picture: _Picture) -> bool:
        """Wait for room for the pixels, pictures in order; return whether there still is anybody to decode for."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._decoded < MAX_AHEAD_BYTES or picture.number == self._taken
            )
            return not self._closed

    def after_decoding(self, picture: _Picture, size: int) -> None:
        """Note how much memory the pixels take."""
        picture.decoded = size
        with self._changed:
            self._decoded += size

    def leave(self, picture: _Picture | None = None) -> None:
        """Let a picture go, of which there are none before it."""
        with self._changed:
            self._inside -= 1
            if picture is not None:
                self._taken += 1
                self._undecoded -= picture.undecoded
                self._decoded -= picture.decoded
            self._changed.notify_all()

    def close(self) -> None:
        """Let everybody go on: nothing is waited for any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
