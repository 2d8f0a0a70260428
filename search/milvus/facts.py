"""What a collection says of itself: one row of JSON in a small collection beside it, as the manifest does of an index.

Beside it rather than in its description or properties, which Milvus Lite does not keep and servers let few versions
change; and written last as finished, so that a push that was killed can be told from one that ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from indexer.columns import ITEM_SCHEMA
from indexer.records import ModelRecord, SourceRecord
from search.milvus.address import MilvusError
from search.milvus.connection import CALL_SECONDS, LONG_SECONDS, MAX_TEXT_BYTES, MilvusConnection
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError

__all__ = ["COLUMN_TYPES", "CollectionFacts", "StoredColumn", "facts_collection", "read_facts", "write_facts"]

FORMAT = "tpips-milvus"
FORMAT_VERSION = 1
COLUMN_TYPES = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
}
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class StoredColumn:
    """A column of the items: its name, the field that holds it, and its type as Arrow calls it."""

    name: str
    field: str
    type: str

    @property
    def nullable(self) -> bool:
        """Whether items may lack it."""
        return self.name not in ITEM_SCHEMA.names or ITEM_SCHEMA.field(self.name).nullable


@dataclass(frozen=True)
class CollectionFacts:
    """What a collection holds.

    Attributes:
        model: The model that made the vectors.
        sources: Where the pictures were, without the folders: kinds and prefixes.
        aspects: The aspects, and the field that holds each one's vectors.
        columns: The items' columns, the index's own first.
        count: N.
        content: A checksum of everything that was pushed.
        batch_rows: How many rows are sent at once.
        pushed: How many rows, from the first on, are known to be stored.
        finished: Whether the push ended.
    """

    model: ModelRecord
    sources: tuple[SourceRecord, ...]
    aspects: tuple[tuple[Aspect, str], ...]
    columns: tuple[StoredColumn, ...]
    count: int
    content: str
    batch_rows: int
    pushed: int = 0
    finished: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The items' columns with their types."""
        return pa.schema([pa.field(one.name, COLUMN_TYPES[one.type], one.nullable) for one in self.columns])

    @property
    def vector_fields(self) -> dict[str, str]:
        """The fields of the vectors by the aspects' slugs."""
        return {aspect.slug: field for aspect, field in self.aspects}

    def is_push_of(self, other: CollectionFacts) -> bool:
        """Tell whether both describe the same push, however far it came."""
        return replace(self, pushed=0, finished=False) == replace(other, pushed=0, finished=False)

    def to_json(self) -> str:
        """Return the facts as text."""
        return json.dumps(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "model": self.model.__dict__,
                "sources": [{"kind": source.kind, "prefix": source.prefix} for source in self.sources],
                "aspects": [{"text": aspect.text, "field": field} for aspect, field in self.aspects],
                "columns": [column.__dict__ for column in self.columns],
                "count": self.count,
                "content": self.content,
                "batch_rows": self.batch_rows,
                "pushed": self.pushed,
                "finished": self.finished,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> CollectionFacts:
        """Read the facts' text, trusting nothing in it.

        Raises:
            MilvusError: It is of something else, of another version, or damaged.
        """
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise MilvusError("what stands beside the collection was not written by tpips-index push")
        if record.get("format_version") != FORMAT_VERSION:
            raise MilvusError(
                f"the collection has format version {record.get('format_version')!r:.20}, and this program reads "
                f"version {FORMAT_VERSION}; push it anew with --replace, or update tpips-retrieval"
            )
        model = _get(record, "model", dict)
        try:
            aspects = tuple(
                (Aspect(_get(a, "text", str)), _get(a, "field", str)) for a in _get(record, "aspects", list)
            )
        except AspectError as error:
            raise MilvusError(f"the collection names an aspect that is none: {error}") from error
        columns = tuple(
            StoredColumn(_get(c, "name", str), _get(c, "field", str), _get(c, "type", str))
            for c in _get(record, "columns", list)
        )
        if not {column.type for column in columns} <= COLUMN_TYPES.keys():
            raise MilvusError("what the collection says of its columns is damaged; push it anew with --replace")
        return cls(
            model=ModelRecord(
                name=_get(model, "name", str),
                fingerprint=_get(model, "fingerprint", str),
                dim=_get(model, "dim", int),
                prompt_template=_get(model, "prompt_template", str),
                recommended_overall_penalty=float(_get(model, "recommended_overall_penalty", (int, float))),
            ),
            sources=tuple(
                SourceRecord(_get(s, "kind", str), "", _get(s, "prefix", str)) for s in _get(record, "sources", list)
            ),
            aspects=aspects,
            columns=columns,
            count=_get(record, "count", int),
            content=_get(record, "content", str),
            batch_rows=_get(record, "batch_rows", int),
            pushed=_get(record, "pushed", int),
            finished=record.get("finished") is True,
        )


def _get(record: Any, name: str, kind: type[_Value] | tuple[type[_Value], ...]) -> _Value:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MilvusError(
            f"what the collection says of itself is damaged ({name!r} is {value!r:.80}); push it anew with --replace"
        )
    return value


def facts_collection(collection: str) -> str:
    """Return the name of the collection that holds a collection's facts."""
    return f"{collection}_tpips_facts"


def read_facts(connection: MilvusConnection, collection: str) -> CollectionFacts | None:
    """Return a collection's facts, or ``None`` if none have been written.

    Raises:
        MilvusError: They are damaged, or not ours.
    """
    name = facts_collection(collection)
    if not (connection.has(name) and connection.indexed_fields(name)):
        return None
    with connection.calling("reading what the collection says of itself") as client:
        client.load_collection(name, timeout=LONG_SECONDS)
        found: Sequence[Any] = client.query(
            name, ids=[0], output_fields=["facts"], timeout=CALL_SECONDS, consistency_level="Strong"
        )
    return CollectionFacts.from_json(found[0]["facts"]) if found else None


def write_facts(connection: MilvusConnection, facts: CollectionFacts) -> None:
    """Write a collection's facts over those that were there.

    Raises:
        MilvusError: They are too long, or cannot be written.
    """
    from pymilvus import DataType

    text = facts.to_json()
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise MilvusError("the index has so many columns that Milvus cannot hold their names; choose some (--metadata)")
    name = facts_collection(connection.collection)
    if not connection.has(name):
        with connection.calling("making the collection") as client:
            schema = client.create_schema(auto_id=False)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("facts", DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
            # A collection must have vectors.
            schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)
            client.create_collection(name, schema=schema, timeout=LONG_SECONDS)
    if not connection.indexed_fields(name):
        with connection.calling("making the collection") as client:
            index = client.prepare_index_params()
            index.add_index("unused", index_type="FLAT", metric_type="IP")
            client.create_index(name, index, timeout=LONG_SECONDS, sync=False)
    with connection.calling("writing what the collection says of itself") as client:
        client.upsert(name, [{"id": 0, "facts": text, "unused": [0.0, 1.0]}], timeout=CALL_SECONDS)
