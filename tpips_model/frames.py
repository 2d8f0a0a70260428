"""How the frames of a video differ from one of them, one curve per aspect (Figure 6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError, TpipsError
from tpips_model.extras import install_extra
from tpips_model.images import ImageLike
from tpips_model.metric import Images, Metric, as_batch, as_metric, asked_aspects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FrameCurves", "over_frames", "read_video"]

# number, seconds from the start (None where unknown), picture
Frame = tuple[int, float | None, ImageLike]


@dataclass(frozen=True)
class FrameCurves:
    """The similarity of every frame to the reference under every aspect.

    Attributes:
        aspects: A aspects, one curve each.
        numbers: int64 (N,), each frame's number in the video, from 0.
        seconds: float64 (N,), each frame's time, or None where the frames carry none.
        similarity: float32 (A, N), higher is closer; the range is the metric's.
    """

    aspects: tuple[Aspect, ...]
    numbers: NDArray[np.int64]
    seconds: NDArray[np.float64] | None
    similarity: NDArray[np.float32]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per aspect and frame: aspect, frame, seconds, similarity."""
        seconds = [None] * len(self.numbers) if self.seconds is None else self.seconds.tolist()
        return [
            {"aspect": aspect.text, "frame": number, "seconds": second, "similarity": score}
            for aspect, scores in zip(self.aspects, self.similarity.tolist(), strict=True)
            for number, second, score in zip(self.numbers.tolist(), seconds, scores, strict=True)
        ]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the curves over time, or over the frame's number where there is no time.

        Args:
            path: Where to save the figure, in the format its suffix names (``.png``, ``.svg``, ``.pdf``).

        Returns:
            A matplotlib figure that belongs to no window and no global state.

        Raises:
            TpipsError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise TpipsError(f"plots need matplotlib: {install_extra('plot')}") from error
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlabel("frame" if self.seconds is None else "time (s)")
        axes.set_ylabel("similarity to the reference")
        for aspect, scores in zip(self.aspects, self.similarity, strict=True):
            axes.plot(self.numbers if self.seconds is None else self.seconds, scores, label=aspect.text)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        axes.grid(alpha=0.3)
        if path is not None:
            figure.savefig(path)
        return figure


def over_frames(
    frames: Images,
    aspects: Sequence[AspectLike],
    *,
    metric: Metric | Embedder | str = "mini",
    reference: int | ImageLike = 0,
    every: int = 1,
    batch_size: int = 16,
) -> FrameCurves:
    """Follow the similarity to a reference over the frames of a video, the curves of the paper's Figure 6.

    Args:
        frames: A list of images, a 4-d array or tensor, or the path of a video file, which is decoded frame by frame
            and never held whole.
        aspects: A aspects.
        metric: A metric, an embedder, or a name that ``load_model`` takes.
        reference: The number of a frame, from 0, or any image.
        every: Take every so manieth frame, from the first.
        batch_size: Frames given to the metric at once.

    Raises:
        ImageError: A frame or the video cannot be read, or there is no frame of the reference's number.
        AspectError: An aspect is no words.
        TpipsError: A video file is given and PyAV is not installed.
    """
    import torch

    if every < 1 or batch_size < 1:
        raise TpipsError(f"every ({every}) and batch_size ({batch_size}) must be at least 1")
    asked, _ = asked_aspects(aspects)
    scorer = as_metric(metric)
    fixed = _frame_at(frames, int(reference)) if isinstance(reference, Integral) else reference
    taken = islice(_numbered(frames), 0, None, every)
    numbers: list[int] = []
    seconds: list[float | None] = []
    scores: list[NDArray[np.float32]] = []
    while batch := list(islice(taken, batch_size)):
        numbers += [number for number, _, _ in batch]
        seconds += [second for _, second, _ in batch]
        with torch.no_grad():
            rows = scorer.similarity(fixed, [image for _, _, image in batch], list(asked))  # type: ignore[arg-type]
        scores.append(rows.float().cpu().numpy())
    if not numbers:
        raise ImageError(f"{_describe(frames)} has no frames")
    timed = None if any(second is None for second in seconds) else np.array(seconds, dtype=np.float64)
    return FrameCurves(asked, np.array(numbers, dtype=np.int64), timed, np.concatenate(scores, axis=1))


def read_video(path: str | os.PathLike[str]) -> Iterator[tuple[float | None, NDArray[np.uint8]]]:
    """Decode a video file frame by frame.

    Yields:
        The frame's time in seconds (None where the file has none) and its pixels, uint8 (H, W, 3), turned upright
        as the file says.

    Raises:
        ImageError: The file is missing, holds no video, or is damaged.
        TpipsError: PyAV is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise TpipsError(f"video files need PyAV: {install_extra('video')}") from error
    if not Path(path).is_file():
        raise ImageError(f"no video file {os.fspath(path)!r}")
    try:
        # A playlist can name other addresses; only files are opened.
        with av.open(os.fspath(path), options={"protocol_whitelist": "file"}) as container:
            if not container.streams.video:
                raise ImageError(f"{os.fspath(path)!r} holds no video stream")
            for frame in container.decode(container.streams.video[0]):
                pixels = frame.to_ndarray(format="rgb24")
                yield frame.time, np.ascontiguousarray(np.rot90(pixels, k=round(frame.rotation / 90)))
    except av.error.FFmpegError as error:
        raise ImageError(f"{os.fspath(path)!r} cannot be decoded as a video: {error}") from error


def _numbered(frames: Images) -> Iterator[Frame]:
    timed: Iterable[tuple[float | None, ImageLike]]
    timed = read_video(frames) if isinstance(frames, (str, os.PathLike)) else ((None, x) for x in as_batch(frames)[0])
    for number, (second, image) in enumerate(timed):
        yield number, second, image


def _frame_at(frames: Images, number: int) -> ImageLike:
    if number >= 0:
        for _, _, image in islice(_numbered(frames), number, number + 1):
            return image
    raise ImageError(f"{_describe(frames)} has no frame {number}; frames are numbered from 0")


def _describe(frames: Images) -> str:
    return f"video {os.fspath(frames)!r}" if isinstance(frames, (str, os.PathLike)) else "the sequence"
