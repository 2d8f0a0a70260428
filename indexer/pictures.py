"""Whether the pictures of an index are still what they were when it was made."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_checks import removed_rows
from indexer.stored_bytes import is_whole_file

__all__ = ["PictureState", "picture_state"]


@dataclass(frozen=True)
class PictureState:
    """What has become of the pictures of an index.

    Attributes:
        changed: Keys of those whose file has another size.
        vanished: Keys of those whose file is gone.
        away: Numbers of the sources all of whose pictures are gone, as when a disk or folder is not there.
    """

    changed: tuple[str, ...]
    vanished: tuple[str, ...]
    away: tuple[int, ...] = ()

    def describe(self) -> str:
        """Say how many pictures are affected and name the first."""
        first = (*self.vanished, *self.changed)[0]
        counts = f"{len(self.vanished)} indexed pictures have vanished and {len(self.changed)} have changed"
        return f"{counts}, such as {first!r}"


def picture_state(index: IndexDirectory) -> PictureState:
    """Look at the file of every indexed picture that is not removed, without reading it."""
    changed: list[str] = []
    vanished: list[str] = []
    sizes: dict[str, int | None] = {}
    there: dict[int, bool] = {}
    for part in index.manifest.parts:
        rows = index.part_items(part, ["key", "file", "member", "offset", "size"]).to_pylist()
        removed = set(removed_rows(index.path, part).tolist())
        for row in (row for number, row in enumerate(rows) if row["file"] and number not in removed):
            if row["file"] not in sizes:
                sizes[row["file"]] = _size(index, row)
            size = sizes[row["file"]]
            there[part.source] = there.get(part.source, False) or size is not None
            if size is None:
                vanished.append(row["key"])
            elif _changed(row, size):
                changed.append(row["key"])
    away = tuple(source for source, found in there.items() if not found)
    return PictureState(tuple(changed), tuple(vanished), away)


def _changed(row: Mapping[str, Any], size: int) -> bool:
    """Tell by a file's size whether an item's bytes can no longer be what they were."""
    if row["offset"] is not None:
        return size < int(row["offset"]) + int(row["size"])
    # A row of a parquet file has no size of its own on the disk; its source looks at the file's footer.
    return is_whole_file(row["member"], None) and size != row["size"]


def _size(index: IndexDirectory, row: Mapping[str, Any]) -> int | None:
    try:
        path: Path = index.item_path(row)
        status = path.stat()
    except (OSError, IndexDirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
