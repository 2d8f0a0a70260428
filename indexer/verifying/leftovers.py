"""Finding the files in an index directory that nobody names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from indexer.directory import MANIFEST_FILE, IndexDirectory
from indexer.durable import TEMPORARY_SUFFIX
from indexer.file_names import PART_FOLDERS
from indexer.lock import LOCK_FILE
from indexer.output_folder import GALLERY_FOLDER
from indexer.readers import READERS_FOLDER

__all__ = ["unnamed_files"]


def unnamed_files(index: IndexDirectory) -> Iterator[str]:
    """Give every file below the index that its manifest does not name, and say what it may be.

    Folders of pictures that lie in the index are not looked into. None of these files is a fault: no reader opens them.
    """
    named = {MANIFEST_FILE, LOCK_FILE, *index.manifest.files}
    named.update(name for part in index.manifest.parts for name in part.files)
    for path in _files(index):
        name = path.relative_to(index.path).as_posix()
        folder = name.partition("/")[0]
        if name in named or (folder == READERS_FOLDER and path.name.isdecimal()):
            continue
        if path.name.endswith(TEMPORARY_SUFFIX) or folder in PART_FOLDERS:
            yield f"{name}: left by a program that is at work, was ended or was superseded; the next build removes it"
        else:
            yield f"{name}: of no index"


def _files(index: IndexDirectory) -> Iterator[Path]:
    pictures = {index.path / GALLERY_FOLDER, *index.data_roots}
    for place, folders, files in os.walk(index.path):
        folders[:] = sorted(name for name in folders if Path(place, name) not in pictures)
        yield from (Path(place, name) for name in sorted(files))
