"""A connection to Milvus: the calls that pushing and searching need, with one clear error for whatever goes wrong."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from search.milvus.address import MilvusAddress, MilvusError
from tpips_model.extras import install_extra

if TYPE_CHECKING:
    from pymilvus import MilvusClient

__all__ = ["MAX_HITS", "MAX_TEXT_BYTES", "ROW", "MilvusConnection", "quoted"]

# What a server gives for one search or query at most, unless its administrator changed it.
MAX_HITS = 16_384
# The longest text that a field holds.
MAX_TEXT_BYTES = 65_535
# The primary key: an item's row.
ROW = "row"
TOKEN_VARIABLE = "MILVUS_TOKEN"
CONNECT_SECONDS = 10.0
CALL_SECONDS = 60.0
# Building an index over all rows, and loading them into the server's memory.
LONG_SECONDS = 24 * 3600.0
# Hits of one search call: queries times hits a query.
MAX_HITS_AT_ONCE = 1 << 18
MAX_REASON = 400


class MilvusConnection:
    """One collection's connection; several threads may use it at once.

    Attributes:
        address: Where the collection is.
        collection: Its name; the true one, once it is known, if the address gives an alias.

    Args:
        client: pymilvus's client.
        address: The collection.
    """

    def __init__(self, client: MilvusClient, address: MilvusAddress) -> None:
        self._client = client
        self.address = address
        self.collection = address.collection

    @classmethod
    def open(cls, address: MilvusAddress, *, make_file: bool = False) -> MilvusConnection:
        """Connect, with the token in the environment variable MILVUS_TOKEN if there is one.

        Args:
            address: The collection, which need not exist.
            make_file: Make the file of Milvus Lite if there is none.

        Raises:
            MilvusError: pymilvus is not installed, there is no such file, or nothing answers.
        """
        try:
            import pymilvus
        except ImportError as error:
            raise MilvusError(f"{address} needs pymilvus: {install_extra('milvus')}") from error
        # They log each error that they raise, with a traceback.
        for name in ("pymilvus", "milvus_lite"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if address.is_file and not make_file and not Path(address.uri).exists():
            raise MilvusError(f"there is no Milvus Lite file {address.uri}; make it with: tpips-index push")
        with _clear_errors(address, "connecting"):
            client = pymilvus.MilvusClient(
                address.uri,
                token=os.environ.get(TOKEN_VARIABLE, ""),
                db_name=address.database,
                timeout=CONNECT_SECONDS,
                # Milvus Lite ends a connection that is asked every ten seconds whether it lives.
                **({"grpc_options": {"grpc.keepalive_time_ms": 1 << 30}} if address.is_file else {}),
            )
        return cls(client, address)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    @contextmanager
    def calling(self, doing: str) -> Iterator[MilvusClient]:
        """Give pymilvus's client for one call; what goes wrong in it is a ``MilvusError`` that says while doing what.

        Raises:
            MilvusError: See above.
        """
        with _clear_errors(self.address, doing):
            yield self._client

    @property
    def lite(self) -> bool:
        """Whether this is Milvus Lite, which has fewer types of vectors and of patterns."""
        return self.address.is_file

    def has(self, collection: str) -> bool:
        """Tell whether there is a collection of this name."""
        with self.calling("looking for the collection") as client:
            return bool(client.has_collection(collection, timeout=CALL_SECONDS))

    def indexed_fields(self, collection: str) -> dict[str, str]:
        """Return the fields of a collection that have an index, with the index's type."""
        with self.calling("reading the indexes") as client:
            names = client.list_indexes(collection, timeout=CALL_SECONDS)
            found = [client.describe_index(collection, name, timeout=CALL_SECONDS) for name in names]
        return {index["field_name"]: index["index_type"] for index in found if index}

    def described(self) -> dict[str, Any]:
        """Return what the server says of the collection; its name is the true one if the address gave an alias.

        Raises:
            MilvusError: There is no such collection.
        """
        name = self.address.collection
        if not self.has(name):
            raise MilvusError(
                f"there is no collection {name!r} at {self.address}; make it with: tpips-index push INDEX "
                f"{self.address}"
            )
        with self.calling("describing the collection") as client:
            description: dict[str, Any] = client.describe_collection(name, timeout=CALL_SECONDS)
        return description

    def count(self, expression: str = "", *, collection: str | None = None) -> int:
        """Return how many rows fulfil a boolean expression of Milvus, all by default."""
        with self.calling("counting") as client:
            found = client.query(
                collection or self.collection,
                filter=expression,
                output_fields=["count(*)"],
                timeout=CALL_SECONDS,
                consistency_level="Strong",
            )
        return int(found[0]["count(*)"])

    def rows(self, expression: str, fields: Sequence[str], *, limit: int) -> list[dict[str, Any]]:
        """Return some fields of up to ``limit`` rows that fulfil an expression, in any order."""
        with self.calling("reading items") as client:
            return list(
                client.query(
                    self.collection,
                    filter=expression,
                    output_fields=[ROW, *fields],
                    limit=min(limit, MAX_HITS),
                    timeout=CALL_SECONDS,
                )
            )

    def by_row(self, rows: NDArray[np.int64], fields: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return some fields of the given rows, by row.

        Args:
            rows: int64 (K,), distinct, at most ``MAX_HITS``.
            fields: Their names.

        Raises:
            MilvusError: A row is not there: the collection has changed since it was opened.
        """
        if len(rows) == 0:
            return {}
        with self.calling("reading items") as client:
            found = client.query(self.collection, ids=rows.tolist(), output_fields=[ROW, *fields], timeout=CALL_SECONDS)
        records = {int(record[ROW]): record for record in found}
        if len(records) != len(rows):
            raise MilvusError(
                f"{self.address} lacks {len(rows) - len(records):,} of {len(rows):,} rows that it had; it has changed "
                "since it was opened: open it again"
            )
        return records

    def search(
        self,
        field: str,
        vectors: Sequence[NDArray[np.float16] | NDArray[np.float32]],
        limit: int,
        *,
        expression: str,
        options: dict[str, Any],
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return the best rows of one vector field for each vector, with the scores that Milvus gives them.

        Args:
            field: The field's name.
            vectors: (D,) each, of the field's type.
            limit: How many rows for each, at most ``MAX_HITS``.
            expression: What they must fulfil, empty for nothing.
            options: What the field's index takes to search by.

        Returns:
            int64 (K,) and float64 (K,) for each vector, best first.
        """
        found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        at_once = max(1, MAX_HITS_AT_ONCE // limit)
        for start in range(0, len(vectors), at_once):
            with self.calling("searching") as client:
                answers: Any = client.search(
                    self.collection,
                    data=list(vectors[start : start + at_once]),
                    anns_field=field,
                    filter=expression,
                    limit=limit,
                    # Without a name Milvus Lite reads all fields.
                    output_fields=[ROW],
                    search_params={"metric_type": "IP", "params": options},
                    timeout=CALL_SECONDS,
                )
            found += [(np.array(hits.ids, np.int64), np.array(hits.distances, np.float64)) for hits in answers]
        return found


def quoted(text: str) -> str:
    """Return a text as Milvus reads it in an expression."""
    escaped = re.sub(r'["\\]', lambda found: "\\" + found[0], text)
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


@contextmanager
def _clear_errors(address: MilvusAddress, doing: str) -> Iterator[None]:
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise _failed(address, doing, error.message or str(error)) from error
    except grpc.RpcError as error:
        code, details = getattr(error, "code", None), getattr(error, "details", None)
        reason = f"{code().name if code else 'no answer'}: {details() if details else error}"
        raise _failed(address, doing, reason) from error
    except (grpc.FutureTimeoutError, TimeoutError) as error:
        raise _failed(address, doing, "no answer in time") from error


def _failed(address: MilvusAddress, doing: str, reason: str) -> MilvusError:
    token = os.environ.get(TOKEN_VARIABLE)
    reason = " ".join(reason.replace(token, "***").split() if token else reason.split())
    if doing == "connecting" and address.is_file:
        hint = "another program may have the file open, or milvus-lite is not installed (pip install milvus-lite)"
    elif doing == "connecting":
        hint = f"is Milvus running there, and the token in {TOKEN_VARIABLE} right?"
    else:
        hint = "if Milvus is busy or out of reach, try again later"
    return MilvusError(f"{doing} failed at {address}: {reason[:MAX_REASON]}; {hint}")
