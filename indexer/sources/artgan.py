"""The ArtGAN release of WikiArt: a folder of pictures for each style, and lists of their classes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from indexer.columns import Scalar
from indexer.given_path import given_path
from indexer.sources.artgan_lists import STYLE_FOLDERS, ArtganLists, style_of_folder
from indexer.sources.folder import FolderSource
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError

__all__ = ["ArtganSource"]


class ArtganSource:
    """The pictures of a folder that holds one folder a style; the lists lie in it or beside the pictures.

    An item's key is its whole path, such as ``Art_Nouveau_Modern/alphonse-mucha_spring.jpg``: file names repeat across
    styles. Metadata: ``style`` (the list's class, else the folder's), ``artist`` (the file name's beginning),
    ``genre`` and ``artist_class`` (where a list has them) and ``split``.

    Args:
        root: The folder of the pictures, or the one above it.
        shard_size: How many pictures make a shard.
        exclude: A folder that is not looked into.

    Raises:
        SourceError: It holds no folders of styles.
    """

    kind = "wikiart"

    def __init__(self, root: str | Path, *, shard_size: int, exclude: Path | None = None) -> None:
        given = given_path(root, what="the folder", kind=SourceError)
        if not given.is_dir():
            raise SourceError(f"the folder {given} does not exist; give a copy of WikiArt with --data wikiart:PATH")
        self._folder = FolderSource(_pictures_folder(given), shard_size=shard_size, exclude=exclude)
        self.root = self._folder.root
        self._lists = ArtganLists.found_under(given)

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the pictures that are not indexed yet, by path; the last shard also says what the lists lack."""
        shards = self._folder.shards(indexed)
        if not shards:
            return shards
        new = (entry.key for shard in shards for entry in shard.content)
        there = {unicodedata.normalize("NFC", key) for key in (*indexed.keys, *new)}
        faults = tuple(self._lists.faults_with(there, indexed.keys))
        last = shards[-1]
        whole = replace(last, samples=(last.samples or 0) + len(faults), content=(*last.content, *faults))
        return [*shards[:-1], whole]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in order."""
        faults = tuple(one for one in shard.content if isinstance(one, BadSample))
        pictures = replace(shard, content=shard.content[: len(shard.content) - len(faults)])
        for sample in self._folder.read(pictures):
            yield replace(sample, metadata=self._metadata(sample.key)) if isinstance(sample, Sample) else sample
        yield from faults

    def _metadata(self, key: str) -> dict[str, Scalar]:
        picture = unicodedata.normalize("NFC", key)
        folder, slash, name = picture.partition("/")
        artist, underscore, _ = name.rpartition("/")[2].partition("_")
        values = {
            "style": self._lists.class_name("style", picture) or (style_of_folder(folder) if slash else None),
            "genre": self._lists.class_name("genre", picture),
            "artist": artist if underscore else None,
            "artist_class": self._lists.class_name("artist", picture),
            "split": self._lists.splits.get(picture),
        }
        return {column: value for column, value in values.items() if value is not None}


def _pictures_folder(given: Path) -> Path:
    for folder in (given, *sorted(path for path in given.iterdir() if path.is_dir())):
        if any((folder / style).is_dir() for style in STYLE_FOLDERS):
            return folder
    raise SourceError(
        f"{given} is no copy of WikiArt: it holds neither parquet files nor folders of styles such as "
        f"{STYLE_FOLDERS[-1]}; for another folder of pictures give --data folder:PATH"
    )
