"""Checking everything about an index that can be checked: files, rows, vectors, codes, pictures, and the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from indexer.directory import IndexDirectory
from indexer.given_path import resolved_path
from indexer.item_files import DataRoot, check_given_roots, data_roots
from indexer.manifest import IndexDirectoryError
from indexer.manifest_file import read_manifest
from indexer.readers import EpochLock
from indexer.verifying.check import MAX_FAILURES, Check, found_check, run_check
from indexer.verifying.leftovers import unnamed_files
from indexer.verifying.pictures import picture_faults, sample_rows, where_pictures_are
from indexer.verifying.sample import look_at_sample, stated_tolerance
from indexer.verifying.stored import StoredIndex
from indexer.verifying.vector_check import stored_checks
from tpips_model.counted import counted
from tpips_model.embedder import Embedder
from tpips_model.errors import TpipsError
from tpips_model.loading import load_embedder

__all__ = ["Verification", "VerifyConfig", "verify"]

_OF_SAMPLE = ("decoding", "thumbnails", "vectors made again")


@dataclass(frozen=True)
class VerifyConfig:
    """One verification of an index.

    Attributes:
        index: The index directory.
        sample: How many items are looked at closely, spread over all parts.
        model: What ``load_embedder`` takes; ``None`` is the model that the index names.
        use_model: Whether the sample is embedded again.
        data_root: Where the pictures are now, if not where the manifest says; of several sources by their prefixes.
        tolerance: How far the cosine of a vector made again may be below 1; ``None`` is what suits the model.
        progress: Whether progress bars are shown on standard error.
    """

    index: Path
    sample: int = 32
    model: str | None = None
    use_model: bool = True
    data_root: DataRoot | None = None
    tolerance: float | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise IndexDirectoryError(f"the sample must have at least 1 item, but {self.sample} are asked for")


@dataclass(frozen=True)
class Verification:
    """What the checks of an index came to.

    Attributes:
        index: The index directory.
        checks: In the order in which they were made.
    """

    index: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed; some may not have been made."""
        return all(check.state != "failed" for check in self.checks)


def verify(config: VerifyConfig, *, embedder: Embedder | None = None) -> Verification:
    """Check an index as it is now; whatever is written to it meanwhile, it is that version that is checked.

    Args:
        config: What to check.
        embedder: The model; by default ``load_embedder`` loads it.

    Raises:
        IndexDirectoryError: There is no index, its manifest cannot be read, or the data root given is no folder.
        ModelError: The model that ``config`` names cannot be loaded.
    """
    stored = StoredIndex(_opened(config), progress=config.progress)
    checks = stored_checks(stored)
    checks.append(run_check("pictures", partial(picture_faults, stored)))
    if config.use_model:
        embedder, model = _model_check(config, stored.index, embedder)
    else:
        embedder, model = None, Check("model", "not checked", "--no-model was given")
    checks.append(model)
    checks += _sample_checks(config, stored, embedder if model.state == "ok" else None)
    checks.append(_leftovers(stored.index))
    return Verification(str(stored.index.path), tuple(checks))


def _opened(config: VerifyConfig) -> IndexDirectory:
    """Open the index by its manifest alone, and keep what it names from being deleted."""
    folder = resolved_path(config.index, what="the index", kind=IndexDirectoryError)
    while True:
        manifest = read_manifest(folder)
        lock = EpochLock.take(folder, manifest.epoch)
        # Its files may have been deleted before the lock was taken, but not if this is still the epoch.
        if read_manifest(folder).epoch == manifest.epoch:
            roots = data_roots(folder, manifest.sources, config.data_root)
            check_given_roots(config.data_root)
            return IndexDirectory(folder, manifest, roots, lock=lock)


def _model_check(
    config: VerifyConfig, index: IndexDirectory, embedder: Embedder | None
) -> tuple[Embedder | None, Check]:
    record = index.manifest.model
    if embedder is None:
        try:
            embedder = load_embedder(config.model or record.name)
        except TpipsError as error:
            if config.model is not None:
                raise
            return None, Check("model", "not checked", f"it cannot be loaded: {error}; say with --model where it is")
    shown = f"{embedder.name}, {embedder.dim} dimensions, {embedder.fingerprint}"
    faults = [
        f"the index was made with {what} {ours!r}, and the model {embedder.name} has {theirs!r}: its vectors are "
        "others; load the model that made the index with --model, or build the index anew"
        for what, ours, theirs in (
            ("fingerprint", record.fingerprint, embedder.fingerprint),
            ("dimensions", record.dim, embedder.dim),
            ("prompt", record.prompt_template, embedder.prompt_template),
        )
        if ours != theirs
    ]
    notes: tuple[str, ...] = ()
    if record.recommended_overall_penalty != embedder.recommended_overall_penalty:
        notes = (
            f"the index recommends the overall penalty {record.recommended_overall_penalty:g}, and the model "
            f"{embedder.recommended_overall_penalty:g}",
        )
    return embedder, found_check("model", faults, shown, notes=notes)


def _sample_checks(config: VerifyConfig, stored: StoredIndex, embedder: Embedder | None) -> list[Check]:
    """Look at a sample once, and give what was found as the checks that it belongs to."""
    missing = where_pictures_are(stored)
    tolerance = config.tolerance
    if tolerance is None:
        tolerance = stated_tolerance(stored.index.manifest.model.name)
    try:
        sample = sample_rows(stored, config.sample)
        found = look_at_sample(stored, sample, embedder, tolerance=tolerance)
    except TpipsError as error:
        return [found_check("sample", [str(error)], "broke off")]
    if not sample:
        why = missing or "there are no items that can be read"
        return [Check(name, "not checked", why) for name in _OF_SAMPLE]
    parts = len({row.part.id for row in sample})
    of = f"of {counted(len(sample), 'item')} in {parts:,} of {counted(len(stored.index.manifest.parts), 'part')}"
    decoded, thumbnails, vectors = _OF_SAMPLE
    small, again = (
        Check(thumbnails, "not checked", "there are none"),
        Check(vectors, "not checked", "without the model"),
    )
    if found.small or found.thumbnails:
        small = found_check(thumbnails, found.thumbnails, f"{found.small:,} {of}")
    if embedder is not None:
        told = f"{counted(found.compared, 'vector')} {of}; least cosine {found.least:.6f}"
        again = found_check(vectors, found.vectors, told)
    told = f"width and height {of}{'; ' + missing if missing else ''}"
    return [found_check(decoded, found.decoded, told), small, again]


def _leftovers(index: IndexDirectory) -> Check:
    found = list(unnamed_files(index))
    return found_check("files nobody names", [], f"{len(found):,}", notes=tuple(found[:MAX_FAILURES]))
