"""Why pictures could not be indexed, in a few words however many they are."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.columns import LedgerLine

__all__ = ["LedgerReasons"]

_SHOWN = 3
# Reasons that name a number or a name are all different; more of them would only take memory.
_KEPT = 1000


class LedgerReasons:
    """Counts the reasons of ledger lines, with the first key of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._others = 0

    def note(self, lines: Sequence[LedgerLine]) -> None:
        """Count more lines."""
        for line in lines:
            if line.reason not in self._counts and len(self._counts) == _KEPT:
                self._others += 1
                continue
            self._counts[line.reason] = self._counts.get(line.reason, 0) + 1
            self._keys.setdefault(line.reason, line.key)

    def describe(self) -> str:
        """Return the most frequent reasons; nothing if there are none."""
        ordered = sorted(self._counts.items(), key=lambda one: -one[1])
        shown = [f"{count} × {reason} (such as {self._keys[reason]!r})" for reason, count in ordered[:_SHOWN]]
        more = len(ordered) - _SHOWN + self._others
        if more > 0:
            shown.append(f"{more} more reasons")
        return "; ".join(shown)
