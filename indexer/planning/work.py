"""What there is to do for a build: shards that are not indexed yet, and parts that lack aspects."""

from __future__ import annotations

from dataclasses import dataclass

from indexer.building.build_config import BuildConfig, BuildError
from indexer.building.shard_slice import check_slice
from indexer.directory import MANIFEST_FILE, IndexDirectory
from indexer.given_path import given_path
from indexer.index_sources import OpenedSource, open_index_source
from indexer.manifest import IndexDirectoryError, PartRecord
from indexer.sources import Shard
from tpips_model.aspects import OVERALL, Aspect, new_aspects, unique_aspects
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder

__all__ = ["FEWEST_SAMPLES", "MOST_SAMPLES", "PlanConfig", "PlannedWork", "planned_model", "planned_work"]

FEWEST_SAMPLES = 4
MOST_SAMPLES = 32
_SAMPLED_SHARE = 10


@dataclass(frozen=True)
class PlanConfig:
    """What is planned.

    Attributes:
        build: The build; its ``out`` need not exist.
        sample: How many pictures are read, decoded and embedded to learn what the rest will take; ``None`` is a tenth
            of them, ``FEWEST_SAMPLES`` to ``MOST_SAMPLES``.
    """

    build: BuildConfig
    sample: int | None = None

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 1:
            raise BuildError(f"sample must be at least 1, but is {self.sample}")


@dataclass(frozen=True)
class PlannedWork:
    """What there is to do.

    Attributes:
        config: What is planned.
        before: The index that is there.
        opened: The source that is named.
        shards: Its shards that are not indexed yet.
        aspects: The aspects that the index will have.
    """

    config: PlanConfig
    before: IndexDirectory | None
    opened: OpenedSource | None
    shards: list[Shard]
    aspects: tuple[Aspect, ...]

    @property
    def lacking(self) -> list[PartRecord]:
        """The parts that lack aspects."""
        parts = self.before.manifest.parts if self.before is not None else ()
        return [part for part in parts if not all(map(part.has, self.aspects))]

    @property
    def added(self) -> list[Aspect]:
        """The aspects that parts lack."""
        return [aspect for aspect in self.aspects if not all(part.has(aspect) for part in self.lacking)]

    @property
    def again(self) -> int:
        """How many images are embedded again under ``added``."""
        return sum(part.live for part in self.lacking)

    @property
    def sample(self) -> int:
        """How many pictures are looked at: planning to index a few takes less than indexing them."""
        if self.config.sample is not None:
            return self.config.sample
        counts = [shard.samples for shard in self.shards] if self.shards else [self.again]
        if None in counts:
            return MOST_SAMPLES
        tenth = -(-sum(count or 0 for count in counts) // _SAMPLED_SHARE)
        return min(MOST_SAMPLES, max(FEWEST_SAMPLES, tenth))

    @property
    def thumbnail_side(self) -> int | None:
        """The longest side of the small pictures of new images; ``None`` for none."""
        return self.config.build.thumbnails if self.before is None else self.before.manifest.thumbnail_side


def planned_work(config: PlanConfig) -> PlannedWork:
    """Look at index and source, as a build does at its beginning.

    Raises:
        SourceError: There are no pictures where ``config.build.data`` says.
        IndexDirectoryError: The index is damaged.
        BuildError: A build would be refused.
    """
    build = config.build
    out = given_path(build.out, what="the output folder", kind=IndexDirectoryError)
    before = IndexDirectory.open(out) if (out / MANIFEST_FILE).exists() else None
    opened = open_index_source(build, out, before)
    if opened is None and before is None:
        raise BuildError(f"there is no index at {out} yet; say with --data where the pictures are")
    if before is not None and (opened is not None or build.shard_slice is not None):
        check_slice(out, before.manifest, build.shard_slice)
    old = before.manifest.aspects if before is not None else (OVERALL,)
    parts = before.manifest.parts if before is not None else ()
    shards = opened.missing_shards(before, parts, build.shard_slice) if opened is not None else []
    return PlannedWork(config, before, opened, shards, unique_aspects((*old, *new_aspects(build.aspects, known=old))))


def planned_model(work: PlannedWork) -> Embedder:
    """Load the model that a build would load.

    Raises:
        ModelError: The model is unknown, or is not the index's.
    """
    build = work.config.build
    record = work.before.manifest.model if work.before is not None else None
    embedder = load_embedder(
        build.model or (record.name if record is not None else "mini"),
        max_pixels=build.max_pixels,
        max_tokens_per_batch=build.max_tokens_per_batch,
    )
    if record is not None and record.fingerprint != embedder.fingerprint:
        raise ModelError(
            f"a build would be refused: the index {build.out} was made by the model {record.name!r} (fingerprint "
            f"{record.fingerprint}), and not by {embedder.name!r} (fingerprint {embedder.fingerprint}); use the "
            "index's model, or plan another index with another --out"
        )
    return embedder
