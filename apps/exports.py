"""Results to take along: a table, JSON, one sheet with all pictures, and the pictures' files."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import zipfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from indexer.thumbnails import small_picture
from search import Hit, Hits
from tpips_model.errors import TpipsError
from tpips_model.images import to_rgb

__all__ = ["contact_sheet", "to_csv", "to_zip"]

CELL, GAP, CAPTION = 240, 16, 46
COLUMNS = 6
# The query's pictures, beside what is asked of them.
ASKED = 96
# Pillow's own font has no letter beyond ASCII.
FONT = Path(__file__).with_name("assets") / "fonts" / "DejaVuSans.ttf"
INK, FAINT, PAPER = "#1d1f24", "#6b6f78", "#fbfaf8"
MAX_ZIP_BYTES = 512 << 20
# Spreadsheets run cells that begin so as formulas.
FORMULA = re.compile(r"^[=+\-@\t\r]")


def to_csv(hits: Hits) -> str:
    """Return the results as CSV: rank, key, score, each row's share, metadata; text only, never a formula."""
    shares = [f"share {n}: {term.weight:g} x {term.label} by {term.aspect}" for n, term in enumerate(hits.terms, 1)]
    metadata = list(dict.fromkeys(name for hit in hits for name in hit.metadata))
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(map(_cell, ["rank", "key", "score", *shares, *metadata]))
    for hit in hits:
        values = [hit.metadata.get(name) for name in metadata]
        writer.writerow(map(_cell, [hit.rank, hit.key, hit.score, *hit.contributions, *values]))
    return stream.getvalue()


def contact_sheet(hits: Hits) -> bytes:
    """Return one PNG with the query and all results, each with its rank, score and key."""
    rows = -(-len(hits) // COLUMNS)
    width = COLUMNS * (CELL + GAP) + GAP
    head = ASKED + 2 * GAP
    sheet = Image.new("RGB", (width, head + rows * (CELL + CAPTION + GAP) + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    large, small = ImageFont.truetype(FONT, 21), ImageFont.truetype(FONT, 13)
    left = GAP
    for term in {id(term.source): term for term in hits.terms}.values():
        # Gone since: its name says what it was.
        with contextlib.suppress(TpipsError):
            picture = to_rgb(term.thumbnail(ASKED))
            sheet.paste(picture, (left, GAP + (ASKED - picture.height) // 2))
            left += picture.width + GAP
    asked = " + ".join(f"{term.weight:g} × {term.label} by {term.aspect}" for term in hits.terms)
    draw.text((left, GAP + 14), _fitting(draw, asked, large, width - left - GAP), INK, large)
    facts = f"{len(hits)} of {hits.selected:,} pictures, overall penalty {hits.overall_penalty:g}"
    if hits.where is not None:
        facts += f", where {hits.where}"
    draw.text((left, GAP + 52), _fitting(draw, facts, small, width - left - GAP), FAINT, small)
    for place, hit in enumerate(hits):
        left = GAP + (place % COLUMNS) * (CELL + GAP)
        top = head + (place // COLUMNS) * (CELL + CAPTION + GAP)
        _paste(sheet, draw, hit, left, top)
        words = f"{hit.rank}   {hit.score:+.3f}"
        draw.text((left, top + CELL + 4), words, INK, small)
        draw.text((left, top + CELL + 23), _fitting(draw, hit.key, small, CELL), FAINT, small)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def to_zip(hits: Hits) -> bytes:
    """Return the results' own files in a ZIP, numbered by rank, with the results as JSON beside them.

    What cannot be read any more is left out, and listed in a file of its own.

    Raises:
        TpipsError: They are too large together, or none can be read any more.
    """
    buffer = io.BytesIO()
    total = 0
    missing: list[str] = []
    # The pictures are compressed already.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for hit in hits:
            total += int(hit.record["size"])
            if total > MAX_ZIP_BYTES:
                raise TpipsError(
                    f"the pictures of this page have over {MAX_ZIP_BYTES >> 20} MB together; show fewer on a page"
                )
            try:
                archive.writestr(f"{hit.rank:04d}-{_file_name(hit.key)}", hit.index.item_bytes(hit.record))
            except TpipsError as error:
                if len(missing) == len(hits) - 1:
                    raise TpipsError(f"none of the pictures' files can be read any more: {error}") from error
                missing.append(f"{hit.rank:04d} {error}")
        if missing:
            archive.writestr("missing.txt", "\n".join(missing) + "\n")
        archive.writestr("results.json", hits.to_json(indent=1))
    return buffer.getvalue()


def _paste(sheet: Image.Image, draw: ImageDraw.ImageDraw, hit: Hit, left: int, top: int) -> None:
    try:
        picture = to_rgb(small_picture(hit.index, hit.row, hit.record, CELL))
    except TpipsError:
        draw.rectangle((left, top, left + CELL, top + CELL), "#e6e3dd")
        draw.text((left + 12, top + CELL // 2 - 8), "picture not available", FAINT, ImageFont.truetype(FONT, 13))
        return
    sheet.paste(picture, (left + (CELL - picture.width) // 2, top + (CELL - picture.height) // 2))


def _fitting(draw: ImageDraw.ImageDraw, text: str, font: object, width: int) -> str:
    shown = " ".join(text.split())
    if draw.textlength(shown, font) <= width:  # type: ignore[arg-type]
        return shown
    low, high = 0, len(shown)
    while low < high:
        middle = (low + high + 1) // 2
        fits = draw.textlength(f"{shown[:middle]}…", font) <= width  # type: ignore[arg-type]
        low, high = (middle, high) if fits else (low, middle - 1)
    return f"{shown[:low]}…"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
    return f"'{text}" if isinstance(value, str) and FORMULA.match(text) else text


def _file_name(key: str) -> str:
    """Return a name that is safe in any folder; the rank before it keeps names apart."""
    name = re.sub(r"[^\w.-]+", "_", key.replace("\\", "/").rsplit("/", 1)[-1]).strip("._")
    return name[-100:] or "picture"
