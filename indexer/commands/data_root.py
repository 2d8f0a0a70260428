"""The option --data-root: where the pictures are now, of each of an index's sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from indexer.given_path import given_path
from indexer.manifest import IndexDirectoryError

__all__ = ["DataRoots", "given_data_root"]

DataRoots = Annotated[
    list[str] | None,
    typer.Option(
        "--data-root",
        metavar="[PREFIX=]FOLDER",
        help="Where the pictures are now, if they were moved since they were indexed. Of an index of several places, "
        "PREFIX= says whose: what the keys of its pictures begin with, with or without the slash; may be given several "
        "times.",
        show_default=False,
    ),
]


def given_data_root(given: Sequence[str] | None) -> dict[str, Path] | None:
    """Return what --data-root was given as a mapping from the prefix of a source to its folder.

    A folder without a prefix is that of the first source, whose prefix is empty. Where a name has several "=", the
    prefix ends at the one behind which there is a folder. It may be given with the slash that follows it in a key.

    Args:
        given: Each time it was given.

    Raises:
        IndexDirectoryError: A folder is empty, not there or cannot be looked at, or two are given for one source.
    """
    found: dict[str, Path] = {}
    for text in given or ():
        prefix, folder = _prefix_and_folder(text)
        if not folder:
            raise IndexDirectoryError(f"--data-root {text!r} names no folder; give FOLDER or PREFIX=FOLDER")
        prefix = prefix.rstrip("/") or prefix
        if prefix in found:
            whose = f"the pictures whose keys begin with {prefix!r}" if prefix else "the first pictures of the index"
            raise IndexDirectoryError(
                f"--data-root says twice where {whose} are: {str(found[prefix])!r} and {folder!r}; give each place "
                "once, those of further sources as PREFIX=FOLDER"
            )
        found[prefix] = _path(folder)
        if not found[prefix].is_dir():
            raise IndexDirectoryError(
                f"--data-root {text!r}: there is no folder {folder!r}; give the one that the pictures are in now"
            )
    return found or None


def _prefix_and_folder(text: str) -> tuple[str, str]:
    steps = text.split("=")
    splits = [("=".join(steps[:number]), "=".join(steps[number:])) for number in range(len(steps))]
    there = (split for split in splits if split[1] and _path(split[1]).is_dir())
    return next(there, splits[min(1, len(splits) - 1)])


def _path(folder: str) -> Path:
    return given_path(folder, what="--data-root", kind=IndexDirectoryError)
