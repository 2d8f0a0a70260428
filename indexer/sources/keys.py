"""Keys and names out of files and tables, made fit to be stored and printed."""

from __future__ import annotations

import unicodedata

__all__ = ["is_prefix", "plain_step", "storable"]


def plain_step(step: str) -> str:
    """Return a name with control characters and bytes that are not UTF-8 spelt out.

    >>> plain_step("new\\nline")
    'new\\\\nline'
    """
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cs") else char for char in step
    )


def is_prefix(text: str) -> bool:
    """Tell whether keys may begin with a text and a slash.

    >>> is_prefix("more/2024"), is_prefix("more/"), is_prefix("a\\nb"), is_prefix("")
    (True, False, False, False)
    """
    return bool(text) and text == plain_step(text) == text.strip("/")


def storable(name: str) -> str:
    """Return a file's name with every byte that is not UTF-8 spelt out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
