"""Writing what is finished while the next is embedded, and naming it in the manifest at a bounded price."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from indexer.manifest import Manifest
from tpips_model.errors import TpipsError

__all__ = ["Commits"]

# The whole manifest is written each time, so that writing it for each part would take a time that grows with the square
# of their number. At most this share of the time goes into it; for a model that takes its time, that is every part.
COMMIT_SHARE = 1 / 20


class Commits:
    """Takes steps that write files and give the next manifest, one after the other on a thread of its own.

    A context manager: on its way out, whatever the reason, all steps taken are ended and committed.

    Args:
        manifest: What the index holds so far.
        write: Writes a manifest.
    """

    def __init__(self, manifest: Manifest, write: Callable[[Manifest], None]) -> None:
        self.manifest = manifest
        self._write = write
        self._pending = False
        self._took = 0.0
        self._last = time.monotonic()
        self._failed = False
        self._steps: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write")

    def __enter__(self) -> Commits:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What went wrong first is what the user must see; what follows from it would hide it.
        quiet = contextlib.suppress(TpipsError)
        first = quiet if kind is not None else contextlib.nullcontext()
        with self._thread:
            try:
                with first:
                    self.finish()
            except BaseException:
                first = quiet
                raise
            finally:
                with first:
                    self._thread.submit(self._commit).result()

    def add(self, step: Callable[[Manifest], Manifest]) -> None:
        """Take a step; waits while another one is waiting already.

        Args:
            step: Writes what it needs and returns the manifest that names it.

        Raises:
            TpipsError: An earlier step failed; this one and those behind it are not done.
        """
        while len(self._steps) > 1:
            self._steps.popleft().result()
        self.check()
        self._steps.append(self._thread.submit(self._do, step))

    def check(self) -> None:
        """Raise what a step that is done has failed with."""
        while self._steps and self._steps[0].done():
            self._steps.popleft().result()

    def finish(self) -> None:
        """Wait until all steps are done."""
        while self._steps:
            self._steps.popleft().result()

    def _do(self, step: Callable[[Manifest], Manifest]) -> None:
        if self._failed:
            return  # a later part must not come before the one that failed
        try:
            self.manifest = step(self.manifest)
            self._pending = True
            if (time.monotonic() - self._last) * COMMIT_SHARE >= self._took:
                self._commit()
        except BaseException:
            self._failed = True
            raise

    def _commit(self) -> None:
        if not self._pending:
            return
        began = time.monotonic()
        self._write(self.manifest)
        self._pending = False
        self._last = time.monotonic()
        self._took = self._last - began
