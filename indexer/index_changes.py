"""Changing what an index's manifest says, one durable step at a time; the caller holds the index's lock."""

from __future__ import annotations

from dataclasses import replace

from indexer.directory import IndexDirectory
from indexer.manifest import FileRecord, Manifest, PartRecord
from indexer.part import write_manifest

__all__ = ["recorded", "with_file"]


def recorded(index: IndexDirectory, manifest: Manifest) -> IndexDirectory:
    """Write an index's new manifest, and return the index as it is now.

    Raises:
        IndexDirectoryError: It cannot be written.
    """
    write_manifest(index.path, manifest)
    return IndexDirectory(index.path, manifest, index.data_root)


def with_file(index: IndexDirectory, part: PartRecord, name: str, file: FileRecord) -> IndexDirectory:
    """Let a part name one more file, that is written already; return the index as it is now.

    Raises:
        IndexDirectoryError: The manifest cannot be written.
    """
    grown = replace(part, files={**part.files, name: file})
    parts = tuple(grown if known.id == part.id else known for known in index.manifest.parts)
    return recorded(index, replace(index.manifest, parts=parts))
