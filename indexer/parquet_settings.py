"""How an index's parquet files are written: every setting named, so that the same content gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ROWS_PER_GROUP", "TABLE_SETTINGS", "THUMBNAILS_PER_GROUP", "THUMBNAIL_SETTINGS"]

ROWS_PER_GROUP = 65_536
# In small groups, so that one can be read alone.
THUMBNAILS_PER_GROUP = 16

TABLE_SETTINGS: Mapping[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": True,
    "write_statistics": True,
    "store_schema": False,
}
# They are compressed already. A checksum for each, since damage to a picture inside would not be noticed else.
THUMBNAIL_SETTINGS: Mapping[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}
