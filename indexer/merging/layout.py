"""What a new index is made of: the indices in order, the aspects that all have, and what fits together of the rest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.directory import IndexDirectory
from indexer.file_names import quantizer_file
from indexer.manifest import Manifest
from indexer.merging.config import MergeConfig, MergeError
from indexer.merging.sources import PlacedSource, place_slices, place_sources
from indexer.records import FileRecord
from tpips_model.aspects import OVERALL, Aspect, AspectLike, unique_aspects

__all__ = ["Layout", "make_layout"]


@dataclass(frozen=True)
class Layout:
    """A merge that has been thought through.

    Attributes:
        indices: The indices in the order of their items.
        manifest: What the new index's manifest says, without parts.
        placed: For each index, where each of its sources went.
        shared: The numbers of the sources that several indices have; empty for slices.
        left_out: What the new index lacks of what the indices have.
        sliced: Whether the indices are the slices of one build.
    """

    indices: tuple[IndexDirectory, ...]
    manifest: Manifest
    placed: tuple[tuple[PlacedSource, ...], ...]
    shared: frozenset[int]
    left_out: tuple[str, ...]
    sliced: bool


def make_layout(config: MergeConfig, indices: Sequence[IndexDirectory], out: Path) -> Layout:
    """Find out whether and how indices can be merged.

    Raises:
        MergeError: They cannot.
        AspectError: Aspects of two of them cannot be told apart.
    """
    _check_models(indices)
    sliced = any(index.manifest.slice is not None for index in indices)
    if sliced:
        if config.prefixes:
            raise MergeError("--prefix is for indices of different pictures; leave it out to put slices together")
        indices = _in_order(indices)
    elif len(indices) < 2:
        raise MergeError(f"there is nothing to merge with {indices[0].path}; give at least two indices")
    sources = place_slices(indices, out) if sliced else place_sources(indices, out, config.prefixes)
    if sliced:
        _check_shards(indices)
    manifests = [index.manifest for index in indices]
    aspects = _aspects(indices, config.aspects)
    quantizers = _same_quantizers(manifests, aspects)
    lists = manifests[0].lists
    if any(one.lists != lists for one in manifests) or not quantizers.keys() >= manifests[0].quantizers.keys():
        lists = None
    side = manifests[0].thumbnail_side
    if any(one.thumbnail_side != side for one in manifests):
        side = None
    coded = {name for one in manifests for name in map(quantizer_file, aspects) if name in one.quantizers}
    left_out = {
        "codes": coded > quantizers.keys(),
        "lists": lists is None and any(one.lists is not None for one in manifests),
        "thumbnails": side is None and any(one.thumbnail_side is not None for one in manifests),
    }
    return Layout(
        indices=tuple(indices),
        manifest=Manifest(manifests[0].model, sources.records, aspects, (), quantizers, lists, thumbnail_side=side),
        placed=sources.placed,
        shared=sources.shared,
        left_out=tuple(what for what, is_so in left_out.items() if is_so),
        sliced=sliced,
    )


def _check_models(indices: Sequence[IndexDirectory]) -> None:
    first, *others = indices
    for other in others:
        one, two = first.manifest.model, other.manifest.model
        if (one.fingerprint, one.dim) != (two.fingerprint, two.dim):
            raise MergeError(
                f"{first.path} was made by the model {one.name!r} (fingerprint {one.fingerprint}, {one.dim} "
                f"dimensions), and {other.path} by {two.name!r} (fingerprint {two.fingerprint}, {two.dim} dimensions); "
                "only indices of one model can be merged"
            )
        if one.prompt_template != two.prompt_template:
            raise MergeError(
                f"{first.path} was made with the prompt template {one.prompt_template!r}, and {other.path} with "
                f"{two.prompt_template!r}; only indices of one template can be merged"
            )


def _in_order(indices: Sequence[IndexDirectory]) -> list[IndexDirectory]:
    """Return slices by their numbers, each there once."""
    by_number: dict[int, IndexDirectory] = {}
    first = next(index for index in indices if index.manifest.slice is not None)
    assert first.manifest.slice is not None
    count = first.manifest.slice[1]
    for index in indices:
        if index.manifest.slice is None:
            raise MergeError(
                f"{first.path} is slice {first.manifest.slice[0]}/{count} of its data, and {index.path} is no slice; "
                "put all slices together first, and then merge what came out with the others"
            )
        number, of = index.manifest.slice
        if of != count:
            raise MergeError(
                f"{first.path} is one of {count} slices, and {index.path} one of {of}; only slices of the same number "
                "can be put together"
            )
        if number in by_number:
            raise MergeError(f"{by_number[number].path} and {index.path} are both slice {number}/{count}; give one")
        by_number[number] = index
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in by_number]
    if missing:
        raise MergeError(
            f"of {count} slices {len(missing)} are missing: {', '.join(missing[:8])}"
            f"{', …' if len(missing) > 8 else ''}; give them too, each built with --shard-slice"
        )
    return [by_number[number] for number in sorted(by_number)]


def _check_shards(slices: Sequence[IndexDirectory]) -> None:
    owners: dict[str, IndexDirectory] = {}
    for index in slices:
        for shard in (shard for part in index.manifest.parts for shard in part.shards):
            if (other := owners.setdefault(shard, index)) is not index:
                raise MergeError(
                    f"{other.path} and {index.path} both hold the shard {shard!r}, so they are slices of different "
                    "builds, or the data changed between them; build them anew with the same options"
                )


def _aspects(indices: Sequence[IndexDirectory], wanted: Sequence[AspectLike]) -> tuple[Aspect, ...]:
    """Return the aspects of the new index, in the order of the first index."""
    everything = unique_aspects(aspect for index in indices for aspect in index.aspects)
    slugs = [{aspect.slug for aspect in index.aspects} for index in indices]
    common = [aspect for aspect in everything if all(aspect.slug in known for known in slugs)]
    asked = everything
    if wanted:
        asked = unique_aspects((*(aspect for aspect in common if aspect == OVERALL), *wanted))
    lacking = []
    for index, known in zip(indices, slugs, strict=True):
        if missing := [aspect.text for aspect in asked if aspect.slug not in known]:
            options = " ".join(f"--aspect {shlex.quote(text)}" for text in missing)
            added = f"tpips-index build --out {shlex.quote(str(index.path))} {options}"
            lacking.append(f"{index.path} lacks {', '.join(map(repr, missing))} (add with: {added})")
    if lacking:
        names = ", ".join(repr(aspect.text) for aspect in common) or "none"
        raise MergeError(
            f"the indices do not have the same aspects: {'; '.join(lacking)}; or choose with --aspect from those that "
            f"all have: {names}"
        )
    chosen = {aspect.slug for aspect in asked}
    return tuple(aspect for aspect in indices[0].aspects if aspect.slug in chosen)


def _same_quantizers(manifests: Sequence[Manifest], aspects: Sequence[Aspect]) -> dict[str, FileRecord]:
    """Return the quantizers that are the same file in all of them."""
    same = {}
    for name in map(quantizer_file, aspects):
        record, *others = (one.quantizers.get(name) for one in manifests)
        if record is not None and all(other == record for other in others):
            same[name] = record
    return same
