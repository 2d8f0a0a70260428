"""The index that a build would end with, file by file, before any of them is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from indexer.building.shard_rows import ShardRows
from indexer.clustering import MAX_PROJECTED, list_dtype
from indexer.codes import aspects_to_code
from indexer.columns import item_table
from indexer.file_names import (
    CLUSTERING_FILE,
    codes_file,
    errors_file,
    items_file,
    lists_file,
    quantizer_file,
    thumbnails_file,
    vectors_file,
)
from indexer.lists import lists_to_make
from indexer.manifest import FileRecord, ListsRecord, Manifest, PartRecord
from indexer.parquet_settings import THUMBNAILS_PER_GROUP
from indexer.part import write_items, write_ledger, write_thumbnails
from indexer.quantizer import CENTROIDS, MAX_ROTATED_DIM, SUB_DIM, sub_quantizers

__all__ = ["ExpectedShard", "PartSizes", "bytes_by_kind", "expected_manifest", "part_sizes"]

_ARRAY_HEADER = 128
_SAFETENSORS_HEADER = 300
_NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class ExpectedShard:
    """A shard of a source, how many items it will have, and how many of its samples will be ledger lines."""

    name: str
    rows: int
    errors: int = 0


@dataclass(frozen=True)
class PartSizes:
    """What a part's files take.

    Attributes:
        items: Bytes of the items' file, by how many items there are.
        ledger: Bytes of the error ledger, by how many lines it has.
        thumbnail: Bytes of each thumbnail; ``None`` if there are to be none.
    """

    items: Callable[[int], int]
    ledger: Callable[[int], int]
    thumbnail: float | None = None


def part_sizes(rows: ShardRows) -> PartSizes:
    """Learn from a sample what a part's files take."""
    with TemporaryDirectory() as folder:
        place = Path(folder)

        def items_bytes(count: int) -> int:
            return write_items(place, 0, item_table(rows.items[:count])).bytes

        def ledger_bytes(count: int) -> int:
            (file,) = write_ledger(place, 0, rows.errors[:count]).values()
            return file.bytes

        items, ledger = _line(items_bytes, len(rows.items)), _line(ledger_bytes, len(rows.errors))
        thumbnail = 0.0 if rows.thumbnails is not None else None
        if rows.thumbnails:
            # A group of them, since each group has a beginning and statistics of its own.
            full = list(islice(cycle(rows.thumbnails), THUMBNAILS_PER_GROUP))
            thumbnail = write_thumbnails(place, 0, full).bytes / len(full)
    return PartSizes(items, ledger, thumbnail)


def _line(size: Callable[[int], int], count: int) -> Callable[[int], int]:
    """Return the line through two sizes: rows are compressed together, and a file has a beginning and an end."""
    few = count // 2 if count > 3 else 0
    less, more = size(few), size(count)
    each = (more - less) / max(count - few, 1)
    return lambda rows: round(more + each * (rows - count))


def expected_manifest(
    before: Manifest, shards: Sequence[ExpectedShard], sizes: PartSizes, *, codes: bool | None
) -> Manifest:
    """Return the manifest that a build would end with; its files have sizes and no checksums.

    Args:
        before: What the index holds, with all aspects that it shall have; no parts for a new one.
        shards: What is to be indexed.
        sizes: What a part's files take.
        codes: As of ``BuildConfig``.
    """
    dim = before.model.dim
    parts = [_with_vectors(part, before) for part in before.parts]
    first = max((part.id for part in parts), default=-1) + 1
    for number, shard in enumerate(shards, first):
        items, ledger = sizes.items(shard.rows), sizes.ledger(shard.errors)
        files = {items_file(number): _file(items), errors_file(number): _file(ledger)}
        if sizes.thumbnail is not None:
            files[thumbnails_file(number)] = _file(round(sizes.thumbnail * shard.rows))
        parts.append(_with_vectors(PartRecord(number, (shard.name,), shard.rows, shard.errors, files), before))
    manifest = replace(before, parts=tuple(parts))
    code_bytes = sub_quantizers(dim) // 2
    for aspect in {*aspects_to_code(manifest, wanted=codes), *manifest.coded_aspects}:
        quantizers = {quantizer_file(aspect): _file(_quantizer_bytes(dim)), **manifest.quantizers}
        grown = (
            _grown(part, codes_file(aspect, part.id), _ARRAY_HEADER + part.rows * code_bytes) for part in manifest.parts
        )
        manifest = replace(manifest, parts=tuple(grown), quantizers=quantizers)
    count = lists_to_make(manifest, wanted=None) if codes is not False else 0
    if count:
        width = list_dtype(count).itemsize
        projections = MAX_PROJECTED * 4 * (count + dim * len(manifest.coded_aspects))
        grown = (_grown(part, lists_file(part.id), _ARRAY_HEADER + part.rows * width) for part in manifest.parts)
        manifest = replace(manifest, parts=tuple(grown), lists=ListsRecord(count, _file(projections)))
    return manifest


def bytes_by_kind(manifest: Manifest) -> dict[str, int]:
    """Return what an index takes: vectors, codes, items, lists, thumbnails, and the rest."""
    kinds = {
        "vectors": 0,
        "codes": 0,
        "lists": 0,
        "items": 0,
        "thumbnails": 0,
        "other": len(manifest.to_json().encode()),
    }
    files = [*manifest.files.items(), *(pair for part in manifest.parts for pair in part.files.items())]
    for name, file in files:
        kinds[_kind(name)] += file.bytes
    return kinds


def _kind(name: str) -> str:
    if name.endswith((".codes.npy", "quantizer.safetensors")):
        return "codes"
    folder = name.partition("/")[0]
    if name == CLUSTERING_FILE:
        return "lists"
    return {"aspects": "vectors"}.get(folder, folder if folder in ("items", "lists", "thumbnails") else "other")


def _with_vectors(part: PartRecord, manifest: Manifest) -> PartRecord:
    size = _ARRAY_HEADER + part.rows * manifest.model.dim * 2
    for aspect in manifest.aspects:
        part = _grown(part, vectors_file(aspect, part.id), size)
    return part


def _grown(part: PartRecord, name: str, size: int) -> PartRecord:
    return part if name in part.files else replace(part, files={**part.files, name: _file(size)})


def _quantizer_bytes(dim: int) -> int:
    count = sub_quantizers(dim)
    width = SUB_DIM * count
    rotation = width * dim if dim <= MAX_ROTATED_DIM else 0
    return _SAFETENSORS_HEADER + 4 * (count * CENTROIDS * SUB_DIM + width + rotation)


def _file(size: int) -> FileRecord:
    return FileRecord(size, _NO_CHECKSUM)
