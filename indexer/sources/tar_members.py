"""The members of a tar archive with the offsets of their bytes, and what is wrong with its end."""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TarListing", "TarMember", "list_tar"]

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20


@dataclass(frozen=True)
class TarMember:
    """One file in a tar: its name, where its bytes begin and how many there are.

    ``fault`` says why it has no bytes of its own there (a link, a sparse file, cut off), or is ``None``.
    """

    name: str
    offset: int
    size: int
    fault: str | None = None


@dataclass(frozen=True)
class TarListing:
    """All members that can be reached, in order, and what is wrong with the archive behind them, if anything."""

    members: tuple[TarMember, ...]
    fault: str | None


def list_tar(path: Path) -> TarListing:
    """List an uncompressed tar without reading its members' bytes.

    Raises:
        OSError: It cannot be opened.
        tarfile.ReadError: It is no tar from its first block on.
    """
    length = os.stat(path).st_size
    members: list[TarMember] = []
    fault = None
    with tarfile.open(path, "r:") as archive:
        reached = -1
        while True:
            try:
                info = archive.next()
            except (tarfile.TarError, ValueError, OverflowError) as error:
                fault = f"ends early or is damaged ({error})"
                break
            if info is None:
                fault = _end_fault(path, archive.offset, length)
                break
            if info.offset_data <= reached:  # a header with a negative size would lead back for ever
                fault = f"is damaged at byte {reached:,}"
                break
            reached = info.offset_data
            if not info.isdir():
                members.append(_member(info, length))
    if fault is not None:
        fault = f"{fault}; {len(members)} members before that were found, pictures behind it are not indexed"
    return TarListing(tuple(members), fault)


def _member(info: tarfile.TarInfo, length: int) -> TarMember:
    fault = None
    if info.issym() or info.islnk():
        fault = "is a link inside the tar, which is not followed"
    elif info.issparse():
        fault = "is a sparse member, which is not supported"
    elif not info.isreg():
        fault = "is no regular file"
    elif info.size < 0 or info.offset_data + info.size > length:
        fault = "is cut off: the tar ends before it does"
    return TarMember(info.name, info.offset_data, info.size, fault)


def _end_fault(path: Path, offset: int, length: int) -> str | None:
    """Say what is wrong at the end of the listing: the standard library stops without a word at any bad block."""
    with open(path, "rb") as stream:
        stream.seek(offset)
        block = stream.read(_BLOCK)
        if len(block) < _BLOCK:
            return f"ends early, at byte {length:,}, without the end mark of a tar"
        if any(block):
            return f"is damaged at byte {offset:,}"
        while chunk := stream.read(_CHUNK):
            if any(chunk):
                return f"goes on behind its end mark at byte {offset:,} (several tars in one file?)"
    return None
