"""Reading what an index stores to be searched approximately: codes, quantizers, and inverted lists if it has them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.clustering import Clustering, list_dtype
from indexer.directory import IndexDirectory
from indexer.file_checks import check_file, mapped_array
from indexer.file_names import CLUSTERING_FILE, codes_file, lists_file, quantizer_file
from indexer.manifest import IndexDirectoryError
from indexer.quantizer import Quantizer, sub_quantizers
from tpips_model.aspects import Aspect, AspectLike

__all__ = ["IndexCodes"]


class IndexCodes:
    """The codes and lists of an opened index; ``coded_aspects`` and ``list_count`` of its manifest tell what there is.

    Args:
        index: The index.
    """

    def __init__(self, index: IndexDirectory) -> None:
        self._index = index

    def codes(self, aspect: AspectLike) -> list[NDArray[np.uint8]]:
        """Return the codes under one aspect, memory-mapped.

        Args:
            aspect: One of the index's ``coded_aspects``.

        Returns:
            One uint8 (rows of the part, M / 2) per part, in row order, as ``Quantizer.encode`` gives them.

        Raises:
            IndexDirectoryError: The aspect has no codes, or not for all parts.
        """
        index = self._index
        wanted = index.indexed_aspect(aspect)
        if wanted not in index.coded_aspects:
            raise self._no_codes(wanted)
        width = sub_quantizers(index.dim) // 2
        return [
            mapped_array(index.path / codes_file(wanted, part.id), (part.rows, width), np.uint8)
            for part in index.manifest.parts
        ]

    def quantizer(self, aspect: AspectLike) -> Quantizer:
        """Return what an aspect's codes were made with.

        Args:
            aspect: An aspect that has codes, for all parts or for some.

        Raises:
            IndexDirectoryError: The aspect has no codes, or the file is not the one that the manifest names.
        """
        wanted = self._index.indexed_aspect(aspect)
        name = quantizer_file(wanted)
        if name not in self._index.manifest.quantizers:
            raise self._no_codes(wanted)
        return Quantizer.read(self._unchanged(name), dim=self._index.dim)

    def lists(self) -> list[NDArray[Any]]:
        """Return which list each item of every part belongs to, memory-mapped, as ``Clustering.assign`` gives them."""
        manifest = self._index.manifest
        dtype = list_dtype(manifest.list_count).type
        return [mapped_array(self._index.path / lists_file(part.id), (part.rows,), dtype) for part in manifest.parts]

    def clustering(self) -> Clustering:
        """Return what the inverted lists were made with.

        Raises:
            IndexDirectoryError: There are none, or the file is not the one that the manifest names.
        """
        index = self._index
        if index.manifest.lists is None:
            raise IndexDirectoryError(
                f"the index {index.path} has no lists; make them with: tpips-index codes "
                f"{shlex.quote(str(index.path))} --lists N"
            )
        path = self._unchanged(CLUSTERING_FILE)
        return Clustering.read(path, dim=index.dim, lists=index.manifest.lists.count)

    def _unchanged(self, name: str) -> Path:
        path = self._index.path / name
        try:
            # Its checksum, always: codes made anew since the index was opened belong to another quantizer.
            check_file(path, self._index.manifest.files[name], verify=True)
        except IndexDirectoryError as error:
            raise IndexDirectoryError(f"{error}; if codes have been made since it was opened, open it again") from error
        return path

    def _no_codes(self, aspect: Aspect) -> IndexDirectoryError:
        return IndexDirectoryError(
            f"aspect {aspect.text!r} has no codes for all items in {self._index.path}; make them with: tpips-index "
            f"codes {shlex.quote(str(self._index.path))}"
        )
