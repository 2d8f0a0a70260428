"""Text from files and folders, made safe to print."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return text whose characters cannot command a terminal: a key is whatever a file was called.

    >>> printable("a\\x1b]0;b")
    'a�]0;b'
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
