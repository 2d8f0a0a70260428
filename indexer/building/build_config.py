"""What a build is asked to do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from indexer.sources.folder import DEFAULT_SHARD_SIZE
from indexer.thumbnails import MAX_SIDE, MIN_SIDE
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.errors import TpipsError

__all__ = ["ENGINE_NAMES", "BuildConfig", "BuildError", "BuildSummary"]

ENGINE_NAMES = ("local", "ray")


class BuildError(TpipsError):
    """A build that cannot go on; the message says why and what to do. What is finished is kept."""


@dataclass(frozen=True)
class BuildConfig:
    """One build of an index, or of what is missing from it.

    Attributes:
        out: The index directory.
        data: What ``--data`` takes; ``None`` indexes no new pictures, which needs an index.
        new_source: Whether ``data`` may be another source than those that the index was made from.
        prefix: What the keys of a new source's items begin with; ``None`` is the name of its folder.
        aspects: The aspects asked for; "overall" and those that the index has already are always added.
        model: What ``load_embedder`` takes; ``None`` is the model of the index, or "mini" for a new one.
        max_pixels: Larger pictures are shrunk to this area for the model; part of its fingerprint. ``None`` is the
            model's own bound.
        max_tokens_per_batch: Bound on the tokens that go through the model at once; a matter of memory alone.
        batch_size: How many pictures are embedded at once.
        shard_size: How many files of a folder become one part.
        codes: Whether to make codes for approximate search; ``None`` makes them for large indices, and completes those
            that are there. Lists likewise, for very large ones, unless it is ``False``.
        progress: Whether a progress bar is shown on standard error.
        engine: What embeds: "local", processes of this machine, or "ray", those of a Ray cluster.
        workers: How many processes; ``None`` is one for each GPU, and this one alone where there is none.
        ray_address: The Ray cluster; ``None`` is that of ``RAY_ADDRESS``, or one started on this machine.
        shard_slice: (i, n) indexes the i-th of n equal slices of the source's shards, from 1 on, to be merged.
        thumbnails: The longest side in pixels of the small pictures that are stored; ``None`` is that of the index, or
            none.
        retry_failed: Whether pictures of ``data`` that the ledger names are read again.
    """

    out: Path
    data: str | None = None
    new_source: bool = False
    prefix: str | None = None
    aspects: tuple[AspectLike, ...] = ()
    model: str | None = None
    max_pixels: int | None = None
    max_tokens_per_batch: int | None = None
    batch_size: int = 32
    shard_size: int = DEFAULT_SHARD_SIZE
    codes: bool | None = None
    progress: bool = True
    engine: str = "local"
    workers: int | None = None
    ray_address: str | None = None
    shard_slice: tuple[int, int] | None = None
    thumbnails: int | None = None
    retry_failed: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "shard_size", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BuildError(f"{name} must be at least 1, but is {value}")
        if self.engine not in ENGINE_NAMES:
            raise BuildError(f"unknown engine {self.engine!r}; known engines: {', '.join(ENGINE_NAMES)}")
        if self.ray_address is not None and self.engine != "ray":
            raise BuildError(f"a Ray address is given, and the engine is {self.engine!r}; give --engine ray with it")
        if self.shard_slice is not None and not 1 <= self.shard_slice[0] <= self.shard_slice[1]:
            number, count = self.shard_slice
            raise BuildError(f"--shard-slice {number}/{count} is none of {count} slices; give 1/{count} and so on")
        if self.retry_failed and (self.data is None or self.shard_slice is not None):
            raise BuildError(
                "--retry-failed reads pictures again, so say with --data where they are; slices are merged first"
            )
        if self.thumbnails is not None and not MIN_SIDE <= self.thumbnails <= MAX_SIDE:
            raise BuildError(
                f"--thumbnails {self.thumbnails} is no side of a small picture; give {MIN_SIDE} to {MAX_SIDE} pixels"
            )


@dataclass(frozen=True)
class BuildSummary:
    """What one build did.

    Attributes:
        images: Items added.
        errors: Ledger lines added.
        parts: Parts added.
        total_parts: Parts in the index now.
        aspects_added: Aspects whose vectors were added to parts that were there before.
        aspects_coded: Aspects whose codes were made or completed.
        mended: Ledger lines of before whose pictures are items now, or no longer there.
        total_images: Items in the index now.
        total_errors: Ledger lines in the index now.
        changed: Indexed pictures whose file has another size than when they were indexed.
        vanished: Indexed pictures whose file is gone.
        seconds: How long it took.
    """

    images: int
    errors: int
    parts: int
    total_parts: int
    aspects_added: tuple[Aspect, ...]
    aspects_coded: tuple[Aspect, ...]
    mended: int
    total_images: int
    total_errors: int
    changed: int
    vanished: int
    seconds: float
