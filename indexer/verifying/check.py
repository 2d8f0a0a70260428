"""One check of an index: what was looked at, and everything that was found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tpips_model.terminal import began_as_interrupt

__all__ = ["MAX_FAILURES", "Check", "Faults", "NotCheckedError", "found_check", "run_check"]

# Of one check; beyond, they are counted.
MAX_FAILURES = 100

# Gives each fault, and returns what was looked at.
Faults: TypeAlias = Generator[str, None, str]


class NotCheckedError(Exception):
    """A check that cannot be made here; the message is the reason."""


@dataclass(frozen=True)
class Check:
    """What a check came to.

    Attributes:
        name: What was checked.
        state: Whether it is as it should be.
        told: What was looked at, or why it was not.
        failed: How many faults there are.
        failures: The first ``MAX_FAILURES`` of them.
        notes: What is no fault and should be known.
    """

    name: str
    state: Literal["ok", "failed", "not checked"]
    told: str
    failed: int = 0
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def run_check(name: str, look: Callable[[], Faults]) -> Check:
    """Make a check; one that breaks off has failed, and what broke it is a fault like others."""
    found: list[str] = []
    failed = 0
    try:
        faults = look()
        while True:
            fault = next(faults)
            failed += 1
            if failed <= MAX_FAILURES:
                found.append(fault)
    except StopIteration as end:
        told = str(end.value)
    except NotCheckedError as reason:
        told = str(reason)
        if not failed:
            return Check(name, "not checked", told)
    except Exception as error:  # whatever a library makes of a damaged file
        if began_as_interrupt(error):
            raise
        failed += 1
        found.append(str(error) or type(error).__name__)
        told = "broke off"
    return Check(name, "failed" if failed else "ok", told, failed, tuple(found[:MAX_FAILURES]))


def found_check(name: str, faults: Sequence[str], told: str, *, notes: tuple[str, ...] = ()) -> Check:
    """Return the check that found these faults."""
    return Check(name, "failed" if faults else "ok", told, len(faults), tuple(faults[:MAX_FAILURES]), notes)
