"""The manifest: the one file that says what an index holds, and in which order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from indexer.file_names import (
    CLUSTERING_FILE,
    codes_file,
    errors_file,
    items_file,
    lists_file,
    quantizer_file,
    removed_file,
    revision_of,
    thumbnails_file,
    vectors_file,
)
from indexer.records import (
    FileRecord,
    IndexDirectoryError,
    ListsRecord,
    ModelRecord,
    PartRecord,
    SourceRecord,
)
from tpips_model.aspects import Aspect

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
    "part_file_names",
]

FORMAT = "tpips-index"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Manifest:
    """What an index holds; row order is the order of ``parts``, then the row within the part.

    Attributes:
        model: The model that made the vectors.
        sources: Where the pictures are, at least one; the number of a source is its place.
        aspects: The aspects in the order first asked.
        parts: The parts in row order.
        quantizers: The files of the quantizers by name: one for every aspect of which a part has codes.
        lists: There if a part has inverted lists.
        epoch: How often files have been superseded; a reader finds all files of its epoch for as long as it lives.
        slice: (i, n) if this index is the i-th of n slices of its source's shards, to be merged with the others.
        thumbnail_side: The longest side in pixels of the small pictures that new parts are given; ``None`` for none.
    """

    model: ModelRecord
    sources: tuple[SourceRecord, ...]
    aspects: tuple[Aspect, ...]
    parts: tuple[PartRecord, ...]
    quantizers: Mapping[str, FileRecord] = field(default_factory=dict)
    lists: ListsRecord | None = None
    epoch: int = 0
    slice: tuple[int, int] | None = None
    thumbnail_side: int | None = None

    @property
    def source(self) -> SourceRecord:
        """The first source."""
        return self.sources[0]

    @property
    def live(self) -> int:
        """How many items there are that are not removed."""
        return sum(part.live for part in self.parts)

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

    @property
    def list_count(self) -> int:
        """How many inverted lists there are; 0 if it is not known of every item which one it belongs to."""
        return self.lists.count if self.lists is not None and all(part.has_lists for part in self.parts) else 0

    def sharing(self, other: Manifest) -> Manifest:
        """Return the same manifest, parts that ``other`` has too being its very objects: ``is`` tells what is new."""
        known = {part.id: part for part in other.parts}
        return replace(self, parts=tuple(known[p.id] if known.get(p.id) == p else p for p in self.parts))

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
            "sources": [{"kind": one.kind, "root": one.root, "prefix": one.prefix} for one in self.sources],
            "aspects": [{"text": aspect.text, "slug": aspect.slug} for aspect in self.aspects],
            "parts": [self._part_to_record(part) for part in self.parts],
        }
        if self.quantizers:
            names = [name for name in map(quantizer_file, self.aspects) if name in self.quantizers]
            record["quantizers"] = {name: _file_to_record(self.quantizers[name]) for name in names}
        if self.lists is not None:
            record["lists"] = {"count": self.lists.count, "clustering": _file_to_record(self.lists.clustering)}
        if self.epoch:
            record["epoch"] = self.epoch
        if self.slice is not None:
            record["slice"] = list(self.slice)
        if self.thumbnail_side is not None:
            record["thumbnail_side"] = self.thumbnail_side
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def _part_to_record(self, part: PartRecord) -> dict[str, Any]:
        # Files in one order, however the part grew: an aspect added later gives the text of one asked at once.
        names = [name for name in part_file_names(part, self.aspects, self.aspects) if name in part.files]
        return {
            "id": part.id,
            "shards": list(part.shards),
            "rows": part.rows,
            "errors": part.errors,
            **({"removed": part.removed} if part.removed else {}),
            "files": {name: _file_to_record(part.files[name]) for name in names},
        }


def part_file_names(part: PartRecord, aspects: Sequence[Aspect], coded: Sequence[Aspect]) -> list[str]:
    """Return the names that a part's files may have, in the manifest's order: first the items' and the ledger's."""
    vectors = (vectors_file(aspect, part.id) for aspect in aspects)
    codes = (codes_file(aspect, part.id) for aspect in coded)
    removed = [removed_file(part.id, part.removed)] if part.removed else []
    ledger = next(filter(part.files.__contains__, _ledgers(part)), errors_file(part.id))
    return [items_file(part.id), ledger, *vectors, *codes, lists_file(part.id), *removed, thumbnails_file(part.id)]


def _ledgers(part: PartRecord) -> list[str]:
    """Return the names that the part's files give its ledger, whatever its revision."""
    revisions = (revision_of(name) for name in part.files if name.startswith("errors/"))
    return [errors_file(part.id, revision) for revision in revisions if revision is not None]


def _file_to_record(file: FileRecord) -> dict[str, Any]:
    return {"bytes": file.bytes, "sha256": file.sha256}
