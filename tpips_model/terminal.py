"""What every command does at the terminal: print safely, and end with one line instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpips_model.errors import TpipsError

__all__ = ["INTERRUPTED", "began_as_interrupt", "printable", "run_command"]

# The exit status of a program that Ctrl-C ended: 128 + SIGINT.
INTERRUPTED = 130


def printable(text: str) -> str:
    """Return text whose characters cannot command a terminal: a key is whatever a file was called.

    >>> printable("a\\x1b]0;b")
    'a�]0;b'
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def began_as_interrupt(error: BaseException) -> bool:
    """Tell whether an exception is Ctrl-C, or what became of it on its way.

    Python 3.11 makes a RuntimeError of one that arrives while a class is created, and libraries do the like.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if isinstance(one, KeyboardInterrupt):
            return True
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            chain += [one.__cause__, one.__context__]
    return False


def run_command(command: Callable[[], object]) -> None:
    """Run a command; a fault of the user's or of the system's is one line on standard error and exit status 1.

    Ctrl-C raises ``KeyboardInterrupt`` in it, and ends it with status ``INTERRUPTED`` and at most one line.
    """
    # What Pillow remarks on other people's files; what is wrong with one stands in the ledger or the error.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        with _interrupts_raised():
            _run(command)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run(command: Callable[[], object]) -> None:
    try:
        command()
    except BrokenPipeError:
        # Whoever read the output has had enough. What Python would still flush at the end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    # OSError: a folder that cannot be written or a full disk; the system's own words name the file and the reason.
    except (TpipsError, OSError) as error:
        interrupted = began_as_interrupt(error)
        what = printable(" ".join(str(error).split()))
        print(f"interrupted, and then: {what}" if interrupted else f"error: {what}", file=sys.stderr)
        sys.exit(INTERRUPTED if interrupted else 1)
    except Exception as error:
        if not began_as_interrupt(error):
            raise
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Have Ctrl-C raise ``KeyboardInterrupt`` in the block, and do what it did before once the block has ended.

    Where it is ignored, as behind nohup, it stays so.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
