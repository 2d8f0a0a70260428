from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildSummary
from indexer.directory import IndexDirectory
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.tars import write_tar
from tpips_model import Aspect, AspectLike, ImageError, ImageLike
from tpips_model.errors import AspectError


def run(
    out: Path, data: Path | str | None, *aspects: str, embedder: StubEmbedder | None = None, **config: Any
) -> BuildSummary:
    settings = {"shard_size": 4, "batch_size": 3, **config}
    given = None if data is None else str(data)
    return build(
        BuildConfig(out=out, data=given, aspects=aspects, progress=False, **settings),
        embedder=embedder or StubEmbedder(),
    )


class Counting(StubEmbedder):
    """Records what it was asked, and may do something first."""

    def __init__(self, before: Callable[[int], None] = lambda call: None) -> None:
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self._before = before

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
        self._before(len(self.asked))
        self.asked.append((len(images), tuple(Aspect.of(aspect).text for aspect in aspects)))
        return super().embed(images, aspects)


def interrupt_at(call: int) -> Counting:
    def stop(now: int) -> None:
        if now == call:
            raise KeyboardInterrupt("stopped by the test")

    return Counting(stop)


def assert_rows_are_the_pictures(index: IndexDirectory) -> None:
    for aspect in index.aspects:
        vectors = np.concatenate(index.vectors(aspect))
        for row, vector in zip(index.items().to_pylist(), vectors, strict=True):
            expected = StubEmbedder().embed([index.item_bytes(row)], [aspect])[0, 0]
            np.testing.assert_array_equal(vector, expected.astype(np.float16))


def test_a_folder_becomes_an_index(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "Bilder é", 10)
    summary = run(tmp_path / "索引", data, "brushwork", "Color  Palette")
    assert (summary.images, summary.errors, summary.parts, summary.total_images) == (10, 0, 3, 10)
    index = IndexDirectory.open(tmp_path / "索引", verify=True)
    assert [aspect.text for aspect in index.aspects] == ["overall", "brushwork", "Color Palette"]
    assert index.items()["key"].to_pylist() == [f"{number:04d}.png" for number in range(10)]
    assert_rows_are_the_pictures(index)
    record = json.loads((tmp_path / "索引/manifest.json").read_text(encoding="utf-8"))
    assert record["sources"] == [{"kind": "folder", "root": "../Bilder é", "prefix": ""}]
    assert str(tmp_path) not in (tmp_path / "索引/manifest.json").read_text(encoding="utf-8")


def test_a_bad_picture_is_a_line_and_never_shifts_a_row(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 7)
    (data / "0001.png").write_text("text named .png")
    (data / "0002.png").write_bytes(b"")
    (data / "0005.png").write_bytes(picture_bytes(5)[:60])
    summary = run(tmp_path / "index", data, "brushwork")
    assert (summary.images, summary.errors) == (4, 3)
    index = IndexDirectory.open(tmp_path / "index")
    assert index.items()["key"].to_pylist() == ["0000.png", "0003.png", "0004.png", "0006.png"]
    assert index.errors()["key"].to_pylist() == ["0001.png", "0002.png", "0005.png"]
    assert all(index.errors()["reason"].to_pylist())
    assert_rows_are_the_pictures(index)


def test_all_aspects_are_asked_for_at_once_in_batches_of_good_pictures(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 9)
    (data / "0001.png").write_text("bad")
    embedder = Counting()
    run(tmp_path / "index", data, "brushwork", embedder=embedder, shard_size=8)
    aspects = ("overall", "brushwork")
    assert embedder.asked == [(3, aspects), (3, aspects), (1, aspects), (1, aspects)]


def test_a_batch_is_bounded_in_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.building.embedding.MAX_BATCH_PIXELS", 2 * 12 * 8)
    embedder = Counting()
    run(tmp_path / "index", write_pictures(tmp_path / "data", 5), embedder=embedder, shard_size=9, batch_size=4)
    assert [count for count, _ in embedder.asked] == [2, 2, 1]


def test_a_picture_that_the_model_refuses_is_skipped_alone(tmp_path: Path) -> None:
    class Particular(StubEmbedder):
        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
            if any(isinstance(image, Image.Image) and image.width > 50 for image in images):
                raise ImageError("too wide")
            return super().embed(images, aspects)

    data = write_pictures(tmp_path / "data", 6)
    (data / "0001.png").write_bytes(picture_bytes(1, width=60))
    run(tmp_path / "index", data, embedder=Particular())
    index = IndexDirectory.open(tmp_path / "index")
    assert index.errors().to_pylist() == [{"key": "0001.png", "reason": "too wide"}]
    assert index.rows == 5
    assert_rows_are_the_pictures(index)


def test_width_and_height_are_those_after_turning_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    Image.new("RGB", (40, 20)).save(stream, "JPEG", exif=exif)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/turned.jpg").write_bytes(stream.getvalue())
    run(tmp_path / "index", tmp_path / "data")
    (row,) = IndexDirectory.open(tmp_path / "index").items(["width", "height"]).to_pylist()
    assert row == {"width": 20, "height": 40}


def test_a_model_may_ask_for_large_pictures_at_reduced_scale(tmp_path: Path) -> None:
    class Small(StubEmbedder):
        decode_at_least = 50
        seen: list[tuple[int, int]] = []  # noqa: RUF012

        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
            self.seen += [image.size for image in images if isinstance(image, Image.Image)]
            return super().embed(images, aspects)

    (tmp_path / "data").mkdir()
    for name in ("a.jpg", "b.png"):
        Image.new("RGB", (400, 200), "red").save(tmp_path / "data" / name)
    run(tmp_path / "index", tmp_path / "data", embedder=Small())
    assert Small.seen == [(100, 50), (400, 200)]
    rows = IndexDirectory.open(tmp_path / "index").items(["width", "height"]).to_pylist()
    assert rows == [{"width": 400, "height": 200}] * 2
    run(tmp_path / "index", None, "lighting", embedder=Small())  # compares sizes in full
    assert Small.seen[2:] == [(100, 50), (400, 200)]


def test_running_again_changes_nothing(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    (data / "0003.png").write_text("bad")
    run(tmp_path / "index", data, "brushwork")
    before = tree(tmp_path / "index")
    embedder = Counting()
    summary = run(tmp_path / "index", data, "brushwork", embedder=embedder)
    assert (summary.images, summary.errors, summary.parts, summary.total_images) == (0, 0, 0, 5)
    assert (embedder.asked, tree(tmp_path / "index")) == ([], before)


def test_pictures_that_come_later_become_new_parts(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    run(tmp_path / "index", data, "brushwork")
    before = tree(tmp_path / "index")
    write_pictures(data / "0000a", 3, first=20)
    summary = run(tmp_path / "index", data)
    assert (summary.images, summary.parts, summary.total_images) == (3, 1, 9)
    after = tree(tmp_path / "index")
    assert {name for name in before if before[name] != after[name]} == {"manifest.json"}
    index = IndexDirectory.open(tmp_path / "index")
    assert index.items()["key"].to_pylist()[6:] == [f"0000a/{number:04d}.png" for number in range(20, 23)]
    assert [aspect.text for aspect in index.aspects] == ["overall", "brushwork"]
    assert_rows_are_the_pictures(index)


def test_changed_and_vanished_pictures_are_counted(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 5)
    run(tmp_path / "index", data)
    (data / "0001.png").unlink()
    (data / "0002.png").write_bytes(picture_bytes(2) + b"more")
    (data / "0003.png").unlink()
    summary = run(tmp_path / "index", data)
    assert (summary.changed, summary.vanished, summary.images, summary.total_images) == (1, 2, 0, 5)


@pytest.mark.parametrize("calls", [(0,), (1,), (2, 0), (3, 1, 0)])
def test_a_stopped_build_goes_on_to_the_same_index(tmp_path: Path, calls: Sequence[int]) -> None:
    data = write_pictures(tmp_path / "data", 13)
    (data / "0005.png").write_text("bad")
    run(tmp_path / "whole", data, "brushwork", "lighting")
    for call in calls:
        with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
            run(tmp_path / "stopped", data, "brushwork", "lighting", embedder=interrupt_at(call))
    run(tmp_path / "stopped", data, "brushwork", "lighting")
    assert tree(tmp_path / "stopped") == tree(tmp_path / "whole")


def test_what_a_killed_build_leaves_is_removed(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    run(tmp_path / "whole", data)
    run(tmp_path / "index", data)
    for name in ("items/part-00007.parquet", "aspects/overall/part-00001.npy.tmp", "manifest.json.tmp"):
        (tmp_path / "index" / name).write_bytes(b"left over")
    (tmp_path / "index/aspects/begun").mkdir()
    (tmp_path / "index/aspects/begun/part-00000.npy").write_bytes(b"left over")
    run(tmp_path / "index", data)
    assert tree(tmp_path / "index") == tree(tmp_path / "whole")


def test_the_index_may_lie_among_the_pictures(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 3)
    for _ in range(2):
        summary = run(data / "index", data)
        write_pictures(data / "index/gallery", 2)
        assert summary.total_images == 3
    assert json.loads((data / "index/manifest.json").read_text())["sources"][0]["root"] == ".."


def test_eleven_shards_keep_their_order_and_metadata_its_row(tmp_path: Path) -> None:
    for shard in range(11):
        members = [(f"{number}.png", picture_bytes(10 * shard + number)) for number in range(2)]
        members += [(f"{number}.json", json.dumps({"number": 10 * shard + number}).encode()) for number in range(2)]
        members.insert(1, ("bad.png", b"bad"))
        write_tar(tmp_path / f"shards/{shard}.tar", members)
    run(tmp_path / "index", f"{tmp_path}/shards/{{0..10}}.tar", "brushwork")
    index = IndexDirectory.open(tmp_path / "index")
    numbers = [10 * shard + number for shard in range(11) for number in range(2)]
    assert index.items()["key"].to_pylist() == [f"{number // 10}/{number % 10}" for number in numbers]
    assert index.items()["number"].to_pylist() == numbers
    assert index.errors()["key"].to_pylist() == [f"{shard}/bad" for shard in range(11)]
    assert [index.item_bytes(row) for row in index.items().to_pylist()] == [picture_bytes(number) for number in numbers]
    assert_rows_are_the_pictures(index)


def test_shards_that_come_later_become_new_parts(tmp_path: Path) -> None:
    for shard in range(3):
        write_tar(tmp_path / f"shards/{shard}.tar", [("a.png", picture_bytes(shard))])
    run(tmp_path / "index", f"webdataset:{tmp_path}/shards/{{0..1}}.tar")
    summary = run(tmp_path / "index", f"webdataset:{tmp_path}/shards/{{0..2}}.tar")
    assert (summary.images, summary.total_images) == (1, 3)
    run(tmp_path / "at once", f"webdataset:{tmp_path}/shards/{{0..2}}.tar")
    assert tree(tmp_path / "index") == tree(tmp_path / "at once")


def test_a_key_that_comes_twice_is_reported_and_nothing_lost_or_doubled(tmp_path: Path) -> None:
    members = [("a.png", picture_bytes(1)), ("a.png", picture_bytes(2)), ("b.png", picture_bytes(3))]
    members += [
        ("a.jpg", picture_bytes(4, format="JPEG")),
        ("c.png", b"bad"),
        ("c.jpg", picture_bytes(5, format="JPEG")),
    ]
    write_tar(tmp_path / "x.tar", members)
    # The member "y/a.png" of x.tar and the member "a.png" of x/y.tar have one key.
    write_tar(tmp_path / "x/y.tar", [("a.png", picture_bytes(6))])
    write_tar(tmp_path / "x.tar", [*members, ("y/a.png", picture_bytes(7))])
    run(tmp_path / "index", f"{tmp_path}/{{x,x/y}}.tar")
    index = IndexDirectory.open(tmp_path / "index")
    assert index.items(["key", "member"]).to_pylist() == [
        {"key": "x/a", "member": "a.png"},
        {"key": "x/b", "member": "b.png"},
        {"key": "x/c", "member": "c.jpg"},
        {"key": "x/y/a", "member": "y/a.png"},
    ]
    lines = {(line["key"], line["reason"].split(" has ")[0]) for line in index.errors().to_pylist()}
    assert {key for key, _ in lines} == {"x/a", "x/c", "x/y/a"}
    assert {("x/a", "x.tar:a.png"), ("x/a", "x.tar:a.jpg"), ("x/y/a", "x/y.tar:a.png")} <= lines
    assert index.errors().num_rows == 4
    assert_rows_are_the_pictures(index)


def test_a_truncated_shard_gives_what_it_holds(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "s.tar", [(f"{number}.png", picture_bytes(number)) for number in range(3)])
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"2.png") + 600])
    summary = run(tmp_path / "index", path)
    assert (summary.images, summary.errors) == (2, 2)
    assert_rows_are_the_pictures(IndexDirectory.open(tmp_path / "index"))
    assert run(tmp_path / "index", path).images == 0


def test_an_aspect_with_characters_that_nobody_sees_is_refused_unless_the_index_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_pictures(tmp_path / "data", 5)
    with pytest.raises(
        AspectError, match=r"'brush\\u200bwork' holds the invisible character U\+200B \(ZERO WIDTH SPACE"
    ):
        run(tmp_path / "index", data, "brush\u200bwork")
    assert not (tmp_path / "index").exists()
    with monkeypatch.context() as before:  # as the program was before
        before.setattr("tpips_model.aspects.hidden_character", lambda text: None)
        run(tmp_path / "index", data, "brush\u200bwork")
    run(tmp_path / "index", data, "brush\u200bwork", "mood")
    index = IndexDirectory.open(tmp_path / "index", verify=True)
    assert [aspect.text for aspect in index.aspects] == ["overall", "brush\u200bwork", "mood"]
    with pytest.raises(AspectError, match="invisible character U\\+00AD"):
        run(tmp_path / "index", None, "mo\u00adod")
