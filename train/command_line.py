"""The command ``tpips-train``; its libraries are imported by ``main``, where Ctrl-C ends it quietly."""

from __future__ import annotations

import atexit
import os
import signal
from types import FrameType

__all__ = ["main"]

# As tpips_model.terminal.INTERRUPTED, which is not imported yet where it is needed.
_INTERRUPTED = 130


def main() -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    # As in apps.entry_points, which train does not import: until the command runs, and once it has ended.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    from train.commands import main as run

    run()  # which has Ctrl-C raise KeyboardInterrupt for as long as the command runs


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
