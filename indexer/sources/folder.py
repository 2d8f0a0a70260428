"""A folder of picture files, read recursively."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from indexer.given_path import given_path
from indexer.sources.file_kinds import UNSUPPORTED_PICTURES, describe_names, is_picture_name, suffix
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.stored_bytes import PictureReadError, read_stored

__all__ = ["FolderSource"]

DEFAULT_SHARD_SIZE = 256
_CONVERT = "convert it to JPEG or PNG under a new name and run again"


@dataclass(frozen=True)
class _Entry:
    """A picture file of the folder, or something that should have been one and why it is not."""

    key: str
    reason: str | None = None


class FolderSource:
    """All pictures under a folder; an item's key is its path relative to the folder.

    Hidden files and folders are passed over. A link to a picture inside the folder is a picture; a link to a folder
    inside it is not followed, since its pictures are met where they lie; what leads outside is a bad sample.

    Args:
        root: The folder.
        shard_size: How many files make a shard.
        exclude: A folder that is not looked into: the index, should it lie among the pictures.

    Raises:
        SourceError: The folder is missing, is no folder, or has a path that no folder can have.
    """

    kind = "folder"

    def __init__(
        self, root: str | os.PathLike[str], *, shard_size: int = DEFAULT_SHARD_SIZE, exclude: Path | None = None
    ) -> None:
        given = given_path(root, what="the folder", kind=SourceError)
        if not given.is_dir():
            what = "is a file, not a folder" if given.exists() else "does not exist"
            raise SourceError(f"the folder {given} {what}; give a folder of pictures with --data")
        self.root = given.resolve()
        self._shard_size = shard_size
        self._exclude = exclude.resolve() if exclude is not None else None

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the files that are not indexed yet in runs of ``shard_size``, sorted by path (in Unicode NFC)."""
        others: list[str] = []
        entries = sorted(self._walk(others), key=lambda entry: (unicodedata.normalize("NFC", entry.key), entry.key))
        if not entries:
            raise SourceError(f"the folder {self.root} holds no pictures, but {describe_names(others)}{_hint(others)}")
        new = [entry for entry in entries if entry.key not in indexed.keys]
        runs = [new[start : start + self._shard_size] for start in range(0, len(new), self._shard_size)]
        return [
            Shard(name=f"files-{len(indexed.shards) + number:05d}", samples=len(run), content=tuple(run))
            for number, run in enumerate(runs)
        ]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in order."""
        for entry in shard.content:
            yield self._read(entry)

    def _read(self, entry: _Entry) -> Sample | BadSample:
        if entry.reason is not None:
            return BadSample(entry.key, entry.reason)
        try:
            data = read_stored(self.root / entry.key)
        except PictureReadError as error:
            if not self.root.is_dir():  # else a disk that drops out would fill the ledger with every file on it
                raise SourceError(f"the folder {self.root} has gone; bring it back and run the same command") from error
            return BadSample(entry.key, str(error))
        return Sample(entry.key, data, file=entry.key, member=None, offset=None, size=len(data))

    def _walk(self, others: list[str]) -> Iterator[_Entry]:
        """Give all picture files, unsorted; the names of other files are added to ``others``."""
        pending = [""]
        while pending:
            prefix = pending.pop()
            try:
                with os.scandir(self.root / prefix) as scan:
                    found = [item for item in scan if not item.name.startswith(".")]
            except OSError as error:
                yield _Entry(_readable(prefix) or "./", f"the folder cannot be read: {error.strerror or error}")
                continue
            for item in found:
                name = prefix + item.name
                if item.is_dir(follow_symlinks=False):
                    if self._exclude is None or Path(item.path).resolve() != self._exclude:
                        pending.append(f"{name}/")
                    continue
                try:
                    entry = self._entry(name, item)
                except OSError as error:  # it vanished since the folder was listed, or its folder is closed to us
                    entry = _Entry(_readable(name), f"cannot be looked at: {error.strerror or error}")
                if entry is None:
                    others.append(name)
                else:
                    yield entry

    def _entry(self, name: str, item: os.DirEntry[str]) -> _Entry | None:
        key = _readable(name)
        if item.is_symlink():
            fault = self._link_fault(item)
            if fault is not None:
                # A link to something that is no picture is nobody's loss, unless it is a folder full of them.
                return _Entry(key, fault) if is_picture_name(name) or os.path.isdir(item.path) else None
        if not is_picture_name(name):
            return None
        if key != name:
            return _Entry(key, "its name is not valid UTF-8; rename the file and run again")
        if suffix(name) in UNSUPPORTED_PICTURES:
            return _Entry(key, f"{suffix(name)} pictures are not supported; {_CONVERT}")
        if not stat.S_ISREG(os.stat(item.path).st_mode):
            return _Entry(key, "is no regular file")
        return _Entry(key)

    def _link_fault(self, item: os.DirEntry[str]) -> str | None:
        if not os.path.exists(item.path):
            return "is a link that leads nowhere"
        target = Path(item.path).resolve()
        if not target.is_relative_to(self.root):
            return "is a link that leads outside the folder, which is not followed; index that folder by itself"
        hidden = any(part.startswith(".") for part in target.relative_to(self.root).parts)
        if target.is_dir() and hidden:
            return "is a link to a hidden folder, which is not followed; rename that folder and run again"
        return None


def _readable(name: str) -> str:
    """Return a name with every byte that is not UTF-8 spelt out, so that it can be stored and printed."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _hint(names: list[str]) -> str:
    if any(suffix(name) == ".tar" for name in names):
        return "; for tar shards give --data webdataset:PATTERN"
    return "; give a folder that holds JPEG, PNG, WebP, GIF, BMP or TIFF files"
