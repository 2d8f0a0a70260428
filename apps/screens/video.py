"""Video: how the frames of a clip differ from one of them, sense by sense (Figure 6)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import streamlit as st

from apps.clip_frames import ClipFrame, example_frames, frames_of_pictures, frames_of_video
from apps.components import component, take_action
from apps.page_style import lead_html, plain
from apps.query_state import PictureRef
from apps.resources import Resources, upload_address
from apps.screens.sense_choice import choose_senses
from tpips_model.embedder import Embedder
from tpips_model.errors import TpipsError
from tpips_model.frames import FrameCurves, over_frames
from tpips_model.images import IMAGE_SUFFIXES, to_rgb
from tpips_model.metric import EmbedderMetric

__all__ = ["show"]

SCRUB = "video-scrub"
VIDEOS = ["mp4", "webm", "mov", "mkv", "avi", "m4v", "gif"]
MAX_CLIP_MB = 200
BATCH = 4


@dataclass
class VideoSession:
    """What one session of the page remembers.

    Attributes:
        frames: The clip's.
        reference: The place of the frame that all are compared with.
        uploads: Counts clips, so that every one finds an empty area.
        notices: What went wrong, to be shown once.
    """

    frames: list[ClipFrame] = field(default_factory=list)
    reference: int = 0
    uploads: int = 0
    notices: list[str] = field(default_factory=list)

    def take(self, make: Callable[[], list[ClipFrame]]) -> None:
        """Show the frames that ``make`` returns, or keep what is wrong with them as a notice."""
        try:
            self.frames, self.reference = make(), 0
        except TpipsError as error:
            self.notices.append(str(error))
        self.uploads += 1


def show() -> None:
    """Show the page."""
    resources: Resources = st.session_state["resources"]
    session: VideoSession = st.session_state.setdefault("video", VideoSession())
    st.title("What changes over a clip")
    st.html(
        lead_html(
            "Every frame is compared with one of them, in one sense at a time: when the light goes, the "
            "curve of the light falls, and that of the subject stays."
        )
    )
    for notice in session.notices:
        st.warning(plain(notice), icon=":material/warning:")
    session.notices = []
    _show_sources(resources, session)
    if not session.frames:
        return
    aspects = choose_senses(resources, "Senses: those of the index, or your own words", "video-aspects", most=6)
    if not aspects:
        st.info("Choose a sense to look at.")
        return
    try:
        curves = _curves(resources, session, aspects)
    except TpipsError as error:
        st.error(plain(error), icon=":material/error:")
        return
    _show_curves(resources, session, curves)


def _show_sources(resources: Resources, session: VideoSession) -> None:
    clip, files = f"clip-{session.uploads}", f"frames-{session.uploads}"

    def take_clip() -> None:
        given: Any = st.session_state.get(clip)
        if given is not None:
            session.take(lambda: frames_of_video(given.getvalue(), Path(given.name).suffix))

    def take_files() -> None:
        given: Any = st.session_state.get(files)
        if given:
            session.take(lambda: frames_of_pictures([(file.name, file.getvalue()) for file in given]))

    def take_example() -> None:
        key = resources.view.records(resources.view.sample_rows(1, seed=session.uploads + 2))[0]["key"]
        session.take(lambda: example_frames(to_rgb(resources.picture_bytes(PictureRef("key", key)))))

    # What is looked at has the room.
    folded = bool(session.frames)
    area = st.expander("Another clip", key=f"clips-{session.uploads}") if folded else None
    with area or st.container(), st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        with st.container(width=330):
            st.file_uploader("A clip", VIDEOS, key=clip, on_change=take_clip, max_upload_size=MAX_CLIP_MB)
        with st.container(width=330):
            kinds = sorted(suffix.removeprefix(".") for suffix in IMAGE_SUFFIXES)
            st.file_uploader(
                "Or a folder of frames", kinds, accept_multiple_files="directory", key=files, on_change=take_files
            )
        st.button("Try an example", icon=":material/play_arrow:", key="video-example", on_click=take_example)


def _curves(resources: Resources, session: VideoSession, aspects: Sequence[str]) -> FrameCurves:
    pictures = [to_rgb(frame.jpeg) for frame in session.frames]
    bar = st.progress(0.0, "Looking at the frames…")
    try:
        # The embedder keeps what it has seen, so that the curves then cost nothing, and neither does another reference.
        for start in range(0, len(pictures), BATCH):
            resources.embedder.embed(pictures[start : start + BATCH], aspects)
            bar.progress(min(start + BATCH, len(pictures)) / len(pictures), "Looking at the frames…")
    finally:
        bar.empty()
    reference = min(session.reference, len(pictures) - 1)
    metric = EmbedderMetric(cast(Embedder, resources.embedder))
    return over_frames(list(pictures), aspects, metric=metric, reference=reference)


def _show_curves(resources: Resources, session: VideoSession, curves: FrameCurves) -> None:
    def on_act() -> None:
        act = take_action(SCRUB)
        if str(act.get("key", "")).isdigit():
            session.reference = min(int(act["key"]), len(session.frames) - 1)

    # Kept among the uploads, from where the browser takes them; anew each time, should newer ones have driven them out.
    frames = [
        {"src": upload_address(resources.uploads.add(frame.jpeg, frame.label), 720), "label": frame.label}
        for frame in session.frames
    ]
    lines = [
        {"aspect": aspect.text, "values": [round(value, 5) for value in scores]}
        for aspect, scores in zip(curves.aspects, curves.similarity.tolist(), strict=True)
    ]
    st.caption("Go along the curves with pointer or finger, or with the arrow keys, to see each frame.")
    component("scrub", {"frames": frames, "curves": lines, "reference": session.reference}, key=SCRUB, on_act=on_act)
    st.download_button(
        "Curves (CSV)", lambda: _csv(session, curves), "curves.csv", "text/csv", on_click="ignore",
        icon=":material/download:",
    )  # fmt: skip


def _csv(session: VideoSession, curves: FrameCurves) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["frame", *(aspect.text for aspect in curves.aspects)])
    for frame, scores in zip(session.frames, curves.similarity.T.tolist(), strict=True):
        writer.writerow([frame.label, *(f"{score:.6f}" for score in scores)])
    return stream.getvalue()
