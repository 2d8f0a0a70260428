"""``--retry-failed``: what the ledger says could not be indexed is read again, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildSummary
from indexer.compacting.compaction import compact_parts
from indexer.directory import IndexDirectory
from indexer.output_folder import output_folder
from indexer.removal import REMOVED, remove_rows
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import content, picture_bytes, write_pictures
from tests.fixtures.picture_tables import IMAGE, write_csv
from tests.fixtures.tars import write_tar
from tpips_model.aspects import AspectLike
from tpips_model.images import ImageLike, to_rgb


class Counting(StubEmbedder):
    """Counts the pictures that it embeds."""

    def __init__(self) -> None:
        self.pictures = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        self.pictures += len(images)
        return super().embed(images, aspects)


def run(out: Path, data: object, *, retry: bool = False, new: bool = False) -> tuple[BuildSummary, int]:
    embedder = Counting()
    config = BuildConfig(
        out=out, data=str(data), new_source=new, retry_failed=retry, shard_size=4, batch_size=3, progress=False
    )
    return build(config, embedder=embedder), embedder.pictures


def ledger(out: Path) -> dict[str, str]:
    return {line["key"]: line["reason"] for line in IndexDirectory.open(out, verify=True).errors().to_pylist()}


def assert_rows_are_the_pictures(out: Path) -> None:
    index = IndexDirectory.open(out, verify=True)
    rows = index.items().to_pylist()
    assert len({row["key"] for row in rows}) == len(rows)
    expected = StubEmbedder().embed([to_rgb(index.item_bytes(row)) for row in rows], ["overall"])[:, 0]
    np.testing.assert_allclose(np.concatenate(index.vectors("overall")), expected, atol=2e-3)


def test_a_mended_picture_becomes_an_item_and_the_others_are_left_alone(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 10), tmp_path / "index"
    for number in (2, 3, 7):
        (data / f"{number:04d}.png").write_bytes(b"no picture")
    assert run(out, data)[0].errors == 3
    (data / "0003.png").write_bytes(picture_bytes(3))
    (data / "0007.png").write_bytes(picture_bytes(7)[:-30])
    assert run(out, data)[1] == 0  # without being asked, nothing is read again
    summary, embedded = run(out, data, retry=True)
    assert (embedded, summary.images, summary.mended, summary.total_images, summary.total_errors) == (1, 1, 1, 8, 2)
    assert set(ledger(out)) == {"0002.png", "0007.png"}
    assert "truncated" in ledger(out)["0007.png"]
    assert_rows_are_the_pictures(out)
    before = content(out)
    assert run(out, data, retry=True)[1] == 0
    assert content(out) == before  # what fails as before leaves no trace
    (data / "0002.png").write_bytes(picture_bytes(2))
    (data / "0007.png").write_bytes(picture_bytes(7))
    assert run(out, data, retry=True)[0].mended == 2
    assert ledger(out) == {}
    assert sorted(IndexDirectory.open(out).items(["key"])["key"].to_pylist()) == [f"{n:04d}.png" for n in range(10)]


def test_what_is_no_longer_there_leaves_the_ledger(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 4), tmp_path / "index"
    (data / "0001.png").write_bytes(b"no picture")
    run(out, data)
    (data / "0001.png").unlink()
    assert run(out, data, retry=True)[0].total_errors == 0
    assert ledger(out) == {}


def test_new_pictures_come_too(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 4), tmp_path / "index"
    (data / "0001.png").write_bytes(b"no picture")
    run(out, data)
    write_pictures(data, 3, first=20)
    (data / "0001.png").write_bytes(picture_bytes(1))
    assert run(out, data, retry=True)[0].images == 4
    assert_rows_are_the_pictures(out)


def test_removed_pictures_stay_removed(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    (data / "0004.png").write_bytes(b"no picture")
    run(out, data)
    with output_folder(out) as index:
        assert index is not None
        remove_rows(index, np.array([1]))
    (data / "0004.png").write_bytes(picture_bytes(4))
    assert run(out, data, retry=True)[1] == 1
    assert ledger(out) == {"0001.png": REMOVED}
    assert IndexDirectory.open(out).live_count == 5


def test_a_tar_that_is_whole_now_gives_what_was_missing(tmp_path: Path) -> None:
    members = [(f"{number:03d}.png", picture_bytes(number)) for number in range(8)]
    members[2] = ("002.png", b"no picture")
    members.append(("003.png", picture_bytes(50)))  # a repeat
    out, path = tmp_path / "index", tmp_path / "data/a.tar"
    write_tar(path, members)
    write_tar(tmp_path / "data/b.tar", members[:2])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 6 // 10])
    run(out, f"webdataset:{path.parent}")
    known = IndexDirectory.open(out).rows
    assert set(ledger(out)) >= {"a/002", "a.tar"}
    path.write_bytes(whole)
    summary, embedded = run(out, f"webdataset:{path.parent}", retry=True)
    assert embedded == summary.images == 7 + 2 - known
    assert set(ledger(out)) == {"a/002", "a/003"}
    assert "has the key of an earlier picture" in ledger(out)["a/003"]
    assert_rows_are_the_pictures(out)
    members[2] = ("002.png", picture_bytes(2))
    write_tar(path, members)
    # Offsets behind the mended member have moved, which only a new index can know; the mended one is read right.
    run(out, f"webdataset:{path.parent}", retry=True)
    assert set(ledger(out)) == {"a/003"}


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_of_tables_are_read_again_alone(tmp_path: Path, compacted: bool) -> None:
    out, pictures = tmp_path / "index", write_pictures(tmp_path / "data", 9)
    for number in (1, 6):
        (pictures / f"{number:04d}.png").rename(tmp_path / f"{number:04d}.png")
    rows = [["path", "year"], *([f"{number:04d}.png", 1900 + number] for number in range(9))]
    data = f"csv:{write_csv(tmp_path / 'data/list.csv', rows)}"
    run(out, data)
    assert set(ledger(out)) == {"0001.png", "0006.png"}
    if compacted:
        with output_folder(out) as index:
            assert index is not None
            compact_parts(index, rows=1000, progress=False)
    (tmp_path / "0006.png").rename(pictures / "0006.png")
    summary, embedded = run(out, data, retry=True)
    assert (embedded, summary.mended, set(ledger(out))) == (1, 1, {"0001.png"})
    (tmp_path / "0001.png").rename(pictures / "0001.png")
    assert run(out, data, retry=True)[1] == 1
    assert ledger(out) == {}
    assert_rows_are_the_pictures(out)
    years = {row["key"]: row["year"] for row in IndexDirectory.open(out).items().to_pylist()}
    assert years == {f"{number:04d}.png": 1900 + number for number in range(9)}


def test_a_parquet_file_that_was_damaged_and_is_whole_now(tmp_path: Path) -> None:
    out, path = tmp_path / "index", tmp_path / "data/b.parquet"
    path.parent.mkdir()
    for name in ("a", "b"):
        cells = [{"bytes": picture_bytes(number + ord(name)), "path": None} for number in range(5)]
        pq.write_table(pa.table({"image": pa.array(cells, IMAGE)}), path.with_stem(name), row_group_size=2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    run(out, f"parquet:{path.parent}")
    assert list(ledger(out)) == ["b.parquet"]
    assert run(out, f"parquet:{path.parent}", retry=True)[1] == 0
    path.write_bytes(whole)
    assert run(out, f"parquet:{path.parent}", retry=True)[1] == 5
    assert ledger(out) == {}
    assert_rows_are_the_pictures(out)


def test_each_source_is_tried_by_its_own_data(tmp_path: Path) -> None:
    out = tmp_path / "index"
    for place in ("data", "more"):
        write_pictures(tmp_path / place, 3)
        (tmp_path / place / "0001.png").write_bytes(b"no picture")
        run(out, tmp_path / place, new=True)
        (tmp_path / place / "0001.png").write_bytes(picture_bytes(1))
    assert set(ledger(out)) == {"0001.png", "more/0001.png"}
    run(out, tmp_path / "more", retry=True)
    assert set(ledger(out)) == {"0001.png"}
    run(out, tmp_path / "data", retry=True)
    assert ledger(out) == {}
    assert_rows_are_the_pictures(out)


def test_killed_in_between_it_is_gone_on_with(tmp_path: Path) -> None:
    class Stopped(StubEmbedder):
        calls = 0

        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt("stopped by the test")
            return super().embed(images, aspects)

    data, out = write_pictures(tmp_path / "data", 12), tmp_path / "index"
    for number in range(1, 11):
        (data / f"{number:04d}.png").write_bytes(b"no picture")
    run(out, data)
    write_pictures(data, 12)
    config = BuildConfig(out=out, data=str(data), retry_failed=True, shard_size=4, batch_size=4, progress=False)
    with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
        build(config, embedder=Stopped())
    assert len(ledger(out)) == 6
    assert run(out, data, retry=True)[1] == 6
    assert ledger(out) == {}
    assert_rows_are_the_pictures(out)
