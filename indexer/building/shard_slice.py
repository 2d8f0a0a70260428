"""One slice of a source's shards, so that many builds that know nothing of each other index it together."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from indexer.building.build_config import BuildError
from indexer.manifest import Manifest
from indexer.sources import Indexed, Shard, Source
from tpips_model.counted import counted

__all__ = ["check_slice", "slice_shards"]


def check_slice(out: Path, before: Manifest, wanted: tuple[int, int] | None) -> None:
    """Check that an index is gone on with as the slice that it was begun as.

    Raises:
        BuildError: It is another one, or the whole.
    """
    if before.slice == wanted:
        return
    if before.slice is None:
        assert wanted is not None
        raise BuildError(
            f"the index {out} was not begun as slice {wanted[0]}/{wanted[1]} but as a whole; leave out --shard-slice, "
            "or give another folder with --out"
        )
    number, count = before.slice
    raise BuildError(
        f"the index {out} is slice {number}/{count} of its data; give --shard-slice {number}/{count} to go on with it, "
        "or put the slices together with tpips-index merge"
    )


def slice_shards(source: Source, wanted: tuple[int, int], done: Set[str]) -> list[Shard]:
    """Return what is still to be indexed of one of n runs of a source's shards, as equal as can be.

    The slice is one of all shards, whatever has been indexed already: so their names are those of a build in one piece,
    and slices never overlap as long as the data stay as they are.

    Args:
        source: The source.
        wanted: (i, n), from 1 on.
        done: The names of the shards that are indexed.

    Raises:
        BuildError: There are fewer shards than slices, so that some would have none and they could never be merged.
    """
    number, count = wanted
    shards = source.shards(Indexed())
    if len(shards) < count:
        raise BuildError(
            f"{source.root} has {counted(len(shards), 'shard')}, too few for {count:,} slices: some would be empty, "
            f"and tpips-index merge needs every one. Give --shard-slice I/{len(shards)} at most, or "
            f"{_smaller(shards, count)}"
        )
    own = shards[(number - 1) * len(shards) // count : number * len(shards) // count]
    return [shard for shard in own if shard.name not in done]


def _smaller(shards: Sequence[Shard], count: int) -> str:
    """Say how there would be so many shards."""
    known = [shard.samples for shard in shards if shard.samples is not None]
    if len(known) < len(shards):
        return "more and smaller files: each of them is a shard"
    if sum(known) < count:
        return f"I/{sum(known)} with --shard-size 1, for there are no more pictures"
    return f"smaller shards, such as --shard-size {sum(known) // count} for every slice"
