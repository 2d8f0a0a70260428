"""Making the inverted lists of an index: which items lie near each other, so that a search need not look at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from indexer.clustering import MAX_LISTS, ROWS_PER_LIST, Clustering, fit_projections, list_dtype
from indexer.directory import IndexDirectory
from indexer.durable import file_record, make_folder, write_durably
from indexer.file_names import CLUSTERING_FILE, lists_file
from indexer.index_changes import recorded, with_file
from indexer.index_codes import IndexCodes
from indexer.manifest import IndexDirectoryError, ListsRecord, Manifest
from indexer.output_folder import remove_leftovers
from indexer.part import write_array
from indexer.quantizer import TRAINING_ROWS
from indexer.vector_blocks import part_blocks, sample_vectors, spread_rows
from tpips_model.progress_bar import ProgressBar

__all__ = ["LISTS_FROM_ROWS", "lists_for", "lists_to_make", "make_lists", "remove_lists"]

# Where a scan of all codes begins to take longer than anybody likes to wait.
LISTS_FROM_ROWS = 10_000_000

# Of the vectors that the projections are fitted to.
_PROJECTION_VALUES = 1 << 26


def lists_for(rows: int) -> int:
    """Return how many lists suit so many items: the power of two at or below 4 · √rows.

    >>> lists_for(10_000_000), lists_for(100_000_000)
    (8192, 32768)
    """
    return min(MAX_LISTS, 1 << int(math.log2(4 * math.sqrt(max(rows, 1)))))


def lists_to_make(manifest: Manifest, *, wanted: int | None, anew: bool = False) -> int:
    """Return how many lists an index shall have; 0 for none.

    Args:
        manifest: What the index holds.
        wanted: How many are asked for, at least 1; there are never more than items. ``None``: as many as there are, or
            as suit an index of ``LISTS_FROM_ROWS`` items that has codes.
        anew: Whether lists that there are may be replaced by as many as suit now.
    """
    rows = sum(part.rows for part in manifest.parts)
    if wanted is not None:
        return min(wanted, rows, MAX_LISTS)
    large = rows >= LISTS_FROM_ROWS and bool(manifest.coded_aspects)
    if manifest.lists is not None and not (anew and large):
        return min(manifest.lists.count, rows)
    return lists_for(rows) if large else 0


def make_lists(index: IndexDirectory, count: int, *, anew: bool = False, progress: bool = True) -> IndexDirectory:
    """Make what is missing of an index's lists.

    The caller holds the index's lock. What is finished is kept whenever it is stopped, and the finished index does not
    depend on how often it was.

    Args:
        index: The index; its coded aspects, taken together, decide which items are near each other.
        count: How many lists, at least 1, and at most as many as items. If it has another number, they are made anew.
        anew: Cluster anew, by the vectors of now.
        progress: Whether a progress bar is shown on standard error.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A vector is not finite, or a file cannot be written.
    """
    known = index.manifest.lists
    if anew or known is None or known.count != count:
        index = _clustered(index, count, progress=progress)
    lacking = [part for part in index.manifest.parts if not part.has_lists]
    if not lacking:
        return index
    clustering = IndexCodes(index).clustering()
    aspects = [index.indexed_aspect(slug) for slug in clustering.projections]
    total = sum(part.rows for part in lacking)
    with ProgressBar(total=total, desc=f"assigning to {count:,} lists", unit=" rows", disable=not progress) as bar:
        for part in lacking:
            numbers = [np.empty(0, list_dtype(count))]
            for blocks in zip(*(part_blocks(index, part, aspect) for aspect in aspects), strict=True):
                numbers.append(clustering.assign(dict(zip(clustering.projections, blocks, strict=True))))
                bar.update(len(numbers[-1]))
            name = lists_file(part.id)
            index = with_file(index, part, name, write_array(index.path / name, np.concatenate(numbers)))
    return index


def remove_lists(index: IndexDirectory) -> IndexDirectory:
    """Take the lists away; the caller holds the index's lock.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A file cannot be written or removed.
    """
    if index.manifest.lists is None:
        return index
    parts = []
    for part in index.manifest.parts:
        kept = {name: file for name, file in part.files.items() if name != lists_file(part.id)}
        parts.append(replace(part, files=kept))
    index = recorded(index, replace(index.manifest, parts=tuple(parts), lists=None))
    remove_leftovers(index.path, index)
    return index


def _clustered(index: IndexDirectory, count: int, *, progress: bool) -> IndexDirectory:
    aspects = index.coded_aspects
    if not aspects:
        raise IndexDirectoryError(
            f"the index {index.path} has no codes, which lists need; make them first: tpips-index codes"
        )
    few = min(TRAINING_ROWS, max(1, _PROJECTION_VALUES // (index.dim * len(aspects))))
    projections = fit_projections({aspect.slug: sample_vectors(index, aspect, few) for aspect in aspects})
    payload = Clustering.train(projections, _sample(index, projections, count, progress=progress), count).to_bytes()
    record = ListsRecord(count, file_record(payload))
    if index.manifest.lists == record:
        return index  # so its lists are good
    # First of all the manifest: no part's lists ever stand beside a clustering that is not theirs.
    index = remove_lists(index)
    make_folder((index.path / CLUSTERING_FILE).parent)
    write_durably(index.path / CLUSTERING_FILE, payload)
    return recorded(index, replace(index.manifest, lists=record))


def _sample(
    index: IndexDirectory, projections: Mapping[str, NDArray[np.float32]], count: int, *, progress: bool
) -> NDArray[np.float32]:
    """Return the projections of evenly spaced items, float32 (T, P), enough for so many lists."""
    rows = min(index.rows, max(ROWS_PER_LIST * count, TRAINING_ROWS))
    sample = np.zeros((rows, next(iter(projections.values())).shape[1]), np.float32)
    with ProgressBar(
        total=rows * len(projections), desc=f"fitting {count:,} lists", unit=" rows", disable=not progress
    ) as bar:
        for slug, projection in projections.items():
            for first, vectors in spread_rows(index, index.indexed_aspect(slug), rows):
                sample[first : first + len(vectors)] += vectors @ projection
                bar.update(len(vectors))
    return sample
