"""Building an index: shards become parts, and the manifest names them one by one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from indexer.building.added_aspects import PartJob, PartTask, PartVectors, with_vectors
from indexer.building.build_config import BuildConfig, BuildError, BuildSummary
from indexer.building.build_work import BuildWork
from indexer.building.key_set import KeySet
from indexer.building.new_pictures import index_new_pictures, retry_failed
from indexer.building.progress import BuildProgress
from indexer.building.shard_slice import check_slice
from indexer.codes import aspects_to_code, make_codes
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.engines import Engine, open_engine
from indexer.given_path import given_path
from indexer.index_sources import open_index_source
from indexer.lists import lists_to_make, make_lists
from indexer.manifest import Manifest, ModelRecord
from indexer.output_folder import output_folder
from indexer.pictures import PictureState, picture_state
from tpips_model.aspects import OVERALL, Aspect, new_aspects, unique_aspects
from tpips_model.counted import counted
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder

__all__ = ["build"]


def build(
    config: BuildConfig,
    *,
    embedder: Embedder | None = None,
    engine: Engine | None = None,
    on_accepted: Callable[[], object] | None = None,
) -> BuildSummary:
    """Build an index, or what is missing from one; a build stopped anywhere goes on where it was.

    Parts that are there already get the aspects they lack; then the pictures that are not indexed yet get all
    aspects, in one pass; then come the codes and lists. The finished index does not depend on how often the build was
    stopped, nor on how many workers embedded.

    Args:
        config: What to build.
        embedder: The model; by default ``load_embedder`` loads the one that ``config`` names. Several workers are each
            sent a copy.
        engine: Embeds, and stays open, so that several builds load the model once; by default that of ``config``.
        on_accepted: Called once it is known that the data and the index can be used, before anything long begins.

    Raises:
        SourceError: There are no pictures where ``config.data`` says.
        IndexDirectoryError: The output folder cannot be used or written.
        ModelError: The model is unknown, is not the index's, or gives vectors that must not be stored.
        AspectError: An aspect cannot be told from another one, or holds characters that nobody sees.
        BuildError: No picture could be indexed, an indexed picture that is needed has changed, or workers die again and
            again.
    """
    started = time.monotonic()
    out = given_path(config.out, what="the output folder", kind=IndexDirectoryError)
    if config.data is None and not out.exists():
        raise BuildError(f"there is no index at {out} yet; say with --data where the pictures are")
    with output_folder(out) as before:
        work = _prepare(config, out, before)
        if on_accepted is not None:
            on_accepted()
        with _engine(config, before, embedder, engine) as opened:
            manifest = _first_manifest(work, before, opened.model)
            state = picture_state(before) if before is not None else PictureState((), ())
            added: tuple[Aspect, ...] = ()
            if before is not None:
                manifest, added = _add_missing_aspects(work, opened, manifest, before, state)
            manifest = index_new_pictures(work, opened, manifest, before)
            mended = 0
            if config.retry_failed and work.opened is not None:
                now = IndexDirectory.open(out, known=before, hold=False)
                manifest, mended = retry_failed(work, opened, now)
        coded = aspects_to_code(manifest, wanted=config.codes)
        if coded:
            manifest = make_codes(IndexDirectory.open(out, hold=False), coded, progress=config.progress).manifest
        if config.codes is not False and (lists := lists_to_make(manifest, wanted=None)):
            make_lists(IndexDirectory.open(out, hold=False), lists, progress=config.progress)
    old = before.manifest.parts if before is not None else ()
    images, errors = (sum(getattr(part, what) for part in manifest.parts) for what in ("rows", "errors"))
    return BuildSummary(
        images=images - sum(part.rows for part in old),
        errors=max(0, errors + mended - sum(part.errors for part in old)),
        parts=len(manifest.parts) - len(old),
        total_parts=len(manifest.parts),
        aspects_added=added,
        aspects_coded=coded,
        mended=mended,
        total_images=manifest.live,
        total_errors=errors,
        changed=len(state.changed),
        vanished=len(state.vanished),
        seconds=time.monotonic() - started,
    )


def _prepare(config: BuildConfig, out: Path, before: IndexDirectory | None) -> BuildWork:
    old = before.manifest if before is not None else None
    # Overall first: every index has it, because the penalty needs it.
    known = old.aspects if old is not None else (OVERALL,)
    aspects = unique_aspects((*known, *new_aspects(config.aspects, known=known)))
    opened = open_index_source(config, out, before)
    if old is None and opened is None:
        raise BuildError(f"there is no index at {out} yet; say with --data where the pictures are")
    if old is not None and (opened is not None or config.shard_slice is not None):
        check_slice(out, old, config.shard_slice)
    if old is not None and config.thumbnails not in (None, old.thumbnail_side):
        has = "no thumbnails" if old.thumbnail_side is None else f"thumbnails of {old.thumbnail_side} pixels"
        raise BuildError(
            f"the index {out} has {has}; make others with: tpips-index thumbnails {shlex.quote(str(out))} --side "
            f"{config.thumbnails}, and new pictures get them too"
        )
    return BuildWork(config, out, aspects, opened)


def _engine(
    config: BuildConfig, before: IndexDirectory | None, embedder: Embedder | None, engine: Engine | None
) -> AbstractContextManager[Engine]:
    if engine is not None:
        return nullcontext(engine)
    if embedder is not None:
        return open_engine(config, partial(_same, embedder), loads=False)
    name = config.model or (before.manifest.model.name if before is not None else "mini")
    options = {"max_pixels": config.max_pixels, "max_tokens_per_batch": config.max_tokens_per_batch}
    return open_engine(config, partial(load_embedder, name, **options), loads=True)


def _same(embedder: Embedder) -> Embedder:
    return embedder


def _first_manifest(work: BuildWork, before: IndexDirectory | None, model: ModelRecord) -> Manifest:
    if before is None:
        assert work.opened is not None
        config = work.config
        return Manifest(
            model, work.opened.records, work.aspects, (), slice=config.shard_slice, thumbnail_side=config.thumbnails
        )
    record = before.manifest.model
    if (record.fingerprint, record.dim) != (model.fingerprint, model.dim):
        raise ModelError(
            f"the index {work.out} was made by the model {record.name!r} (fingerprint {record.fingerprint}, "
            f"{record.dim} dimensions), and not by {model.name!r} (fingerprint {model.fingerprint}, {model.dim} "
            "dimensions); use the index's model, or build another index with another --out"
        )
    sources = work.opened.records if work.opened is not None else before.manifest.sources
    return replace(before.manifest, aspects=work.aspects, sources=sources)


def _add_missing_aspects(
    work: BuildWork, engine: Engine, manifest: Manifest, before: IndexDirectory, state: PictureState
) -> tuple[Manifest, tuple[Aspect, ...]]:
    lacking = {part.id: tuple(a for a in work.aspects if not part.has(a)) for part in manifest.parts}
    added = tuple(aspect for aspect in work.aspects if any(aspect in missing for missing in lacking.values()))
    if not added:
        return manifest, ()
    if state.changed or state.vanished:
        raise BuildError(
            f"cannot add {', '.join(repr(aspect.text) for aspect in added)}: {state.describe()}; restore them, or "
            "build a new index with another --out"
        )
    tasks = [PartTask(part, lacking[part.id]) for part in manifest.parts if lacking[part.id]]
    label = f"adding {counted(len(added), 'aspect')}"
    job = PartJob(before, work.config.batch_size)
    with (
        BuildProgress.over(tasks, label=label, shown=work.config.progress) as progress,
        work.commits(manifest) as commits,
        closing(engine.run(job, tasks, taken=KeySet(lambda part: ()), progress=progress)) as results,
    ):
        for result in results:
            commits.add(partial(with_vectors, work.out, added=cast(PartVectors, result)))
    return commits.manifest, added
