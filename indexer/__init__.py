"""From pictures to an index directory: sources, parts, the manifest, and reading them back."""

from indexer.directory import IndexDirectory
from indexer.manifest import IndexDirectoryError, Manifest, ModelRecord, PartRecord, SourceRecord
from indexer.quantizer import Quantizer

__all__ = [
    "IndexDirectory",
    "IndexDirectoryError",
    "Manifest",
    "ModelRecord",
    "PartRecord",
    "Quantizer",
    "SourceRecord",
]
