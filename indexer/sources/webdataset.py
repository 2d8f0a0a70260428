"""WebDataset shards: tar files of pictures, each with side files of the same name."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from indexer.sources.file_kinds import (
    UNSUPPORTED_PICTURES,
    compressed_tar,
    describe_names,
    is_picture_name,
    suffix,
)
from indexer.sources.keys import plain_step, storable
from indexer.sources.shard_files import FileKind, ShardFile, expand_files, root_of
from indexer.sources.side_files import MAX_SIDE_BYTES, SIDE_SUFFIXES, side_metadata
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.sources.tar_members import TarListing, TarMember, list_tar
from indexer.sources.unpacked import check_tar, drop_unpacked, plain_path, unpack_fault, unpacked
from indexer.stored_bytes import PictureReadError, read_stored

__all__ = ["TARS", "WebDatasetSource", "member_listing"]

TARS = FileKind(
    noun=".tar",
    matches=lambda name: suffix(name) == ".tar" or compressed_tar(name),
    example="shards/{000..127}.tar",
)


class WebDatasetSource:
    """Pictures in tar shards; an item's key is the shard's name and the member's, both without suffix.

    Only the last suffix of a member's name counts as one, so ``a.b_1.jpg`` keeps its name; its side files are
    ``a.b_1.json``, ``a.b_1.txt`` and ``a.b_1.cls``. A member's name is never used as a path.

    A compressed tar is unpacked once, to a plain tar beside it; a remote one is fetched into the cache folder first.

    Args:
        pattern: A tar file, a folder of tar files, a pattern such as ``shards/{000..127}.tar`` or ``shards/*.tar``, or
            an address such as ``https://example.org/{000..127}.tar`` or ``s3://bucket/*.tar``.
        root: The folder that shards are named relative to; by default the deepest one that holds all of them.

    Raises:
        SourceError: A shard is missing, or no tar at all.
    """

    kind = "webdataset"

    def __init__(self, pattern: str, *, root: Path | None = None) -> None:
        # A tar that is there both packed and unpacked is one shard, and one given twice as well.
        files = expand_files(pattern, TARS)
        for file in files:
            check_tar(file)
        self.root, names = root_of([plain_path(file.path) for file in files], root)
        self._files: dict[str, ShardFile] = {}
        for name, file in zip(names, files, strict=True):
            self._files.setdefault(name, file)

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the shards that are not indexed yet, in the pattern's order."""
        return [Shard(name=name, size=_size(file)) for name, file in self._files.items() if name not in indexed.shards]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in the tar's order; what is wrong with the tar itself comes last."""
        file = self._files[shard.name]
        path = unpacked(file)
        listing = member_listing(file)
        pictures = [member for member in listing.members if is_picture_name(member.name)]
        sides = _side_members(listing.members)
        for member in pictures:
            stem = member.name[: -len(suffix(member.name))]
            # The first picture of a stem takes its side files; a second one is a repeat and will be reported.
            yield from self._read(path, shard, member, sides.pop(stem, {}))
        fault = unpack_fault(path)
        if fault is not None:
            yield BadSample(shard.name, fault)
        if listing.fault is not None:
            yield BadSample(shard.name, f"the tar {listing.fault}")
        elif not pictures:
            found = describe_names(member.name for member in listing.members)
            yield BadSample(shard.name, f"the tar holds no pictures, but {found}")

    def _read(
        self, path: Path, shard: Shard, member: TarMember, sides: Mapping[str, TarMember]
    ) -> Iterator[Sample | BadSample]:
        key = _key(shard.name, member.name)
        if member.fault is not None:
            yield BadSample(key, f"{suffix(member.name)} member {member.fault}")
            return
        if suffix(member.name) in UNSUPPORTED_PICTURES:
            yield BadSample(key, f"{suffix(member.name)} pictures are not supported; convert them to JPEG or PNG")
            return
        try:
            data = read_stored(path, offset=member.offset, size=member.size)
        except PictureReadError as error:
            yield BadSample(key, f"the tar {error}")
            return
        files, faults = _read_sides(path, sides)
        metadata, more_faults = side_metadata(files)
        yield Sample(
            key=key,
            data=data,
            file=shard.name,
            member=storable(member.name),
            offset=member.offset,
            size=member.size,
            metadata=metadata,
        )
        for fault in [*faults, *more_faults]:
            yield BadSample(key, f"indexed, but without its side file: {fault}")


def member_listing(file: ShardFile) -> TarListing:
    """List a tar that was one when the source was opened, or has been fetched and unpacked since.

    A fetched one that gives nothing is removed, so that it is fetched anew.

    Raises:
        SourceError: It can no longer be read, or is no tar.
    """
    path = plain_path(file.path)
    try:
        listing = list_tar(path)
    except OSError as error:
        raise SourceError(f"the shard {path} can no longer be read ({error}); see to it and run again") from error
    except tarfile.TarError as error:
        reason = unpack_fault(path) or error
        said = drop_unpacked(file) or "; see to it and run again"
        raise SourceError(f"the shard {path} is no tar that can be read ({reason}){said}") from error
    useless = listing.fault is not None and all(member.fault is not None for member in listing.members)
    if useless and (said := drop_unpacked(file)):
        raise SourceError(f"the shard {path} {listing.fault}{said}")
    return listing


def _side_members(members: Sequence[TarMember]) -> dict[str, dict[str, TarMember]]:
    sides: dict[str, dict[str, TarMember]] = {}
    for member in members:
        ending = suffix(member.name)
        if ending in SIDE_SUFFIXES and member.fault is None:
            sides.setdefault(member.name[: -len(ending)], {}).setdefault(ending, member)
    return sides


def _read_sides(path: Path, sides: Mapping[str, TarMember]) -> tuple[dict[str, bytes], list[str]]:
    files: dict[str, bytes] = {}
    faults: list[str] = []
    for ending, member in sorted(sides.items()):
        if member.size > MAX_SIDE_BYTES:
            faults.append(f"{ending} has {member.size:,} bytes; at most {MAX_SIDE_BYTES:,} are read")
            continue
        try:
            files[ending] = read_stored(path, offset=member.offset, size=member.size)
        except PictureReadError as error:
            faults.append(f"{ending} {error}")
    return files, faults


def _key(shard: str, member: str) -> str:
    stem = member[: -len(suffix(member))]
    steps = [{"..": "__"}.get(step, step) for step in stem.split("/") if step not in ("", ".")]
    return "/".join([shard[: -len(".tar")] if suffix(shard) == ".tar" else shard, *map(plain_step, steps)])


def _size(file: ShardFile) -> int | None:
    for path in (plain_path(file.path), file.path):
        if path.exists():
            return path.stat().st_size
    return None
