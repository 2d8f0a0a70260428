"""Contact sheets: queries and their first hits, for the eye to judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from train.mini_dataset import FAMILIES_PER_SHARD, FamilyData, ShardPlan, family_seeds
from train.paraphrases import HELD_PARAPHRASES
from train.photo_edits import EDITS, untouched
from train.photo_evaluation import PhotoBank
from train.retrieval_views import View
from train.scene_evaluation import query_rows, ranked
from train.scenes import FACTORS, FAMILY_SIZE, family

__all__ = ["contact_sheet", "write_photo_sheets", "write_scene_sheets"]

QUERIES = 5
HITS = 6
TILE = 112
MARGIN = 4
HEADER = 22


def contact_sheet(
    title: str, rows: Sequence[Sequence[Image.Image]], right: NDArray[np.bool_] | None = None
) -> Image.Image:
    """Lay out queries with their hits.

    Args:
        title: Written on top.
        rows: One row a query: the query's picture, then its hits, best first.
        right: bool (rows, hits); hits that share the query's value get a green frame, others a red one.

    Returns:
        An RGB image; the queries stand in the first column, apart from the hits.
    """
    columns = max(len(row) for row in rows)
    step = TILE + 2 * MARGIN
    sheet = Image.new("RGB", (columns * step + 2 * MARGIN, HEADER + len(rows) * step), "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, 3), title, fill="black", font=ImageFont.load_default(15))
    for number, row in enumerate(rows):
        for place, picture in enumerate(row):
            left = place * step + MARGIN + (2 * MARGIN if place else 0)
            top = HEADER + number * step + MARGIN
            if place and right is not None:
                color = "green" if right[number, place - 1] else "red"
                draw.rectangle((left - 3, top - 3, left + TILE + 2, top + TILE + 2), outline=color, width=3)
            sheet.paste(picture.resize((TILE, TILE), Image.Resampling.LANCZOS), (left, top))
    return sheet


def write_scene_sheets(folder: Path, view: View, data: FamilyData, plan: ShardPlan) -> None:
    """Write one sheet per factor, ``scenes-<factor>.png``: queries and hits from unseen procedural families.

    Args:
        folder: Where.
        view: Of the families' pictures.
        data: The families.
        plan: What they were made from, to draw the pictures shown again.
    """
    for factor in FACTORS:
        known = np.array([row for row, value in enumerate(data.values[factor]) if value is not None])
        queries = query_rows(data, factor)
        queries = queries[np.linspace(0, len(queries) - 1, min(QUERIES, len(queries))).astype(int)]
        vectors = view([HELD_PARAPHRASES[factor][0]])[:, 0]
        outside = (queries // FAMILY_SIZE)[:, None] != (known // FAMILY_SIZE)[None]
        hits = known[ranked(vectors[queries] @ vectors[known].T, outside, HITS)]
        values = np.array([str(value).split("/")[0] for value in data.values[factor]])
        rows = [[_scene(plan, row) for row in (query, *found)] for query, found in zip(queries, hits, strict=True)]
        sheet = contact_sheet(
            f'scenes by "{HELD_PARAPHRASES[factor][0]}"', rows, values[hits] == values[queries][:, None]
        )
        sheet.save(folder / f"scenes-{factor.replace('_', '-')}.png")


def _scene(plan: ShardPlan, row: int) -> Image.Image:
    number, member = divmod(row, FAMILY_SIZE)
    shard, place = divmod(number, FAMILIES_PER_SHARD)
    return family(family_seeds(plan, shard)[place], held=plan.held).pictures[member].draw()


def write_photo_sheets(folder: Path, view: View, bank: PhotoBank, pictures: Sequence[Image.Image]) -> None:
    """Write one sheet per edited factor, ``photos-<factor>.png``, and one for the subject.

    A query's own photograph is left out of its hits, under whatever edits, so that content cannot help; by subject it
    is what should be found.

    Args:
        folder: Where.
        view: Of the bank's pictures.
        bank: Which photographs they show, and under which edits.
        pictures: The bank's pictures, as drawn.
    """
    photos = np.array([photo for photo, _ in bank.made])
    for factor in (*EDITS, "subject"):
        own = next((name for name, edit in EDITS.get(factor, {}).items() if edit is untouched), "")
        values = np.array([dict(edits).get(factor, own) for _, edits in bank.made])
        if factor == "subject":
            values = photos
        asked = np.flatnonzero(values != own) if factor in EDITS else np.arange(len(values))
        queries = asked[np.linspace(0, len(asked) - 1, min(QUERIES, len(asked))).astype(int)]
        vectors = view([HELD_PARAPHRASES[factor][0]])[:, 0]
        allowed = photos[queries][:, None] != photos[None]
        if factor == "subject":
            allowed = queries[:, None] != np.arange(len(photos))[None]
        hits = ranked(vectors[queries] @ vectors.T, allowed, HITS)
        rows = [[pictures[number] for number in (query, *found)] for query, found in zip(queries, hits, strict=True)]
        sheet = contact_sheet(
            f'photos by "{HELD_PARAPHRASES[factor][0]}"', rows, values[hits] == values[queries][:, None]
        )
        sheet.save(folder / f"photos-{factor.replace('_', '-')}.png")
