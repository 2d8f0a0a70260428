from __future__ import annotations

import datetime
import decimal
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.sources import BadSample, Indexed, Sample, SourceError, open_source
from indexer.sources.parquet_footer import DamagedParquetError, read_footer
from indexer.sources.row_ranges import RowRange, covered_ranges
from indexer.sources.shard_files import ShardFile
from indexer.stored_bytes import MAX_PICTURE_BYTES, PictureReadError, read_item
from tests.fixtures.built_sources import bad, build_index, everything, good, stored_pictures
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, write_pictures
from tests.fixtures.picture_tables import write_hub_parquet


def source(path: Path | str, *, shard_size: int = 256):  # type: ignore[no-untyped-def]
    return open_source(f"parquet:{path}", out=Path("nowhere"), shard_size=shard_size)


PICTURES = [picture_bytes(number) for number in range(5)]


def test_class_labels_become_words_and_rows_become_keys(tmp_path: Path) -> None:
    labels = {"artist": (["Unknown Artist", "claude-monet"], [1, 0, 1, -1, 7])}
    write_hub_parquet(tmp_path / "data/train-0.parquet", PICTURES, labels=labels)
    found = good(source(tmp_path))
    assert list(found) == [f"train-0/{row}" for row in range(5)]
    assert [dict(one.metadata) for one in found.values()] == [
        {"artist": "claude-monet"},
        {"artist": "Unknown Artist"},
        {"artist": "claude-monet"},
        {},
        {},
    ]
    assert [(one.file, one.member, one.offset) for one in found.values()][3] == ("train-0.parquet", "3/image", None)


def test_pictures_are_found_again_by_row(tmp_path: Path) -> None:
    write_hub_parquet(tmp_path / "a.parquet", PICTURES)
    index = build_index(f"parquet:{tmp_path}/a.parquet", tmp_path / "index", shard_size=2)
    assert stored_pictures(index) == {f"a/{row}": data for row, data in enumerate(PICTURES)}
    rows = list(range(5)) * 3
    random.Random(0).shuffle(rows)
    for row in rows:  # any order, with the reader's place kept in between
        assert read_item(tmp_path / "a.parquet", member=f"{row}/image", offset=None, size=0) == PICTURES[row]


def test_an_index_of_rows_gives_their_bytes_and_takes_aspects_later(tmp_path: Path) -> None:
    write_hub_parquet(tmp_path / "a.parquet", PICTURES)
    config = BuildConfig(out=tmp_path / "index", data=f"parquet:{tmp_path}/a.parquet", progress=False)
    build(config, embedder=StubEmbedder())
    summary = build(replace(config, data=None, aspects=("lighting",)), embedder=StubEmbedder())
    assert (summary.changed, summary.vanished) == (0, 0)
    index = IndexDirectory.open(tmp_path / "index")
    assert [index.item_bytes(row) for row in index.items().to_pylist()] == PICTURES
    build(replace(config, out=tmp_path / "once", aspects=("lighting",)), embedder=StubEmbedder())
    once = IndexDirectory.open(tmp_path / "once")
    for one, other in zip(index.vectors("lighting"), once.vectors("lighting"), strict=True):
        assert np.array_equal(one, other)
    write_hub_parquet(tmp_path / "a.parquet", [b"another"] * 5)
    with pytest.raises(IndexDirectoryError, match="has changed since it was indexed"):
        index.item_bytes(index.items().to_pylist()[0])


def test_a_row_that_is_not_there_is_no_picture(tmp_path: Path) -> None:
    path = write_hub_parquet(tmp_path / "a.parquet", [PICTURES[0], None])
    for member, reason in (
        ("2/image", "it has 2 rows, and no row 2"),
        ("0/photo", "no column 'photo'"),
        ("1/image", "holds no picture in row 1"),
        ("x/image", "has no picture 'x/image'"),
        ("-1/image", "has no picture"),
        ("0/", "has no picture"),
    ):
        with pytest.raises(PictureReadError, match=reason):
            read_item(path, member=member, offset=None, size=1)
    path.write_bytes(b"PAR1")
    with pytest.raises(PictureReadError, match="cannot be read"):
        read_item(path, member="0/image", offset=None, size=1)
    path.unlink()
    with pytest.raises(PictureReadError, match="No such file"):
        read_item(path, member="0/image", offset=None, size=1)


def test_shards_are_whole_row_groups_and_a_run_goes_on_whatever_the_shard_size(tmp_path: Path) -> None:
    write_hub_parquet(tmp_path / "a.parquet", PICTURES * 2, rows_per_group=3)
    names = [shard.name.partition("~")[0] for shard in source(tmp_path, shard_size=6).shards(Indexed())]
    assert names == ["a.parquet[0-6]", "a.parquet[6-10]"]
    first, *_ = source(tmp_path, shard_size=4).shards(Indexed())
    left = source(tmp_path, shard_size=6).shards(Indexed(shards=frozenset([first.name])))
    assert [shard.name.partition("~")[0] for shard in left] == ["a.parquet[3-6]", "a.parquet[6-10]"]
    assert [one.key for one in everything(source(tmp_path), Indexed(shards=frozenset([first.name])))] == [
        f"a/{row}" for row in range(3, 10)
    ]


def test_huge_row_groups_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sources.parquet.MAX_SHARD_ROWS", 3)
    write_hub_parquet(tmp_path / "a.parquet", PICTURES * 2, rows_per_group=10)
    shards = source(tmp_path, shard_size=2).shards(Indexed())
    assert [shard.samples for shard in shards] == [3, 3, 3, 1]
    assert [one.data for one in everything(source(tmp_path, shard_size=2)) if isinstance(one, Sample)] == PICTURES * 2


def test_a_file_that_was_replaced_is_an_error_and_not_a_mixture(tmp_path: Path) -> None:
    path = write_hub_parquet(tmp_path / "a.parquet", PICTURES)
    (shard,) = source(path).shards(Indexed())
    old = source(path)
    write_hub_parquet(path, PICTURES * 2)
    with pytest.raises(SourceError, match="are not what they were when they were indexed"):
        source(path).shards(Indexed(shards=frozenset([shard.name])))
    with pytest.raises(SourceError, match="are not what they were"):
        list(old.read(shard))


def test_binary_columns_keys_and_metadata_of_every_type(tmp_path: Path) -> None:
    when = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "photo": pa.array(PICTURES, pa.large_binary()),
            "id": ["a", "b\n", None, "", "e" * 2000],
            "n": pa.array([1, 2, None, 4, 5], pa.int16()),
            "x": [0.5, float("nan"), float("inf"), None, 1.0],
            "half": pa.array([0.5] * 5, pa.float16()),
            "yes": [True, False, None, True, True],
            "day": pa.array([datetime.date(2020, 1, 2)] * 5),
            "time": pa.array([when] * 5, pa.timestamp("ns", tz="Mars/Olympus")),
            "price": pa.array([decimal.Decimal("1.20")] * 5),
            "kind": pa.array(["p", "q", "p", None, "q"]).dictionary_encode(),
            "size": ["taken"] * 5,
            "list": [[1]] * 5,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = everything(source(f"{tmp_path}/a.parquet?key=id&image=photo"))
    assert [(type(one), one.key) for one in found] == [
        (Sample, "a"),
        (Sample, "b\\n"),
        (BadSample, "a/2"),
        (BadSample, "a/3"),
        (BadSample, "a/4"),
    ]
    assert isinstance(found[0], Sample)
    assert dict(found[0].metadata) == {
        "id": "a",
        "n": 1,
        "x": 0.5,
        "half": 0.5,
        "yes": True,
        "day": "2020-01-02",
        "time": "2020-01-02 03:04:05.000000000",
        "price": "1.20",
        "kind": "p",
        "meta_size": "taken",
    }
    assert isinstance(found[1], Sample)
    assert "x" not in found[1].metadata
    assert good(source(tmp_path)).keys() == {f"a/{row}" for row in range(5)}


def test_paths_in_a_column_or_in_the_struct(tmp_path: Path) -> None:
    write_pictures(tmp_path / "photos", 2)
    names = ["photos/0000.png", "photos/none.png", "../x.png", None, str(tmp_path / "photos/0001.png")]
    pq.write_table(pa.table({"file_name": names, "n": range(5)}), tmp_path / "list.parquet")
    found = everything(source(tmp_path / "list.parquet"))
    assert next(one.key for one in found if isinstance(one, Sample)) == "photos/0000.png"
    assert [one.file for one in found if isinstance(one, Sample)] == ["photos/0000.png", "photos/0001.png"]
    assert [one.reason.partition(";")[0] for one in found if isinstance(one, BadSample)] == [
        "cannot be read: No such file or directory",
        f"lies outside {tmp_path}",
        "the row names no picture",
    ]
    cells = [{"bytes": PICTURES[0], "path": "a"}, {"bytes": None, "path": "photos/0001.png"}, None]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array(cells, kind)}), tmp_path / "mixed.parquet")
    index = build_index(f"parquet:{tmp_path}/mixed.parquet", tmp_path / "index")
    assert stored_pictures(index) == {"mixed/0": PICTURES[0], "mixed/1": picture_bytes(1)}
    assert index.errors().to_pylist() == [{"key": "mixed/2", "reason": "the row holds no picture"}]


def test_bad_values_cost_their_row_alone(tmp_path: Path) -> None:
    texts = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")]
    )
    write_hub_parquet(tmp_path / "a.parquet", [*PICTURES[:1], b"", PICTURES[2]], columns={"title": texts})
    found = everything(source(tmp_path))
    assert [type(one) for one in found] == [Sample, BadSample, Sample]
    assert bad(source(tmp_path))["a/1"].startswith("the row cannot be read: 'utf-8' codec")


def test_damage_anywhere_leaves_every_row_accounted_for(tmp_path: Path) -> None:
    whole = write_hub_parquet(tmp_path / "whole.parquet", PICTURES * 4, rows_per_group=4).read_bytes()
    path = tmp_path / "damaged.parquet"
    chance = random.Random(1)
    for _ in range(40):
        at = chance.randrange(4, len(whole))
        data = bytearray(whole)
        data[at : at + 8] = chance.randbytes(8)
        path.write_bytes(data[: chance.choice([len(data), len(data), at])])
        try:
            found = everything(source(path))
        except SourceError as error:
            assert "none of the 1 files can be read" in str(error)  # noqa: PT017
            with pytest.raises(DamagedParquetError, match=r"is|has"):
                read_footer(ShardFile(path))
        else:
            assert len(found) == sum(read_footer(ShardFile(path)).groups)
            assert [one.key for one in found] == [f"damaged/{row}" for row in range(len(found))]


def test_a_damaged_file_among_good_ones_is_a_line_until_it_is_mended(tmp_path: Path) -> None:
    good_file = write_hub_parquet(tmp_path / "b.parquet", PICTURES[:2])
    (tmp_path / "a.parquet").write_bytes(b"PAR1 cut")
    index = build_index(f"parquet:{tmp_path}", tmp_path / "index")
    assert index.errors().to_pylist() == [
        {
            "key": "a.parquet",
            "reason": "the file is no parquet file, or is cut short: it lacks a parquet file's end",
        }
    ]
    (tmp_path / "a.parquet").write_bytes(good_file.read_bytes())
    index = build_index(f"parquet:{tmp_path}", tmp_path / "index")
    assert index.items(["key"])["key"].to_pylist() == ["b/0", "b/1", "a/0", "a/1"]


def test_too_large_a_picture_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sources.parquet.MAX_PICTURE_BYTES", 1000)
    write_hub_parquet(tmp_path / "a.parquet", [bytes(2000), PICTURES[1]])
    assert bad(source(tmp_path)) == {"a/0": "has 2,000 bytes; at most 1,000 are read"}
    assert MAX_PICTURE_BYTES > 1000


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"a": [b"x"], "b": [b"y"]}, "", "has the columns 'a', 'b', and several may hold pictures; say which with"),
        ({"n": [1]}, "", "none of them is known to name pictures; say which with .image=COLUMN"),
        ({"n": [1]}, "?image=m", r"has no column 'm' \(image=…\); its columns: 'n'"),
        ({"n": [1]}, "?image=n", "is of type int64, and pictures are a struct with the field 'bytes'"),
        ({"image": [b"x"]}, "?key=id", "has no column 'id'"),
        ({"image": [b"x"]}, "?imge=image", "unknown option 'imge' behind .*; parquet takes image=…, key=…"),
        ({"image": [b"x"]}, "?image=image&image=image", "the option image is given twice"),
        ({"image": [b"x"]}, "?image=", "has no value"),
        ({"image": [b"x"]}, "?private=maybe", "should be private=yes or private=no"),
        ({"image": [b"x"]}, "?root=/no/such", "the folder of the pictures /no/such does not exist"),
        ({f"c{number}": [1] for number in range(300)} | {"image": [b"x"]}, "", "has 300 columns; at most 256"),
    ],
)
def test_unclear_tables_are_errors_that_say_what_to_give(
    tmp_path: Path, columns: dict[str, list[object]], options: str, message: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=message):
        source(f"{tmp_path}/a.parquet{options}")


def test_what_is_no_parquet_file_is_an_error_that_says_what_it_looks_like(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("key,url\n")
    with pytest.raises(SourceError, match="lacks a parquet file's end; it looks like a table of text"):
        source(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"1 of the 1 shards of .* do not exist"):
        source(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"holds no \.parquet file, but nothing"):
        source(tmp_path / "empty")


def test_ranges_of_one_file_are_told_from_those_of_others() -> None:
    names = ["a.parquet[0-2]~00000000", "b.parquet[0-2]~00000000", "a.parquet[4-6]~0000000f", "a.parquet[x-2]~0", "a"]
    assert covered_ranges("a.parquet", names) == [
        RowRange("a.parquet", 0, 2, "00000000"),
        RowRange("a.parquet", 4, 6, "0000000f"),
    ]
