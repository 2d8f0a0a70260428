"""Where an index goes if nobody says so: the current folder, under the name of its data."""

from __future__ import annotations

import os
import re
from pathlib import Path

from indexer.building.build_config import BuildError
from indexer.sources.file_kinds import COMPRESSED_TAR_ENDINGS
from indexer.sources.keys import plain_step
from indexer.sources.options import without_options
from indexer.sources.registry import SOURCES
from indexer.sources.urls import is_url, redacted

__all__ = ["chosen_index", "default_index"]

_ENDINGS = (*COMPRESSED_TAR_ENDINGS, ".tar", ".parquet", ".pq", ".csv", ".tsv")
_PATTERN = re.compile(r"[{*?\[]")
_SPLIT = re.compile(r"[?&]split=([\w.-]+)")


def chosen_index(data: str | None, out: Path | None) -> Path:
    """Return the index directory that is meant: the one given, or the default one of the data.

    Raises:
        BuildError: Neither is given.
    """
    if out is not None:
        return out
    if data is None:
        raise BuildError(
            "say with --data where the pictures are, such as --data ~/Pictures, --data wikiart or --data demo; or with "
            "--out which index aspects are to be added to"
        )
    return default_index(data)


def default_index(data: str) -> Path:
    """Return where an index goes by default: ``NAME-index`` in the current folder.

    The name is that of the folder or file, of the folder that a pattern's files are in, or of the data set; so the same
    command always means the same index.

    Args:
        data: What ``--data`` takes.

    Examples:
        >>> [str(default_index(data)) for data in ("wikiart", "folder:/home/Pictures", "/data/shards/{000..127}.tar")]
        ['wikiart-index', 'Pictures-index', 'shards-index']
        >>> [str(default_index(data)) for data in ("hf:huggan/wikiart?split=test", "https://x.org/cats.tar.gz?sig=1")]
        ['wikiart-test-index', 'cats-index']
    """
    kind, _, place = data.partition(":")
    bare, question, options = data.partition("?")
    if bare in SOURCES:
        kind, place = bare, question + options
    elif kind not in SOURCES:
        kind, place = "", data
    name = _place_name(place) or kind or "pictures"
    split = _SPLIT.search(place) if kind in ("hf", "openimages") else None
    return Path(f"{name}-{split[1]}-index" if split is not None else f"{name}-index")


def _place_name(place: str) -> str:
    """Return the last name in a path, pattern or address that is no pattern; nothing if there is none."""
    if is_url(place):
        steps = redacted(place).partition("://")[2].split("/")
        found = next((step for step in reversed(_plain_steps(steps)) if step), "")
        return plain_step(_without_ending(found))
    place = without_options(place) if not place.startswith("?") else ""
    if not place:
        return ""
    path = Path(os.path.expanduser(place))
    if not os.path.lexists(path):
        path = Path(*_plain_steps(path.parts))
    path = Path(os.path.abspath(path))
    return plain_step(path.name if path.is_dir() else _without_ending(path.name))


def _plain_steps(steps: tuple[str, ...] | list[str]) -> list[str]:
    """Return the steps before the first that is a pattern."""
    first = next((number for number, step in enumerate(steps) if _PATTERN.search(step)), len(steps))
    return list(steps[:first])


def _without_ending(name: str) -> str:
    ending = next((one for one in _ENDINGS if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)] or name
