"""The progress bar of a build: images a second, time left, and what takes longest."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tpips_model.progress_bar import ProgressBar

__all__ = ["BuildProgress", "Counted"]


class Counted(Protocol):
    """Work that is counted.

    Attributes:
        name: What it is called, unique among the work that is shown together.
        samples: How many pictures it gives, if known beforehand.
        size: Its size in bytes, if known; progress is estimated by it where ``samples`` is unknown.
    """

    @property
    def name(self) -> str: ...

    @property
    def samples(self) -> int | None: ...

    @property
    def size(self) -> int | None: ...


class BuildProgress:
    """Counts pictures; where nobody can say how many there are, estimates it from the bytes read so far.

    Args:
        bar: The bar to move.
        tasks: What will be read.
    """

    def __init__(self, bar: ProgressBar, tasks: Sequence[Counted]) -> None:
        self._bar = bar
        self._bytes = sum(task.size or 0 for task in tasks)
        self._counted = all(task.samples is not None for task in tasks)
        self._done = 0
        # Of tasks that have begun: how many pictures are counted, and how many bytes are read.
        self._begun: dict[str, tuple[int, int]] = {}

    def advance(self, name: str, read: int | None, count: int = 1) -> None:
        """Count pictures of the task of that name, of which so many bytes are read by now."""
        self._bar.update(count)
        counted, known = self._begun.get(name, (0, 0))
        self._begun[name] = (counted + count, known if read is None else read)
        if not self._counted and read is not None:
            total = self._done + sum(one for _, one in self._begun.values())
            self._bar.total = max(self._bar.n, round(self._bar.n * self._bytes / max(total, 1)))

    def restart(self, name: str) -> None:
        """Forget what is counted of a task, which is begun anew."""
        counted, _ = self._begun.pop(name, (0, 0))
        self._bar.n -= counted
        self._bar.refresh()

    def end(self, task: Counted) -> None:
        """Count a task as done, with the bytes behind its last picture."""
        self._begun.pop(task.name, None)
        self._done += task.size or 0

    def show_longest(self, name: str, began: float, note: str = "") -> None:
        """Show which task has been under way for longest, since ``time.monotonic() == began``."""
        self._bar.set_postfix_str(f"{note}longest: {name} {time.monotonic() - began:.0f} s", refresh=False)

    @classmethod
    @contextmanager
    def over(cls, tasks: Sequence[Counted], *, label: str, shown: bool) -> Iterator[BuildProgress]:
        """Show a bar over ``tasks`` on standard error until the block ends."""
        counts = [task.samples for task in tasks]
        total = None if None in counts else sum(count or 0 for count in counts)
        with ProgressBar(total=total, desc=label, unit=" images", disable=not shown, smoothing=0.1) as bar:
            yield cls(bar, tasks)
