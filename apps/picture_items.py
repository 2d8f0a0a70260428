"""What a wall of pictures shows of each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.index_view import picture_address
from apps.query_state import PictureRef
from apps.resources import Resources
from indexer import IndexDirectory
from search import Hit, Hits
from search.items import Items

__all__ = ["chosen_items", "hit_items", "record_items", "term_records"]

LARGE, SMALL = 1280, 360


def term_records(hits: Hits) -> list[dict[str, Any]]:
    """Return the terms as a wall's bars name them."""
    return [{"aspect": term.aspect.text, "label": term.label, "weight": term.weight} for term in hits.terms]


def hit_items(hits: Hits, before: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the results of a query as a wall shows them.

    Args:
        hits: The results.
        before: The keys of the results before the query was changed, best first: what stayed and what came is marked.
    """
    places = {key: place for place, key in enumerate(before, start=1)}
    marked = any(hit.key in places for hit in hits)
    return [_hit_item(hits, hit, places if marked else {}) for hit in hits]


def _hit_item(hits: Hits, hit: Hit, places: Mapping[str, int]) -> dict[str, Any]:
    item = _item(hit.index, hit.row, hit.record) | {
        "rank": hit.rank,
        "score": hit.score,
        "scoreNote": f"score, higher than {hits.percentile(hit.score):.1f} % of the pictures",
        "shares": list(hit.contributions),
        "alt": f"Result {hit.rank}: {hit.key}",
    }
    if hit.duplicates:
        item["facts"] = [*item["facts"], ["near-duplicates", ", ".join(hit.duplicates[:20])]]
    if places:
        item |= _change(places.get(hit.key), hit.rank)
    return item


def _change(before: int | None, now: int) -> dict[str, Any]:
    """Return how a result that was at one place, or at none, came to another."""
    if before is None:
        return {"mark": "new", "changed": "New since the last change."}
    moved = "=" if before == now else f"↑{before - now}" if before > now else f"↓{now - before}"
    return {"mark": "kept", "moved": moved, "changed": f"Was number {before} before the last change."}


def record_items(resources: Resources, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return some items of the index as a wall shows them."""
    view = resources.view
    return [_item(view.index, row, record) for row, record in zip(rows, view.records(rows), strict=True)]


def chosen_items(resources: Resources, refs: Sequence[PictureRef]) -> list[dict[str, Any]]:
    """Return pictures that were chosen as a wall shows them, each under its reference: uploads have no key."""
    return [
        {
            "key": str(ref),
            "title": resources.label(ref),
            "alt": f"Candidate {resources.label(ref)}",
            "src": resources.address(ref, SMALL),
        }
        for ref in refs
    ]


def _item(index: IndexDirectory, row: int, record: Mapping[str, Any]) -> dict[str, Any]:
    facts = [[name, _shown(value)] for name, value in Items.metadata(dict(record)).items() if value is not None]
    return {
        "key": record["key"],
        "title": record["key"],
        "alt": f"Picture {record['key']}",
        "src": picture_address(index, row, SMALL),
        "large": picture_address(index, row, LARGE),
        "full": picture_address(index, row, 0),
        "width": record["width"],
        "height": record["height"],
        "facts": [*facts, ["size", f"{record['width']} × {record['height']}"]] if record["width"] else facts,
    }


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
