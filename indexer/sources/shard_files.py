"""The files that a pattern names, on this machine or elsewhere; those elsewhere are fetched when they are needed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from braceexpand import braceexpand

from indexer.sources.file_kinds import describe_names
from indexer.sources.remote import RemoteFile, cache_folder, matching_urls, remote_file
from indexer.sources.source import SourceError
from indexer.sources.urls import is_url, local_name, redacted, without_secrets

__all__ = ["FileKind", "ShardFile", "expand_files", "root_of"]


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
        return [name for one in pattern.split("::") for name in braceexpand(one)]
    except ValueError as error:
        shown, reason = pattern, str(error)
        if is_url(pattern):
            shown, reason = redacted(pattern), without_secrets(reason, pattern)
        raise SourceError(f"cannot expand the pattern {shown!r} ({reason}); write it like {kind.example}") from error
