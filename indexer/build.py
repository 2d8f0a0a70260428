"""Building an index: shards become parts, and the manifest names them one by one."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from indexer.added_aspects import add_aspects
from indexer.build_config import BuildConfig, BuildError, BuildSummary
from indexer.codes import aspects_to_code, make_codes
from indexer.columns import LedgerLine
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.given_path import given_path
from indexer.index_sources import open_index_source
from indexer.lists import lists_to_make, make_lists
from indexer.manifest import Manifest, ModelRecord
from indexer.output_folder import output_folder
from indexer.part import write_manifest, write_part
from indexer.pictures import PictureState, picture_state
from indexer.progress import BuildProgress
from indexer.shard_rows import embed_shard
from indexer.sources import Indexed, Shard, Source
from tpips_model.aspects import OVERALL, Aspect, unique_aspects
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder

__all__ = ["build"]

_SHOWN_REASONS = 3


def build(config: BuildConfig, *, embedder: Embedder | None = None) -> BuildSummary:
    """Build an index, or what is missing from one; a build stopped anywhere goes on where it was.

    Parts that are there already get the aspects they lack; then the pictures that are not indexed yet get all
    aspects, in one pass; then come the codes and lists. The finished index does not depend on how often the build was
    stopped.

    Args:
        config: What to build.
        embedder: The model; by default ``load_embedder`` loads the one that ``config`` names.

    Raises:
        SourceError: There are no pictures where ``config.data`` says.
        IndexDirectoryError: The output folder cannot be used or written.
        ModelError: The model is unknown, is not the index's, or gives vectors that must not be stored.
        AspectError: An aspect cannot be told from another one.
        BuildError: No picture could be indexed, or an indexed picture that is needed has changed.
    """
    started = time.monotonic()
    out = given_path(config.out, what="the output folder", kind=IndexDirectoryError)
    if config.data is None and not out.exists():
        raise BuildError(f"there is no index at {out} yet; say with --data where the pictures are")
    with output_folder(out) as before:
        work = _prepare(config, out, before, embedder)
        state = picture_state(before) if before is not None else PictureState((), ())
        added = _add_missing_aspects(work, before, state) if before is not None else ()
        manifest = _index_new_pictures(work, before)
        coded = aspects_to_code(manifest, wanted=config.codes)
        if coded:
            manifest = make_codes(IndexDirectory.open(out, hold=False), coded, progress=config.progress).manifest
        if config.codes is not False and (lists := lists_to_make(manifest, wanted=None)):
            make_lists(IndexDirectory.open(out, hold=False), lists, progress=config.progress)
    old = before.manifest.parts if before is not None else ()
    images, errors = (sum(getattr(part, what) for part in manifest.parts) for what in ("rows", "errors"))
    return BuildSummary(
        images=images - sum(part.rows for part in old),
        errors=errors - sum(part.errors for part in old),
        parts=len(manifest.parts) - len(old),
        aspects_added=added,
        aspects_coded=coded,
        total_images=images,
        total_errors=errors,
        changed=len(state.changed),
        vanished=len(state.vanished),
        seconds=time.monotonic() - started,
    )


@dataclass
class _Work:
    """What a build works with; ``manifest`` is what the index holds so far."""

    config: BuildConfig
    out: Path
    embedder: Embedder
    source: Source | None
    manifest: Manifest

    def record(self, manifest: Manifest) -> None:
        """Take a new manifest, and write it once the index holds a picture.

        An index of ledger lines alone would keep mended pictures from ever being read again.
        """
        self.manifest = manifest
        if any(part.rows for part in manifest.parts):
            write_manifest(self.out, manifest)


def _prepare(config: BuildConfig, out: Path, before: IndexDirectory | None, embedder: Embedder | None) -> _Work:
    old = before.manifest if before is not None else None
    # Overall first: every index has it, because the penalty needs it.
    aspects = unique_aspects((*(old.aspects if old is not None else (OVERALL,)), *config.aspects))
    opened = open_index_source(config, out, before)
    if opened is None and before is None:
        raise BuildError(f"there is no index at {out} yet; say with --data where the pictures are")
    source = opened.source if opened is not None else None
    if embedder is None:
        embedder = load_embedder(
            config.model or (old.model.name if old is not None else "mini"),
            max_pixels=config.max_pixels,
            max_tokens_per_batch=config.max_tokens_per_batch,
        )
    if old is not None:
        _check_model(out, old.model, embedder)
        sources = opened.records if opened is not None else old.sources
        return _Work(config, out, embedder, source, replace(old, aspects=aspects, sources=sources))
    assert opened is not None
    model = ModelRecord(
        name=embedder.name,
        fingerprint=embedder.fingerprint,
        dim=embedder.dim,
        prompt_template=embedder.prompt_template,
        recommended_overall_penalty=float(embedder.recommended_overall_penalty),
    )
    return _Work(config, out, embedder, source, Manifest(model, opened.records, aspects, ()))


def _check_model(out: Path, record: ModelRecord, embedder: Embedder) -> None:
    if (record.fingerprint, record.dim) != (embedder.fingerprint, embedder.dim):
        raise ModelError(
            f"the index {out} was made by the model {record.name!r} (fingerprint {record.fingerprint}, {record.dim} "
            f"dimensions), and not by {embedder.name!r} (fingerprint {embedder.fingerprint}, {embedder.dim} "
            "dimensions); use the index's model, or build another index with another --out"
        )


def _add_missing_aspects(work: _Work, before: IndexDirectory, state: PictureState) -> tuple[Aspect, ...]:
    aspects = work.manifest.aspects
    lacking = {part.id: [a for a in aspects if not part.has(a)] for part in work.manifest.parts}
    added = tuple(aspect for aspect in aspects if any(aspect in missing for missing in lacking.values()))
    if not added:
        return ()
    if state.changed or state.vanished:
        raise BuildError(
            f"cannot add {', '.join(repr(aspect.text) for aspect in added)}: {state.describe()}; restore them, or "
            "build a new index with another --out"
        )
    shards = [Shard(part.shards[0], samples=part.rows) for part in work.manifest.parts if lacking[part.id]]
    label = f"adding {len(added)} aspect{'s' if len(added) > 1 else ''}"
    with BuildProgress.over(shards, label=label, shown=work.config.progress) as progress:
        for part in before.manifest.parts:
            if lacking[part.id]:
                grown = add_aspects(
                    before,
                    part,
                    work.embedder,
                    lacking[part.id],
                    batch_size=work.config.batch_size,
                    advance=progress.advance,
                )
                parts = (grown if known.id == part.id else known for known in work.manifest.parts)
                work.record(replace(work.manifest, parts=tuple(parts)))
    return added


def _index_new_pictures(work: _Work, before: IndexDirectory | None) -> Manifest:
    if work.source is None:
        return work.manifest
    items = set(before.items(["key"])["key"].to_pylist()) if before is not None else set()
    ledger = before.errors()["key"].to_pylist() if before is not None else []
    names = frozenset(shard for part in work.manifest.parts for shard in part.shards)
    shards = work.source.shards(Indexed(keys=frozenset(items).union(ledger), shards=names))
    lines: list[LedgerLine] = []
    with BuildProgress.over(shards, label="indexing", shown=work.config.progress and bool(shards)) as progress:
        for shard in shards:
            lines += _index_shard(work, shard, items, progress)
    if not any(part.rows for part in work.manifest.parts):
        raise BuildError(_nothing_indexed(work.source, lines))
    return work.manifest


def _index_shard(work: _Work, shard: Shard, taken: set[str], progress: BuildProgress) -> list[LedgerLine]:
    assert work.source is not None
    rows = embed_shard(
        work.source.read(shard),
        work.embedder,
        work.manifest.aspects,
        batch_size=work.config.batch_size,
        taken=taken,
        advance=progress.advance_to,
    )
    number = max((part.id for part in work.manifest.parts), default=-1) + 1
    part = write_part(work.out, number, shard=shard.name, items=rows.items, errors=rows.errors, vectors=rows.vectors)
    work.record(replace(work.manifest, parts=(*work.manifest.parts, part)))
    taken.update(item.key for item in rows.items)
    progress.end_shard(shard)
    return rows.errors


def _nothing_indexed(source: Source, lines: list[LedgerLine]) -> str:
    reasons = Counter(line.reason for line in lines).most_common()
    shown = [f"{count} × {reason} (such as {_key_of(lines, reason)!r})" for reason, count in reasons[:_SHOWN_REASONS]]
    if len(reasons) > _SHOWN_REASONS:
        shown.append(f"{len(reasons) - _SHOWN_REASONS} more reasons")
    why = "; ".join(shown) or f"as a source of kind {source.kind} it has no rows and no pictures"
    return f"no picture of {source.root} could be indexed: {why}. Nothing was written"


def _key_of(lines: list[LedgerLine], reason: str) -> str:
    return next(line.key for line in lines if line.reason == reason)
