"""Annotate: collect human judgements, an aspect at a time (Figures 9 and 10)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from apps.annotation_items import KINDS, AnnotationItem, AnnotationKind, make_items
from apps.aspect_words import explanation
from apps.components import component, take_action
from apps.index_view import IndexView, picture_address
from apps.page_style import plain
from apps.resources import Resources
from apps.votes import VoteFolder, check_standing, session_name
from tpips_model.counted import counted
from tpips_model.errors import TpipsError

__all__ = ["show"]

CHIPS = "annotate-chips"
LABELS = {"odd-one-out": "Most different of three", "2afc": "Closer of two"}
SIZE = 720


@dataclass
class AnnotateSession:
    """What one session of the page remembers: items passed over, and what went wrong."""

    skipped: set[str] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: AnnotateSession = st.session_state.setdefault("annotate", AnnotateSession())
    folder = VoteFolder(resources.settings.votes, resources.vote_lock)
    st.title("Teach it what is alike")
    name, kind, seed, bar = _choose_sitting()
    for notice in session.notices:
        st.warning(plain(notice), icon=":material/warning:")
    session.notices = []
    if not name.strip():
        st.info(
            "Three pictures at a time: place every sense on the picture that you find most different by it, or closer. "
            "Type your name to begin. Every answer is saved at once; you can stop at any time and go on later."
        )
        return
    if not asked_aspects(resources, kind):
        st.info("This task asks by senses, and this index has none but overall; choose the other task.")
        return
    try:
        _show_next(resources, session, folder, kind, session_name(name, seed), seed, bar)
        _show_files(folder, kind, session_name(name, seed))
    except TpipsError as error:
        st.error(plain(error), icon=":material/error:")


def _choose_sitting() -> tuple[str, AnnotationKind, int, Any]:
    """Show who answers what, folded once there is a name; return the name, the task, the set, and a place beside."""
    name = str(st.session_state.get("annotator") or "").strip()
    number = st.session_state.get("annotate-set") or 1
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="sitting"):
        label = plain(f"{name} · set {number}")
        fields = st.popover(label, icon=":material/person:", key="sitting-fields") if name else st.container()
        bar = st.container()
    with fields, st.container(horizontal=not name, gap="small", vertical_alignment="bottom"):
        given = st.text_input(
            "Your name", key="annotator", max_chars=60, width=220, placeholder="so votes can be told apart"
        )
        kind = st.segmented_control(
            "Task", KINDS, default=KINDS[0], required=True, key="annotate-kind", format_func=LABELS.__getitem__
        )
        seed = st.number_input(
            "Set", 1, 9999, 1, key="annotate-set", width=120, help="Each number is another 40 items."
        )
    return given, kind, int(seed), bar


def _show_next(
    resources: Resources,
    session: AnnotateSession,
    folder: VoteFolder,
    kind: AnnotationKind,
    who: str,
    seed: int,
    bar: Any,
) -> None:
    items = _items(resources.view.stamp, kind, seed, resources.view)
    answered = folder.answered(kind, who)
    done = sum(item.id in answered for item in items)
    bar.progress(done / max(len(items), 1), f"{done} of {len(items)} saved")
    left = [item for item in items if item.id not in answered]
    waiting = [item for item in left if item.id not in session.skipped] or left
    if not waiting:
        st.success("All done, thank you. Choose another set for more.")
        return
    item = waiting[0]

    def on_act() -> None:
        act = take_action(CHIPS)
        if act.get("key") != item.id:
            return
        if act.get("action") == "skip":
            session.skipped.add(item.id)
            return
        try:
            folder.append(resources, item, who, _answers(str(act.get("choice")), item, resources))
        except TpipsError as error:
            session.notices.append(str(error))

    component("chips", chips_data(resources, item), key=CHIPS, on_act=on_act)


@st.cache_data(show_spinner="Choosing pictures…", max_entries=64)
def _items(stamp: str, kind: AnnotationKind, seed: int, _view: IndexView) -> list[AnnotationItem]:
    return make_items(_view, kind, seed)


def asked_aspects(resources: Resources, kind: AnnotationKind) -> list[str]:
    """Return what is asked about an item: 2AFC always names a sense (Appendix A.2)."""
    return [aspect for aspect in resources.aspects if kind == "odd-one-out" or aspect.casefold() != "overall"]


def _answers(text: str, item: AnnotationItem, resources: Resources) -> dict[str, str]:
    """Read what the page sent, trusting nothing in it."""
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise TpipsError(f"the answers did not arrive whole ({error}); answer again") from error
    asked = asked_aspects(resources, item.kind)
    if not isinstance(given, dict) or set(given) != set(asked):
        raise TpipsError(f"an answer is missing; the senses are {', '.join(asked)}")
    return {aspect: str(given[aspect]) for aspect in asked}


def chips_data(resources: Resources, item: AnnotationItem) -> dict[str, Any]:
    """Return what the page shows of an item."""
    odd = item.kind == "odd-one-out"
    pictures = [
        {
            "src": picture_address(resources.view.index, row, SIZE),
            "member": None if field == "ref_path" else field.removesuffix("_path"),
        }
        for field, row in zip(item.members, item.rows, strict=True)
    ]
    # The reference stands between the candidates.
    pictures = pictures if odd else [pictures[1], pictures[0], pictures[2]]
    keys = iter("123")
    for picture in pictures:
        picture["key"] = next(keys) if picture["member"] else None
        picture["alt"] = f"Picture {picture['key']}" if picture["member"] else "The reference"
    words = ("Which picture is the odd one out by ", "?") if odd else ("Which is closer to the reference by ", "?")
    return {
        "item": item.id,
        "question": words,
        "triangle": odd,
        "keys": "1 2 3" if odd else "1 2",
        "pictures": pictures,
        "aspects": [{"text": one, "hint": explanation(one)} for one in asked_aspects(resources, item.kind)],
    }


def _show_files(folder: VoteFolder, kind: AnnotationKind, who: str) -> None:
    path = folder.path(kind)
    if not path.exists():
        return
    with st.expander("What is saved", key="saved"):
        records = folder.records(kind)
        st.write(plain(_standing(records, who)))
        people = {str(record["session"]).rpartition("/")[0] for record in records}
        passed = check_standing(records)
        counting = sum(bool(passed[str(record["session"])]) for record in records)
        st.write(
            f"All sittings: {counted(len(records), 'answer')} of {counted(len(people), 'name')}, of which "
            f"{counting:,} count, in {plain(path)}. Check and convert them with:"
        )
        st.code(
            f'tpips-train data check "votes:{path}"\ntpips-train data export "votes:{path}" --out judgements/all.jsonl',
            language="sh",
        )
        st.download_button("All votes (JSON lines)", path.read_bytes, path.name, "application/jsonl", on_click="ignore")


def _standing(records: Sequence[Mapping[str, Any]], who: str) -> str:
    """Return whether what a sitting has saved counts."""
    own = [record for record in records if record["session"] == who]
    if not own:
        return "This sitting: nothing yet."
    passed = check_standing(own)[who]
    said = f"This sitting: {counted(len(own), 'answer')}; "
    if passed is None:
        return said + "none counts yet, since no attention check has come."
    if passed:
        return said + "they count, since every attention check so far was passed."
    return said + "none counts, since an attention check failed. Choose another set to begin anew."
