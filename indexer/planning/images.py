"""How many images the shards of a source have, and what has to be fetched for them, as far as that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.planning.sample import SourceSample
from indexer.planning.work import PlannedWork
from indexer.sources import Shard
from indexer.sources.hub import HubFile, hub_files
from indexer.sources.options import split_options
from indexer.sources.shard_files import expand_files
from indexer.sources.unpacked import plain_path
from indexer.sources.urls import is_url
from indexer.sources.webdataset import TARS

__all__ = ["Count", "bytes_to_fetch", "images_by_shard"]


@dataclass(frozen=True)
class Count:
    """A number that was counted or estimated; ``None`` if it cannot be known without reading everything."""

    count: int | None
    estimated: bool = False


def images_by_shard(shards: Sequence[Shard], sample: SourceSample) -> tuple[list[int | None], bool]:
    """Return how many images each shard has, and whether that is an estimate for any of them.

    Where the source does not know, a shard of the sample that was read to its end is counted; others have as many
    images as their bytes, or those of one that was opened, suggest.
    """
    whole = dict(sample.whole)
    each = sample.read_bytes / sample.read_images if sample.read_images else None
    rows: list[int | None] = []
    estimated = False
    for shard in shards:
        known = shard.samples if shard.samples is not None else whole.get(shard.name)
        size = shard.size if shard.size is not None else sample.remote_bytes
        if known is None and each is not None and size is not None:
            known, estimated = max(1, round(size / each)), True
        rows.append(known)
    return rows, estimated


def bytes_to_fetch(work: PlannedWork, sample: SourceSample) -> Count:
    """Return how many bytes a build would fetch first: files that are elsewhere and not in the cache folder."""
    data = work.config.build.data
    if data is None or work.opened is None:
        return Count(0)
    kind, source = work.opened.source.kind, work.opened.source
    place = data.partition(":")[2] if data.startswith(f"{kind}:") else data
    if kind == "webdataset" and is_url(place):
        files = {plain_path(file.path): file for file in expand_files(place, TARS)}
        missing = sum(not path.exists() and not file.path.exists() for path, file in files.items())
        if missing and sample.remote_bytes is None:
            return Count(None)
        return Count(missing * (sample.remote_bytes or 0), estimated=missing > 1)
    if kind == "hf" or (kind == "wikiart" and data == "wikiart"):
        repo, options = ("huggan/wikiart", {}) if kind == "wikiart" else split_options(place, _OPTIONS, kind=kind)
        _, hub = hub_files(repo, split=options.get("split"), known=source.root, local="")
        return Count(sum(_hub_bytes(file.remote) for file in hub if not file.path.exists()))
    # Web servers and object stores say how large a file is when it is asked for, and not before.
    return Count(None if is_url(place) or data.startswith("openimages?") else 0)


_OPTIONS = ("split", "image", "key")


def _hub_bytes(remote: object) -> int:
    return remote.size if isinstance(remote, HubFile) else 0
