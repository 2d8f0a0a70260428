"""Pictures that a table names by path or by address."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from indexer.durable import make_folder, write_durably
from indexer.sources.file_kinds import is_picture_name, suffix
from indexer.sources.keys import plain_step
from indexer.sources.source import SourceError
from indexer.sources.urls import file_identity, is_url, is_web_url
from indexer.sources.web import fetch
from indexer.sources.web_request import FetchError
from indexer.stored_bytes import PictureReadError, read_stored

__all__ = ["NamedPictures", "StoredPicture", "address_key", "path_key"]

MAX_BYTES = 32 << 20
MAX_SECONDS = 60.0
_THREADS = 16
_LOOK_AHEAD = 32
# So many in a row that no server answers for are taken for a network that is gone.
_NETWORK_GONE = 50
_LONGEST_KEY = 512
_Owner = TypeVar("_Owner")


@dataclass(frozen=True)
class StoredPicture:
    """A picture's bytes, and the file under the root that holds them."""

    file: str
    data: bytes


class NamedPictures:
    """Reads pictures by the names that a table gives them.

    Paths are relative to the root and must stay inside it. Addresses are data, which anybody may have written: http and
    https only, not redirected to anything else, bounded in size and time, and by default not on this machine or in a
    private network. What is fetched is kept under the root, so that a hit can be shown, and is not fetched again.

    Args:
        root: The folder of the pictures.
        addresses: Whether the table names addresses rather than paths.
        private: Whether addresses may lead to this machine or a private network.
    """

    def __init__(self, root: Path, *, addresses: bool, private: bool = False) -> None:
        self.root = root.resolve()
        self.addresses = addresses
        self._private = private

    def read_all(self, asked: Iterable[tuple[_Owner, str]]) -> Iterator[tuple[_Owner, StoredPicture | str]]:
        """Read pictures in order, addresses several at a time.

        Args:
            asked: Whatever a picture belongs to, and its name.

        Yields:
            What it belongs to, and the picture or the reason why it cannot be read.

        Raises:
            SourceError: The network or the root is gone.
            IndexDirectoryError: A fetched picture cannot be written.
        """
        if not self.addresses:
            for owner, name in asked:
                yield owner, self._stored(name)
            return
        silent = 0
        for owner, future in _ahead(asked, self._fetched):
            try:
                picture: StoredPicture | str = future.result()
                silent = 0
            except FetchError as error:
                silent = silent + 1 if error.unreachable else 0
                picture = f"the address {error}"
                if silent >= _NETWORK_GONE:
                    raise SourceError(
                        f"no server answered for {silent} addresses in a row, the last being {picture!r}; see to the "
                        "network and run the same command again, or take these rows out of the table"
                    ) from error
            yield owner, picture

    def _stored(self, name: str) -> StoredPicture | str:
        if is_url(name):
            return "is an address among paths; put addresses into a table of their own"
        if not name.strip():
            return "the row names no picture"
        try:
            return self._inside(name)
        except PictureReadError as error:
            if not self.root.is_dir():
                raise SourceError(f"the folder {self.root} has gone; bring it back and run again") from error
            return str(error)
        except (OSError, ValueError, RuntimeError) as error:  # a null character, a name too long, links in a circle
            return f"cannot be read: {getattr(error, 'strerror', None) or error}"

    def _inside(self, name: str) -> StoredPicture | str:
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            return f"lies outside {self.root}; say where the pictures are with ?root=FOLDER"
        given = Path(name)
        file = given.relative_to(self.root) if given.is_absolute() and given.is_relative_to(self.root) else given
        shown = path.relative_to(self.root) if file.is_absolute() or ".." in file.parts else file
        shown.as_posix().encode()  # a UnicodeEncodeError is a ValueError
        return StoredPicture(shown.as_posix(), read_stored(path))

    def _fetched(self, url: str) -> StoredPicture:
        url = url.strip()
        if not url:
            raise FetchError("is missing")
        if not is_web_url(url):
            raise FetchError("is none of http or https")
        try:
            path = urlsplit(url).path
        except ValueError as error:
            raise FetchError(f"is none that can be read ({error})") from error
        digest = hashlib.sha256("".join(file_identity(url)).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        ending = suffix(path) if is_picture_name(path) else ""
        file = f"{digest[:2]}/{digest[2:]}{ending}"
        place = self.root / file
        if place.exists():
            try:
                return StoredPicture(file, read_stored(place))
            except PictureReadError as error:
                raise FetchError(f"was fetched to {file}, which {error}") from error
        data = fetch(url, max_bytes=MAX_BYTES, seconds=MAX_SECONDS, private=self._private)
        if not data:
            raise FetchError("holds nothing (0 bytes)")
        make_folder(place.parent)
        write_durably(place, data)
        return StoredPicture(file, data)


def path_key(name: str) -> str:
    """Return the key of a picture that a table names by path.

    >>> path_key("./a//b/../c.jpg")
    'a/b/__/c.jpg'
    """
    steps = [{"..": "__"}.get(step, step) for step in name.split("/") if step not in ("", ".")]
    return _bounded("/".join(map(plain_step, steps)))


def address_key(url: str) -> str:
    """Return the key of a picture that a table names by address: host and path, and a mark of the query.

    >>> address_key("https://me:pass@example.org/a.jpg?Expires=9&Signature=1f")
    'example.org/a.jpg'
    """
    address, mark = file_identity(url.strip())
    return path_key(address.partition("://")[2]) + mark


def _bounded(key: str) -> str:
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[:_LONGEST_KEY]}~{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _ahead(
    asked: Iterable[tuple[_Owner, str]], work: Callable[[str], StoredPicture]
) -> Iterator[tuple[_Owner, Future[StoredPicture]]]:
    """Give each owner in order with its work, of which some is done ahead by threads."""
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch")
        # An end before the last row waits for what has begun, and for nothing else.
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        begun: deque[tuple[_Owner, Future[StoredPicture]]] = deque()
        for owner, name in asked:
            begun.append((owner, pool.submit(work, name)))
            if len(begun) >= _LOOK_AHEAD:
                yield begun.popleft()
        while begun:
            yield begun.popleft()
