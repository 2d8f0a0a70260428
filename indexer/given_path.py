"""A path as a user gave it: expanded and looked at once, so that one that no file system can hold is refused early."""

from __future__ import annotations

import os
from pathlib import Path

from tpips_model.errors import TpipsError

__all__ = ["given_path", "resolved_path"]


def given_path(given: str | os.PathLike[str], *, what: str, kind: type[TpipsError]) -> Path:
    """Return a user's path with its ``~`` expanded; it need not exist.

    Args:
        given: The path.
        what: What it is for, such as ``"the output folder"``.
        kind: The error to raise.

    Raises:
        TpipsError: Of the given kind: it is too long, holds a null character, goes in circles, may not be looked at,
            or begins with the ``~`` of nobody.
    """
    try:
        path = Path(given).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError, RuntimeError) as error:
        raise _unusable(given, what, kind, error) from error
    return path


def resolved_path(given: str | os.PathLike[str], *, what: str, kind: type[TpipsError]) -> Path:
    """Return a path made absolute with its links followed; it need not exist, and ``~`` is a name like any other.

    Raises:
        TpipsError: Of the given kind: it holds a null character, or its links go in circles.
    """
    try:
        return Path(given).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise _unusable(given, what, kind, error) from error


def _unusable(given: str | os.PathLike[str], what: str, kind: type[TpipsError], error: Exception) -> TpipsError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return kind(f"{what} {os.fspath(given)!r:.120} cannot be used: {reason}; give another path")
