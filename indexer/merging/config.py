"""What a merge is asked to do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tpips_model.aspects import AspectLike
from tpips_model.errors import TpipsError

__all__ = ["MergeConfig", "MergeError", "MergeSummary"]


class MergeError(TpipsError):
    """Indices that cannot be merged; the message says why and what to do."""


@dataclass(frozen=True)
class MergeConfig:
    """One merge.

    Attributes:
        indices: The indices, in this order; only read.
        out: The new index.
        aspects: The aspects to take, "overall" being always taken; by default all, which all indices must have then.
        prefixes: What the keys of each further index's first source begin with, one for each index but the first; by
            default the names of the sources' folders. Not used for a source that an index before it has too.
        link: Whether files that stay as they are become hard links instead of copies.
        progress: Whether a progress bar is shown on standard error.
    """

    indices: tuple[Path, ...]
    out: Path
    aspects: tuple[AspectLike, ...] = ()
    prefixes: tuple[str, ...] = ()
    link: bool = False
    progress: bool = True


@dataclass(frozen=True)
class MergeSummary:
    """What one merge did.

    Attributes:
        images: Items of the new index.
        parts: Parts of the new index.
        written: How many of its parts were not there before.
        repeats: How many items were left out because they are there already.
        removed: How many removed items were left out.
        left_out: What the new index lacks of what the indices have: "codes", "lists", "thumbnails".
        needs_codes: Whether a build would have made codes for as many images.
        galleries: Folders inside the indices that pictures of the new one lie in.
    """

    images: int
    parts: int
    written: int
    repeats: int
    removed: int
    left_out: tuple[str, ...]
    needs_codes: bool
    galleries: tuple[Path, ...]
