"""The table of Figure 1 and the curves of Figure 6."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from tests.tpips_model.test_metric import MeanColourEmbedder, pictures
from tpips_model.comparison import compare
from tpips_model.errors import AspectError, ImageError, TpipsError
from tpips_model.frames import over_frames, read_video
from tpips_model.metric import EmbedderMetric

METRIC = EmbedderMetric(MeanColourEmbedder())


def write_video(path: Path, frames: np.ndarray, *, rate: int = 10) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate, width=frames.shape[2], height=frames.shape[1])
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def fading(n: int = 9) -> np.ndarray:
    levels = np.linspace(0, 255, n).astype(np.uint8)
    red_to_blue = np.stack([255 - levels, np.full(n, 40), levels], axis=-1)
    return np.tile(red_to_blue[:, None, None], (1, 32, 48, 1)).astype(np.uint8)


def test_table_holds_the_metrics_numbers_and_the_closest() -> None:
    reference, *candidates = pictures(4)
    table = compare(reference, candidates, ["x", "xy"], metric=METRIC, names=["one", "two", "three"])
    expected = METRIC.similarity(reference, candidates, ["x", "xy"]).numpy()
    np.testing.assert_array_equal(table.similarity, expected)
    for row, aspect in enumerate(("x", "xy")):
        assert table.closest[aspect] == table.names[expected[row].argmax()]
        ranked = sorted((r for r in table.records() if r["aspect"] == aspect), key=lambda record: record["rank"])
        assert [record["similarity"] for record in ranked] == sorted(expected[row].tolist(), reverse=True)
        assert [record["rank"] for record in ranked] == [1, 2, 3]


def test_table_is_shown_as_text() -> None:
    reference, *candidates = pictures(3)
    table = compare(reference, candidates, ["[b]x", "a|b"], metric=METRIC, names=["one", "[red]two"])
    lines = str(table).splitlines()
    assert lines[0] == "| aspect | one | [red]two |"
    assert lines[3].startswith("| a\\|b |")
    assert all(line.count("**") == 2 for line in lines[2:])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table.to_table())
    shown = console.export_text()
    assert "[red]two" in shown
    assert "[b]x" in shown
    assert f"{table.similarity[0, 0]:.3f}" in shown


def test_table_names_its_columns(tmp_path: Path) -> None:
    x = pictures(3)
    paths = [tmp_path / "sea.png", tmp_path / "sky.png"]
    for path, picture in zip(paths, x, strict=False):
        Image.fromarray(picture).save(path)
    assert compare(x[0], [*paths, x[2]], ["x"], metric=METRIC).names == ("sea.png", "sky.png", "candidate 3")
    assert compare(x[0], np.stack(x), ["x"], metric=METRIC).names == ("candidate 1", "candidate 2", "candidate 3")


def test_wrong_use_is_refused() -> None:
    x = pictures(2)
    with pytest.raises(ImageError, match="1 names were given for 2 candidates"):
        compare(x[0], x, ["x"], metric=METRIC, names=["one"])
    with pytest.raises(AspectError, match="no aspect was given"):
        compare(x[0], x, [], metric=METRIC)


def test_curves_equal_single_similarities() -> None:
    frames = fading()
    curves = over_frames(frames, ["x", "xy"], metric=METRIC, reference=2, every=3, batch_size=2)
    assert curves.numbers.tolist() == [0, 3, 6]
    assert curves.seconds is None
    for row, aspect in enumerate(("x", "xy")):
        for column, number in enumerate((0, 3, 6)):
            expected = METRIC.similarity(frames[2], frames[number], aspect)
            torch.testing.assert_close(torch.tensor(curves.similarity[row, column]), expected)
    assert curves.records()[4] == {
        "aspect": "xy", "frame": 3, "seconds": None, "similarity": pytest.approx(float(curves.similarity[1, 1]))
    }  # fmt: skip


def test_reference_may_be_another_image() -> None:
    frames, other = fading(4), pictures(1, 7)[0]
    curves = over_frames(list(frames), ["x"], metric=METRIC, reference=other)
    np.testing.assert_allclose(curves.similarity[0], METRIC.similarity(other, list(frames), "x"), rtol=1e-6)


def test_video_file_gives_the_curves_of_its_frames(tmp_path: Path) -> None:
    frames = fading()
    path = write_video(tmp_path / "Film ü.mp4", frames)
    curves = over_frames(path, ["x"], metric=METRIC, batch_size=4, reference=1)
    in_memory = over_frames(frames, ["x"], metric=METRIC, reference=1)
    assert curves.numbers.tolist() == list(range(len(frames)))
    assert curves.seconds is not None
    np.testing.assert_allclose(curves.seconds, np.arange(len(frames)) / 10, atol=1e-6)
    np.testing.assert_allclose(curves.similarity, in_memory.similarity, atol=0.02)
    assert curves.similarity[0].argmax() == 1


def test_video_is_turned_upright(tmp_path: Path) -> None:
    picture = np.zeros((32, 64, 3), np.uint8)
    picture[:, :32] = 255
    path = write_video(tmp_path / "a.mp4", np.stack([picture] * 3))
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    # A quarter turn clockwise, as telephones write it.
    data[matrix : matrix + 36] = struct.pack(">9i", 0, 65536, 0, -65536, 0, 0, 32 * 65536, 0, 1 << 30)
    path.write_bytes(bytes(data))
    _, upright = next(read_video(path))
    assert upright.shape == (64, 32, 3)
    assert upright[:28].mean() > 200
    assert upright[36:].mean() < 50


def test_videos_and_frames_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no video file"):
        over_frames(tmp_path / "none.mp4", ["x"], metric=METRIC)
    (tmp_path / "text.mp4").write_text("no film")
    with pytest.raises(ImageError, match="cannot be decoded as a video"):
        over_frames(tmp_path / "text.mp4", ["x"], metric=METRIC)
    with pytest.raises(ImageError, match="no frame 9"):
        over_frames(fading(9), ["x"], metric=METRIC, reference=9)
    with pytest.raises(ImageError, match="no frame -1"):
        over_frames(fading(9), ["x"], metric=METRIC, reference=-1)
    with pytest.raises(TpipsError, match="every \\(0\\)"):
        over_frames(fading(2), ["x"], metric=METRIC, every=0)


def test_a_playlist_opens_nothing_else(tmp_path: Path) -> None:
    playlist = tmp_path / "film.m3u8"
    playlist.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/film.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(ImageError, match=r"film\.m3u8"):
        list(read_video(playlist))


def test_plot_draws_one_curve_per_aspect(tmp_path: Path) -> None:
    curves = over_frames(fading(5), ["x", "xy"], metric=METRIC)
    figure = curves.plot(tmp_path / "curves.png")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == ["x", "xy"]
    np.testing.assert_allclose(np.asarray(axes.get_lines()[1].get_ydata(), dtype=np.float64), curves.similarity[1])
    assert axes.get_xlabel() == "frame"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.parametrize(("module", "extra"), [("av", "video"), ("matplotlib.figure", "plot")])
def test_missing_extras_say_what_to_install(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "film.mp4").write_bytes(b"")
    curves = over_frames(fading(2), ["x"], metric=METRIC)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TpipsError, match=rf"tpips-retrieval\[{extra}\]"):
        list(read_video(tmp_path / "film.mp4")) if extra == "video" else curves.plot()
