"""Judgements in WebDataset shards of our own.

A shard is an uncompressed tar; a sample is one item with its three pictures, in this order::

    000000012.json                      {"format": 1, "id": …, "subset": …, "kind": "odd-one-out",
                                         "pictures": [{"key": …, "sha256": …}, …],
                                         "factors": [{"name", "label", "probs", "raters"}, …]}
    000000012.p0.png  .p1.jpg  .p2.png  the pictures' files as they were; of a 2AFC item .ref, .p0 and .p1

"factors" are those of the JSON lines (see ``triplet_lines``). Sample names are numbers, since WebDataset cuts a name at
its first dot; what the data set called a picture is its "key". Pictures are read by their offset, without unpacking.
"""

from __future__ import annotations

import glob
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from train.judgements.item_record import RecordError, item_judgements, words
from train.judgements.json_lines import MAX_JSON_BYTES, json_object
from train.judgements.picture_sources import MAX_PICTURE_BYTES, TarPicture
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, Refusal

__all__ = ["MEMBERS", "SHARD_FORMAT", "read_shards", "shard_paths"]

SHARD_FORMAT = 1
# kind -> how many members a label may name, and the names of the three pictures
MEMBERS: Mapping[str, tuple[int, tuple[str, str, str]]] = {
    "odd-one-out": (3, ("p0", "p1", "p2")),
    "2afc": (2, ("ref", "p0", "p1")),
}
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass
class _Reading:
    """What reading has found so far."""

    judgements: list[Judgement] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    seen: dict[str, str] = field(default_factory=dict)


def shard_paths(pattern: str) -> list[Path]:
    """Return the tar files of a folder or a wildcard, sorted by name, or the one tar file.

    Raises:
        JudgementDataError: There are none.
    """
    if os.path.isdir(pattern):
        found = sorted(glob.glob(os.path.join(glob.escape(pattern), "*.tar")))
    else:
        found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    if not found:
        raise JudgementDataError(
            f"no shard is at {pattern!r:.200}; give a .tar file, a folder of them, or shards/*.tar"
        )
    return [Path(path).resolve() for path in found]


def read_shards(pattern: str) -> JudgementSet:
    """Read the judgements of shards; pictures are not read.

    Args:
        pattern: A tar file, a folder of tar files, or a wildcard.

    Returns:
        Judgements, and a refusal for each sample that cannot be used, or for what is wrong with a tar.

    Raises:
        JudgementDataError: There is no shard, or one is no tar.
    """
    paths = shard_paths(pattern)
    reading = _Reading()
    for path in paths:
        _read_shard(path, reading)
    name = paths[0].stem if pattern.endswith(".tar") and len(paths) == 1 else paths[0].parent.name
    return JudgementSet(tuple(reading.judgements), tuple(reading.refusals), +reading.dropped, name)


def _read_shard(path: Path, reading: _Reading) -> None:
    try:
        archive = tarfile.open(path, "r:")  # noqa: SIM115 (closed below; only opening may fail this way)
    except (OSError, tarfile.TarError) as error:
        raise JudgementDataError(f"the shard {path} is no uncompressed tar ({error}); give .tar files only") from error
    with archive:
        try:
            for sample, members in groupby(_members(archive), key=lambda info: info.name.partition(".")[0]):
                named = {info.name.partition(".")[2]: info for info in members}
                where = f"{path.name}:{sample}"
                try:
                    _read_sample(path, archive, named, where, reading)
                except RecordError as error:
                    reading.refusals.append(Refusal(where, str(error)))
        except (OSError, tarfile.TarError, ValueError, OverflowError) as error:
            reading.refusals.append(
                Refusal(path.name, f"the tar is damaged or cut off behind its last sample ({error})")
            )


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Give the files of a tar; the standard library stops at a damaged header without a word."""
    reached = -1
    while (info := archive.next()) is not None:
        if info.offset_data <= reached:  # a header with a negative size would lead back for ever
            raise tarfile.ReadError(f"header at byte {info.offset:,}")
        reached = info.offset_data
        archive.members = []  # type: ignore[attr-defined] # it would grow with the shard
        if info.isfile():
            yield info
    stream = archive.fileobj
    assert stream is not None
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError(f"no end mark at byte {archive.offset:,}")


def _read_sample(
    path: Path, archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], where: str, reading: _Reading
) -> None:
    record = _record(archive, members)
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in MEMBERS:
        raise RecordError(f'the "kind" is {kind!r:.40}; expected {" or ".join(MEMBERS)}')
    count, names = MEMBERS[kind]
    item = words(record, "id", otherwise=where)
    if reading.seen.setdefault(item, where) != where:
        raise RecordError(f"the id {item!r:.80} stands in {reading.seen[item]} already")
    stated = record.get("pictures")
    if not isinstance(stated, list) or len(stated) != len(names):
        raise RecordError(f'"pictures" must be three of {{"key", "sha256"}}, but is {stated!r:.80}')
    pictures = [_picture(path, members, name, one) for name, one in zip(names, stated, strict=True)]
    subset = words(record, "subset", otherwise="")
    reading.judgements += item_judgements(
        record, item=item, pictures=pictures, members=count, subset=subset, dropped=reading.dropped
    )


def _record(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> dict[str, Any]:
    info = members.get("json")
    if info is None:
        raise RecordError(
            f"the sample has no .json, only {', '.join(sorted(members)):.80}; expected our shards' layout"
        )
    if info.size > MAX_JSON_BYTES:
        raise RecordError(f"its .json has over {MAX_JSON_BYTES:,} bytes")
    stream = archive.extractfile(info)
    try:
        record = json_object(stream.read() if stream else b"")
    except ValueError as error:
        raise RecordError(f"its .json cannot be used: {error}") from error
    if record.get("format") != SHARD_FORMAT:
        raise RecordError(f'its "format" is {record.get("format")!r:.40}; this version reads {SHARD_FORMAT}')
    return record


def _picture(path: Path, members: Mapping[str, tarfile.TarInfo], name: str, stated: object) -> TarPicture:
    if not isinstance(stated, dict):
        raise RecordError(f'a picture must be {{"key", "sha256"}}, but is {stated!r:.80}')
    key, digest = words(stated, "key", otherwise=""), stated.get("sha256")
    if not key or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise RecordError(f'picture {name} needs a "key" and a "sha256" of 64 digits, but has {stated!r:.80}')
    found = [info for ending, info in members.items() if ending.partition(".")[0] == name]
    if len(found) != 1:
        raise RecordError(f"picture {name} must stand in the sample once, but stands there {len(found)} times")
    info = found[0]
    if not info.isreg() or info.issparse() or info.size > MAX_PICTURE_BYTES:
        raise RecordError(f"picture {name} is no plain file of at most {MAX_PICTURE_BYTES:,} bytes")
    return TarPicture(digest, path, info.offset_data, info.size, key)
