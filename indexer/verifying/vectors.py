"""Checking the stored vectors of an index: finite, of unit length, and not all the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.directory import IndexDirectory
from indexer.file_names import vectors_file
from indexer.manifest import IndexDirectoryError, PartRecord
from indexer.verifying.check import Faults
from indexer.verifying.stored import StoredIndex
from tpips_model.aspects import Aspect
from tpips_model.counted import counted

__all__ = ["aspects_of_one_vector", "one_vector_faults", "vector_faults"]

# Written within 1e-3 of unit length; half precision adds at most 5e-4.
STORED_NORM_TOLERANCE = 2e-3
PIECE_ROWS = 4096


def vector_faults(stored: StoredIndex) -> Faults:
    """Find the vectors that are not finite or not of unit length, under every aspect, in every part."""
    manifest = stored.index.manifest
    work = [(aspect, part) for aspect in manifest.aspects for part in manifest.parts if part.has(aspect)]
    count = left_out = 0
    with stored.bar(sum(part.rows for _, part in work), "vectors", " vectors") as bar:
        for aspect, part in work:
            if not stored.sound(vectors_file(aspect, part.id)):
                left_out += 1
                continue
            try:
                vectors = stored.index.part_vectors(part, aspect)
            except IndexDirectoryError as error:
                stored.damaged.add(vectors_file(aspect, part.id))
                yield str(error)
                continue
            live = stored.live(part)
            # In pieces, since a large part may not fit into memory in float64.
            for start in range(0, part.rows, PIECE_ROWS):
                piece = vectors[start : start + PIECE_ROWS]
                norms = np.linalg.norm(piece.astype(np.float64), axis=1)
                off = ~(np.abs(norms - 1.0) <= STORED_NORM_TOLERANCE) & live[start : start + len(piece)]
                for row in np.flatnonzero(off):
                    yield (
                        f"the vector of {stored.key(part, start + int(row))} under {aspect.text!r} has length "
                        f"{norms[row]:.4g}, where 1 is expected"
                    )
                bar.update(len(piece))
            count += int(live.sum())
    return f"lengths of {counted(count, 'vector')}{stored.left_out(left_out)}"


def one_vector_faults(stored: StoredIndex) -> Faults:
    """Find the aspects under which several pictures all have one vector, as a broken model or preprocessing gives."""
    index = stored.index
    names = [vectors_file(aspect, part.id) for aspect in index.aspects for part in index.manifest.parts]
    if not stored.sound(*names):
        return "left out, since vectors are damaged"
    for aspect in aspects_of_one_vector(index):
        yield f"all {index.live_count:,} items have one and the same vector under {aspect.text!r}"
    return counted(len(index.aspects), "aspect")


def aspects_of_one_vector(index: IndexDirectory) -> tuple[Aspect, ...]:
    """Return the aspects under which several pictures all have one and the same vector, as a broken model gives."""
    if index.live_count < 2:
        return ()
    stored = StoredIndex(index)
    return tuple(aspect for aspect in index.aspects if _all_the_same(stored, aspect))


def _all_the_same(stored: StoredIndex, aspect: Aspect) -> bool:
    first: NDArray[np.float16] | None = None
    for part in stored.index.manifest.parts:
        for block in _live_blocks(stored, part, aspect):
            first = block[0] if first is None else first
            if not (block == first).all():
                return False
    return first is not None


def _live_blocks(stored: StoredIndex, part: PartRecord, aspect: Aspect) -> list[NDArray[np.float16]]:
    if not part.live:
        return []
    vectors = stored.index.part_vectors(part, aspect)
    return [vectors[stored.live(part)] if part.removed else vectors]
