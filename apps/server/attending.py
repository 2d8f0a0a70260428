"""Work for clients who may not wait for it: what nobody waits for any more is not begun, and ends where it can."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from apps.server.faults import RefusedError
from apps.server.lanes import Lane

__all__ = ["Patience", "run_while_attended"]

SECONDS_BETWEEN = 0.25

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Patience:
    """How long a client waits for an answer: until a time, and until it goes away.

    Attributes:
        deadline: The end of its time, by ``time.monotonic``.
        gone: Set once it has gone away.
    """

    deadline: float
    gone: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, seconds: float) -> Patience:
        """Return that of a client whose request has just come, and may take so long."""
        return cls(time.monotonic() + seconds)

    def check(self, done: int, total: int) -> None:
        """End work that nobody waits for any more.

        Args:
            done: How many items have been looked at.
            total: Of how many.

        Raises:
            RefusedError: Nobody does.
        """
        if self.gone.is_set() or time.monotonic() > self.deadline:
            raise RefusedError.busy(f"only {done:,} of {total:,} items were looked at in the time there is")


async def run_while_attended(request: Request, lane: Lane, work: Callable[[], _Result], patience: Patience) -> _Result:
    """Return what ``work`` returns, called in a thread of a lane, unless the client goes away before.

    Raises:
        ClientDisconnect: It has; work that waited is taken out of the lane, and ``patience`` tells that which runs.
        RefusedError: As ``Lane.run``.
    """
    running = asyncio.ensure_future(lane.run(work))
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=SECONDS_BETWEEN)
            if not running.done() and await request.is_disconnected():
                patience.gone.set()
                raise ClientDisconnect("the client went away before it was answered")
        return running.result()
    finally:
        running.cancel()
