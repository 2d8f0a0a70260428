"""Telling by a file's first bytes and its name what it is, for messages that say what was found instead of pictures."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tpips_model.images import IMAGE_SUFFIXES

__all__ = ["compressed_tar", "describe_file", "describe_names", "is_picture_name", "suffix"]

# Pictures that Pillow cannot decode by itself. They are listed in the ledger rather than passed over in silence.
UNSUPPORTED_PICTURES = frozenset((".heic", ".heif", ".jxl"))
COMPRESSED_TAR_ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tar.lz4")

_SIGNATURES = (
    (b"PAR1", "a parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstandard-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with git lfs pull"),
    (b"<", "an HTML or XML page, perhaps of a failed download"),
)
_SHOWN_KINDS = 5


def suffix(name: str) -> str:
    """Return the last suffix of a file name, lower case, with its dot.

    >>> suffix("shots/a.b_1.JPG"), suffix("README"), suffix("v1.2/README")
    ('.jpg', '', '')
    """
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def is_picture_name(name: str) -> bool:
    """Tell whether a file of this name is meant to be a picture, one that can be decoded or not."""
    return suffix(name) in IMAGE_SUFFIXES or suffix(name) in UNSUPPORTED_PICTURES


def compressed_tar(name: str) -> bool:
    """Tell whether a file's name is that of a compressed tar."""
    return name.lower().endswith(COMPRESSED_TAR_ENDINGS)


def describe_file(path: Path) -> str:
    """Say what a file looks like by its first bytes, such as ``"a parquet file"``."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(512)
        if not head:
            return "an empty file"
        for signature, name in _SIGNATURES:
            if head.startswith(signature):
                return name
        if tarfile.is_tarfile(path):
            return "a tar archive"
    except OSError as error:
        return f"unreadable ({error.strerror or error})"
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The block may end inside a character.
        if error.start < len(head) - 4:
            return "binary data of an unknown kind"
        text = head[: error.start].decode("utf-8")
    return "a table of text (CSV)" if text.split("\n", 1)[0].count(",") else "plain text"


def describe_names(names: Iterable[str]) -> str:
    """Say how many names of which suffix there are, such as ``"3 × .parquet, 1 × .txt"``."""
    counts = Counter(suffix(name) or "no suffix" for name in names)
    shown = [f"{count} × {ending}" for ending, count in counts.most_common(_SHOWN_KINDS)]
    more = len(counts) - len(shown)
    return ", ".join([*shown, *([f"{more} more kinds"] if more else [])]) or "nothing"
