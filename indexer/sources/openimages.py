"""Open Images: tar archives or a folder of loose pictures, turned and described as its tables say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from indexer.given_path import given_path
from indexer.sources.file_kinds import is_picture_name, suffix
from indexer.sources.folder import FolderSource
from indexer.sources.keys import plain_step, storable
from indexer.sources.openimages_tables import OpenImagesTables, image_number, table_kind
from indexer.sources.remote import WebFile, cache_folder
from indexer.sources.shard_files import ShardFile
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.sources.tar_members import TarListing, TarMember
from indexer.sources.unpacked import check_tar, plain_path, unpack_fault, unpacked
from indexer.sources.webdataset import TARS, member_listing
from indexer.stored_bytes import PictureReadError, member_turned, read_stored, turned_as_stored

__all__ = ["OpenImagesArchives", "OpenImagesTree", "fetched_openimages", "local_openimages"]

ARCHIVES_ADDRESS = "https://open-images-dataset.s3.amazonaws.com/tar"
TABLES_ADDRESS = "https://storage.googleapis.com/openimages"
_IMAGES = {
    "train": "2018_04/train/train-images-boxable-with-rotation.csv",
    "validation": "2018_04/validation/validation-images-with-rotation.csv",
    "test": "2018_04/test/test-images-with-rotation.csv",
}
_LABELS = "v5/{split}-annotations-human-imagelabels-boxable.csv"
_CLASSES = "v7/oidv7-class-descriptions.csv"
_SIZES = {"train": "1,743,042 pictures, 513 GB", "validation": "41,620, 12 GB", "test": "125,436, 36 GB"}
_DIGITS = "0123456789abcdef"
_DEPTH = 3


class OpenImagesArchives:
    """The archives ``train_0.tar.gz`` to ``train_f.tar.gz``, ``validation.tar.gz`` and ``test.tar.gz``, or plain tars.

    An item's key is the split and the file name, such as ``train/000002b66c9c498e.jpg``. Each archive makes sixteen
    shards, by the second digit of the id, so that they are known before an archive is fetched and unpacked.

    Args:
        files: The archives.
        root: The folder that they lie in.
        tables: Where the tables lie, by kind; ``None`` goes without.
    """

    kind = "openimages"

    def __init__(
        self, files: Sequence[ShardFile], *, root: Path, tables: Mapping[str, Sequence[ShardFile]] | None
    ) -> None:
        self.root = root.resolve()
        self._files = {plain_path(file.path).resolve().relative_to(self.root).as_posix(): file for file in files}
        self._describer = _Describer(tables)
        self._listed: tuple[Path, TarListing] | None = None

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the sixteenths of archives that are not indexed yet."""
        return [
            Shard(f"{name}[{digit}]", content=(name, digit))
            for name in self._files
            for digit in _DIGITS
            if f"{name}[{digit}]" not in indexed.shards
        ]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in the archive's order, and with the first what is wrong with the archive."""
        name, digit = shard.content
        self._describer.prepare()  # before an archive of many gigabytes is fetched
        path = unpacked(self._files[name])
        listing = self._listing(path, self._files[name])
        split = _split_of(name)
        pictures = (one for one in listing.members if is_picture_name(one.name) and _digit_of(one.name) == digit)
        yield from self._describer.described((self._sample(path, name, split, one) for one in pictures), shard.name)
        if digit == _DIGITS[0]:
            faults = (unpack_fault(path), f"the tar {listing.fault}" if listing.fault is not None else None)
            yield from (BadSample(name, fault) for fault in faults if fault is not None)

    def _sample(self, path: Path, file: str, split: str, member: TarMember) -> Sample | BadSample:
        key = f"{split}/{plain_step(member.name.rpartition('/')[2])}"
        if member.fault is not None:
            return BadSample(key, f"the member {member.fault}")
        try:
            data = read_stored(path, offset=member.offset, size=member.size)
        except PictureReadError as error:
            return BadSample(key, f"the tar {error}")
        return Sample(key, data, file, storable(member.name), member.offset, member.size)

    def _listing(self, path: Path, file: ShardFile) -> TarListing:
        if self._listed is None or self._listed[0] != path:
            self._listed = (path, member_listing(file))
        return self._listed[1]


class OpenImagesTree:
    """A folder with a folder of loose pictures for each split; an item's key is its path, as that of an archive's is.

    Args:
        folder: The pictures.
        tables: Where the tables lie, by kind; ``None`` goes without.
    """

    kind = "openimages"

    def __init__(self, folder: FolderSource, *, tables: Mapping[str, Sequence[ShardFile]] | None) -> None:
        self.root = folder.root
        self._folder = folder
        self._describer = _Describer(tables)

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the pictures that are not indexed yet, by path."""
        return self._folder.shards(indexed)

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in order."""
        yield from self._describer.described(self._folder.read(shard), shard.name)


class _Describer:
    """Turns samples and gives them their metadata; the tables are read when they are first needed."""

    def __init__(self, tables: Mapping[str, Sequence[ShardFile]] | None) -> None:
        self._given = tables
        self._tables: OpenImagesTables | None = None

    def prepare(self) -> None:
        """Read the tables, if that has not been done."""
        if self._given is not None and self._tables is None:
            paths = {kind: [file.fetched() for file in files] for kind, files in self._given.items()}
            self._tables = OpenImagesTables(paths["images"], paths["labels"], paths["classes"])

    def described(self, samples: Iterable[Sample | BadSample], shard: str) -> Iterator[Sample | BadSample]:
        self.prepare()
        unknown = []
        for sample in samples:
            if isinstance(sample, BadSample):
                yield sample
                continue
            folder, _, name = sample.key.rpartition("/")
            number = image_number(name[: -len(suffix(name)) or None])
            record = self._tables.record(number) if self._tables is not None and number is not None else None
            if record is None:
                unknown.append(sample.key)
                yield replace(sample, metadata={"split": _split_of(folder)} if folder else {})
                continue
            member = member_turned(sample.member, record.turn)
            metadata = {**record.metadata, **({"split": _split_of(folder)} if folder else {})}
            yield replace(sample, data=turned_as_stored(sample.data, member), member=member, metadata=metadata)
        if unknown and self._tables is not None:
            yield BadSample(
                shard,
                f"{len(unknown):,} pictures stand in no table, such as {unknown[0]!r}: indexed as they are, without "
                "what the tables say of turning and making",
            )


def local_openimages(
    place: str, *, split: str | None, with_tables: bool, shard_size: int, exclude: Path
) -> OpenImagesArchives | OpenImagesTree:
    """Open a local copy: archives (packed or not), or loose pictures; the tables are found by their first lines.

    Raises:
        SourceError: It is no such copy, or lacks the table that says how pictures must be turned.
    """
    root = given_path(place, what="the folder", kind=SourceError)
    if not root.is_dir():
        raise SourceError(f"the folder {root} does not exist; give a copy of Open Images with --data openimages:PATH")
    root = root.resolve()
    tars, csvs, loose = _contents(root, exclude)
    tables = _local_tables(root, csvs) if with_tables else None
    if tars and loose:
        raise SourceError(
            f"{root} holds both archives ({tars[0].name}) and loose pictures ({loose}); give the folder of one of them"
        )
    if not tars:
        if split is not None:
            raise SourceError(f"{root} holds loose pictures; instead of split={split} give the folder of that split")
        return OpenImagesTree(FolderSource(root, shard_size=shard_size, exclude=exclude), tables=tables)
    kept = {plain_path(path): ShardFile(path) for path in tars if split is None or _split_of(path.name) == split}
    if not kept:
        raise SourceError(f"{root} holds no archive of split {split!r}, but {tars[0].name}")
    for file in kept.values():
        check_tar(file)
    return OpenImagesArchives(list(kept.values()), root=root, tables=tables)


def fetched_openimages(*, split: str | None, with_tables: bool) -> OpenImagesArchives:
    """Open the archives and tables of one split, which are fetched as they are needed.

    Raises:
        SourceError: It is not said which.
    """
    if split not in _SIZES:
        sizes = "; ".join(f"{name}: {size}" for name, size in _SIZES.items())
        raise SourceError(
            f"say which part of Open Images to fetch with --data openimages?split=NAME ({sizes}), or give a local copy "
            "with --data openimages:PATH"
        )
    root = cache_folder() / "openimages"
    archives = [f"train_{digit}" for digit in _DIGITS] if split == "train" else [split]
    files = [ShardFile(root / f"{name}.tar.gz", WebFile(f"{ARCHIVES_ADDRESS}/{name}.tar.gz")) for name in archives]
    named = {"images": _IMAGES[split], "labels": _LABELS.format(split=split), "classes": _CLASSES}
    tables = {
        kind: [ShardFile(root / "tables" / name.rpartition("/")[2], WebFile(f"{TABLES_ADDRESS}/{name}"))]
        for kind, name in named.items()
    }
    return OpenImagesArchives(files, root=root, tables=tables if with_tables else None)


def _contents(root: Path, exclude: Path) -> tuple[list[Path], list[Path], str | None]:
    """Return the archives and csv files of a folder, and the name of a loose picture in it, if there is one."""
    tars: list[Path] = []
    csvs: list[Path] = []
    loose = None
    pending = [root]
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as scan:  # not held: a split is a folder of up to 1.7 million files
            for entry in scan:
                path = Path(entry.path)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    if len(path.relative_to(root).parts) < _DEPTH and path.resolve() != exclude.resolve():
                        pending.append(path)
                elif is_picture_name(entry.name):
                    loose = loose or path.relative_to(root).as_posix()
                elif TARS.matches(entry.name):
                    tars.append(path)
                elif suffix(entry.name) == ".csv":
                    csvs.append(path)
    return sorted(tars), sorted(csvs), loose


def _local_tables(root: Path, csvs: Sequence[Path]) -> dict[str, list[ShardFile]]:
    tables: dict[str, list[ShardFile]] = {"images": [], "labels": [], "classes": []}
    for path in csvs:
        kind = table_kind(path)
        if kind is not None:
            tables[kind].append(ShardFile(path))
    if not tables["images"]:
        raise SourceError(
            f"{root} lacks the table that says how its pictures must be turned, such as "
            f"{_IMAGES['train'].rpartition('/')[2]} ({TABLES_ADDRESS}/{_IMAGES['train']}); put it there, or index the "
            "pictures as they are with ?tables=no behind the path"
        )
    return tables


def _split_of(name: str) -> str:
    match = re.match(r"(?:.*/)?(train|validation|test)(?![a-z])", name)
    return match[1] if match else name.rpartition("/")[2].partition(".")[0]


def _digit_of(member: str) -> str:
    stem = member.rpartition("/")[2].partition(".")[0].lower()
    return stem[1] if len(stem) > 1 and stem[1] in _DIGITS else _DIGITS[0]
