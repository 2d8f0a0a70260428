from __future__ import annotations

import json
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.exporting import export as export_module
from indexer.exporting import npy as export_npy
from indexer.exporting.export import export_index
from indexer.exporting.record import ExportError, ExportRecord
from indexer.exporting.rows import ExportRows
from indexer.manifest import SourceRecord
from indexer.output_folder import output_folder
from indexer.part import write_manifest
from indexer.removal import remove_rows
from tests.fixtures.exports import ASPECTS, COUNT, DIM, exported_index, run_command, stored

LAYOUTS = {"parquet": "ваза.parquet", "npy": "ваза", "laion": "ваза"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> IndexDirectory:
    return IndexDirectory.open(exported_index(tmp_path_factory.mktemp("export") / "Картины"))


def test_parquet_holds_items_and_vectors_to_the_last_bit(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a.parquet", layout="parquet", progress=False)
    table = pq.read_table(tmp_path / "a.parquet")
    names = {"overall": "overall", "color palette": "color-palette", "style": "style", "size": "aspect-size"}
    for aspect, name in names.items():
        vectors = table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(COUNT, DIM)
        assert vectors.dtype == np.float16
        assert np.array_equal(vectors.view(np.uint16), stored(index, aspect))
    items = index.items()
    renamed = {"style": "meta_style"}
    for name in items.column_names:
        assert table[renamed.get(name, name)].to_pylist() == items[name].to_pylist()
    frame = pandas.read_parquet(tmp_path / "a.parquet")
    assert frame["color-palette"][5].tolist() == np.concatenate(index.vectors("color palette"))[5].tolist()


def test_the_schema_tells_model_and_aspects(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a.parquet", layout="parquet", aspects=["Color  Palette"], progress=False)
    record = json.loads(pq.read_schema(tmp_path / "a.parquet").metadata[b"tpips-export"])
    assert record["model"]["fingerprint"] == "stub:1"
    assert record["aspects"] == [{"text": "color palette", "slug": "color-palette", "vectors": "color-palette"}]
    assert record["count"] == COUNT


def test_single_precision_holds_the_same_numbers(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a", layout="npy", dtype="float32", progress=False)
    vectors = np.load(tmp_path / "a" / "overall.npy", allow_pickle=False)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, np.concatenate(index.vectors("overall")).astype(np.float32))


def test_npy_holds_an_array_an_aspect(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a", layout="npy", progress=False)
    for slug, aspect in zip(("overall", "color-palette", "style", "size"), ASPECTS, strict=True):
        vectors = np.load(tmp_path / "a" / f"{slug}.npy", mmap_mode="r", allow_pickle=False)
        assert np.array_equal(vectors.view(np.uint16), stored(index, aspect))
    assert pq.read_table(tmp_path / "a" / "items.parquet")["key"].to_pylist() == index.items()["key"].to_pylist()
    record = json.loads((tmp_path / "a" / "export.json").read_text())
    assert record["model"]["prompt_template"] == "similar by {aspect}"
    assert [one["text"] for one in record["aspects"]] == list(ASPECTS)


def test_laion_files_are_in_order_by_name_and_number(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a", layout="laion", rows_per_file=14, progress=False)
    arrays = sorted((tmp_path / "a" / "color-palette" / "img_emb").iterdir())
    tables = sorted((tmp_path / "a" / "color-palette" / "metadata").iterdir())
    assert [path.name for path in arrays[:2] + arrays[-1:]] == ["img_emb_00.npy", "img_emb_01.npy", "img_emb_10.npy"]
    assert len(arrays) == len(tables) == 11
    vectors = [np.load(path, allow_pickle=False) for path in arrays]
    assert [len(one) for one in vectors] == [14] * 10 + [10]
    assert np.array_equal(np.concatenate(vectors).view(np.uint16), stored(index, "color palette"))
    frames = [pandas.read_parquet(path) for path in tables]
    assert pandas.concat(frames)["key"].tolist() == index.items()["key"].to_pylist()
    assert frames[2]["image_path"].tolist() == frames[2]["file"].tolist()
    assert set(frames[2]["meta_image_path"]) == {"ж"}


def test_few_laion_files_have_plain_numbers(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "a", layout="laion", aspects=["style"], rows_per_file=COUNT, progress=False)
    found = sorted(path.relative_to(tmp_path / "a").as_posix() for path in (tmp_path / "a").rglob("*.*"))
    assert found == ["export.json", "style/img_emb/img_emb_0.npy", "style/metadata/metadata_0.parquet"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_removed_items_are_left_out(layout: str, tmp_path: Path) -> None:
    path = exported_index(tmp_path / "index")
    dead = np.array([0, 1, 63, 64, 100, *range(128, 150)])  # the whole last part among them
    with output_folder(path) as opened:
        assert opened is not None
        remove_rows(opened, dead)
    index = IndexDirectory.open(path)
    summary = export_index(index, tmp_path / LAYOUTS[layout], layout=layout, progress=False)
    live = np.setdiff1d(np.arange(COUNT), dead)
    assert summary.items == len(live)
    place = tmp_path / LAYOUTS[layout]
    if layout == "parquet":
        found = pq.read_table(place)["overall"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        keys = pq.read_table(place)["key"].to_pylist()
    else:
        array, table = {
            "npy": ("overall.npy", "items.parquet"),
            "laion": ("overall/img_emb/img_emb_0.npy", "overall/metadata/metadata_0.parquet"),
        }[layout]
        found = np.load(place / array, allow_pickle=False)
        keys = pq.read_table(place / table)["key"].to_pylist()
    assert np.array_equal(found.view(np.uint16).reshape(-1, DIM), stored(index, "overall", live))
    assert keys == [f"picture-{row:06d}" for row in live]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_path_of_this_machine_is_in_it(layout: str, tmp_path: Path) -> None:
    path = exported_index(tmp_path / "index", model_name=f"{tmp_path}/secret-folder/late?dtype=float32")
    export_index(IndexDirectory.open(path), tmp_path / LAYOUTS[layout], layout=layout, progress=False)
    place = tmp_path / LAYOUTS[layout]
    files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    texts = [file.read_bytes() for file in files]
    assert any(b"late?dtype=float32" in text for text in texts)
    assert not any(b"secret-folder" in text or str(tmp_path).encode() in text for text in texts)


def test_items_of_a_later_source_are_below_its_prefix(tmp_path: Path) -> None:
    index = IndexDirectory.open(exported_index(tmp_path / "index"))
    sources = (*index.manifest.sources, SourceRecord("folder", "more", "more"))
    write_manifest(index.path, replace(index.manifest, sources=sources))
    index = IndexDirectory.open(index.path)
    rows = ExportRows(index, index.aspects)
    items = index.items().slice(0, 2).drop_columns("file").append_column("file", [["a.png", "//1/b/c.png"]])
    assert rows._files_by_prefix(items)["file"].to_pylist() == ["a.png", "more/b/c.png"]


@pytest.mark.parametrize("cut_at", [None, 1, 14, 1000])
def test_blocks_are_bounded_and_lose_nothing(
    index: IndexDirectory, monkeypatch: pytest.MonkeyPatch, cut_at: int | None
) -> None:
    monkeypatch.setattr("indexer.exporting.rows.BLOCK_VALUES", 2 * DIM * 10)
    rows = ExportRows(index, index.aspects[:2])
    blocks = list(rows.blocks(cut_at=cut_at))
    assert max(len(block.items) for block in blocks) <= 10
    overall = np.concatenate([block.vectors[index.aspects[0]] for block in blocks])
    assert np.array_equal(overall.view(np.uint16), stored(index, "overall"))
    assert [key for block in blocks for key in block.items["key"].to_pylist()] == index.items()["key"].to_pylist()
    ends = np.cumsum([len(block.items) for block in blocks])
    assert set(range(cut_at or COUNT, COUNT + 1, cut_at or COUNT)) <= set(ends.tolist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_stays_of_an_export_that_fails(layout: str, tmp_path: Path) -> None:
    path = exported_index(tmp_path / "index")
    file = path / "aspects" / "style" / "part-00002.npy"
    vectors = np.load(file, allow_pickle=False)
    vectors[3, 0] = np.nan
    np.save(file, vectors, allow_pickle=False)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(IndexDirectoryError, match=r"vectors under 'style' in part 2 .* are damaged"):
        export_index(IndexDirectory.open(path), tmp_path / LAYOUTS[layout], layout=layout, progress=False)
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_stays_of_an_export_that_is_interrupted(
    index: IndexDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_npy.ArrayFile, "write", stop)
    told = run_command("export", index.path, "--to", tmp_path / "a", "--format", "npy")
    assert told.exit_code == 130
    assert "nothing stays of the export" in told.output
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_taken_is_refused(index: IndexDirectory, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    (tmp_path / "file.parquet").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for place, layout, message in (
        ("full", "npy", "exists already and is not empty"),
        ("file.parquet", "parquet", "exists already and is not empty"),
        ("link", "npy", "is a link"),
        (index.path / "inside", "npy", "is inside the index"),
        ("plain", "parquet", r"give a name that ends in \.parquet"),
        ("x" * 300, "npy", "cannot be used: File name too long"),
        (Path("file.parquet") / "below", "npy", "cannot write"),
    ):
        with pytest.raises(ExportError, match=message):
            export_index(index, tmp_path / place, layout=layout, progress=False)
    assert (tmp_path / "file.parquet").read_text() == "x"
    export_index(index, tmp_path / "empty", layout="npy", progress=False)
    assert (tmp_path / "empty" / "overall.npy").is_file()
    export_index(index, tmp_path / "made" / "on the way" / "a.parquet", layout="parquet", progress=False)


def test_too_little_room_is_told_before_anything_is_written(
    index: IndexDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 0, 1000))
    with pytest.raises(ExportError, match=r"takes 9,600 bytes or more, and .* has 1,000 left"):
        export_index(index, tmp_path / "a", layout="npy", progress=False)


def test_arguments_that_make_no_sense_are_refused(index: IndexDirectory, tmp_path: Path) -> None:
    for options, message in (
        ({"layout": "csv"}, "layout 'csv' is unknown; give one of parquet, npy, laion"),
        ({"layout": "npy", "dtype": "int8"}, "dtype 'int8' is unknown"),
        ({"layout": "laion", "rows_per_file": 0}, "a file cannot hold 0 rows"),
    ):
        with pytest.raises(ExportError, match=message):
            export_index(index, tmp_path / "a", **options)  # type: ignore[arg-type]
    with pytest.raises(IndexDirectoryError, match="aspect 'mood' is not indexed"):
        export_index(index, tmp_path / "a", layout="npy", aspects=["mood"])
    assert set(export_module.LAYOUTS) == set(LAYOUTS)


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "tpips-export", "format_version": 1}',
        '{"format": "tpips-export", "format_version": 1, "model": [], "metadata": {}}',
        "{}",
        "[" * 100_000,
        "not json",
    ],
)
def test_a_record_is_not_believed(text: str) -> None:
    if '"format"' in text:
        with pytest.raises(ExportError, match="is damaged"):
            ExportRecord.from_json(text, shown="x")
    else:
        assert ExportRecord.from_json(text, shown="x") is None
    with pytest.raises(ExportError, match="of version 2, and this program reads version 1"):
        ExportRecord.from_json('{"format": "tpips-export", "format_version": 2}', shown="x")


def test_the_command_says_what_it_wrote(index: IndexDirectory, tmp_path: Path) -> None:
    told = run_command("export", index.path, "--to", tmp_path / "a.parquet", "--aspect", "style")
    assert told.exit_code == 0
    assert f"wrote 150 images under style to {tmp_path}/a.parquet" in told.output
    assert "tpips-index import-embeddings --from" in told.output
