"""Options behind a place, such as ``?image=photo&key=id``."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from indexer.sources.source import SourceError
from indexer.sources.urls import is_url, is_web_url, redacted

__all__ = ["flag", "split_options", "without_options"]

_OPTIONS = re.compile(r"(.*?)\?([A-Za-z_]+=[^&]*(?:&[A-Za-z_]+=[^&]*)*)", re.DOTALL)
_FLAGS = {"yes": True, "no": False}


def split_options(place: str, known: Collection[str], *, kind: str) -> tuple[str, dict[str, str]]:
    """Take the options off the end of a place; values may be percent-encoded.

    A web address keeps all fields of its query but those that are options.

    Raises:
        SourceError: An option is unknown, or given twice.

    Examples:
        >>> split_options("a.csv?image=photo%20file", ["image"], kind="csv")
        ('a.csv', {'image': 'photo file'})
        >>> split_options("https://x.org/a.parquet?sig=1&image=b", ["image"], kind="parquet")
        ('https://x.org/a.parquet?sig=1', {'image': 'b'})
    """
    options: dict[str, str] = {}
    if is_web_url(place):
        place, question, query = place.partition("?")
        kept = []
        for field in query.split("&") if question else []:
            name, equals, value = field.partition("=")
            if equals and name in known:
                _add(options, name, value, kind)
            else:
                kept.append(field)
        return (f"{place}?{'&'.join(kept)}" if kept else place), options
    match = _OPTIONS.fullmatch(place)
    if match is None:
        return place, options
    for field in match[2].split("&"):
        name, _, value = field.partition("=")
        if name not in known:
            shown = redacted(match[1]) if is_url(match[1]) else match[1]
            takes = f"takes {', '.join(f'{one}=…' for one in known)}" if known else "takes none"
            raise SourceError(f"--data {kind}: unknown option {name!r} behind {shown!r}; {kind} {takes}")
        _add(options, name, value, kind)
    return match[1], options


def without_options(data: str) -> str:
    """Return what stands before options, if there are any.

    >>> without_options("a.csv?image=x"), without_options("shards/0?.tar")
    ('a.csv', 'shards/0?.tar')
    """
    match = _OPTIONS.fullmatch(data)
    return match[1] if match is not None else data


def flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is yes or no.

    Raises:
        SourceError: It is neither.
    """
    value = options.get(name, "yes" if default else "no")
    if value not in _FLAGS:
        raise SourceError(f"the option {name}={value} should be {name}=yes or {name}=no")
    return _FLAGS[value]


def _add(options: dict[str, str], name: str, value: str, kind: str) -> None:
    if name in options:
        raise SourceError(f"--data {kind}: the option {name} is given twice")
    if not value:
        raise SourceError(f"--data {kind}: the option {name} has no value; write {name}=VALUE")
    options[name] = unquote(value)
