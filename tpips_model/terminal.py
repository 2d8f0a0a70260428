"""What every command does at the terminal: print safely, and end with one line instead of a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable

from tpips_model.errors import TpipsError

__all__ = ["INTERRUPTED", "printable", "run_command"]

# The exit status of a program that Ctrl-C ended: 128 + SIGINT.
INTERRUPTED = 130


def printable(text: str) -> str:
    """Return text whose characters cannot command a terminal: a key is whatever a file was called.

    >>> printable("a\\x1b]0;b")
    'a�]0;b'
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def run_command(command: Callable[[], object]) -> None:
    """Run a command; a fault of the user's or of the system's is one line on standard error and exit status 1."""
    # What Pillow remarks on other people's files; what is wrong with one stands in the ledger or the error.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        command()
    except BrokenPipeError:
        # Whoever read the output has had enough. What Python would still flush at the end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    # OSError: a folder that cannot be written or a full disk; the system's own words name the file and the reason.
    except (TpipsError, OSError) as error:
        print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
