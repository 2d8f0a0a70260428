"""What a manifest is made of: the records of files, parts, inverted lists, the model and the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indexer.file_names import codes_file, lists_file, vectors_file
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError

__all__ = ["MAX_LISTS", "FileRecord", "IndexDirectoryError", "ListsRecord", "ModelRecord", "PartRecord", "SourceRecord"]

# Far more than 4 √N of any index; what a damaged manifest says must not size an array.
MAX_LISTS = 1 << 20


class IndexDirectoryError(TpipsError):
    """An index directory that cannot be read or written; the message says why and what to do."""


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class PartRecord:
    """What one shard became: ``rows`` items, ``errors`` ledger lines, and the files that hold them."""

    id: int
    shard: str
    rows: int
    errors: int
    files: Mapping[str, FileRecord]

    def has(self, aspect: Aspect) -> bool:
        """Tell whether this part's vectors under ``aspect`` are written."""
        return vectors_file(aspect, self.id) in self.files

    def has_codes(self, aspect: Aspect) -> bool:
        """Tell whether this part's codes under ``aspect`` are written."""
        return codes_file(aspect, self.id) in self.files

    @property
    def has_lists(self) -> bool:
        """Whether it is written which inverted list each of this part's items belongs to."""
        return lists_file(self.id) in self.files


@dataclass(frozen=True)
class ListsRecord:
    """How many inverted lists there are, and the file of the clustering that they come from."""

    count: int
    clustering: FileRecord


@dataclass(frozen=True)
class ModelRecord:
    """The model that made the vectors; a query must be embedded by one of the same fingerprint."""

    name: str
    fingerprint: str
    dim: int
    prompt_template: str
    recommended_overall_penalty: float


@dataclass(frozen=True)
class SourceRecord:
    """Where the pictures are: the kind of source and its root, relative to the index directory."""

    kind: str
    root: str
