"""Compressed tars, unpacked once to a plain tar: a picture is fetched from a tar by its offset, and gzip has none."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from indexer.sources.download import MAX_SHARD_BYTES, free_for, progress_bar
from indexer.sources.file_kinds import compressed_tar, describe_file
from indexer.sources.shard_files import ShardFile
from indexer.sources.source import SourceError

__all__ = ["check_tar", "drop_unpacked", "plain_path", "unpack_fault", "unpacked"]

_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tbz2": bz2.open,
    ".tar.xz": lzma.open,
    ".txz": lzma.open,
}
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ValueError)
_CHUNK = 1 << 20
_BETWEEN_CHECKS = 64 << 20


def plain_path(path: Path) -> Path:
    """Return where a tar's plain form is or will be: the tar itself, or a file beside it without the second suffix.

    >>> plain_path(Path("x/0.tar.gz")).name, plain_path(Path("x/0.tgz")).name, plain_path(Path("x/0.tar")).name
    ('0.tar', '0.tar', '0.tar')
    """
    ending = _ending(path)
    return path.with_name(path.name[: -len(ending)] + ".tar") if ending else path


def unpacked(file: ShardFile) -> Path:
    """Return the plain form of a tar, after it has been fetched and unpacked if need be.

    Of a damaged archive, what comes before the damage is unpacked; ``unpack_fault`` then says so. An archive of the
    user's own is kept, a fetched one removed.

    Raises:
        SourceError: It cannot be fetched, or there is no room beside it.
    """
    target = plain_path(file.path)
    if target == file.path:
        return file.fetched()
    if not target.exists():
        from filelock import FileLock

        archive = file.fetched()
        try:
            with FileLock(target.with_name(target.name + ".lock")):
                if not target.exists():
                    _unpack(archive, target)
                if file.remote is not None:
                    archive.unlink(missing_ok=True)
        except OSError as error:
            raise SourceError(
                f"cannot unpack {archive}: {error.strerror or error}; make its folder writable, or unpack it to a "
                "plain .tar yourself"
            ) from error
    return target


def drop_unpacked(file: ShardFile) -> str:
    """Remove a fetched tar and what was made of it, as ``ShardFile.dropped`` does, and say so."""
    target = plain_path(file.path)
    return file.dropped(target, _note(target)) if target != file.path else file.dropped()


def unpack_fault(tar: Path) -> str | None:
    """Say what was wrong with the archive that this tar was unpacked from, if anything."""
    note = _note(tar)
    return note.read_text(encoding="utf-8") if note.exists() else None


def check_tar(file: ShardFile) -> None:
    """Look at a tar's beginning, where that needs neither the network nor unpacking all of it.

    Raises:
        SourceError: It is no tar, or compressed in a way that cannot be unpacked.
    """
    path = file.path
    if compressed_tar(path.name) and not _ending(path):
        raise SourceError(
            f"the shard {file.shown} is compressed in a way that is not unpacked here; unpack it to a plain .tar"
        )
    if not path.exists():
        return  # it is fetched when it is read
    try:
        with tarfile.open(path, "r:*" if _ending(path) else "r:"):
            pass
    except (OSError, tarfile.TarError, *_DAMAGE) as error:
        # An error with a number is the disk's, not the data's.
        if (not isinstance(error, OSError) or error.errno is None) and (said := file.dropped()):
            raise SourceError(f"the shard {path} is no tar{said}; give tar files only") from error
        looks = describe_file(path) if path.is_file() else "a folder" if path.is_dir() else "no file"
        raise SourceError(f"the shard {path} is no tar: it looks like {looks}; give tar files only") from error


def _unpack(archive: Path, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    what = f"unpacking {archive.name}"
    with progress_bar(what) as bar, open(partial, "wb") as stream, _OPENERS[_ending(archive) or ""](archive) as packed:
        fault, checked = None, 0
        while fault is None:
            if stream.tell() >= checked:
                free_for(max(archive.stat().st_size - checked, _BETWEEN_CHECKS), target.parent, what)
                checked += _BETWEEN_CHECKS
            try:
                chunk = packed.read1(_CHUNK)  # and not read, which gives nothing of what stands before the damage
            except (*_DAMAGE, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's fault; that of the data has no number
                fault = f"the archive {archive.name} is damaged or cut short ({error})"
                break
            if not chunk:
                break
            stream.write(chunk)
            bar.update(len(chunk))
            if stream.tell() > MAX_SHARD_BYTES:
                fault = f"the archive {archive.name} unpacks to more than {MAX_SHARD_BYTES:,} bytes"
        stream.flush()
        os.fsync(stream.fileno())
    _note(target).unlink(missing_ok=True)
    if fault is not None:
        _note(target).write_text(fault, encoding="utf-8")
    os.replace(partial, target)


def _note(tar: Path) -> Path:
    return tar.with_name(tar.name + ".fault")


def _ending(path: Path) -> str | None:
    return next((ending for ending in _OPENERS if path.name.lower().endswith(ending)), None)
