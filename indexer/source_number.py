"""Names that say which of an index's sources they belong to: files of items, and shards.

A path inside a source never begins with a slash, so what does so is free to mean something else.
"""

from __future__ import annotations

import re

__all__ = ["numbered", "split_number"]

_NUMBERED = re.compile(r"//([1-9]\d{0,5})/(.*)", re.DOTALL)


def numbered(source: int, name: str) -> str:
    """Return a name within a source as the index stores it; the names of the first source stay as they are.

    >>> numbered(0, "cats/a.jpg"), numbered(2, "a.jpg")
    ('cats/a.jpg', '//2/a.jpg')
    """
    return f"//{source}/{name}" if source else name


def split_number(name: str) -> tuple[int, str]:
    """Return the source of a stored name, and the name within it.

    >>> split_number("cats/a.jpg"), split_number("//2/a.jpg")
    ((0, 'cats/a.jpg'), (2, 'a.jpg'))
    """
    match = _NUMBERED.fullmatch(name)
    return (int(match[1]), match[2]) if match else (0, name)
