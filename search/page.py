"""Results as HTML: a page that stands alone, and a fragment for notebooks."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from tpips_model.errors import TpipsError

if TYPE_CHECKING:
    from search.hits import Hit, Hits
    from search.query_image import QueryImage

__all__ = ["render_fragment", "render_page", "write_page"]

# Twice the size in which they are shown, for sharp screens.
PAGE_THUMBNAIL = 440
FRAGMENT_THUMBNAIL = 280
TERM_COLOURS = 6
# How many near-duplicates of a result are named.
MAX_DUPLICATES = 50


@dataclass(frozen=True)
class _Thumbnail:
    """A picture as a data URI with its shown width and height, or the reason why there is none."""

    uri: str = ""
    width: int = 0
    height: int = 0
    fault: str = ""


@dataclass(frozen=True)
class _Share:
    """A term's share of a score as a bar: ``start`` and ``length`` in percent of the bar's width, zero at ``zero``."""

    value: float
    start: float
    length: float


def render_page(hits: Hits, *, title: str = "Similar pictures") -> str:
    """Return a whole HTML page that needs nothing from elsewhere: no script, no font, pictures inside."""
    return _render("page.html", hits, PAGE_THUMBNAIL, title=title)


def render_fragment(hits: Hits) -> str:
    """Return the results as an HTML element that takes its colours from where it is put."""
    return _render("fragment.html", hits, FRAGMENT_THUMBNAIL)


def write_page(hits: Hits, path: str | os.PathLike[str], *, title: str = "Similar pictures") -> None:
    """Write ``render_page`` to a file that is, at any moment, either wholly there or as it was before.

    Raises:
        TpipsError: It cannot be written.
    """
    target = Path(path)
    temporary = target.parent / f".page.{os.getpid()}.{threading.get_ident()}.tmp"  # short, however long the name
    page = render_page(hits, title=title).encode("utf-8", "replace")
    try:
        with open(temporary, "wb") as stream:
            stream.write(page)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or error
        raise TpipsError(
            f"cannot write the page {str(path)!r}: {reason}; give a file in an existing, writable folder"
        ) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink()


def _render(template: str, hits: Hits, size: int, **more: Any) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("search"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A term's image is drawn once, however many terms share it.
    sources = {id(term.source): _thumbnail(term.source, size) for term in hits.terms}
    pictures = [_thumbnail(hit, size) for hit in hits]
    return environment.get_template(template).render(
        hits=[
            {"hit": hit, "picture": picture, "shares": shares}
            for hit, picture, shares in zip(hits, pictures, _bars(hits), strict=True)
        ],
        away=sum(not picture.uri for picture in pictures),
        terms=[{"term": term, "picture": sources[id(term.source)]} for term in hits.terms],
        answer=hits,
        zero=_zero(hits)[0],
        colours=TERM_COLOURS,
        max_duplicates=MAX_DUPLICATES,
        **more,
    )


def _thumbnail(source: Hit | QueryImage, size: int) -> _Thumbnail:
    try:
        jpeg = source.thumbnail(size)
    except TpipsError as error:
        return _Thumbnail(fault=str(error))  # shown in the picture's place
    with Image.open(io.BytesIO(jpeg)) as image:
        width, height = image.size
    return _Thumbnail(f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}", width, height)


def _zero(hits: Hits) -> tuple[float, float]:
    """Return where zero stands on the bars, in percent, and how many percent one unit of score takes."""
    values = [value for hit in hits for value in hit.contributions]
    low, high = min([0.0, *values]), max([0.0, *values])
    scale = 100.0 / (high - low) if high > low else 0.0
    return -low * scale, scale


def _bars(hits: Hits) -> list[list[_Share]]:
    zero, scale = _zero(hits)
    return [
        [_Share(value, zero + min(value, 0.0) * scale, abs(value) * scale) for value in hit.contributions]
        for hit in hits
    ]
