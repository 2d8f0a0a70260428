"""Remote files: of web servers, and of object stores through fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from indexer.sources.download import Answer, download
from indexer.sources.source import SourceError
from indexer.sources.urls import is_web_url, redacted, without_secrets
from indexer.sources.web import open_web, tried_again
from indexer.sources.web_request import FetchError

__all__ = ["CloudFile", "RemoteFile", "WebFile", "cache_folder", "matching_urls", "remote_file"]


class RemoteFile(Protocol):
    """A file elsewhere, which can be fetched to this machine.

    Attributes:
        shown: Its name for messages, without secrets.
    """

    @property
    def shown(self) -> str: ...

    def fetch(self, path: Path) -> None:
        """Fetch it to ``path``.

        Raises:
            SourceError: It cannot be fetched.
        """
        ...

    def tail(self, count: int) -> bytes | None:
        """Return its last ``count`` bytes (all, if it has fewer), or ``None`` if it can only be read whole.

        Raises:
            SourceError: It cannot be read.
        """
        ...


@dataclass(frozen=True)
class WebFile:
    """A file of an http or https server, whose address the user gave.

    Attributes:
        url: Its address; what is secret in it is neither shown nor stored.
        headers: Sent to this server alone.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        return redacted(self.url)

    def fetch(self, path: Path) -> None:
        download(self._opened, path, shown=self.shown)

    def tail(self, count: int) -> bytes | None:
        def work() -> bytes | None:
            with open_web(self.url, private=True, last=count, headers=self.headers) as answer:
                whole = answer.start == 0 and answer.total is not None and answer.total <= count
                if answer.start == 0 and not whole:
                    return None  # it sends the whole file whatever it is asked for
                return b"".join(iter(lambda: answer.read(1 << 16), b""))

        try:
            return tried_again(work)
        except FetchError as error:
            if str(error).startswith("answered 416"):
                return None
            raise SourceError(f"cannot read {self.shown}: it {error}") from error

    def _opened(self, start: int, version: str | None) -> AbstractContextManager[Answer]:
        return open_web(self.url, private=True, start=start, version=version, headers=self.headers)


@dataclass
class _StreamAnswer:
    stream: Any
    start: int
    total: int | None
    version: str | None

    def read(self, count: int) -> bytes:
        try:
            data: bytes = self.stream.read(count)
            return data
        except Exception as error:  # every store has failures of its own kinds
            raise FetchError(f"broke off: {type(error).__name__}", transient=True) from error


@dataclass(frozen=True)
class CloudFile:
    """A file of an object store that fsspec knows: s3, gs, az and others. Keys come from where its library looks."""

    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        return redacted(self.url)

    def fetch(self, path: Path) -> None:
        download(self._opened, path, shown=self.shown)

    def tail(self, count: int) -> bytes | None:
        store, name = _store(self.url)
        with _store_faults(self.url):
            size = int(store.info(name)["size"])
            data: bytes = store.cat_file(name, start=max(size - count, 0), end=size)
            return data

    @contextmanager
    def _opened(self, start: int, version: str | None) -> Iterator[Answer]:
        store, name = _store(self.url)
        with _store_faults(self.url):
            size, now = int(store.info(name)["size"]), str(store.checksum(name))
            stream = store.open(name, "rb")
        with stream:
            place = start if version == now and start <= size else 0
            stream.seek(place)
            yield _StreamAnswer(stream, place, size, now)


def remote_file(url: str) -> RemoteFile:
    """Return the file of an address."""
    return WebFile(url) if is_web_url(url) else CloudFile(url)


def matching_urls(url: str) -> list[str]:
    """Return the files that an address with wildcards means, sorted; an address without any means itself.

    Raises:
        SourceError: It names none, or the server lists no files.
    """
    if is_web_url(url):
        if "*" in url:
            raise SourceError(f"{redacted(url)}: a web server lists no files; give them like {{000..127}} instead of *")
        return [url]
    store, name = _store(url)
    if not any(char in name for char in "*?["):
        return [url]
    with _store_faults(url):
        found = [str(store.unstrip_protocol(one)) for one in sorted(store.glob(name))]
    if not found:
        raise SourceError(f"{redacted(url)} names no files; look at its spelling")
    return found


def cache_folder() -> Path:
    """Return where fetched files are kept: ``TPIPS_CACHE``, or the user's cache folder."""
    given = os.environ.get("TPIPS_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "tpips-retrieval"


def _store(url: str) -> tuple[Any, str]:
    import fsspec  # type: ignore[import-untyped]

    scheme = url.partition("://")[0].lower()
    if "::" in url or scheme in ("file", "local") or scheme not in fsspec.available_protocols():
        raise SourceError(
            f"{redacted(url)} is of a kind that cannot be read; give a path, or an address of https, s3, gs or az"
        )
    with _store_faults(url):
        store, name = fsspec.core.url_to_fs(url)
    return store, name


@contextmanager
def _store_faults(url: str) -> Iterator[None]:
    try:
        yield
    except SourceError:
        raise
    except ImportError as error:
        raise SourceError(f"cannot read {redacted(url)}: {error}; install the package it names with pip") from error
    except FileNotFoundError as error:
        raise SourceError(f"{redacted(url)} does not exist; look at its spelling") from error
    except Exception as error:  # every store has failures of its own kinds
        reason = without_secrets(f"{error} ({type(error).__name__})", url)
        raise SourceError(
            f"cannot read {redacted(url)}: {reason:.200}; see to the keys and the network, and run the command again"
        ) from error
