"""Threads for one kind of work: few run, some wait, and the rest is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from apps.server.faults import RefusedError

__all__ = ["Lane"]

_Result = TypeVar("_Result")


class Lane:
    """A bounded queue before a few threads of its own, so that slow work of one kind holds up no other.

    Args:
        name: What runs here, for messages and metrics.
        threads: How many run at once.
        waiting: How many may wait.
        seconds: How long one may take, waiting included. Work that has begun cannot be stopped: it keeps its thread
            and its place until it ends, whatever its client was told.
    """

    def __init__(self, name: str, *, threads: int, waiting: int, seconds: float) -> None:
        self.name = name
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"tpips-{name}")
        self._free = threads + waiting
        self._lock = threading.Lock()
        self._places = self._free

    @property
    def held(self) -> int:
        """How many requests run or wait."""
        return self._places - self._free

    async def run(self, work: Callable[[], _Result], *, limited: bool = True) -> _Result:
        """Return what ``work`` returns, called in a thread.

        Args:
            work: What to do.
            limited: Whether the lane's time limit holds.

        Raises:
            RefusedError: No place is free, or it took too long.
        """
        with self._lock:
            if self._free == 0:
                raise RefusedError.busy(f"{self._places} requests of this kind ({self.name}) run or wait already")
            self._free -= 1
        try:
            future = self._pool.submit(work)
        except RuntimeError as error:  # the pool has been shut down
            self._leave(None)
            raise RefusedError.busy("the server is shutting down") from error
        future.add_done_callback(self._leave)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds if limited else None)
        except asyncio.TimeoutError as error:
            raise RefusedError.busy(f"no answer within {self._seconds:g} seconds") from error

    def close(self) -> None:
        """Take no more work, and drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, _: object) -> None:
        with self._lock:
            self._free += 1
