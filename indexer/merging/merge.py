"""Merging indices of one model into a new one."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from pathlib import Path

from indexer.codes import aspects_to_code
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.given_path import given_path, resolved_path
from indexer.manifest import Manifest
from indexer.merging.config import MergeConfig, MergeError, MergeSummary
from indexer.merging.items import Sieve
from indexer.merging.layout import Layout, make_layout
from indexer.merging.parts import PlannedPart, copied, copied_gallery
from indexer.merging.sources import has_gallery
from indexer.output_folder import GALLERY_FOLDER, output_folder
from indexer.part import write_manifest
from tpips_model.progress_bar import ProgressBar

__all__ = ["merge_indices"]

# The whole manifest is written each time, so that writing it for each part of many would take longer than the parts.
_PARTS_PER_COMMIT = 1 / 32


def merge_indices(config: MergeConfig) -> MergeSummary:
    """Make a new index of the items of others, which are only read.

    Slices of one build become, byte for byte, what one build of everything gives. A merge that was stopped anywhere
    goes on where it was.

    Args:
        config: What to merge.

    Raises:
        MergeError: The indices do not fit together, or the new folder holds another index.
        IndexDirectoryError: An index is damaged, or the new one cannot be written.
        AspectError: Aspects of two indices cannot be told apart.
    """
    out = given_path(config.out, what="the output folder", kind=IndexDirectoryError)
    indices = [
        IndexDirectory.open(given_path(path, what="the index", kind=IndexDirectoryError)) for path in config.indices
    ]
    _check_places(indices, out)
    layout = make_layout(config, indices, out)
    with output_folder(out) as before:
        if before is None:
            _copy_shared(layout, out, link=config.link)
        begun = before.manifest if before is not None else layout.manifest
        manifest, repeats = _merged(config, layout, out, begun)
    return MergeSummary(
        images=manifest.live,
        parts=len(manifest.parts),
        written=len(manifest.parts) - len(begun.parts),
        repeats=repeats,
        removed=sum(part.removed for index in layout.indices for part in index.manifest.parts),
        left_out=layout.left_out,
        needs_codes=bool(aspects_to_code(manifest, wanted=None)),
        galleries=() if layout.sliced else tuple(i.path / GALLERY_FOLDER for i in layout.indices if has_gallery(i)),
    )


def _check_places(indices: list[IndexDirectory], out: Path) -> None:
    paths = [index.path for index in indices]
    for position, path in enumerate(paths):
        if path in paths[:position]:
            raise MergeError(f"the index {path} is given twice; give each once")
    if resolved_path(out, what="the output folder", kind=IndexDirectoryError) in paths:
        raise MergeError(f"{out} is one of the indices, which are only read; give a new folder with --out")


def _copy_shared(layout: Layout, out: Path, *, link: bool) -> None:
    """Copy what belongs to no part, before a manifest names it."""
    for name, record in layout.manifest.files.items():
        copied(layout.indices[0].path / name, out / name, record, link=link)
    if layout.sliced:
        for index in layout.indices:
            if has_gallery(index):
                copied_gallery(index.path / GALLERY_FOLDER, out / GALLERY_FOLDER)


def _merged(config: MergeConfig, layout: Layout, out: Path, begun: Manifest) -> tuple[Manifest, int]:
    """Write the parts that are not there yet; return the manifest, and how many items were there already."""
    if replace(begun, parts=()) != layout.manifest:
        raise _another(out)
    parts = list(begun.parts)
    committed, repeats, planned = len(parts), 0, 0
    total = sum(index.live_count for index in layout.indices)
    with ProgressBar(total=total, desc="merging", unit=" images", disable=not config.progress) as bar:
        for part in _planned(layout):
            if part.number >= len(parts):
                parts.append(part.write(out, link=config.link))
            elif not part.is_written(parts[part.number]):
                raise _another(out)
            if len(parts) - committed > committed * _PARTS_PER_COMMIT:
                write_manifest(out, replace(layout.manifest, parts=tuple(parts)))
                committed = len(parts)
            repeats += len(part.sifted.repeats)
            planned += 1
            bar.update(part.part.live)
    if planned < len(parts):
        raise _another(out)
    manifest = replace(layout.manifest, parts=tuple(parts))
    if committed < len(parts) or not parts:
        write_manifest(out, manifest)
    return manifest, repeats


def _planned(layout: Layout) -> Iterator[PlannedPart]:
    sieve, number = Sieve(layout.shared), 0
    known: set[str] = set()
    for owner, (index, places) in enumerate(zip(layout.indices, layout.placed, strict=True)):
        for part in index.manifest.parts:
            source = places[part.source]
            shards = tuple(map(source.name, part.shards))
            names = tuple(_unused(name, known) for name in shards)
            known.update(names)
            sifted = sieve.sift(owner, index, part, source)
            yield PlannedPart(number, index, part, source, names, sifted, layout.manifest)
            number += 1


def _unused(shard: str, known: Set[str]) -> str:
    """Return another name for a shard that two indices have read, since a manifest names each once."""
    number = 1
    while (name := shard if number == 1 else f"{shard}#{number}") in known:
        number += 1
    return name


def _another(out: Path) -> MergeError:
    return MergeError(f"{out} holds an index that this merge has not begun; give a new folder with --out")
