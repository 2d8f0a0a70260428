"""The progress bar of every command: drawn at a terminal, and a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["LINE_SECONDS", "ProgressBar"]

# How often a log is told. A job of a day writes a few thousand lines.
LINE_SECONDS = 30.0


class ProgressBar(tqdm):
    """A tqdm bar that writes whole lines, and few of them, where its output is no terminal.

    A line is written every ``LINE_SECONDS``, with the rate and the clock time of the end, and one when the bar is
    closed, unless nothing was done or the bar leaves nothing behind (``leave=False``).

    Args:
        arguments: As of tqdm.
        file: Where it is written; by default standard error.
        tells_end: Whether a log is told the clock time of the end; for bars whose postfix does not.
        options: As of tqdm.
    """

    def __init__(self, *arguments: Any, file: TextIO | None = None, tells_end: bool = True, **options: Any) -> None:
        stream = sys.stderr if file is None else file
        self._in_log = not stream.isatty()
        self._closing = False
        self._tells_end = tells_end
        self._last_line = time.monotonic()
        if self._in_log:
            options |= {"mininterval": LINE_SECONDS, "maxinterval": LINE_SECONDS, "dynamic_ncols": False, "ncols": 0}
        super().__init__(*arguments, file=stream, **options)

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        """Return what shows a text: over the one before at a terminal, and else in a line of its own."""
        if file.isatty():
            printer: Callable[[str], None] = tqdm.status_printer(file)
            return printer

        def print_line(text: str) -> None:
            if text:
                file.write(f"{text}\n")
                file.flush()

        return print_line

    @property
    def format_dict(self) -> dict[str, Any]:
        """What the bar is drawn from; in a log also when it will end."""
        facts: dict[str, Any] = super().format_dict
        if not self._in_log:
            return facts
        if self._closing:
            facts["rate"] = None  # so that it is that of the whole time
            return facts
        rate = facts["rate"] or (self.n - self.initial) / max(facts["elapsed"], 1e-9)
        if self._tells_end and self.total and rate > 0 and self.n < self.total:
            end = datetime.now() + timedelta(seconds=(self.total - self.n) / rate)
            facts["postfix"] = ", ".join(filter(None, (f"ends {end:%Y-%m-%d %H:%M}", facts["postfix"])))
        return facts

    def display(self, msg: str | None = None, pos: int | None = None) -> Any:
        """Draw the bar, or write a line if the last one was written long enough ago."""
        if not self._in_log:
            return super().display(msg, pos)
        now = time.monotonic()
        if not self._closing and now - self._last_line < LINE_SECONDS:
            return False
        self._last_line = now
        return super().display(msg, pos=0)  # where a further bar would be drawn, a log has no lines above

    def clear(self, nolock: bool = False) -> None:
        """Make room for a message, which a log has."""
        if not self._in_log:
            super().clear(nolock=nolock)

    def close(self) -> None:
        """End the bar; a log gets its last line."""
        if self._in_log and not self.disable:
            self._closing = True
            if self.leave and self.n > self.initial:
                self.display()
            self.sp = None  # what tqdm writes at the end is for a terminal
        super().close()
