"""The first pictures of some shards, read without writing anything or fetching more than them."""

from __future__ import annotations

import io
import math
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from indexer.source_number import split_number
from indexer.sources import BadSample, Sample, Shard, Source
from indexer.sources.file_kinds import compressed_tar, is_picture_name
from indexer.sources.keys import storable
from indexer.sources.remote import CloudFile, WebFile
from indexer.sources.row_ranges import RowRange
from indexer.sources.shard_files import ShardFile, expand_files
from indexer.sources.source import SourceError
from indexer.sources.unpacked import plain_path
from indexer.sources.urls import is_url
from indexer.sources.web import open_web
from indexer.sources.web_request import FetchError
from indexer.sources.webdataset import TARS
from indexer.stored_bytes import MAX_PICTURE_BYTES

__all__ = ["SourceSample", "take_sample"]

# A few, so that pictures sorted by name or date are not all of one kind, and few archives have to be opened.
_SHARDS = 4
_MOST_STREAMED = 1 << 30
_READ = 1 << 14


@dataclass(frozen=True)
class SourceSample:
    """What was read to learn what the rest is like.

    Attributes:
        samples: The pictures, and what could not be read, in order.
        read_bytes: How many bytes of shards whose pictures are not counted they take up.
        read_images: How many pictures that was.
        whole: Shards that were read to their end, and how many samples each gave.
        remote_bytes: The size of a shard that lies elsewhere, if one was opened.
        read_seconds: What reading took, painting or fetching single pictures included.
        timed: How many samples that was; files that a build would fetch or unpack as a whole are not timed.
        missing: Why fewer were read than asked for; empty if they were, or if there are no more.
    """

    samples: tuple[Sample | BadSample, ...] = ()
    read_bytes: int = 0
    read_images: int = 0
    whole: tuple[tuple[str, int], ...] = ()
    remote_bytes: int | None = None
    read_seconds: float = 0.0
    timed: int = 0
    missing: str = ""

    @property
    def seconds_to_read(self) -> float:
        """What reading took for each sample."""
        return self.read_seconds / max(self.timed, 1)


def take_sample(data: str, source: Source, shards: Sequence[Shard], count: int) -> SourceSample:
    """Read so many samples from the beginnings of a few shards.

    Args:
        data: What ``--data`` was given, for files that must not be unpacked or fetched.
        source: The source, opened so that what it writes, if anything, goes to a folder that is thrown away.
        shards: The shards that a build would read, as the index names them.
        count: How many, at least 1.
    """
    found = SourceSample()
    # Small ones first, so that what they lack is read from the others.
    chosen = sorted(_spread(shards, _SHARDS), key=lambda shard: math.inf if shard.samples is None else shard.samples)
    for number, shard in enumerate(chosen):
        wanted = -(-(count - len(found.samples)) // (len(chosen) - number))
        if wanted > 0:
            found = _read(data, source, shard, wanted, found)
    return found


def _spread(shards: Sequence[Shard], count: int) -> list[Shard]:
    count = min(count, len(shards))
    return [shards[number * len(shards) // count] for number in range(count)]


def _read(data: str, source: Source, shard: Shard, wanted: int, found: SourceSample) -> SourceSample:
    name = split_number(shard.name)[1]
    own = replace(shard, name=name)
    place = _tar_elsewhere(data, source, name) if source.kind == "webdataset" else None
    if place is not None:
        return _streamed(place, name, wanted, found)
    if missing := _not_here(data, source, own):
        return replace(found, missing=missing)
    began = time.perf_counter()
    reading = source.read(own)
    samples = list(islice(reading, wanted))
    took = time.perf_counter() - began
    # Only where the source does not say how many there are, since one more would have to be fetched or painted.
    whole = shard.samples is None and next(reading, None) is None
    more = replace(
        found,
        samples=(*found.samples, *samples),
        read_seconds=found.read_seconds + took,
        timed=found.timed + len(samples),
    )
    if whole:
        more = replace(more, whole=(*found.whole, (shard.name, len(samples))))
    ends = [one.offset + one.size for one in samples if isinstance(one, Sample) and one.offset is not None]
    if shard.samples is None and ends:
        more = replace(
            more,
            read_bytes=found.read_bytes + (shard.size if whole and shard.size else max(ends)),
            read_images=found.read_images + len(samples),
        )
    return more


def _not_here(data: str, source: Source, shard: Shard) -> str:
    """Say why a shard cannot be read without fetching or unpacking all of its file; empty if it can."""
    first = shard.content[0] if shard.content else None
    place = data.partition(":")[2] if data.startswith(f"{source.kind}:") else data
    file = None
    if source.kind == "openimages" and isinstance(first, str):
        file = first
    elif isinstance(first, RowRange) and (is_url(place) or source.kind == "hf" or data == "wikiart"):
        file = first.file
    if file is None or (source.root / file).exists():
        return ""
    return "the pictures are not on this machine yet, or packed; fetch or unpack one file, and plan again"


def _tar_elsewhere(data: str, source: Source, name: str) -> ShardFile | None:
    """Return the file that a tar would be fetched or unpacked from, if it is not there plainly."""
    if (source.root / name).exists():
        return None
    pattern = data.partition(":")[2] if data.startswith("webdataset:") else data
    target = (source.root / name).resolve()
    return next(file for file in expand_files(pattern, TARS) if plain_path(file.path).resolve() == target)


def _streamed(file: ShardFile, name: str, wanted: int, found: SourceSample) -> SourceSample:
    """Read the first pictures of a tar that is packed or elsewhere, as a stream that is left when there are enough."""
    samples: list[Sample] = []
    whole, reached = False, 0
    try:
        with (
            _opened(file) as (stream, total),
            tarfile.open(fileobj=io.BufferedReader(stream, _READ), mode="r|*", bufsize=_READ) as archive,
        ):
            while len(samples) < wanted and stream.read_bytes < _MOST_STREAMED:
                member = archive.next()
                if member is None:
                    whole = True
                    break
                reached = member.offset_data + member.size
                wanted_one = member.isreg() and is_picture_name(member.name) and member.size <= MAX_PICTURE_BYTES
                if wanted_one and (picture := archive.extractfile(member)) is not None:
                    data = picture.read()
                    key = f"{name}/{member.name}"
                    samples.append(Sample(key, data, name, storable(member.name), member.offset_data, len(data)))
            packed = compressed_tar(file.path.name)
            read = total if whole and total is not None else stream.read_bytes if packed else reached
    except (OSError, EOFError, tarfile.TarError, FetchError) as error:
        if not samples:
            return replace(found, missing=f"{file.shown} cannot be read: {error}")
        read, total = stream.read_bytes, None
    return replace(
        found,
        samples=(*found.samples, *samples),
        read_bytes=found.read_bytes + read,
        read_images=found.read_images + len(samples),
        whole=(*found.whole, (name, len(samples))) if whole else found.whole,
        remote_bytes=total if file.remote is not None else None,
    )


class _Counted(io.RawIOBase):
    """A stream that counts what is read of it.

    Args:
        read: Returns at most so many bytes, and nothing at the end.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read
        self.read_bytes = 0

    def readable(self) -> bool:
        """Return ``True``, as ``io`` asks."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill ``target`` as far as one read goes."""
        data = self._read(len(target))
        target[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)


@contextmanager
def _opened(file: ShardFile) -> Iterator[tuple[_Counted, int | None]]:
    if file.remote is None or file.path.exists():
        path: Path = file.path
        with open(path, "rb") as local:
            yield _Counted(local.read), path.stat().st_size
    elif isinstance(file.remote, WebFile):
        with open_web(file.remote.url, private=True, headers=file.remote.headers) as answer:
            yield _Counted(answer.read), answer.total
    elif isinstance(file.remote, CloudFile):
        import fsspec  # type: ignore[import-untyped]

        with fsspec.open(file.remote.url, "rb") as remote:
            yield _Counted(remote.read), getattr(remote, "size", None)
    else:
        raise SourceError(f"{file.shown} cannot be read without fetching all of it")
