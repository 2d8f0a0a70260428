"""The manifest: the one file that says what an index holds, and in which order."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from indexer.file_names import (
    CLUSTERING_FILE,
    codes_file,
    errors_file,
    items_file,
    lists_file,
    quantizer_file,
    vectors_file,
)
from indexer.records import (
    MAX_LISTS,
    FileRecord,
    IndexDirectoryError,
    ListsRecord,
    ModelRecord,
    PartRecord,
    SourceRecord,
)
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "FileRecord",
    "IndexDirectoryError",
    "ListsRecord",
    "Manifest",
    "ModelRecord",
    "PartRecord",
    "SourceRecord",
]

FORMAT = "tpips-index"
FORMAT_VERSION = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Manifest:
    """What an index holds; row order is the order of ``parts``, then the row within the part.

    ``quantizers`` are the files of the quantizers by name: one for every aspect of which a part has codes. ``lists`` is
    there if a part has inverted lists.
    """

    model: ModelRecord
    source: SourceRecord
    aspects: tuple[Aspect, ...]
    parts: tuple[PartRecord, ...]
    quantizers: Mapping[str, FileRecord] = field(default_factory=dict)
    lists: ListsRecord | None = None

    @property
    def files(self) -> Mapping[str, FileRecord]:
        """The files that belong to no part, by name."""
        lists = {} if self.lists is None else {CLUSTERING_FILE: self.lists.clustering}
        return {**self.quantizers, **lists}

    @property
    def complete_aspects(self) -> tuple[Aspect, ...]:
        """The aspects under which every part has its vectors."""
        return tuple(aspect for aspect in self.aspects if all(part.has(aspect) for part in self.parts))

    @property
    def coded_aspects(self) -> tuple[Aspect, ...]:
        """The complete aspects under which every part has its codes."""
        return tuple(
            aspect
            for aspect in self.complete_aspects
            if quantizer_file(aspect) in self.quantizers and all(part.has_codes(aspect) for part in self.parts)
        )

    def to_json(self) -> str:
        """Return the manifest's text: the same bytes for the same content, wherever and whenever written."""
        record: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": {
                "name": self.model.name,
                "fingerprint": self.model.fingerprint,
                "dim": self.model.dim,
                "prompt_template": self.model.prompt_template,
                "recommended_overall_penalty": self.model.recommended_overall_penalty,
            },
            "source": {"kind": self.source.kind, "root": self.source.root},
            "aspects": [{"text": aspect.text, "slug": aspect.slug} for aspect in self.aspects],
            "parts": [self._part_to_record(part) for part in self.parts],
        }
        if self.quantizers:
            names = [name for name in map(quantizer_file, self.aspects) if name in self.quantizers]
            record["quantizers"] = {name: _file_to_record(self.quantizers[name]) for name in names}
        if self.lists is not None:
            record["lists"] = {"count": self.lists.count, "clustering": _file_to_record(self.lists.clustering)}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def _part_to_record(self, part: PartRecord) -> dict[str, Any]:
        # Files in one order, however the part grew: an aspect added later gives the text of one asked at once.
        names = [name for name in _file_names(part.id, self.aspects, self.aspects) if name in part.files]
        return {
            "id": part.id,
            "shard": part.shard,
            "rows": part.rows,
            "errors": part.errors,
            "files": {name: _file_to_record(part.files[name]) for name in names},
        }

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest's text, trusting nothing in it.

        Raises:
            IndexDirectoryError: It is no manifest, of a newer format version, or names a file it must not name.
        """
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise IndexDirectoryError(
                f"manifest.json is damaged (no valid JSON: {error}); build the index anew"
            ) from error
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
        parts = tuple(_part(entry, aspects, coded, lists) for entry in _get(record, "parts", list))
        for name in ("id", "shard"):
            if len({getattr(part, name) for part in parts}) != len(parts):
                raise IndexDirectoryError(f"manifest.json has two parts of one {name}; build the index anew")
        return cls(
            model=_model(_get(record, "model", dict)),
            source=_source(_get(record, "source", dict)),
            aspects=aspects,
            parts=parts,
            quantizers=quantizers,
            lists=lists,
        )


def _file_names(part: int, aspects: Sequence[Aspect], coded: Sequence[Aspect]) -> list[str]:
    vectors, codes = (vectors_file(aspect, part) for aspect in aspects), (codes_file(aspect, part) for aspect in coded)
    return [items_file(part), errors_file(part), *vectors, *codes, lists_file(part)]


def _file_to_record(file: FileRecord) -> dict[str, Any]:
    return {"bytes": file.bytes, "sha256": file.sha256}


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


def _source(record: dict[str, Any]) -> SourceRecord:
    root = _get(record, "root", str)
    if "\0" in root:
        raise IndexDirectoryError(
            f'manifest.json is damaged: "root" is {root!r:.80}, which no folder can be; build the index anew'
        )
    return SourceRecord(kind=_get(record, "kind", str), root=root)


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


def _part(record: Any, aspects: Sequence[Aspect], coded: Sequence[Aspect], lists: ListsRecord | None) -> PartRecord:
    part_id = _count(record, "id")
    names = [name for name in _file_names(part_id, aspects, coded) if lists or name != lists_file(part_id)]
    files = _files(_get(record, "files", dict), names, owner=f"part {part_id}", kind="part")
    for name in (items_file(part_id), errors_file(part_id)):
        if name not in files:
            raise IndexDirectoryError(f"manifest.json is damaged: part {part_id} lacks {name}; build the index anew")
    return PartRecord(
        id=part_id,
        shard=_get(record, "shard", str),
        rows=_count(record, "rows"),
        errors=_count(record, "errors"),
        files=files,
    )
