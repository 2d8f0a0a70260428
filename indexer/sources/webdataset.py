"""WebDataset shards: tar files of pictures, each with side files of the same name."""

from __future__ import annotations

import glob
import os
import tarfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from indexer.sources.file_kinds import (
    UNSUPPORTED_PICTURES,
    compressed_tar,
    describe_file,
    describe_names,
    is_picture_name,
    suffix,
)
from indexer.sources.side_files import MAX_SIDE_BYTES, SIDE_SUFFIXES, side_metadata
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.sources.tar_members import TarMember, list_tar
from indexer.stored_bytes import PictureReadError, read_stored

__all__ = ["WebDatasetSource", "expand_shards"]


class WebDatasetSource:
    """Pictures in tar shards; an item's key is the shard's name and the member's, both without suffix.

    Only the last suffix of a member's name counts as one, so ``a.b_1.jpg`` keeps its name; its side files are
    ``a.b_1.json``, ``a.b_1.txt`` and ``a.b_1.cls``. A member's name is never used as a path.

    Args:
        pattern: A tar file, a folder of tar files, or a pattern such as ``shards/{000..127}.tar`` or ``shards/*.tar``.
        root: The folder that shards are named relative to; by default the deepest one that holds all of them.

    Raises:
        SourceError: A shard is missing, compressed, or no tar at all.
    """

    kind = "webdataset"

    def __init__(self, pattern: str, *, root: Path | None = None) -> None:
        paths = expand_shards(pattern)
        for path in paths:
            _check_shard(path)
        paths = [path.resolve() for path in paths]
        deepest = Path(os.path.commonpath([path.parent for path in paths]))
        self.root = root.resolve() if root is not None and deepest.is_relative_to(root.resolve()) else deepest
        # A shard given twice is one shard.
        names = list(dict.fromkeys(path.relative_to(self.root).as_posix() for path in paths))
        for name in names:
            if not name.isprintable():
                raise SourceError(f"the shard name {name!r} cannot be stored; rename the file")
        self._names = names

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the shards that are not indexed yet, in the pattern's order."""
        return [
            Shard(name=name, size=(self.root / name).stat().st_size)
            for name in self._names
            if name not in indexed.shards
        ]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in the tar's order; what is wrong with the tar itself comes last."""
        path = self.root / shard.name
        try:
            listing = list_tar(path)
        except (OSError, tarfile.TarError) as error:
            raise SourceError(f"the shard {path} can no longer be read ({error}); see to it and run again") from error
        pictures = [member for member in listing.members if is_picture_name(member.name)]
        sides = _side_members(listing.members)
        for member in pictures:
            stem = member.name[: -len(suffix(member.name))]
            # The first picture of a stem takes its side files; a second one is a repeat and will be reported.
            yield from self._read(path, shard, member, sides.pop(stem, {}))
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
            member=_storable(member.name),
            offset=member.offset,
            size=member.size,
            metadata=metadata,
        )
        for fault in [*faults, *more_faults]:
            yield BadSample(key, f"indexed, but without its side file: {fault}")


def expand_shards(pattern: str) -> list[Path]:
    """Return the tar files that a pattern names, in its order (a folder's or a wildcard's sorted by name).

    Raises:
        SourceError: It names none, some of them are missing, or its braces do not match.
    """
    pattern = os.path.expanduser(pattern)
    if os.path.isdir(pattern):
        names = sorted(name for name in os.listdir(pattern) if suffix(name) == ".tar" or compressed_tar(name))
        if not names:
            raise SourceError(
                f"the folder {pattern} holds no .tar file, but {describe_names(os.listdir(pattern))}; "
                "for a folder of pictures give --data folder:PATH"
            )
        return [Path(pattern, name) for name in names]
    names = [pattern] if os.path.exists(pattern) else _expand_braces(pattern)
    found = [path for name in names for path in ([name] if os.path.exists(name) else sorted(glob.glob(name)) or [name])]
    missing = [name for name in found if not os.path.exists(name)]
    if missing:
        raise SourceError(
            f"{len(missing)} of the {len(found)} shards of {pattern!r} do not exist, the first is {missing[0]}; "
            "give a pattern such as shards/{000..127}.tar"
        )
    return [Path(name) for name in found]


def _expand_braces(pattern: str) -> list[str]:
    if "{" not in pattern and "::" not in pattern:
        return [pattern]
    from webdataset.shardlists import expand_urls  # brings torch, so only where a pattern needs it

    try:
        return list(expand_urls(pattern))
    except (ValueError, AssertionError) as error:
        raise SourceError(
            f"cannot expand the pattern {pattern!r} ({error}); write it like shards/{{000..127}}.tar"
        ) from error


def _check_shard(path: Path) -> None:
    if compressed_tar(path.name):
        raise SourceError(
            f"the shard {path} is compressed, which is not supported yet, since a picture is fetched from a tar by its "
            "offset; unpack it to a plain .tar"
        )
    try:
        with tarfile.open(path, "r:"):
            pass
    except (OSError, tarfile.TarError) as error:
        looks = describe_file(path) if path.is_file() else "a folder" if path.is_dir() else "no file"
        raise SourceError(f"the shard {path} is no tar: it looks like {looks}; give tar files only") from error


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
    return "/".join([shard[: -len(".tar")] if suffix(shard) == ".tar" else shard, *map(_plain, steps)])


def _plain(step: str) -> str:
    """Return a name with control characters and bytes that are not UTF-8 spelt out."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cs") else char for char in step
    )


def _storable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
