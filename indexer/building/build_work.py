"""What one build is about, for those who do its steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from indexer.building.build_config import BuildConfig
from indexer.building.commits import Commits
from indexer.index_sources import OpenedSource
from indexer.manifest import Manifest
from indexer.part import write_manifest
from tpips_model.aspects import Aspect

__all__ = ["BuildWork"]


@dataclass(frozen=True)
class BuildWork:
    """What a build is about.

    Attributes:
        config: What is asked for.
        out: The index directory.
        aspects: All aspects that the index will have.
        opened: Where new pictures come from, if from anywhere.
    """

    config: BuildConfig
    out: Path
    aspects: tuple[Aspect, ...]
    opened: OpenedSource | None

    def commits(self, manifest: Manifest) -> Commits:
        """Return what writes parts and manifests, beginning with this one."""
        return Commits(manifest, self._write)

    def _write(self, manifest: Manifest) -> None:
        # An index of ledger lines alone would keep mended pictures from ever being read again.
        if any(part.rows for part in manifest.parts):
            write_manifest(self.out, manifest)
