"""The commands ``tpips-index``, ``tpips-app`` and ``tpips-serve``; their libraries are imported where they run.

Importing them takes a second or two, in which Ctrl-C would print a traceback otherwise.
"""

from __future__ import annotations

import sys
from importlib import import_module

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
    try:
        main = import_module(module).main
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    main()
