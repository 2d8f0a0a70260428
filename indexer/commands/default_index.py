"""Where an index goes if nobody says so: the current folder, under the name of its data."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

from indexer.building.build_config import BuildError
from indexer.sources.file_kinds import COMPRESSED_TAR_ENDINGS
from indexer.sources.options import without_options
from indexer.sources.registry import SOURCES
from indexer.sources.urls import is_url, redacted

__all__ = ["chosen_index", "default_index"]

_ENDINGS = (*COMPRESSED_TAR_ENDINGS, ".tar", ".parquet", ".pq", ".csv", ".tsv")
_PATTERN = re.compile(r"[{*?\[]")
# What may stand behind these in an address is nobody's business, whether or not they are encoded.
_BEHIND = re.compile(r"[?#;]")
_LONGEST_NAME = 60
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
    command always means the same index. Of its characters only letters, digits and ``-_. `` stay, and at most
    ``_LONGEST_NAME`` of them; nothing that may be secret in an address does.

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
    name = _plain_name(_place_name(place, is_id=kind == "hf")) or kind or "pictures"
    split = _SPLIT.search(place) if kind in ("hf", "openimages") else None
    return Path(f"{_plain_name(f'{name}-{split[1]}' if split is not None else name)}-index")


def _plain_name(name: str) -> str:
    """Return a name as a folder can have it, and nobody takes for an option, a hidden file or a way to another folder.

    >>> _plain_name("[red]/a"), _plain_name(".."), len(_plain_name("x" * 300))
    ('red-a', '', 60)
    """
    name = unicodedata.normalize("NFC", name)
    plain = "".join(char if unicodedata.category(char)[0] in "LNM" or char in "_. " else "-" for char in name)
    return re.sub(r"-{2,}", "-", plain).strip(" .-")[:_LONGEST_NAME].rstrip(" .-")


def _place_name(place: str, *, is_id: bool) -> str:
    """Return the last name in a path, pattern, address or hub id that is no pattern; nothing if there is none."""
    if is_id or is_url(place):
        steps = without_options(place).split("/") if is_id else redacted(place).partition("://")[2].split("/")
        named = (step for step in map(_without_secrets, reversed(_plain_steps(steps))) if step.strip("."))
        return _without_ending(next(named, ""))
    place = without_options(place) if not place.startswith("?") else ""
    if not place:
        return ""
    path = Path(os.path.expanduser(place))
    if not os.path.lexists(path):
        steps = _plain_steps(path.parts)
        path = Path(*steps)
        if not os.path.lexists(path):  # whatever it is; a place here has no secrets in its name
            path = Path(*map(_without_secrets, steps))
    path = Path(os.path.abspath(path))
    return path.name if os.path.isdir(path) else _without_ending(path.name)


def _without_secrets(step: str) -> str:
    """Return what stands before a query, a fragment or parameters, however often they are encoded.

    >>> [_without_secrets(step) for step in ("a%3Ftoken=1f", "a;id=1f", "b%253Fc", "a%20b")]
    ['a', 'a', 'b', 'a b']
    """
    while (decoded := unquote(step)) != step:
        step = decoded
    return _BEHIND.split(step, maxsplit=1)[0]


def _plain_steps(steps: tuple[str, ...] | list[str]) -> list[str]:
    """Return the steps before the first that is a pattern."""
    first = next((number for number, step in enumerate(steps) if _PATTERN.search(step)), len(steps))
    return list(steps[:first])


def _without_ending(name: str) -> str:
    ending = next((one for one in _ENDINGS if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)] or name
