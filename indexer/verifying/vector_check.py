"""The checks of an index that need neither its pictures nor its model."""

from __future__ import annotations

from functools import partial

from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.verifying.check import Check, run_check
from indexer.verifying.codes import code_faults, list_faults
from indexer.verifying.stored import (
    StoredIndex,
    file_faults,
    item_faults,
    layout_faults,
    ledger_faults,
    removal_faults,
)
from indexer.verifying.vectors import one_vector_faults, vector_faults

__all__ = ["check_vectors", "stored_checks"]

# In this order, since each leaves alone what an earlier one found to be damaged.
_CHECKS = {
    "checksums": file_faults,
    "layout": layout_faults,
    "removed items": removal_faults,
    "error ledgers": ledger_faults,
    "items": item_faults,
    "vectors": vector_faults,
    "one vector for all": one_vector_faults,
    "codes": code_faults,
    "lists": list_faults,
}


def stored_checks(stored: StoredIndex) -> list[Check]:
    """Make all of these checks."""
    return [run_check(name, partial(look, stored)) for name, look in _CHECKS.items()]


def check_vectors(index: IndexDirectory) -> None:
    """Make those checks that need more than an opened index with good checksums, one after the other.

    That all items have one vector is no fault here, since ``aspects_of_one_vector`` tells it.

    Raises:
        IndexDirectoryError: One failed; the message names its first fault.
    """
    done = ("checksums", "layout", "one vector for all")
    for name, look in _CHECKS.items():
        check = run_check(name, partial(look, StoredIndex(index))) if name not in done else None
        if check is not None and check.failures:
            more = f" ({check.failed - 1:,} more; tpips-index verify tells all)" if check.failed > 1 else ""
            raise IndexDirectoryError(f"the index {index.path} is damaged: {check.failures[0]}{more}; build it anew")
