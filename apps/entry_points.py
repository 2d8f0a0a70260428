"""The commands ``tpips-index``, ``tpips-app`` and ``tpips-serve``; their libraries are imported where they run.

Importing them takes a second or two. An exception that Ctrl-C raises meanwhile may arrive anywhere, and as another one;
so until the command itself runs, and once it has ended, Ctrl-C ends the process at once.
"""

from __future__ import annotations

import atexit
import os
import signal
from importlib import import_module
from types import FrameType

__all__ = ["app", "index", "serve"]

# As tpips_model.terminal.INTERRUPTED, which is not imported yet where it is needed.
_INTERRUPTED = 130


def app() -> None:
    """Run ``tpips-app``; a fault of the user's is one line on standard error and exit status 1."""
    _run("apps.app_command")


def index() -> None:
    """Run ``tpips-index``, as ``app``."""
    _run("search.command_line")


def serve() -> None:
    """Run ``tpips-serve``, as ``app``."""
    _run("apps.serve_command")


def _run(module: str) -> None:
    # Where Ctrl-C is ignored, as behind nohup, it stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        # While Python takes itself down no handler runs, and the signal would kill what has done its work.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    import_module(module).main()  # which has Ctrl-C raise KeyboardInterrupt for as long as the command runs


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)
