"""Index: what is in it, what was left out, and a map to wander in."""

from __future__ import annotations

import streamlit as st

from apps.aspect_map import FEWEST, positions
from apps.aspect_words import explanation
from apps.components import component, take_action
from apps.index_view import IndexView, picture_address
from apps.page_style import lead_html, plain
from apps.picture_items import SMALL, hit_items, term_records
from apps.picture_vectors import sample_vectors
from apps.resources import Resources
from apps.screens.picture_wall import show_wall
from indexer.index_summary import IndexSummary, summarise

__all__ = ["show"]

MAP = "index-map"
MAX_ON_MAP = 1000
NEAREST = 14
# Streamlit breaks a cell's lines at a third of the page.
_STYLE = "<style>.st-key-left-out td * { max-width: none !important; white-space: normal !important; }</style>"


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    st.title("What is in this index")
    st.html(lead_html("Wander among the pictures, and see in which senses they were looked at and what was left out."))
    summary = summarise(resources.searcher.index)
    _show_facts(resources, summary)
    _show_map(resources)
    _show_aspects(summary)
    _show_errors(summary)


def _show_facts(resources: Resources, summary: IndexSummary) -> None:
    columns = [facet.column for facet in resources.view.facets if facet.column not in ("key", "width", "height")]
    vectors = sum(aspect.bytes + aspect.codes_bytes for aspect in summary.aspects)
    with st.container(horizontal=True, gap="small", key="facts"):
        for label, value, words in (
            ("Pictures", f"{summary.images:,}", "All that can be found."),
            ("Senses", str(len(resources.aspects)), "What they can be alike in; listed below the map."),
            (
                "Vectors on disk",
                megabytes(vectors),
                "What the model noted of every picture in every sense; searching reads it.",
            ),
            ("Left out", f"{summary.errors:,}", "Files that could not be read as pictures; the reasons are below."),
            ("Model", summary.model.partition("?")[0].rsplit("/", 1)[-1], "What looked at the pictures."),
        ):
            st.metric(label, plain(value), border=True, width=180, help=words)
    details = f"{summary.path} · pictures from {summary.source} · vectors of {summary.dim} numbers"
    if columns:
        details += f" · filters by {', '.join(columns)}"
    st.caption(plain(details))


def _show_map(resources: Resources) -> None:
    st.subheader("A map", anchor=False)
    view = resources.view
    seed = st.session_state.setdefault("map-seed", 1)
    rows = view.sample_rows(MAX_ON_MAP, seed)
    if len(rows) < FEWEST:
        st.info(f"A map needs at least {FEWEST} pictures.")
        return
    aspect = st.segmented_control(
        "Pictures that are alike lie close together, by", resources.aspects, default=resources.aspects[0],
        required=True, key="map-aspect", format_func=plain,
    )  # fmt: skip
    with st.spinner("Drawing the map…"):
        places = _places(view.stamp, aspect, seed, view)
    items = [
        {
            "key": record["key"],
            "src": picture_address(view.index, row, SMALL),
            "x": x,
            "y": y,
            "ratio": min(max(record["width"] / max(record["height"], 1), 0.5), 2.0),
        }
        for row, record, (x, y) in zip(rows, view.records(rows), places, strict=True)
    ]

    def on_act() -> None:
        st.session_state["map-chosen"] = take_action(MAP).get("key")

    chosen = str(st.session_state.get("map-chosen") or "")
    label = f"A map of {len(items)} pictures by {aspect}: arrow keys move, plus and minus zoom"
    component("map", {"name": aspect, "label": label, "items": items, "chosen": chosen}, key=MAP, on_act=on_act)
    total = len(resources.searcher)
    part = f"{len(rows):,} of the {total:,} pictures, drawn at random. " if len(rows) < total else ""
    st.caption(
        f"{part}Drag to wander; wheel or pinch to come closer, where dots become pictures; click one to see its "
        "neighbours."
    )
    if part:
        st.button("Show others", icon=":material/shuffle:", key="map-others", on_click=_draw_others)
    if chosen in resources.searcher.keys:
        hits = resources.searcher.query([(chosen, aspect)], NEAREST)
        st.markdown(f"Nearest to **{plain(chosen)}** by {plain(aspect)}, among all pictures")
        show_wall(
            resources, hit_items(hits), "map-near", label="Nearest pictures", strip=True, height=130,
            terms=term_records(hits),
        )  # fmt: skip


@st.cache_data(show_spinner=False, max_entries=32)
def _places(stamp: str, aspect: str, seed: int, _view: IndexView) -> list[list[float]]:
    """Return the map's places; stamp, aspect and seed tell one map from another."""
    places: list[list[float]] = positions(sample_vectors(_view, _view.sample_rows(MAX_ON_MAP, seed), aspect)).tolist()
    return places


def _draw_others() -> None:
    st.session_state["map-seed"] += 1


def _show_aspects(summary: IndexSummary) -> None:
    st.subheader("Senses", anchor=False)
    lines = []
    for aspect in sorted(summary.aspects, key=lambda one: one.text == "overall"):
        line = {"sense": plain(aspect.text), "looks at": plain(explanation(aspect.text))}
        # Columns that would say the same of every sense are left out.
        if not all(one.complete for one in summary.aspects):
            line["ready"] = "yes" if aspect.complete else "not for all pictures yet"
        line["vectors"] = megabytes(aspect.bytes)
        if any(one.coded for one in summary.aspects):
            line["codes for fast search"] = megabytes(aspect.codes_bytes) if aspect.coded else "none"
        lines.append(line)
    st.table(lines)
    if summary.complete_with:
        st.info(f"Some senses are not complete. Complete them with {plain(summary.complete_with)}")


def _show_errors(summary: IndexSummary) -> None:
    st.subheader("Left out", anchor=False)
    if not summary.errors:
        st.write("Nothing: every picture could be read.")
        return
    st.write(f"{summary.errors:,} pictures could not be read:")
    st.html(_STYLE)
    st.container(key="left-out").table(
        [
            {
                "reason": plain(reason),
                "pictures": f"{count:,}",
                "such as": plain(", ".join(summary.error_examples.get(reason, []))),
            }
            for reason, count in summary.errors_by_reason.items()
        ]
    )


def megabytes(count: int) -> str:
    """Return a size in words.

    >>> megabytes(12_345), megabytes(3_200_000_000)
    ('12 kB', '3.2 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"
