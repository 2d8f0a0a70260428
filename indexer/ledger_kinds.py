"""What a line of the ledger is about: a picture that failed, one that was there already, or one that was removed."""

from __future__ import annotations

import re
from typing import Literal

from indexer.removal import REMOVED, RETURNING

__all__ = ["LedgerKind", "ledger_kind"]

LedgerKind = Literal["error", "repeat", "removed"]

# What ``repeat_reason`` says, and merging of a picture that two indices of one folder have.
_REPEAT = re.compile(
    r" has the key of an earlier picture( \(.*\))?, which is kept"
    r"| is a picture of an earlier index too, whose item is kept",
    re.DOTALL,
)


def ledger_kind(reason: str) -> LedgerKind:
    """Return what a ledger's line is about.

    >>> ledger_kind("b/1.png has the key of an earlier picture (a/1.png), which is kept")
    'repeat'
    """
    if reason in (REMOVED, RETURNING):
        return "removed"
    found = _REPEAT.search(reason)
    return "repeat" if found is not None and found.end() == len(reason) else "error"
