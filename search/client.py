"""A client of ``tpips-serve``: asked as a Searcher is, and answering as it does."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from PIL import Image

from search.answer import make_page
from search.hits import Hits
from search.live.look import LiveLook, as_look
from search.remote_hits import RemoteHits, RemoteImage, read_hits
from search.remote_transport import RemoteError, Transport, expected_of
from search.selection import Where
from search.terms import QueryError, Term, TermLike, finite_number, parse_terms
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.errors import AspectError
from tpips_model.images import ImageLike, to_rgb

__all__ = ["Client", "RemoteError"]


class Client:
    """Queries the index of a ``tpips-serve`` over HTTP; threads may share it.

    Pictures are sent to the server, keys are looked up there. Needs the packages of the extra "serve".

    Args:
        url: Where the server is, such as "http://127.0.0.1:8600".
        api_key: The server's key, if it has one.
        timeout: How many seconds one answer may take.
        retries: How often a request is tried again, after growing pauses, if the server cannot be reached or is busy.

    Raises:
        RemoteError: The address is none.

    Examples:
        >>> with Client("http://127.0.0.1:8600") as client:  # doctest: +SKIP
        ...     client.query([("a.jpg", "subject"), ("b.jpg", "color palette", 0.7)], k=20)
        <Hits: 20 of 360 items for 1 × a.jpg by subject + 0.7 × b.jpg by color palette>
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 60.0, retries: int = 3) -> None:
        self.url = url
        self._server = Transport(url, api_key, timeout=timeout, retries=retries)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __len__(self) -> int:
        with expected_of(self.url):
            return int(self._server.json("GET", "/index")["items"])

    def __repr__(self) -> str:
        return f"<Client: {self.url}>"

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be asked for."""
        with expected_of(self.url):
            return tuple(Aspect(found["aspect"]) for found in self._server.json("GET", "/index")["aspects"])

    def keys(self, offset: int = 0, limit: int = 100) -> list[str]:
        """Return some of the items' keys in row order."""
        with expected_of(self.url):
            return list(self._server.json("GET", "/items", params={"offset": offset, "limit": limit})["keys"])

    def item_bytes(self, key: str) -> bytes:
        """Return the bytes of an item's picture file.

        Raises:
            QueryError: No item has this key.
            IndexDirectoryError: Its picture is gone.
        """
        return bytes(self._server.send("GET", f"{_item_path(key)}/image").content)

    def query(
        self,
        terms: Iterable[TermLike],
        k: int = 10,
        overall_penalty: float = 0.0,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> Hits:
        """Return what ``Searcher.query`` gives at the server.

        Args and errors are those of ``Searcher.query``; a text that is neither a key there nor a file here is an
        error, and so is a ``where`` that is not text. What a ``LiveLook`` shows of progress stays at the server.

        Raises:
            TpipsError: As ``Searcher.query``.
            RemoteError: The server cannot be reached or refuses.
        """
        options = _options(k, exclude_queries, where, min_score, offset, dedupe, exact, nprobe, live)
        request, images = self._terms(parse_terms(terms))
        penalty = finite_number(overall_penalty, "the overall penalty")
        body = {"terms": request, "overall_penalty": penalty, **options}
        return self._hits(self._server.json("POST", "/query", json=body), images, body)

    def query_batch(
        self,
        queries: Iterable[Iterable[TermLike]],
        k: int = 10,
        overall_penalty: float = 0.0,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> list[Hits]:
        """Return what ``Searcher.query_batch`` gives at the server; arguments and errors are as for ``query``."""
        options = _options(k, exclude_queries, where, min_score, offset, dedupe, exact, nprobe, live)
        penalty = finite_number(overall_penalty, "the overall penalty")
        if isinstance(queries, (str, bytes, Term)) or not isinstance(queries, Iterable):
            raise QueryError(f"queries must be a list of lists of terms, not {type(queries).__name__}")
        asked = []
        for number, terms in enumerate(queries, start=1):
            try:
                asked.append(self._terms(parse_terms(terms)))
            except (QueryError, AspectError) as error:
                raise type(error)(f"query {number} of the batch: {error}") from error
        shared = {"overall_penalty": penalty, **options}
        body = {"queries": [request for request, _ in asked], **shared}
        with expected_of(self.url):
            answers = self._server.json("POST", "/query/batch", json=body)["answers"]
            return [
                self._hits(answer, images, {"terms": request, **shared})
                for answer, (request, images) in zip(answers, asked, strict=True)
            ]

    def similar(
        self,
        image: ImageLike,
        aspect: AspectLike,
        k: int = 10,
        overall_penalty: float | None = None,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> Hits:
        """Return what ``Searcher.similar`` gives at the server; arguments and errors are as for ``query``."""
        options = _options(k, exclude_queries, where, min_score, offset, dedupe, exact, nprobe, live)
        if overall_penalty is not None:
            options["overall_penalty"] = finite_number(overall_penalty, "the overall penalty")
        (term,), images = self._terms(parse_terms([Term(image, aspect)]))
        asked = {name: value for name, value in term.items() if name != "weight"}
        answer = self._server.json("POST", "/similar", json={**asked, **options})
        with expected_of(self.url):
            return self._hits(
                answer, images, {"terms": [term], **options, "overall_penalty": answer["overall_penalty"]}
            )

    def _terms(self, terms: Sequence[Term]) -> tuple[list[dict[str, Any]], list[RemoteImage]]:
        """Return terms as the server reads them, and their images."""
        request, images = [], []
        for term in terms:
            label, data = self._picture(term.image)
            image = {"key": label} if data is None else {"picture": base64.b64encode(data).decode()}
            request.append({**image, "aspect": Aspect.of(term.aspect).text, "weight": term.weight})
            read = partial(self.item_bytes, label) if data is None else partial(bytes, data)
            images.append(RemoteImage(label, read))
        return request, images

    def _picture(self, image: ImageLike) -> tuple[str, bytes | None]:
        """Return what to call an image, and its bytes; none if it is a key."""
        # As locally, a text is a key if there is such an item, else the path of a file.
        if isinstance(image, str) and (not _is_file(image) or self._has(image)):
            return image, None
        if isinstance(image, (str, os.PathLike)):
            if not _is_file(image):
                raise QueryError(f"there is no picture file {os.fspath(image)!r} (give a key as text)")
            return Path(image).name, Path(image).read_bytes()
        if isinstance(image, bytes):
            return f"picture of {len(image):,} bytes", image
        name = getattr(image, "filename", None) if isinstance(image, Image.Image) else None
        label = Path(name).name if isinstance(name, str) and name else f"{type(image).__name__} picture"
        buffer = io.BytesIO()
        to_rgb(image).save(buffer, "PNG")  # loses nothing of what the model sees
        return label, buffer.getvalue()

    def _has(self, key: str) -> bool:
        try:
            self._server.send("GET", _item_path(key))
        except QueryError:
            return False
        return True

    def _hits(self, answer: Any, images: Sequence[RemoteImage], asked: dict[str, Any]) -> RemoteHits:
        def percentile(score: float) -> float:
            body = {**asked, "scores": [float(score)]}
            with expected_of(self.url):
                return float(self._server.json("POST", "/query/percentile", json=body)["percentiles"][0])

        with expected_of(self.url):
            return read_hits(answer, images, item_bytes=self.item_bytes, percentile=percentile)


def _options(
    k: int,
    exclude_queries: bool,
    where: Where | None,
    min_score: float | None,
    offset: int,
    dedupe: float | None,
    exact: bool | None,
    nprobe: int | None,
    live: int | LiveLook | None,
) -> dict[str, Any]:
    """Return the arguments that all queries share as the server reads them, checked as the Searcher checks them."""
    page, look = make_page(k, offset, min_score, dedupe, exclude_queries, exact, nprobe), as_look(live)
    if where is not None and not isinstance(where, str):
        raise QueryError(
            f"where must be a filter as text such as 'year >= 1900' to be sent to a server, not {type(where).__name__}"
        )
    return {
        "k": page.k,
        "offset": page.offset,
        "exclude_queries": bool(page.exclude_queries),
        "where": where,
        "min_score": page.min_score,
        "dedupe": page.dedupe,
        "exact": page.exact,
        "nprobe": page.nprobe,
        "live": None if look is None else look.candidates,
    }


def _item_path(key: str) -> str:
    # Dots are left by quote, and a segment of one or two would be taken for a place.
    quoted = quote(key, safe="", errors="surrogatepass") if key.strip(".") else key.replace(".", "%2E")
    return f"/items/{quoted}"


def _is_file(path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:  # a null character
        return False
