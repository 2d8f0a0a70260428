"""The command ``tpips-train``; its libraries are imported by ``main``, where Ctrl-C ends it quietly."""

from __future__ import annotations

import sys

__all__ = ["main"]

# As tpips_model.terminal.INTERRUPTED, which is not imported yet where it is needed.
_INTERRUPTED = 130


def main() -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    try:
        from tpips_model.terminal import run_command
        from train.commands import app
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    run_command(app)


if __name__ == "__main__":
    main()
