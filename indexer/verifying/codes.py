"""Checking codes and inverted lists against the vectors that they were made from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from indexer.clustering import Clustering, list_dtype
from indexer.file_checks import mapped_array
from indexer.file_names import CLUSTERING_FILE, codes_file, lists_file, quantizer_file, vectors_file
from indexer.manifest import ListsRecord, PartRecord
from indexer.quantizer import CENTROIDS, SUB_DIM, Quantizer
from indexer.verifying.check import Faults, NotCheckedError
from indexer.verifying.stored import StoredIndex
from tpips_model.aspects import Aspect
from tpips_model.counted import counted

__all__ = ["code_faults", "list_faults"]

# Of one aspect; an index of fewer items is checked wholly.
CHECKED_ROWS = 16_384
_BLOCK = 1024
# Two centroids are equally near if their squared distances differ by less than rounding: another machine's, or another
# block's, sums may then choose the other one.
_ROUNDING = 1e-4


def code_faults(stored: StoredIndex) -> Faults:
    """Find the codes that are not those of their vectors: of a sample of all parts they are made again."""
    manifest = stored.index.manifest
    coded = [aspect for aspect in manifest.aspects if quantizer_file(aspect) in manifest.quantizers]
    if not coded:
        raise NotCheckedError("there are none")
    work = [
        (aspect, part)
        for aspect in coded
        for part in manifest.parts
        if part.has(aspect) and part.has_codes(aspect) and part.rows
    ]
    count = left_out = 0
    with stored.bar(len(work), "codes", " files") as bar:
        for aspect, part in work:
            names = (quantizer_file(aspect), vectors_file(aspect, part.id), codes_file(aspect, part.id))
            if stored.sound(*names):
                rows = _spread(stored, part)
                count += len(rows)
                yield from _odd_codes(stored, aspect, part, rows)
            else:
                left_out += 1
            bar.update()
    return f"{counted(count, 'code')} made again under {counted(len(coded), 'aspect')}{stored.left_out(left_out)}"


def list_faults(stored: StoredIndex) -> Faults:
    """Find the items that are not in the list that their vectors belong to."""
    lists = stored.index.manifest.lists
    if lists is None:
        raise NotCheckedError("there are none")
    if not stored.sound(CLUSTERING_FILE):
        return "left out, since the clustering is damaged"
    clustering = Clustering.read(stored.index.path / CLUSTERING_FILE, dim=stored.index.dim, lists=lists.count)
    known = {aspect.slug: aspect for aspect in stored.index.manifest.aspects}
    aspects = [known[slug] for slug in clustering.projections]
    count = left_out = 0
    for part in stored.index.manifest.parts:
        if not part.has_lists or not part.rows or not all(map(part.has, aspects)):
            continue
        if stored.sound(lists_file(part.id), *(vectors_file(aspect, part.id) for aspect in aspects)):
            rows = _spread(stored, part)
            count += len(rows)
            yield from _odd_lists(stored, clustering, aspects, part, rows, lists)
        else:
            left_out += 1
    return f"lists of {counted(count, 'item')} found again{stored.left_out(left_out)}"


def _spread(stored: StoredIndex, part: PartRecord) -> NDArray[np.int64]:
    """Return the live rows of a part that are checked: its share of ``CHECKED_ROWS``, at least one, evenly spaced."""
    live = np.flatnonzero(stored.live(part))
    share = max(1, CHECKED_ROWS * part.rows // max(stored.index.rows, 1))
    return live if len(live) <= share else live[np.arange(share) * len(live) // share]


def _odd_codes(stored: StoredIndex, aspect: Aspect, part: PartRecord, rows: NDArray[np.int64]) -> Iterator[str]:
    index = stored.index
    quantizer = Quantizer.read(index.path / quantizer_file(aspect), dim=index.dim)
    codes = mapped_array(index.path / codes_file(aspect, part.id), (part.rows, quantizer.code_bytes), np.uint8)
    vectors = index.part_vectors(part, aspect)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        block = block[np.isfinite(vectors[block]).all(axis=1)]  # others have been named as vectors
        fresh = quantizer.encode(vectors[block])
        for at in np.flatnonzero((fresh != codes[block]).any(axis=1)):
            row = int(block[at])
            if not _equally_near(quantizer, vectors[row], codes[row], fresh[at]):
                yield f"the codes of {stored.key(part, row)} under {aspect.text!r} are not those of its vector"


def _equally_near(
    quantizer: Quantizer, vector: NDArray[np.float16], stored: NDArray[np.uint8], fresh: NDArray[np.uint8]
) -> bool:
    scale = quantizer.scale.reshape(-1, 1, SUB_DIM)
    scaled = quantizer.rotate(vector.astype(np.float64)).reshape(-1, 1, SUB_DIM) * scale
    distances = np.square(scaled - quantizer.centroids * scale, dtype=np.float64).sum(axis=2)  # (M, 16)
    of = partial(np.take_along_axis, distances, axis=1)
    ours, theirs = (of(indices=_halves(codes)[:, None])[:, 0] for codes in (stored, fresh))
    return bool((np.abs(ours - theirs) <= _ROUNDING * (ours + theirs) + 1e-9).all())


def _halves(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return one row of codes as a number below 16 for each sub-quantizer."""
    return np.stack([codes % CENTROIDS, codes // CENTROIDS], axis=1).reshape(-1).astype(np.int64)


def _odd_lists(
    stored: StoredIndex,
    clustering: Clustering,
    aspects: list[Aspect],
    part: PartRecord,
    rows: NDArray[np.int64],
    lists: ListsRecord,
) -> Iterator[str]:
    index = stored.index
    numbers = mapped_array(index.path / lists_file(part.id), (part.rows,), list_dtype(lists.count).type)
    for row in np.flatnonzero(np.asarray(numbers) >= lists.count):
        yield f"{stored.key(part, int(row))} is in list {numbers[row]}, and there are {lists.count:,}"
    rows = rows[np.asarray(numbers)[rows] < lists.count]
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        finite = [np.isfinite(index.part_vectors(part, aspect)[block]).all(axis=1) for aspect in aspects]
        block = block[np.all(finite, axis=0)]  # others have been named as vectors
        vectors = {aspect.slug: index.part_vectors(part, aspect)[block] for aspect in aspects}
        fresh, given = clustering.assign(vectors), numbers[block]
        projected = clustering.project(vectors).astype(np.float64)
        for at in np.flatnonzero(fresh != given):
            near, far = (
                float(np.square(projected[at] - clustering.centers[number]).sum()) for number in (fresh[at], given[at])
            )
            if not abs(far - near) <= _ROUNDING * (far + near) + 1e-6:
                yield (
                    f"{stored.key(part, int(block[at]))} is in list {given[at]}, and its vectors belong to "
                    f"list {fresh[at]}"
                )
