"""Reading the manifest's file, of which nothing is believed yet."""

from __future__ import annotations

from pathlib import Path

from indexer.manifest import IndexDirectoryError, Manifest
from indexer.manifest_parsing import parse_manifest

__all__ = ["MANIFEST_FILE", "manifest_version", "read_manifest"]

MANIFEST_FILE = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 30


def read_manifest(folder: Path) -> Manifest:
    """Read an index directory's manifest without looking at the parts.

    Raises:
        IndexDirectoryError: There is none, or it cannot be used.
    """
    path = folder / MANIFEST_FILE
    try:
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "does not exist"
            raise IndexDirectoryError(
                f"index {folder} {what}; make one with: tpips-index build --data … --out {folder}"
            )
        if not path.is_file():
            raise IndexDirectoryError(
                f"{folder} holds no finished index (no {MANIFEST_FILE}); "
                f"make one with: tpips-index build --data … --out {folder}"
            )
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise IndexDirectoryError(f"{path} has more than {_MAX_MANIFEST_BYTES:,} bytes, which no manifest has")
        return parse_manifest(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise IndexDirectoryError(f"cannot read {path}: {error}; build the index anew") from error
    except IndexDirectoryError as error:
        raise IndexDirectoryError(f"{error} ({folder})" if str(folder) not in str(error) else str(error)) from error


def manifest_version(folder: Path) -> tuple[int, ...]:
    """Return what differs whenever the manifest is written anew, without reading it; empty if there is none."""
    try:
        status = (folder / MANIFEST_FILE).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
