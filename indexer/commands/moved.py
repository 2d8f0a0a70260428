"""The command ``tpips-index moved``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from indexer.directory import IndexDirectory, IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.index_changes import recorded
from indexer.index_sources import stored_root
from indexer.item_files import data_roots
from indexer.output_folder import output_folder
from indexer.pictures import picture_state
from tpips_model.counted import counted

__all__ = ["moved"]


def moved(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    folder: Annotated[Path, typer.Argument(help="Where the pictures are now.")],
    prefix: Annotated[
        str, typer.Option(help="Of an index of several places: what the keys of these pictures begin with.")
    ] = "",
) -> None:
    """Tell an index where its pictures are now, after they or the index have been moved."""
    path = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(path)  # so that no folder is made where there is no index
    root = given_path(folder, what="the folder of the pictures", kind=IndexDirectoryError)
    if not root.is_dir():
        raise IndexDirectoryError(f"the folder {root} does not exist; give the one that the pictures are in now")
    with output_folder(path) as index:
        assert index is not None
        sources = index.manifest.sources
        number = next((place for place, source in enumerate(sources) if source.prefix == prefix), None)
        if number is None:
            known = ", ".join(repr(source.prefix) for source in sources)
            raise IndexDirectoryError(f"no source of the index has the prefix {prefix!r}; there are {known}")
        changed = replace(sources[number], root=stored_root(root, index.path))
        manifest = replace(index.manifest, sources=(*sources[:number], changed, *sources[number + 1 :]))
        looked = IndexDirectory(index.path, manifest, data_roots(index.path, manifest.sources, None))
        state = picture_state(looked)
        if number in state.away:
            raise IndexDirectoryError(
                f"none of the pictures is in {root} under the name that it had; give the folder that takes the "
                f"place of {index.data_roots[number]}"
            )
        recorded(index, manifest)
    lost = (
        f"; in all {counted(len(state.vanished), 'is gone', 'are gone')} and "
        f"{counted(len(state.changed), 'has changed', 'have changed')}"
    )
    typer.echo(f"the pictures are in {root} now{lost if state.vanished or state.changed else ''}")
