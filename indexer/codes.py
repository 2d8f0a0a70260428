"""Making the codes of an index: one quantizer per aspect, then part by part, from the stored vectors alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from indexer.directory import IndexDirectory
from indexer.durable import file_record, write_durably
from indexer.file_names import codes_file, quantizer_file
from indexer.index_changes import recorded, with_file
from indexer.index_codes import IndexCodes
from indexer.manifest import Manifest
from indexer.output_folder import remove_leftovers
from indexer.part import write_array
from indexer.quantizer import TRAINING_ROWS, Quantizer
from indexer.vector_blocks import part_blocks, sample_vectors
from tpips_model.aspects import Aspect
from tpips_model.progress_bar import ProgressBar

__all__ = ["CODES_FROM_ROWS", "aspects_to_code", "make_codes", "outgrown", "remove_codes"]

# Where a scan of the vectors themselves begins to take longer than anybody likes to wait.
CODES_FROM_ROWS = 200_000


def aspects_to_code(manifest: Manifest, *, wanted: bool | None) -> tuple[Aspect, ...]:
    """Return the aspects whose codes a build has to make or to complete.

    Args:
        manifest: What the index holds.
        wanted: Whether there shall be codes. ``None``: of all aspects if there are ``CODES_FROM_ROWS`` items or
            "overall" has codes; else of those that have some already.
    """
    begun = [aspect for aspect in manifest.complete_aspects if quantizer_file(aspect) in manifest.quantizers]
    if wanted is None:
        large = sum(part.rows for part in manifest.parts) >= CODES_FROM_ROWS
        wanted = large or any(aspect.is_overall for aspect in begun)
        candidates: Sequence[Aspect] = manifest.complete_aspects if wanted else begun
    else:
        candidates = manifest.complete_aspects if wanted else ()
    return tuple(aspect for aspect in candidates if aspect not in manifest.coded_aspects)


def make_codes(
    index: IndexDirectory, aspects: Sequence[Aspect], *, retrain: bool = False, progress: bool = True
) -> IndexDirectory:
    """Make what is missing of the codes under some aspects, one aspect after the other.

    The caller holds the index's lock. What is finished is kept whenever it is stopped, and the finished index does not
    depend on how often it was.

    Args:
        index: The index.
        aspects: Complete aspects of it.
        retrain: Train the quantizers anew, on the vectors of now; codes of another quantizer are made anew then.
        progress: Whether a progress bar is shown on standard error.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A vector is not finite, or a file cannot be written.
    """
    for aspect in aspects:
        if retrain or quantizer_file(aspect) not in index.manifest.quantizers:
            index = _trained(index, aspect)
        lacking = [part for part in index.manifest.parts if not part.has_codes(aspect)]
        if not lacking:
            continue
        quantizer = IndexCodes(index).quantizer(aspect)
        total = sum(part.rows for part in lacking)
        with ProgressBar(total=total, desc=f"coding {aspect.text}", unit=" rows", disable=not progress) as bar:
            for part in lacking:
                blocks = []
                for block in part_blocks(index, part, aspect):
                    blocks.append(quantizer.encode(block))
                    bar.update(len(block))
                codes = np.concatenate([np.empty((0, quantizer.code_bytes), np.uint8), *blocks])
                name = codes_file(aspect, part.id)
                index = with_file(index, part, name, write_array(index.path / name, codes))
    return index


def remove_codes(index: IndexDirectory, aspects: Sequence[Aspect]) -> IndexDirectory:
    """Take the codes under some aspects away; the caller holds the index's lock.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A file cannot be written or removed.
    """
    manifest = index.manifest
    quantizers = {quantizer_file(aspect) for aspect in aspects}
    parts = []
    for part in manifest.parts:
        codes = {codes_file(aspect, part.id) for aspect in aspects}
        parts.append(replace(part, files={name: file for name, file in part.files.items() if name not in codes}))
    kept = {name: file for name, file in manifest.quantizers.items() if name not in quantizers}
    index = recorded(index, replace(manifest, parts=tuple(parts), quantizers=kept))
    remove_leftovers(index.path, index)
    return index


def outgrown(quantizer: Quantizer, rows: int) -> bool:
    """Tell whether a quantizer was trained on few vectors, of which there are many more now."""
    return quantizer.trained_on < TRAINING_ROWS and rows >= 2 * quantizer.trained_on


def _trained(index: IndexDirectory, aspect: Aspect) -> IndexDirectory:
    name = quantizer_file(aspect)
    payload = Quantizer.train(sample_vectors(index, aspect, TRAINING_ROWS)).to_bytes()
    known = index.manifest.quantizers.get(name)
    if known == file_record(payload):
        return index  # so its codes are good
    if known is not None:
        # First of all the manifest: codes never stand beside a quantizer that is not theirs.
        index = remove_codes(index, [aspect])
    record = write_durably(index.path / name, payload)
    return recorded(index, replace(index.manifest, quantizers={**index.manifest.quantizers, name: record}))
