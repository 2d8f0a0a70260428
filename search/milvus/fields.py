"""What a collection will hold of an index: its fields, and all that it must say of itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from indexer import IndexDirectory
from indexer.columns import ITEM_SCHEMA
from indexer.file_names import items_file, vectors_file
from indexer.records import SourceRecord
from search.items import Items
from search.milvus.address import MilvusError
from search.milvus.facts import COLUMN_TYPES, CollectionFacts, StoredColumn
from tpips_model.aspects import Aspect

__all__ = ["index_facts"]

# Milvus's own bounds: of vector fields, whatever its administrator allows, and of all fields.
MAX_VECTOR_FIELDS = 10
MAX_FIELDS = 64
MAX_FIELD_NAME = 120
# A message must stay under 64 MiB.
BATCH_BYTES = 16 << 20
MAX_BATCH_ROWS = 2_000


def index_facts(index: IndexDirectory, aspects: Sequence[Aspect], metadata: Sequence[str] | None) -> CollectionFacts:
    """Return what the collection says of itself before anything is in it.

    Args:
        index: The opened index.
        aspects: Those of its aspects that go along.
        metadata: Those of the columns that came with the data that do; ``None`` means all.

    Raises:
        MilvusError: There is nothing to push, or more than Milvus holds, or no such column.
    """
    if not aspects or not index.live_count:
        raise MilvusError(f"the index {index.path} has no {'items' if aspects else 'aspects'} to push")
    columns = _columns(Items(index).schema, metadata)
    if len(aspects) > MAX_VECTOR_FIELDS:
        raise MilvusError(
            f"the index has {len(aspects)} aspects, and Milvus holds at most {MAX_VECTOR_FIELDS} (as installed 4) in a "
            "collection; choose some with --aspect"
        )
    if 1 + len(columns) + len(aspects) > MAX_FIELDS:
        raise MilvusError(
            f"the index has {len(columns)} columns and {len(aspects)} aspects, and Milvus holds at most "
            f"{MAX_FIELDS - 1} of both together; choose columns with --metadata"
        )
    fields = _field_names([f"v_{aspect.slug}" for aspect in aspects])
    model = index.manifest.model
    row_bytes = 4 * model.dim * len(aspects) + 4096
    return CollectionFacts(
        # Folders are private, and mean nothing elsewhere.
        model=replace(model, name=Path(model.name).name) if Path(model.name).is_absolute() else model,
        sources=tuple(SourceRecord(source.kind, "", source.prefix) for source in index.manifest.sources),
        aspects=tuple(zip(aspects, fields, strict=True)),
        columns=columns,
        count=index.live_count,
        content=_content(index, aspects),
        batch_rows=max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // row_bytes)),
    )


def _columns(schema: pa.Schema, metadata: Sequence[str] | None) -> tuple[StoredColumn, ...]:
    names = [name for name in schema.names if name not in ITEM_SCHEMA.names]
    if metadata is not None:
        for name in metadata:
            if name not in names:
                raise MilvusError(f"there is no metadata column {name!r}; columns: {', '.join(names) or 'none'}")
        names = [name for name in names if name in metadata]
    for name in names:
        if str(schema.field(name).type) not in COLUMN_TYPES:
            raise MilvusError(
                f"the column {name!r} is {schema.field(name).type}, which cannot be pushed; choose others (--metadata)"
            )
    fields = _field_names([f"m_{name}" for name in names])
    stored = [StoredColumn(name, name, str(ITEM_SCHEMA.field(name).type)) for name in ITEM_SCHEMA.names]
    return (*stored, *(StoredColumn(n, f, str(schema.field(n).type)) for n, f in zip(names, fields, strict=True)))


def _field_names(wanted: Sequence[str]) -> list[str]:
    """Return names of ASCII letters, digits and underscores, no two alike."""
    names: list[str] = []
    for name in wanted:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_FIELD_NAME]
        tries = (plain if number == 1 else f"{plain}_{number}" for number in range(1, len(wanted) + 1))
        names.append(next(one for one in tries if one not in names))
    return names


def _content(index: IndexDirectory, aspects: Sequence[Aspect]) -> str:
    digests = []
    for part in index.manifest.parts:
        names = [items_file(part.id), *(vectors_file(aspect, part.id) for aspect in aspects), part.removal_file]
        digests.append([part.files[name].sha256 for name in names if name is not None])
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()
