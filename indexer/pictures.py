"""Whether the pictures of an index are still what they were when it was made."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.directory import IndexDirectory, IndexDirectoryError

__all__ = ["PictureState", "picture_state"]


@dataclass(frozen=True)
class PictureState:
    """Keys of indexed pictures whose file has changed its size, or is gone."""

    changed: tuple[str, ...]
    vanished: tuple[str, ...]

    def describe(self) -> str:
        """Say how many pictures are affected and name the first."""
        first = (*self.vanished, *self.changed)[0]
        counts = f"{len(self.vanished)} indexed pictures have vanished and {len(self.changed)} have changed"
        return f"{counts}, such as {first!r}"


def picture_state(index: IndexDirectory) -> PictureState:
    """Look at every indexed picture's file, without reading it."""
    changed: list[str] = []
    vanished: list[str] = []
    sizes: dict[str, int | None] = {}
    for part in index.manifest.parts:
        for row in index.part_items(part, ["key", "file", "offset", "size"]).to_pylist():
            if row["file"] not in sizes:
                sizes[row["file"]] = _size(index, row)
            size = sizes[row["file"]]
            if size is None:
                vanished.append(row["key"])
            elif size < row["offset"] + row["size"] if row["offset"] is not None else size != row["size"]:
                changed.append(row["key"])
    return PictureState(tuple(changed), tuple(vanished))


def _size(index: IndexDirectory, row: Mapping[str, Any]) -> int | None:
    try:
        path: Path = index.item_path(row)
        status = path.stat()
    except (OSError, IndexDirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
