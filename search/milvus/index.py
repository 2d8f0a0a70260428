"""A Milvus collection in place of an index directory: what a searcher asks of an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexer import IndexDirectoryError
from indexer.columns import ERROR_SCHEMA
from indexer.item_files import DataRoot, data_roots, item_bytes, item_path
from indexer.manifest import Manifest
from search.milvus.address import MilvusAddress, MilvusError
from search.milvus.connection import LONG_SECONDS, MilvusConnection
from search.milvus.facts import CollectionFacts, read_facts
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError

__all__ = ["MilvusIndex"]


class MilvusIndex:
    """A finished collection, opened; it is not expected to change while it is.

    Attributes:
        connection: The way to it.
        facts: What it says of itself.
        halves: Whether its vectors are halves rather than float32.
        index_types: The type of each vector field's index.
        path: Its address, as messages show it.
        manifest: What the index said of itself that was pushed, without its parts.
    """

    def __init__(
        self,
        connection: MilvusConnection,
        facts: CollectionFacts,
        *,
        halves: bool,
        index_types: Mapping[str, str],
        data_root: DataRoot | None,
    ) -> None:
        self.connection = connection
        self.facts = facts
        self.halves = halves
        self.index_types = index_types
        self.path = str(connection.address)
        aspects = tuple(aspect for aspect, _ in facts.aspects)
        self.manifest = Manifest(facts.model, facts.sources, aspects, ())
        self._data_root = data_root
        self._roots = None if data_root is None else data_roots(Path(), facts.sources, data_root)

    @classmethod
    def open(cls, address: str, *, data_root: DataRoot | None = None) -> MilvusIndex:
        """Open a collection that ``tpips-index push`` made.

        Args:
            address: As ``MilvusAddress.parse`` reads it.
            data_root: Where the pictures are; for an index of several sources also a mapping from their prefixes.

        Raises:
            MilvusError: Nothing answers, or there is no such collection, or it is not ours or not finished.
            IndexDirectoryError: ``data_root`` is none.
        """
        connection = MilvusConnection.open(MilvusAddress.parse(address))
        try:
            return cls._of(connection, data_root)
        except TpipsError:
            connection.close()
            raise

    @classmethod
    def _of(cls, connection: MilvusConnection, data_root: DataRoot | None) -> MilvusIndex:
        description = connection.described()
        # An alias may be given to another collection while this one is open.
        connection.collection = description["collection_name"]
        facts = read_facts(connection, connection.collection)
        if facts is None:
            raise MilvusError(
                f"{connection.address} is a collection that tpips-index push did not make; it lacks what a search "
                "must know of it"
            )
        if not facts.finished:
            raise MilvusError(
                f"{connection.address} is not finished ({facts.pushed:,} of {facts.count:,} items are known to have "
                "arrived); run the same tpips-index push again, which goes on from there"
            )
        dims = {one["name"]: one["params"].get("dim") for one in description["fields"] if "dim" in one["params"]}
        for aspect, name in facts.aspects:
            if dims.get(name) != facts.model.dim:
                raise MilvusError(
                    f"{connection.address} has vectors of {dims.get(name, 'no')} dimensions under {aspect.text!r}, "
                    f"and the model {facts.model.name!r} that made them gives {facts.model.dim}; push it anew with "
                    "--replace"
                )
        with connection.calling("loading the collection") as client:
            client.load_collection(connection.collection, timeout=LONG_SECONDS)
        kinds = {one["name"]: getattr(one["type"], "name", "") for one in description["fields"]}
        return cls(
            connection,
            facts,
            halves=all(kinds.get(name) == "FLOAT16_VECTOR" for _, name in facts.aspects),
            index_types=connection.indexed_fields(connection.collection),
            data_root=data_root,
        )

    def reopened(self) -> MilvusIndex:
        """Return the collection as it is now.

        Raises:
            MilvusError: As ``open``.
        """
        return MilvusIndex.open(self.path, data_root=self._data_root)

    def has_changed(self) -> bool:
        """Tell whether another index has been pushed in its place since it was opened."""
        name = self.connection.described()["collection_name"]
        return read_facts(self.connection, name) != self.facts

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be queried."""
        return self.manifest.aspects

    @property
    def coded_aspects(self) -> tuple[Aspect, ...]:
        """None: the codes of an index directory are not pushed."""
        return ()

    @property
    def rows(self) -> int:
        """N."""
        return self.facts.count

    @property
    def live_count(self) -> int:
        """N; removed items were not pushed."""
        return self.facts.count

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.facts.model.dim

    def errors(self) -> pa.Table:
        """Return an empty error ledger: what was skipped is not pushed."""
        return ERROR_SCHEMA.empty_table()

    def item_path(self, row: Mapping[str, Any]) -> Path:
        """Return the file that holds an item's bytes, as ``IndexDirectory.item_path`` does.

        Raises:
            IndexDirectoryError: No data root was given, or the file is not inside it.
        """
        return item_path(self._given_roots(row), row)

    def item_bytes(self, row: Mapping[str, Any]) -> bytes:
        """Return the bytes of one item's picture file, as ``IndexDirectory.item_bytes`` does.

        Raises:
            IndexDirectoryError: No data root was given, or the picture is not there as it was indexed.
        """
        return item_bytes(self._given_roots(row), row)

    def _given_roots(self, row: Mapping[str, Any]) -> tuple[Path, ...]:
        if self._roots is None:
            raise IndexDirectoryError(
                f"item {row['key']!r}: a Milvus collection holds no pictures; say where they are when it is opened "
                "(data_root, --data-root)"
            )
        return self._roots
