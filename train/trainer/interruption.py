"""Ctrl-C and SIGTERM finish the update at hand, so that nothing is lost; a second one ends the run at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["StopRequest", "deferred_stop"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a signal has asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, _: int, __: FrameType | None) -> None:
        """Note the request; the second raises ``KeyboardInterrupt``."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def deferred_stop() -> Iterator[StopRequest]:
    """Note signals instead of being ended by them; those that are ignored stay ignored.

    Only the main thread can take signals; in another the request is never made.
    """
    request = StopRequest()
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, request.ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
