"""A clip or a heap of pictures as a bounded number of small frames."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageEnhance

from tpips_model.errors import ImageError
from tpips_model.frames import read_video
from tpips_model.images import to_rgb

__all__ = ["MAX_FRAMES", "ClipFrame", "evenly", "example_frames", "frames_of_pictures", "frames_of_video"]

MAX_FRAMES = 64
SIDE = 448
JPEG_QUALITY = 88


@dataclass(frozen=True)
class ClipFrame:
    """One frame: what to call it, and its picture as JPEG."""

    label: str
    jpeg: bytes


def evenly(frames: Iterable[tuple[str, Image.Image]], most: int = MAX_FRAMES) -> list[ClipFrame]:
    """Return every so manieth of frames whose number is not known, holding at most twice ``most`` of them.

    Args:
        frames: Each one's label and picture.
        most: At most so many are returned, and at least half as many, if there are.
    """
    kept: list[ClipFrame] = []
    stride = 1
    for number, (label, picture) in enumerate(frames):
        if number % stride == 0:
            kept.append(ClipFrame(label, _jpeg(picture)))
        if len(kept) > most:
            kept = kept[::2]
            stride *= 2
    return kept


def frames_of_video(data: bytes, suffix: str) -> list[ClipFrame]:
    """Return frames of a video file.

    Raises:
        ImageError: It cannot be decoded.
        TpipsError: PyAV is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"clip{suffix}"
        path.write_bytes(data)
        try:
            frames = evenly(_labelled(path))
        except ImageError as error:
            raise ImageError(f"the clip cannot be played: {str(error).replace(str(path), 'it')}") from error
    if len(frames) < 2:
        raise ImageError("the clip has fewer than two frames; give one that moves")
    return frames


def frames_of_pictures(files: Sequence[tuple[str, bytes]]) -> list[ClipFrame]:
    """Return pictures as frames, in the order of the numbers in their names.

    Raises:
        ImageError: There are fewer than two, or one cannot be read.
    """
    if len(files) < 2:
        raise ImageError(f"{len(files)} picture makes no sequence; choose two or more")
    ordered = sorted(files, key=lambda file: _natural(file[0]))
    chosen = ordered[:: max(1, -(-len(ordered) // MAX_FRAMES))]
    return evenly((name, to_rgb(data, at_least=SIDE)) for name, data in chosen)


def example_frames(picture: Image.Image, count: int = 36) -> list[ClipFrame]:
    """Return a made clip of one picture: the camera comes closer, and it slowly grows dark and light again."""
    width, height = picture.size
    frames = []
    for number in range(count):
        part = number / (count - 1)
        margin = 0.28 * part
        box = (margin * width, margin * height, (1 - 0.4 * margin) * width, (1 - 0.4 * margin) * height)
        light = 1.0 - 0.75 * max(0.0, 1.0 - abs(part - 0.5) * 4.0)
        frame = ImageEnhance.Brightness(picture.crop(tuple(map(int, box)))).enhance(light)  # type: ignore[arg-type]
        frames.append((f"frame {number}", frame.resize((width, height), Image.Resampling.BICUBIC)))
    return evenly(frames)


def _labelled(path: Path) -> Iterator[tuple[str, Image.Image]]:
    for number, (second, pixels) in enumerate(read_video(path)):
        yield f"frame {number}" if second is None else f"{second:.2f} s", Image.fromarray(pixels)


def _jpeg(picture: Image.Image) -> bytes:
    small = picture.convert("RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]
