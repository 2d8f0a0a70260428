"""The demo gallery: pictures with known factors, painted on the spot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from indexer.durable import make_folder, write_durably
from indexer.gallery import FACTORS, Painting, gallery, paint
from indexer.sources.folder import DEFAULT_SHARD_SIZE
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.stored_bytes import PictureReadError, read_stored

__all__ = ["DemoSource"]

DEFAULT_COUNT = 240
# What the gallery's noise and hard borders need to look as painted; 14 MB for 240 pictures, PNG takes 33 MB.
JPEG_OPTIONS = {"quality": 92, "subsampling": 0}


class _Entry(NamedTuple):
    key: str
    painting: Painting


class DemoSource:
    """The gallery, kept as JPEG files in a folder; what is missing there is painted when it is read.

    An item's key is its file's name, such as ``0007-lighthouse-autumn-oil-strokes.jpg``; the metadata columns are the
    six factors. The same gallery has the same bytes wherever the same numpy and Pillow paint it.

    Args:
        root: The folder, made if it is missing.
        count: How many pictures.
        seed: Which gallery.
        shard_size: How many pictures make a shard.

    Raises:
        SourceError: ``count`` is less than one.
    """

    kind = "demo"

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        count: int = DEFAULT_COUNT,
        seed: int = 0,
        shard_size: int = DEFAULT_SHARD_SIZE,
    ) -> None:
        if count < 1:
            raise SourceError(f"a gallery of {count} pictures cannot be painted; ask for at least one")
        # Absolute, but links are kept: the folder may not exist yet.
        self.root = Path(root).absolute()
        self._shard_size = shard_size
        self._entries = [_Entry(_key(number, one), one) for number, one in enumerate(gallery(count=count, seed=seed))]

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the pictures that are not indexed yet in runs of ``shard_size``, by number."""
        new = [entry for entry in self._entries if entry.key not in indexed.keys]
        runs = [new[start : start + self._shard_size] for start in range(0, len(new), self._shard_size)]
        return [
            Shard(name=f"gallery-{len(indexed.shards) + number:05d}", samples=len(run), content=tuple(run))
            for number, run in enumerate(runs)
        ]

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's pictures in order, each painted first if its file is not there.

        Raises:
            IndexDirectoryError: A picture cannot be written.
        """
        for key, painting in shard.content:
            path = self.root / key
            if not path.is_file():
                make_folder(self.root)
                write_durably(path, _encode(painting))
            try:
                data = read_stored(path)
            except PictureReadError as error:
                yield BadSample(key, str(error))
                continue
            metadata = {factor: getattr(painting, factor) for factor in FACTORS}
            yield Sample(key, data, file=key, member=None, offset=None, size=len(data), metadata=metadata)


def _key(number: int, painting: Painting) -> str:
    words = f"{number:04d} {painting.subject} {painting.palette} {painting.brushwork}"
    return f"{words.replace(' ', '-')}.jpg"


def _encode(painting: Painting) -> bytes:
    buffer = BytesIO()
    paint(painting).save(buffer, "JPEG", **JPEG_OPTIONS)
    return buffer.getvalue()
