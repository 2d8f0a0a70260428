"""The bar of a run: how fast, and when it will end."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import TracebackType

from tpips_model.progress_bar import ProgressBar as Bar

__all__ = ["ProgressBar"]


class ProgressBar:
    """A tqdm bar over updates.

    Args:
        name: In front of it.
        steps: Of the whole run.
        quiet: Show nothing, messages aside.
    """

    def __init__(self, name: str, steps: int, quiet: bool) -> None:
        self._bar = Bar(desc=name, total=steps, unit="step", disable=quiet, dynamic_ncols=True, tells_end=False)

    def begin(self, step: int) -> None:
        """Count from a step that an earlier run has reached."""
        self._bar.initial = self._bar.n = step
        self._bar.refresh()

    def advance(self, loss: float, best: float | None) -> None:
        """Show that an update is done."""
        shown = {"loss": f"{loss:.3f}"} | ({} if best is None else {"best": f"{best:.1%}"})
        facts = self._bar.format_dict
        done = self._bar.n + 1 - self._bar.initial
        # tqdm's own rate is known only once it has drawn the bar.
        rate = facts["rate"] or (done / facts["elapsed"] if facts["elapsed"] else None)
        if rate:
            left = timedelta(seconds=(self._bar.total - self._bar.n) / rate)
            form = "%H:%M" if left < timedelta(days=1) else "%a %H:%M"
            shown["ends"] = (datetime.now() + left).strftime(form)
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update()

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self._bar.write(message)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()
