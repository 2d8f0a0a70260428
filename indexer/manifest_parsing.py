"""Reading the text of a manifest, of which nothing is believed."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from indexer.file_names import CLUSTERING_FILE, lists_file, quantizer_file, removed_file
from indexer.manifest import FORMAT, FORMAT_VERSION, Manifest, part_file_names
from indexer.records import (
    MAX_EPOCH,
    MAX_LISTS,
    MAX_THUMBNAIL_SIDE,
    MIN_THUMBNAIL_SIDE,
    FileRecord,
    IndexDirectoryError,
    ListsRecord,
    ModelRecord,
    PartRecord,
    SourceRecord,
)
from indexer.source_number import split_number
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError

__all__ = ["parse_manifest"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_Value = TypeVar("_Value")


def parse_manifest(text: str) -> Manifest:
    """Read a manifest's text, trusting nothing in it.

    Raises:
        IndexDirectoryError: It is no manifest, of a newer format version, or names a file it must not name.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IndexDirectoryError(f"manifest.json is damaged (no valid JSON: {error}); build the index anew") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise IndexDirectoryError(f'manifest.json is not of a {FORMAT} (its "format" should be "{FORMAT}")')
    version = _get(record, "format_version", int)
    if version != FORMAT_VERSION:
        raise IndexDirectoryError(
            f"this index has format version {version}, and this program reads version {FORMAT_VERSION}; "
            f"{'update tpips-retrieval' if version > FORMAT_VERSION else 'build the index anew'}"
        )
    aspects = tuple(_aspect(entry) for entry in _get(record, "aspects", list))
    if len({aspect.slug for aspect in aspects}) != len(aspects):
        raise IndexDirectoryError("manifest.json names an aspect twice; build the index anew")
    quantizers = _quantizers(record, aspects)
    coded = [aspect for aspect in aspects if quantizer_file(aspect) in quantizers]
    lists = _lists(record)
    sources = tuple(_source(entry) for entry in _get(record, "sources", list))
    if not sources or len({source.prefix for source in sources}) != len(sources) or sources[0].prefix:
        raise IndexDirectoryError("manifest.json is damaged: its sources cannot be told apart; build the index anew")
    parts = tuple(_part(entry, aspects, coded, lists, len(sources)) for entry in _get(record, "parts", list))
    if len({part.id for part in parts}) != len(parts):
        raise IndexDirectoryError("manifest.json has two parts of one id; build the index anew")
    shards = [shard for part in parts for shard in part.shards]
    if len(set(shards)) != len(shards):
        raise IndexDirectoryError("manifest.json has two parts of one shard; build the index anew")
    return Manifest(
        model=_model(_get(record, "model", dict)),
        sources=sources,
        aspects=aspects,
        parts=parts,
        quantizers=quantizers,
        lists=lists,
        epoch=_bounded(record, "epoch", 0, MAX_EPOCH) if "epoch" in record else 0,
        slice=_slice(record),
        thumbnail_side=_bounded(record, "thumbnail_side", MIN_THUMBNAIL_SIDE, MAX_THUMBNAIL_SIDE)
        if "thumbnail_side" in record
        else None,
    )


def _get(record: Any, name: str, kind: type[_Value]) -> _Value:
    value = record.get(name) if isinstance(record, dict) else None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 1 << 1000 else math.inf
    if not isinstance(value, kind) or isinstance(value, bool):
        raise IndexDirectoryError(
            f'manifest.json is damaged: "{name}" should be {kind.__name__}, but is {value!r:.80}; build the index anew'
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise IndexDirectoryError(f'manifest.json is damaged: "{name}" should be a finite number; build the index anew')
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise IndexDirectoryError(
            f'manifest.json is damaged: "{name}" is {value!r:.80}, which has no UTF-8 form; build the index anew'
        )
    return value


def _count(record: Any, name: str) -> int:
    value = _get(record, name, int)
    if value < 0:
        raise IndexDirectoryError(f'manifest.json is damaged: "{name}" is {value}; build the index anew')
    return value


def _bounded(record: Any, name: str, least: int, most: int) -> int:
    value = _count(record, name)
    if not least <= value <= most:
        raise IndexDirectoryError(
            f'manifest.json is damaged: "{name}" is {value:.6g}, where {least} to {most} is expected; build the index '
            "anew"
        )
    return value


def _model(record: dict[str, Any]) -> ModelRecord:
    dim = _count(record, "dim")
    if not 1 <= dim <= 1 << 20:
        raise IndexDirectoryError(f'manifest.json is damaged: "dim" is {dim}; build the index anew')
    return ModelRecord(
        name=_get(record, "name", str),
        fingerprint=_get(record, "fingerprint", str),
        dim=dim,
        prompt_template=_get(record, "prompt_template", str),
        recommended_overall_penalty=_get(record, "recommended_overall_penalty", float),
    )


def _source(record: Any) -> SourceRecord:
    root = _get(record, "root", str)
    if "\0" in root:
        raise IndexDirectoryError(
            f'manifest.json is damaged: "root" is {root!r:.80}, which no folder can be; build the index anew'
        )
    prefix = _get(record, "prefix", str)
    if prefix != prefix.strip("/") or any(unicodedata.category(char) in ("Cc", "Cs") for char in prefix):
        raise IndexDirectoryError(
            f'manifest.json is damaged: "prefix" is {prefix!r:.80}, which no source can have; build the index anew'
        )
    return SourceRecord(kind=_get(record, "kind", str), root=root, prefix=prefix)


def _aspect(record: Any) -> Aspect:
    try:
        aspect = Aspect(_get(record, "text", str))
    except AspectError as error:
        raise IndexDirectoryError(f"manifest.json names an aspect that is none: {error}") from error
    # The slug becomes a folder's name, so it must be the one that the text gives and nothing else.
    if aspect.slug != _get(record, "slug", str):
        raise IndexDirectoryError(
            f"manifest.json gives aspect {aspect.text!r} the slug {record['slug']!r}, which should be {aspect.slug!r}"
        )
    return aspect


def _files(record: dict[str, Any], allowed: Sequence[str], *, owner: str, kind: str) -> dict[str, FileRecord]:
    files: dict[str, FileRecord] = {}
    for name, entry in record.items():
        if name not in allowed:
            raise IndexDirectoryError(
                f"manifest.json lets {owner} name the file {name!r}, which no {kind} may have; build the index anew"
            )
        files[name] = _file(entry, name)
    return files


def _file(record: Any, name: str) -> FileRecord:
    digest = _get(record, "sha256", str)
    if not _SHA256.fullmatch(digest):
        raise IndexDirectoryError(f"manifest.json is damaged: {name} has the checksum {digest!r:.80}")
    return FileRecord(bytes=_count(record, "bytes"), sha256=digest)


def _lists(record: dict[str, Any]) -> ListsRecord | None:
    if "lists" not in record:
        return None
    lists = _get(record, "lists", dict)
    count = _count(lists, "count")
    if not 1 <= count <= MAX_LISTS:
        raise IndexDirectoryError(f"manifest.json is damaged: there are {count} lists; build the index anew")
    return ListsRecord(count, _file(_get(lists, "clustering", dict), CLUSTERING_FILE))


def _quantizers(record: dict[str, Any], aspects: Sequence[Aspect]) -> dict[str, FileRecord]:
    if "quantizers" not in record:
        return {}
    allowed = [quantizer_file(aspect) for aspect in aspects]
    return _files(_get(record, "quantizers", dict), allowed, owner="an aspect", kind="aspect")


def _slice(record: dict[str, Any]) -> tuple[int, int] | None:
    if "slice" not in record:
        return None
    match _get(record, "slice", list):
        case [int(number), int(total)] if (
            1 <= number <= total and not isinstance(number, bool) and not isinstance(total, bool)
        ):
            return number, total
    raise IndexDirectoryError(f"manifest.json is damaged: its slice is {record['slice']!r:.80}; build the index anew")


def _part(
    record: Any, aspects: Sequence[Aspect], coded: Sequence[Aspect], lists: ListsRecord | None, sources: int
) -> PartRecord:
    part_id = _count(record, "id")
    shards = tuple(_get({"shard": shard}, "shard", str) for shard in _get(record, "shards", list))
    numbers = {split_number(shard)[0] for shard in shards}
    if len(numbers) != 1 or max(numbers) >= sources:
        raise IndexDirectoryError(
            f"manifest.json is damaged: part {part_id} comes from no one source; build the index anew"
        )
    part = PartRecord(
        id=part_id,
        shards=shards,
        rows=_count(record, "rows"),
        errors=_count(record, "errors"),
        files={name: FileRecord(0, "") for name in _get(record, "files", dict)},
        removed=_count(record, "removed") if "removed" in record else 0,
    )
    names = [name for name in part_file_names(part, aspects, coded) if lists or name != lists_file(part_id)]
    files = _files(_get(record, "files", dict), names, owner=f"part {part_id}", kind="part")
    needed = names[:2] + ([removed_file(part_id, part.removed)] if part.removed else [])
    for name in needed:
        if name not in files:
            raise IndexDirectoryError(f"manifest.json is damaged: part {part_id} lacks {name}; build the index anew")
    if part.removed > part.rows:
        raise IndexDirectoryError(
            f"manifest.json is damaged: {part.removed} of {part.rows} rows of part {part_id} are removed; build "
            "the index anew"
        )
    return replace(part, files=files)
