"""Requests to a ``tpips-serve``, tried again where that may help, and its refusals as the errors of the Searcher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from indexer import IndexDirectoryError
from search.terms import QueryError
from tpips_model.errors import AspectError, ImageError, ModelError, TpipsError
from tpips_model.extras import install_extra

if TYPE_CHECKING:
    import httpx

__all__ = ["RemoteError", "Transport", "expected_of"]

# What the local Searcher raises for the same fault; every other kind is a RemoteError.
_ERRORS: dict[str, type[TpipsError]] = {
    "query": QueryError,
    "request": QueryError,
    "key": QueryError,
    "aspect": AspectError,
    "image": ImageError,
    "picture": IndexDirectoryError,
    "index": IndexDirectoryError,
    "model": ModelError,
}
BACKOFF_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 10.0


class RemoteError(TpipsError):
    """A server that cannot be reached, refuses to answer, or answers something else."""


class Transport:
    """Sends requests to one server; threads may share it.

    Args:
        url: Where the server is.
        api_key: Its key, if it has one.
        timeout: How many seconds one answer may take.
        retries: How often a request is tried again, after growing pauses, if the server cannot be reached or is busy.

    Raises:
        RemoteError: The address is none, or the packages are not installed.
    """

    def __init__(self, url: str, api_key: str | None, *, timeout: float, retries: int) -> None:
        try:
            import httpx
            from httpx_retries import Retry, RetryTransport
        except ImportError as error:
            raise RemoteError(
                f"the client needs packages that are not installed ({error}); install them with: "
                f"{install_extra('serve')}"
            ) from error
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise RemoteError(f"{url!r} is no address of a server ({error}); give http://host:port") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise RemoteError(f"{url!r} is no address of a server; give http://host:port")
        retry = Retry(
            total=retries,
            # A query changes nothing, so that asking it twice does no harm.
            allowed_methods=["GET", "POST"],
            status_forcelist=[503],
            retry_on_exceptions=[httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.RemoteProtocolError],
            backoff_factor=BACKOFF_SECONDS,
            max_backoff_wait=LONGEST_WAIT_SECONDS,
        )
        self._url = url
        self._http = httpx.Client(
            base_url=parsed,
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            timeout=timeout,
            transport=RetryTransport(retry=retry),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def json(self, method: str, path: str, **request: Any) -> Any:
        """Send a request and return the JSON that is answered.

        Raises:
            TpipsError: As ``send``.
        """
        with expected_of(self._url):
            return self.send(method, path, **request).json()

    def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request and return the answer, which is a good one.

        Raises:
            TpipsError: The server refuses; of the type that the local Searcher raises.
            RemoteError: It cannot be reached, or is no tpips-serve.
        """
        import httpx

        try:
            answer = self._http.request(method, path, **request)
        except UnicodeEncodeError as error:
            raise QueryError(f"the query holds characters that no text has ({error.object!r:.200})") from error
        except httpx.HTTPError as error:
            raise RemoteError(f"cannot ask {self._url}: {error or type(error).__name__}; is the server up?") from error
        if answer.is_success:
            return answer
        try:
            fault = answer.json()["error"]
            kind, message = str(fault["kind"]), str(fault["message"])
        except (ValueError, KeyError, TypeError):
            raise RemoteError(f"{self._url} answers {answer.status_code} {answer.reason_phrase}") from None
        raise _ERRORS.get(kind, RemoteError)(message)


@contextmanager
def expected_of(url: str) -> Iterator[None]:
    """Take an answer apart in here: what is missing or of another kind was not sent by a tpips-serve.

    Raises:
        RemoteError: Something is.
    """
    try:
        yield
    except TpipsError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:  # ValueError: JSON and its encoding, too
        raise RemoteError(f"{url} answers, but not as a tpips-serve does ({error!r})") from error
