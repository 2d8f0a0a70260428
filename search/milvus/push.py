"""Pushing an index to Milvus: one collection, one vector field per aspect, whole or marked as unfinished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from indexer import IndexDirectory
from search.milvus.address import MilvusAddress, MilvusError
from search.milvus.connection import CALL_SECONDS, LONG_SECONDS, MAX_TEXT_BYTES, ROW, MilvusConnection
from search.milvus.facts import CollectionFacts, facts_collection, read_facts, write_facts
from search.milvus.fields import index_facts
from search.milvus.rows import collection_rows
from tpips_model.aspects import AspectLike
from tpips_model.progress_bar import ProgressBar

if TYPE_CHECKING:
    from pymilvus import DataType

__all__ = ["FLAT_UP_TO_ROWS", "INDEX_TYPES", "PushedIndex", "push_index"]

INDEX_TYPES = ("flat", "hnsw", "ivf_flat", "ivf_sq8")
# Up to here a server compares a query with every vector in some milliseconds, and the answer is proven.
FLAT_UP_TO_ROWS = 200_000
# Every so many batches it is written how far the push came.
BATCHES_BETWEEN_NOTES = 16
HNSW_LINKS, HNSW_EFFORT = 32, 256
MAX_LISTS = 65_536


@dataclass(frozen=True)
class PushedIndex:
    """What a push did.

    Attributes:
        rows: How many items the collection holds.
        sent: How many this run sent; none if the collection had been finished before.
        index_type: The index of its vector fields, as Milvus calls it.
    """

    rows: int
    sent: int
    index_type: str


def push_index(
    index: IndexDirectory,
    address: MilvusAddress,
    *,
    aspects: Sequence[AspectLike] | None = None,
    metadata: Sequence[str] | None = None,
    index_type: str | None = None,
    replace_old: bool = False,
    progress: bool = True,
) -> PushedIndex:
    """Make a collection of an index's items; run again after a crash, it goes on from there.

    Args:
        index: The opened index; removed items are left out.
        address: The collection.
        aspects: Which of the index's aspects; all by default.
        metadata: Which of the columns that came with the data; all by default.
        index_type: One of ``INDEX_TYPES``: "flat" compares a query with every vector, the others look at some. By
            default flat in Milvus Lite and up to ``FLAT_UP_TO_ROWS`` items, and HNSW beyond.
        replace_old: Drop what ``push_index`` made of another index, or of an older state of this one, under this name.
        progress: Whether to show a bar.

    Raises:
        MilvusError: Nothing answers; something else has this name; Milvus cannot hold so many aspects or columns, or
            so long a text; or what arrived is not what was sent.
        IndexDirectoryError: An aspect is not indexed, or a part cannot be read.
    """
    chosen = index.aspects if aspects is None else tuple(dict.fromkeys(index.indexed_aspect(one) for one in aspects))
    wanted = index_facts(index, chosen, metadata)
    kind = _index_type(index_type, address, wanted.count)
    connection = MilvusConnection.open(address, make_file=True)
    try:
        facts = _begun(connection, wanted, replace_old=replace_old)
        if facts.finished:
            kinds = connection.indexed_fields(connection.collection)
            return PushedIndex(facts.count, 0, kinds.get(facts.aspects[0][1], kind))
        _send(connection, index, facts, progress=progress)
        _finish(connection, facts, kind)
        return PushedIndex(facts.count, facts.count - facts.pushed, kind)
    finally:
        connection.close()


def _index_type(asked: str | None, address: MilvusAddress, count: int) -> str:
    if asked is None:
        return "FLAT" if address.is_file or count <= FLAT_UP_TO_ROWS else "HNSW"
    if asked.lower() not in INDEX_TYPES:
        raise MilvusError(f"the index type {asked!r} is none of {', '.join(INDEX_TYPES)}")
    return asked.upper()


def _begun(connection: MilvusConnection, wanted: CollectionFacts, *, replace_old: bool) -> CollectionFacts:
    """Return the facts of the collection, begun now or before.

    Raises:
        MilvusError: Something else has its name.
    """
    name, address = connection.collection, connection.address
    facts = read_facts(connection, name)
    if facts is None and connection.has(name):
        raise MilvusError(
            f"{address} is a collection that tpips-index push did not make; give another name, or drop it yourself"
        )
    if facts is not None and not facts.is_push_of(wanted):
        if not replace_old:
            raise MilvusError(
                f"{address} holds another index, another state of this one, or other aspects or columns "
                f"({facts.count:,} items by {', '.join(aspect.text for aspect, _ in facts.aspects)}); give --replace "
                "to drop it, or another name"
            )
        for old in (name, facts_collection(name)):
            with connection.calling("dropping the old collection") as client:
                client.drop_collection(old, timeout=LONG_SECONDS)
        facts = None
    if facts is None:
        write_facts(connection, wanted)
        facts = wanted
    if not connection.has(name):
        facts = replace(facts, pushed=0, finished=False)
        _create(connection, facts)
    return facts


def _create(connection: MilvusConnection, facts: CollectionFacts) -> None:
    from pymilvus import DataType

    kinds = {
        "bool": DataType.BOOL,
        "int32": DataType.INT32,
        "int64": DataType.INT64,
        "double": DataType.DOUBLE,
        "string": DataType.VARCHAR,
    }
    try:
        with connection.calling("making the collection") as client:
            schema = client.create_schema(auto_id=False, description="made by tpips-index push")
            schema.add_field(ROW, DataType.INT64, is_primary=True)
            for column in facts.columns:
                more = {"max_length": MAX_TEXT_BYTES} if column.type == "string" else {}
                schema.add_field(column.field, kinds[column.type], nullable=column.nullable, **more)
            for _, field in facts.aspects:
                schema.add_field(field, _vector_type(connection), dim=facts.model.dim)
            client.create_collection(connection.collection, schema=schema, timeout=LONG_SECONDS)
    except MilvusError as error:
        if "vector field" in str(error):
            raise MilvusError(
                f"{error}; the index has {len(facts.aspects)} aspects: choose some with --aspect, or let the server "
                "take more (proxy.maxVectorFieldNum, at most 10)"
            ) from error
        raise


def _vector_type(connection: MilvusConnection) -> DataType:
    from pymilvus import DataType

    # Milvus Lite has no halves; every half is a float32.
    return DataType.FLOAT_VECTOR if connection.lite else DataType.FLOAT16_VECTOR


def _send(connection: MilvusConnection, index: IndexDirectory, facts: CollectionFacts, *, progress: bool) -> None:
    # What was sent last before a crash may be there already, and inserting would double it.
    certain = facts.pushed + 2 * BATCHES_BETWEEN_NOTES * facts.batch_rows
    start, noted = facts.pushed, facts.pushed
    rows = collection_rows(index, facts, start, np.float32 if connection.lite else np.float16)
    with ProgressBar(total=facts.count, initial=start, desc="pushing", unit=" items", disable=not progress) as bar:
        while batch := list(islice(rows, facts.batch_rows)):
            with connection.calling(f"sending the items from {start:,} on") as client:
                send = client.upsert if start < certain else client.insert
                send(connection.collection, batch, timeout=10 * CALL_SECONDS)
            start += len(batch)
            bar.update(len(batch))
            if start - noted >= BATCHES_BETWEEN_NOTES * facts.batch_rows:
                write_facts(connection, replace(facts, pushed=start))
                noted = start


def _finish(connection: MilvusConnection, facts: CollectionFacts, kind: str) -> None:
    """Build the indexes, load the collection, count what arrived, and mark it as finished."""
    name = connection.collection
    with connection.calling("writing the items to disk") as client:
        client.flush(name, timeout=LONG_SECONDS)
    there = connection.indexed_fields(name)
    for field, options in _indexes(facts, kind).items():
        if field not in there:
            with connection.calling(f"indexing the field {field}") as client:
                index = client.prepare_index_params()
                index.add_index(field, **options)
                # Waiting, pymilvus looks every half second; Milvus Lite builds while it loads.
                client.create_index(name, index, timeout=LONG_SECONDS, sync=not connection.lite)
    with connection.calling("loading the collection") as client:
        client.load_collection(name, timeout=LONG_SECONDS)
    if (found := connection.count()) != facts.count:
        raise MilvusError(f"{connection.address} holds {found:,} items instead of {facts.count:,}; push with --replace")
    write_facts(connection, replace(facts, pushed=facts.count, finished=True))


def _indexes(facts: CollectionFacts, kind: str) -> dict[str, dict[str, Any]]:
    parameters: dict[str, dict[str, int]] = {
        "HNSW": {"M": HNSW_LINKS, "efConstruction": HNSW_EFFORT},
        "IVF_FLAT": {"nlist": min(MAX_LISTS, max(1, round(4 * math.sqrt(facts.count))))},
    }
    parameters["IVF_SQ8"] = parameters["IVF_FLAT"]
    vectors = {"index_type": kind, "metric_type": "IP", "params": parameters.get(kind, {})}
    return {"key": {"index_type": "INVERTED"}, **{field: vectors for _, field in facts.aspects}}
