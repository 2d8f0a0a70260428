"""Numbers of things in words: one image, two images."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return how many there are of something.

    Args:
        count: How many.
        noun: What one of them is called.
        plural: What several are called; by default with an s at the end.

    Examples:
        >>> counted(1, "image"), counted(1234, "image"), counted(2, "index", "indices")
        ('1 image', '1,234 images', '2 indices')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
