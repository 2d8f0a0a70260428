"""The files that a pattern names, on this machine or elsewhere; those elsewhere are fetched when they are needed."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from braceexpand import alphabet, braceexpand

from indexer.sources.file_kinds import describe_file, describe_names
from indexer.sources.remote import RemoteFile, cache_folder, matching_urls, remote_file
from indexer.sources.source import SourceError
from indexer.sources.urls import is_url, local_name, redacted, without_secrets

__all__ = ["FileKind", "ShardFile", "expand_files", "root_of"]

_MAX_EXPANDED = 1_000_000
# What counts in a pattern of braces; a backslash takes the meaning of what follows it.
_BRACES = re.compile(r"\\.|\{(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?(\d+))?\}|[{},]", re.DOTALL)


@dataclass(frozen=True)
class FileKind:
    """The kind of files that a source reads.

    Attributes:
        noun: What one is called, such as ``".tar"``.
        matches: Whether a file of this name is one; asked where a folder is given.
        example: A pattern, for messages.
        nested: Whether folders inside the given one are looked into.
        instead: What to do with a folder that holds none.
    """

    noun: str
    matches: Callable[[str], bool]
    example: str
    nested: bool = False
    instead: str = "for a folder of pictures give --data folder:PATH"


@dataclass(frozen=True)
class ShardFile:
    """A file of pictures: where it lies, or will lie once it is fetched."""

    path: Path
    remote: RemoteFile | None = None

    @property
    def shown(self) -> str:
        """Its name for messages."""
        return str(self.path) if self.remote is None else self.remote.shown

    def fetched(self) -> Path:
        """Return its path, after it has been fetched if need be; two programs at once fetch it once.

        Raises:
            SourceError: It cannot be fetched.
        """
        if self.remote is not None and not self.path.exists():
            from filelock import FileLock  # brings asyncio and more, so only where something is fetched

            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(self.path.with_name(self.path.name + ".lock")):
                    if not self.path.exists():
                        self.remote.fetch(self.path)
            except OSError as error:
                raise SourceError(
                    f"cannot write {self.path}: {error.strerror or error}; set TPIPS_CACHE to another folder"
                ) from error
        return self.path

    def dropped(self, *made: Path) -> str:
        """Remove what was fetched and turned out to be of no use, so that it is fetched anew; own files are left.

        Args:
            made: What was made of it and goes with it.

        Returns:
            What was done about it, as the end of a message.

        Raises:
            SourceError: It cannot be removed.
        """
        kept = [path for path in (self.path, *made) if path.exists()]
        if self.remote is None or not kept:
            return ""
        looks = describe_file(kept[0])
        try:
            for path in kept:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise SourceError(f"cannot remove {path}: {error.strerror or error}; remove it and run again") from error
        return f"; what {self.shown} sent looks like {looks} and is removed, so that the next run fetches it anew"


def expand_files(pattern: str, kind: FileKind, *, exclude: Path | None = None) -> list[ShardFile]:
    """Return the files that a pattern names, in its order (a folder's or a wildcard's sorted by name).

    Args:
        pattern: A file, a folder, a pattern, or an address.
        kind: What is looked for in a folder.
        exclude: A folder that is not looked into: the index, should it lie among the files.

    Raises:
        SourceError: It names none, some of them are missing, or its braces do not match.
    """
    if is_url(pattern):
        try:
            urlsplit(pattern)
        except ValueError as error:
            raise SourceError(f"{redacted(pattern)} is no address that can be read ({error})") from error
        urls = [url for one in _expand_braces(pattern, kind) for url in matching_urls(one)]
        return [ShardFile(cache_folder() / "remote" / local_name(url), remote_file(url)) for url in urls]
    pattern = os.path.expanduser(pattern)
    if os.path.isdir(pattern):
        return [ShardFile(Path(pattern, name)) for name in _folder_files(pattern, kind, exclude)]
    names = [pattern] if os.path.exists(pattern) else _expand_braces(pattern, kind)
    found = [
        path
        for name in names
        for path in ([name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True)) or [name])
    ]
    missing = [name for name in found if not os.path.exists(name)]
    if missing:
        raise SourceError(
            f"{len(missing)} of the {len(found)} shards of {pattern!r} do not exist, the first is {missing[0]}; "
            f"give a pattern such as {kind.example}"
        )
    return [ShardFile(Path(name)) for name in found]


def root_of(paths: Sequence[Path], known: Path | None) -> tuple[Path, list[str]]:
    """Return the folder that files are named relative to, and each file's name.

    Args:
        paths: The files, at least one.
        known: The data root of the index, which is kept where it holds all files.

    Raises:
        SourceError: A name cannot be stored.
    """
    resolved = [path.resolve() for path in paths]
    deepest = Path(os.path.commonpath([path.parent for path in resolved]))
    root = known.resolve() if known is not None and deepest.is_relative_to(known.resolve()) else deepest
    names = [path.relative_to(root).as_posix() for path in resolved]
    for name in names:
        if not name.isprintable():
            raise SourceError(f"the shard name {name!r} cannot be stored; rename the file")
    return root, names


def _folder_files(folder: str, kind: FileKind, exclude: Path | None) -> list[str]:
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        if exclude is not None and Path(place).resolve() == exclude.resolve():
            folders[:] = []
            continue
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if kind.nested else []
        names += [os.path.relpath(os.path.join(place, name), folder) for name in files]
    found = sorted(name for name in names if kind.matches(name) and not os.path.basename(name).startswith("."))
    if not found:
        raise SourceError(f"the folder {folder} holds no {kind.noun} file, but {describe_names(names)}; {kind.instead}")
    return found


def _expand_braces(pattern: str, kind: FileKind) -> list[str]:
    if "{" not in pattern and "::" not in pattern:
        return [pattern]
    try:
        count = sum(_expanded_count(one) for one in pattern.split("::"))
        if count > _MAX_EXPANDED:
            raise ValueError(f"it names more than {_MAX_EXPANDED:,} files")
        return [name for one in pattern.split("::") for name in braceexpand(one)]
    except (ValueError, RecursionError) as error:
        shown, reason = pattern, str(error)
        if is_url(pattern):
            shown, reason = redacted(pattern), without_secrets(reason, pattern)
        raise SourceError(
            f"cannot expand the pattern {shown!r:.200} ({reason:.200}); write it like {kind.example}"
        ) from error


def _expanded_count(pattern: str) -> int:
    """Count what a pattern expands to, without expanding it: the library makes all of a range at once.

    Raises:
        ValueError: A range's end has too many digits.
    """
    # For every open brace the alternatives that are behind, and the number of the one that is being read.
    opened = [(0, 1)]
    for match in _BRACES.finditer(pattern):
        behind, now = opened[-1]
        if match[1] is not None:
            opened[-1] = behind, now * _range_size(match[1], match[2], match[3])
        elif match[0] == "{":
            opened.append((0, 1))
        elif match[0] == "," and len(opened) > 1:
            opened[-1] = behind + now, 1
        elif match[0] == "}" and len(opened) > 1:
            opened.pop()
            outer, factor = opened[-1]
            opened[-1] = outer, factor * (behind + now)
    return opened[0][1]


def _range_size(first: str, last: str, step: str | None) -> int:
    if first.isalpha() != last.isalpha():
        return 1  # no range
    start, end = (alphabet.index(one) if one.isalpha() else int(one) for one in (first, last))
    return abs(end - start) // (int(step or 1) or 1) + 1
