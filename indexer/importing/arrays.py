"""Vectors in npy files: one file, or the numbered files of a LAION folder."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.importing.vector_input import EmbeddingsError, VectorInput, check_dim

__all__ = ["ArrayHead", "array_input", "numbered_files", "read_array_head"]

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_NUMBERED = re.compile(r"(.*?)_?(\d{1,18})")


@dataclass(frozen=True)
class ArrayHead:
    """What an npy file says of itself, checked against its size."""

    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop``; the file is mapped only for as long as they are copied."""
        try:
            if self.fortran:
                shape = (self.rows, self.dim)
                mapped = np.memmap(self.path, self.dtype, "r", self.offset, shape, order="F")
                return np.array(mapped[start:stop], self.dtype.newbyteorder("="), order="C")
            first = self.offset + start * self.dim * self.dtype.itemsize
            return np.array(
                np.memmap(self.path, self.dtype, "r", first, (stop - start, self.dim)), self.dtype.newbyteorder("=")
            )
        except (OSError, ValueError) as error:
            raise EmbeddingsError(f"{self.path} cannot be read any more ({error}); import again") from error


def read_array_head(path: Path) -> ArrayHead:
    """Read an npy file's header, trusting nothing in it: no pickle, and no more rows than the file has bytes for.

    Raises:
        EmbeddingsError: It is no npy file, holds no matrix of floating-point numbers, or has another size than it says.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise EmbeddingsError(f"{path} is no file; give an npy or parquet file, or a LAION folder")
        with open(path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version not in _HEADERS:
                raise ValueError(f"npy format {version[0]}.{version[1]}")
            shape, fortran, dtype = _HEADERS[version](stream)
            offset = stream.tell()
    except FileNotFoundError as error:
        raise EmbeddingsError(f"{path} does not exist; give an npy or parquet file, or a LAION folder") from error
    except (OSError, ValueError) as error:
        raise EmbeddingsError(f"{path} is no npy file that can be read ({error}); save it with numpy.save") from error
    if dtype.hasobject:
        raise EmbeddingsError(
            f"{path} holds Python objects, which are never unpickled; save it as numbers: numpy.save(…, "
            "numpy.stack(vectors).astype('float32'))"
        )
    if dtype.kind != "f" or dtype.itemsize not in (2, 4, 8) or len(shape) != 2:
        raise EmbeddingsError(
            f"{path} holds {dtype} {shape}, and vectors are float16, float32 or float64 of shape (rows, dimensions); "
            "save it so"
        )
    rows, dim = shape
    size = offset + dtype.itemsize * math.prod(shape)
    if size != status.st_size:
        raise EmbeddingsError(
            f"{path} says that it holds {dtype} {shape}, which takes {size:,} bytes, and it has {status.st_size:,}; it "
            "is damaged or not whole"
        )
    check_dim(dim, shown=str(path))
    return ArrayHead(path, rows, dim, dtype, fortran, offset)


def array_input(heads: Sequence[ArrayHead], *, shown: str) -> VectorInput:
    """Return the vectors of npy files, one after the other.

    Raises:
        EmbeddingsError: Their vectors differ in length.
    """
    for head in heads:
        if head.dim != heads[0].dim:
            raise EmbeddingsError(
                f"{head.path} holds vectors of {head.dim:,} dimensions, and {heads[0].path} of {heads[0].dim:,}; the "
                "files of one aspect must be of one model"
            )

    def blocks(most: int) -> Iterator[NDArray[Any]]:
        for head in heads:
            for start in range(0, head.rows, most):
                yield head.block(start, min(start + most, head.rows))

    return VectorInput(shown, sum(head.rows for head in heads), heads[0].dim, blocks)


def numbered_files(folder: Path, suffix: str) -> dict[int, Path]:
    """Return the numbered files of a folder by their numbers, ascending: part 10 comes after part 2.

    Raises:
        EmbeddingsError: A file has no number, two have one, or they are of several kinds.
    """
    files: dict[int, Path] = {}
    stems: dict[str, Path] = {}
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith("."))
    except OSError as error:
        raise EmbeddingsError(f"cannot read the folder {folder}: {error.strerror or error}") from error
    for path in paths:
        match = _NUMBERED.fullmatch(path.stem)
        if match is None:
            raise EmbeddingsError(
                f"{path} has no number in its name, so that its place among the files of {folder} is not known; give "
                "the file itself, or a folder of img_emb_0.npy, img_emb_1.npy and so on"
            )
        stems.setdefault(match[1], path)
        number = int(match[2])
        if len(stems) > 1:
            first, second = list(stems.values())[:2]
            raise EmbeddingsError(
                f"{folder} holds files of two kinds, {first.name} and {second.name}; keep one of them"
            )
        if number in files:
            raise EmbeddingsError(f"{folder} holds {files[number].name} and {path.name}, which have one number")
        files[number] = path
    return dict(sorted(files.items()))
