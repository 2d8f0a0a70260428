"""Metadata columns from the side files of a picture: .json, .txt and .cls."""

from __future__ import annotations

import json
from collections.abc import Mapping

from indexer.columns import ITEM_SCHEMA, Scalar

__all__ = ["MAX_SIDE_BYTES", "SIDE_SUFFIXES", "side_metadata"]

SIDE_SUFFIXES = frozenset((".json", ".txt", ".cls"))
MAX_SIDE_BYTES = 1 << 18
MAX_FIELDS = 256


def side_metadata(files: Mapping[str, bytes]) -> tuple[dict[str, Scalar], list[str]]:
    """Turn a picture's side files into metadata.

    ``.txt`` becomes the column ``txt``, ``.cls`` the column ``cls`` (a number where it is one), and the scalar fields
    of a ``.json`` object columns of their own; lists and objects in it are left out. A field whose name is taken gets
    the prefix ``meta_``.

    Args:
        files: The bytes by suffix.

    Returns:
        The metadata, and what could not be used and why.

    Examples:
        >>> side_metadata({".cls": b"7", ".json": b'{"key": "x", "width": 3, "tags": []}'})[0]
        {'cls': 7, 'meta_key': 'x', 'meta_width': 3}
    """
    metadata: dict[str, Scalar] = {}
    faults: list[str] = []
    for ending in sorted(files, key=(".txt", ".cls", ".json").index):
        try:
            text = files[ending].decode("utf-8-sig")
            if ending == ".json":
                _add_fields(metadata, text)
            else:
                metadata[ending[1:]] = _class(text) if ending == ".cls" else text.strip()
        except UnicodeDecodeError:
            faults.append(f"{ending} is not UTF-8 text")
        except (ValueError, RecursionError) as error:
            faults.append(f"{ending} is no usable JSON object ({str(error).split(':')[0]})")
    return metadata, faults


def _class(text: str) -> Scalar:
    text = text.strip()
    try:
        return int(text)
    except ValueError:
        return text


def _add_fields(metadata: dict[str, Scalar], text: str) -> None:
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")
    fields = {name: value for name, value in record.items() if value is None or isinstance(value, (str, int, float))}
    if len(fields) > MAX_FIELDS:
        raise ValueError(f"it has over {MAX_FIELDS} fields")
    for name, value in fields.items():
        # A lone surrogate has no UTF-8 form to store.
        column = name.encode("utf-8", "backslashreplace").decode() or "_"
        while column in metadata or column in ITEM_SCHEMA.names:
            column = f"meta_{column}"
        metadata[column] = value
