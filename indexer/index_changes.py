"""Changing what an index's manifest says, one durable step at a time; the caller holds the index's lock."""

from __future__ import annotations

from dataclasses import replace

from indexer.directory import IndexDirectory
from indexer.item_files import data_roots
from indexer.manifest import FileRecord, Manifest, PartRecord
from indexer.part import write_manifest

__all__ = ["recorded", "with_file"]


def recorded(index: IndexDirectory, manifest: Manifest) -> IndexDirectory:
    """Write an index's new manifest, and return the index as it is now; if files are superseded, an epoch begins.

    Raises:
        IndexDirectoryError: It cannot be written.
    """
    if _supersedes(index.manifest, manifest):
        manifest = replace(manifest, epoch=index.manifest.epoch + 1)
    write_manifest(index.path, manifest)
    return IndexDirectory(index.path, manifest, data_roots(index.path, manifest.sources, None))


def _supersedes(old: Manifest, new: Manifest) -> bool:
    """Tell whether a file that the old manifest names is not, or not as it was, in the new one."""
    parts = {part.id: part for part in new.parts}
    return not old.files.items() <= new.files.items() or any(
        part is not parts.get(part.id) and not (part.id in parts and part.files.items() <= parts[part.id].files.items())
        for part in old.parts
    )


def with_file(index: IndexDirectory, part: PartRecord, name: str, file: FileRecord) -> IndexDirectory:
    """Let a part name one more file, that is written already; return the index as it is now.

    Raises:
        IndexDirectoryError: The manifest cannot be written.
    """
    grown = replace(part, files={**part.files, name: file})
    parts = tuple(grown if known.id == part.id else known for known in index.manifest.parts)
    return recorded(index, replace(index.manifest, parts=parts))
