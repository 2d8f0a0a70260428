"""Fetching a large remote file to this machine: with progress, and going on where an earlier try stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from indexer.sources.source import SourceError
from indexer.sources.web_request import FetchError
from tpips_model.progress_bar import ProgressBar

__all__ = ["Answer", "download", "free_for", "progress_bar"]

MAX_SHARD_BYTES = 256 << 30
_CHUNK = 1 << 20
# Before anything has come, a wrong address should be said soon; later, a network may be gone for a minute.
_FIRST_PAUSES = (0.5, 2.0, 8.0)
_PAUSES = (0.5, 2.0, 8.0, 30.0, 60.0)
_LONGEST_PAUSE = 60.0
_SPARE_BYTES = 256 << 20


class Answer(Protocol):
    """What a remote file gives when opened; ``WebAnswer`` says what its fields mean."""

    start: int
    total: int | None
    version: str | None

    def read(self, count: int) -> bytes:
        """Return at least one byte and at most ``count``; nothing at the end."""
        ...


def download(opened: Callable[[int, str | None], AbstractContextManager[Answer]], path: Path, *, shown: str) -> None:
    """Fetch a file to ``path``, where it appears only once it is whole.

    What has come lies in ``.partial`` beside it, with the version it is of, and is gone on with if the remote file
    still is of that version. Failures that may pass are tried again, as long as some bytes come.

    Args:
        opened: Opens the remote file from a byte on, if it still is of a version.
        path: Where it shall be.
        shown: The remote file's name for messages.

    Raises:
        SourceError: It cannot be fetched, is too large, or the disk is full.
    """
    partial, mark = (path.with_name(path.name + ending) for ending in (".partial", ".version"))
    failures = 0
    with progress_bar(shown) as bar:
        while True:
            before = _size(partial)
            try:
                _fetch_rest(opened, partial, mark, shown, bar)
                break
            except FetchError as error:
                # Only what can be gone on with is progress; else a server that breaks off would be asked for ever.
                failures = 0 if _size(partial) > before and _size(mark) else failures + 1
                pauses = _PAUSES if _size(partial) else _FIRST_PAUSES
                if not error.transient or failures > len(pauses):
                    kept = "; what has come is kept" if _size(partial) else ""
                    raise SourceError(
                        f"cannot fetch {shown}: it {error}{kept}. Run the same command again, or give a local copy"
                    ) from error
                time.sleep(min(error.pause or pauses[max(failures - 1, 0)], _LONGEST_PAUSE))
            except OSError as error:
                raise _write_failure(path, error) from error
    os.replace(partial, path)
    mark.unlink(missing_ok=True)


def _fetch_rest(
    opened: Callable[[int, str | None], AbstractContextManager[Answer]],
    partial: Path,
    mark: Path,
    shown: str,
    bar: ProgressBar,
) -> None:
    partial.parent.mkdir(parents=True, exist_ok=True)
    # What came without a version cannot be told from another file's beginning.
    version = (mark.read_text() if mark.exists() else "") or None
    with opened(_size(partial) if version else 0, version) as answer:
        if answer.start > _size(partial):
            raise FetchError(f"sent its bytes from {answer.start:,} on, which were not asked for")
        total = answer.total
        if (total or 0) > MAX_SHARD_BYTES:
            raise FetchError(f"has {total:,} bytes; at most {MAX_SHARD_BYTES:,} are fetched")
        if total is not None:
            free_for(total - answer.start, partial.parent, shown)
        mark.write_text(answer.version or "")
        bar.total, bar.n = total, answer.start
        with open(partial, "r+b" if partial.exists() else "w+b") as stream:
            stream.seek(answer.start)
            stream.truncate()
            while chunk := answer.read(_CHUNK):
                stream.write(chunk)
                bar.update(len(chunk))
                if stream.tell() > (MAX_SHARD_BYTES if total is None else total):
                    raise FetchError("sent more bytes than it has")
            stream.flush()
            os.fsync(stream.fileno())
            if total is not None and stream.tell() != total:
                raise FetchError(f"ended at byte {stream.tell():,} of {total:,}", transient=True)


def free_for(count: int, folder: Path, what: str) -> None:
    """Check that a folder's disk has room for ``count`` bytes and some to spare.

    Raises:
        SourceError: It has not.
    """
    free = shutil.disk_usage(folder).free
    if count + _SPARE_BYTES > free:
        raise SourceError(
            f"{what} needs {count:,} bytes in {folder}, where {free:,} are free; make room, or set TPIPS_CACHE to a "
            "folder on a larger disk"
        )


def progress_bar(shown: str) -> ProgressBar:
    """Return a bar of bytes on standard error, which leaves nothing behind at a terminal."""
    label = shown.rpartition("/")[2]
    return ProgressBar(desc=label, unit="B", unit_scale=True, unit_divisor=1024, leave=False)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _write_failure(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f"cannot write {path}: {error.strerror or error}; make room or give it rights, or set TPIPS_CACHE to another "
        "folder, and run the same command again"
    )
