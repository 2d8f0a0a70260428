"""What a manifest is made of: the records of files, parts, inverted lists, the model and the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indexer.file_names import codes_file, lists_file, thumbnails_file, vectors_file
from indexer.source_number import split_number
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError

__all__ = [
    "MAX_EPOCH",
    "MAX_LISTS",
    "MAX_THUMBNAIL_SIDE",
    "MIN_THUMBNAIL_SIDE",
    "FileRecord",
    "IndexDirectoryError",
    "ListsRecord",
    "ModelRecord",
    "PartRecord",
    "SourceRecord",
]

# Far more than 4 √N of any index; what a damaged manifest says must not size an array.
MAX_LISTS = 1 << 20
MAX_EPOCH = 1 << 53
MIN_THUMBNAIL_SIDE, MAX_THUMBNAIL_SIDE = 32, 1024


class IndexDirectoryError(TpipsError):
    """An index directory that cannot be read or written; the message says why and what to do."""


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class PartRecord:
    """What shards of one source became.

    Attributes:
        id: Its number, in the names of its files; never used again once the part is gone.
        shards: The names of the shards, at least one; several where ``compact`` put parts together.
        rows: How many items are stored.
        errors: How many ledger lines.
        files: The files that hold them.
        removed: How many of the items have been removed; they are stored still, and count for nothing.
    """

    id: int
    shards: tuple[str, ...]
    rows: int
    errors: int
    files: Mapping[str, FileRecord]
    removed: int = 0

    @property
    def source(self) -> int:
        """Which of the index's sources it came from."""
        return split_number(self.shards[0])[0]

    @property
    def live(self) -> int:
        """How many items it has that are not removed."""
        return self.rows - self.removed

    @property
    def ledger_file(self) -> str:
        """The name of its error ledger."""
        return next(name for name in self.files if name.startswith("errors/"))

    @property
    def removal_file(self) -> str | None:
        """The name of the file that says which rows are removed."""
        return next((name for name in self.files if name.startswith("removed/")), None)

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

    @property
    def has_thumbnails(self) -> bool:
        """Whether small pictures of its items are stored."""
        return thumbnails_file(self.id) in self.files


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
    """Where pictures are.

    Attributes:
        kind: The kind of source.
        root: Its root, relative to the index directory.
        prefix: What its items' keys begin with, before a slash; empty for the first source.
    """

    kind: str
    root: str
    prefix: str = ""
