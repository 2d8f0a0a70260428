"""How a parquet file holds pictures: which column, in which form, and what the class labels are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from indexer.columns import Scalar
from indexer.sources.source import SourceError
from indexer.sources.table_columns import free_names, labelled, named_column, picture_column, scalar

__all__ = ["ParquetLayout", "column_values", "is_scalar", "is_text", "parquet_layout"]


@dataclass(frozen=True)
class ParquetLayout:
    """Attributes:
    image: The column of pictures.
    as_text: Whether it holds paths or addresses rather than the pictures' bytes.
    key: The column of keys, if one was named.
    names: The metadata columns, and what they are called in the index.
    labels: For columns of class labels, the classes' names by number.
    """

    image: str
    as_text: bool
    key: str | None
    names: Mapping[str, str]
    labels: Mapping[str, tuple[str, ...]]

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys([self.image, *([self.key] if self.key is not None else []), *self.names]))


def parquet_layout(schema: pa.Schema, *, image: str | None, key: str | None, shown: str) -> ParquetLayout:
    """Find the pictures by the named column, else by what Hugging Face's metadata says, else by type, else by name.

    Args:
        schema: The file's schema.
        image: The column that the user named.
        key: The column of keys that the user named.
        shown: The file's name for messages.

    Raises:
        SourceError: No column holds pictures, or it is not clear which.
    """
    features = _features(schema)
    if image is None:
        image = _found_image(schema, features, shown)
    else:
        named_column(image, schema.names, option="image", shown=shown)
    kind = schema.field(image).type
    as_text = is_text(kind)
    if not (as_text or _is_bytes(kind) or _is_image_struct(kind)):
        raise SourceError(
            f"the column {image!r} of {shown} is of type {kind}, and pictures are a struct with the field 'bytes', "
            "binary, or text (paths or addresses); name another one with ?image=COLUMN"
        )
    if key is not None:
        named_column(key, schema.names, option="key", shown=shown)
    columns = [field.name for field in schema if field.name != image and is_scalar(field.type)]
    labels = {
        name: tuple(map(str, feature["names"]))
        for name, feature in features.items()
        if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
    }
    return ParquetLayout(image, as_text, key, free_names(columns, shown=shown), labels)


def column_values(column: pa.Array, names: tuple[str, ...] | None) -> list[Scalar]:
    """Return a column as metadata: class labels by name, times and decimals as text.

    Raises:
        ValueError: A text is not UTF-8.
        pa.ArrowException: A value has no text.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit))  # in UTC: a zone's rules may not be known on this machine
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    values = column.to_pylist()
    return [labelled(value, names) for value in values] if names is not None else [scalar(value) for value in values]


def _found_image(schema: pa.Schema, features: Mapping[str, dict], shown: str) -> str:
    images = [name for name, feature in features.items() if feature.get("_type") == "Image" and name in schema.names]
    structs = [field.name for field in schema if _is_image_struct(field.type)]
    blobs = [field.name for field in schema if _is_bytes(field.type)]
    for found in (images, structs, blobs):
        if len(found) == 1:
            return found[0]
        if found:
            return picture_column(found, schema.names, shown=shown, otherwise="several may hold pictures")
    texts = [field.name for field in schema if is_text(field.type)]
    return picture_column(texts, schema.names, shown=shown)


def _features(schema: pa.Schema) -> dict[str, dict]:
    """Return what Hugging Face's metadata says of the columns, or nothing where it makes no sense."""
    try:
        record = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = record["info"]["features"]
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_image_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and any(field.name == "bytes" and _is_bytes(field.type) for field in kind)


def _is_bytes(kind: pa.DataType) -> bool:
    views = getattr(pa.types, "is_binary_view", lambda _: False)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or views(kind)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column's values are texts."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    views = getattr(pa.types, "is_string_view", lambda _: False)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind)


def is_scalar(kind: pa.DataType) -> bool:
    """Tell whether a column's values can become metadata."""
    if pa.types.is_dictionary(kind):
        return is_scalar(kind.value_type)
    plain = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, is_text)
    # Spans of time are left out: arrow has no text for them.
    when = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return when or any(check(kind) for check in plain)
