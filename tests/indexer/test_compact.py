"""A compacted index answers as before, byte for byte, whoever reads it meanwhile and whenever it is killed."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import indexer.compacting.compaction
from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.codes import make_codes
from indexer.columns import ERROR_SCHEMA, THUMBNAIL_SCHEMA, Item, LedgerLine, Scalar, error_table, item_table
from indexer.commands.compact import compact
from indexer.commands.thumbnails import add_thumbnails
from indexer.compacting.compaction import compact_parts, part_groups
from indexer.compacting.files import write_array_blocks, write_tables
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import vectors_file
from indexer.index_changes import recorded
from indexer.index_codes import IndexCodes
from indexer.lists import make_lists
from indexer.manifest import Manifest, PartRecord
from indexer.output_folder import output_folder
from indexer.parquet_settings import TABLE_SETTINGS, THUMBNAIL_SETTINGS
from indexer.part import write_array, write_items, write_ledger, write_thumbnails
from indexer.removal import REMOVED, remove_rows
from indexer.thumbnails import index_thumbnail
from indexer.verifying.vector_check import check_vectors
from search import Searcher
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import content, picture_bytes, tree, write_pictures
from tpips_model.aspects import Aspect

COUNT = 50
# Of other types in other parts of seven: bool, int, float, text, and none at all.
YEARS: list[Scalar] = [*[True] * 7, *range(1900, 1907), *[2.5] * 7, *["?"] * 7, *[None] * 22]
PRICES: list[Scalar] = [*range(14), *[0.5] * 36]


def unit_rows(count: int, seed: int, dim: int = 16) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_full(path: Path, *, count: int = COUNT, rows_per_part: int = 7) -> Path:
    """Write an index that has everything an index can have, and rows removed from three parts, from one of them all."""
    write_index(
        path,
        {"overall": unit_rows(count, 1), "brushwork": unit_rows(count, 2)},
        rows_per_part=rows_per_part,
        metadata=[{"year": YEARS[row], "price": PRICES[row], "name": f"n{row % 3}"} for row in range(count)],
        pictures=[picture_bytes(row) for row in range(count)],
        errors=[LedgerLine("broken.png", "it is broken")],
        codes=True,
    )
    with output_folder(path) as opened:
        assert opened is not None
        opened = make_lists(opened, 4, progress=False)
        opened, _ = add_thumbnails(opened, 32, progress=False)
        remove_rows(opened, np.array([0, 5, *range(14, 21), count - 1], np.int64))
    return path


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_full(tmp_path_factory.mktemp("full") / "Élan a=b")


@pytest.fixture
def index(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "Élan a=b"))


def run(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(compact)
    app([*map(str, arguments), "--no-progress"], standalone_mode=False)


def live_content(index: IndexDirectory) -> dict[str, Any]:
    """Return everything that is stored of the items that are not removed, and what else there is."""
    rows = index.live_rows()
    rows = np.arange(index.rows) if rows is None else rows
    joined: dict[str, list[Any]] = {
        **{f"vectors {aspect}": index.vectors(aspect) for aspect in index.aspects},
        **{f"codes {aspect}": IndexCodes(index).codes(aspect) for aspect in index.coded_aspects},
        **({"lists": IndexCodes(index).lists()} if index.manifest.list_count else {}),
    }
    return {
        "items": index.live_items(),
        "errors": index.errors().to_pylist(),
        "thumbnails": [index_thumbnail(index, row) for row in rows.tolist()],
        "shards": [shard for part in index.manifest.parts for shard in part.shards],
        **{name: np.concatenate(arrays)[rows].tobytes() for name, arrays in joined.items()},
    }


@pytest.mark.parametrize("rows", [1, 6, 7, 10, 13, 20, 1000])
def test_what_is_not_removed_stays_as_it_was(index: Path, rows: int) -> None:
    before = live_content(IndexDirectory.open(index))
    run(index, "--rows", rows)
    opened = IndexDirectory.open(index, verify=True)
    check_vectors(opened)
    assert opened.live_count == opened.rows == COUNT - 10
    after = live_content(opened)
    assert after["items"].equals(before["items"])
    assert {**after, "items": None} == {**before, "items": None}
    assert all(part.rows <= max(rows, 7) for part in opened.manifest.parts)
    assert sorted(name for name in tree(index) if name.startswith("removed/")) == []


def test_all_in_one_part_with_new_ids_and_no_old_file(index: Path) -> None:
    run(index)
    (part,) = IndexDirectory.open(index).manifest.parts
    assert (part.id, part.rows, part.errors, part.removed) == (8, 40, 11, 0)
    assert part.shards == tuple(f"shard-{number:05d}" for number in range(8))
    files = {name for name in tree(index) if "part-" in name}
    assert files == set(part.files)
    assert len(files) == 2 + 2 * 2 + 1 + 1


def test_twice_changes_nothing(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(index, "--rows", 20)
    before = tree(index)
    assert "8 parts became 3; 10 removed images are no longer stored\n" in capsys.readouterr().out
    run(index, "--rows", 20)
    assert tree(index) == before
    assert "nothing to compact\n" in capsys.readouterr().out


def test_a_part_that_needs_nothing_keeps_its_files(index: Path) -> None:
    kept = {part.id: part for part in IndexDirectory.open(index).manifest.parts if not part.removed}
    run(index, "--rows", 1)
    after = {part.id: part for part in IndexDirectory.open(index).manifest.parts}
    assert len(kept) == 5
    assert all(after[number] == part for number, part in kept.items())


def test_a_part_without_any_item_left_keeps_its_shard_and_its_ledger(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", {"overall": unit_rows(6, 1)}, rows_per_part=3)
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.arange(3), again=True)
    run(index, "--rows", 1)
    opened = IndexDirectory.open(index, verify=True)
    assert [(part.id, part.shards, part.rows) for part in opened.manifest.parts] == [
        (2, ("shard-00000",), 0),
        (1, ("shard-00001",), 3),
    ]
    run(index, "--rows", 3)
    (part,) = IndexDirectory.open(index, verify=True).manifest.parts
    assert part.shards == ("shard-00000", "shard-00001")


def test_nothing_comes_back_with_the_next_build_but_what_may(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 12)
    more = write_pictures(tmp_path / "more", 7)
    out = tmp_path / "index"
    build_from(data, out)
    build_from(more, out, new_source=True)
    with output_folder(out) as opened:
        assert opened is not None
        opened = remove_rows(opened, np.array([1, 12]))
        remove_rows(opened, np.array([2]), again=True)
    run(out)
    opened = IndexDirectory.open(out, verify=True)
    # Two sources are never put together.
    assert [(part.source, part.rows) for part in opened.manifest.parts] == [(0, 10), (1, 6)]
    assert {row["key"]: opened.item_bytes(row) for row in opened.items().to_pylist()} == {
        **{f"{number:04d}.png": picture_bytes(number) for number in range(12) if number not in (1, 2)},
        **{f"more/{number:04d}.png": picture_bytes(number) for number in range(1, 7)},
    }
    build_from(data, out)
    build_from(more, out)
    opened = IndexDirectory.open(out, verify=True)
    assert opened.rows == 17
    assert opened.items(["key"])["key"].to_pylist()[-1] == "0002.png"
    assert [line["key"] for line in opened.errors().to_pylist() if line["reason"] == REMOVED] == [
        "0001.png",
        "more/0000.png",
    ]


def build_from(data: Path, out: Path, *, new_source: bool = False) -> None:
    config = BuildConfig(
        out=out, data=f"folder:{data}", aspects=("brushwork",), shard_size=3, new_source=new_source, progress=False
    )
    build(config, embedder=StubEmbedder())


def test_parts_that_lack_something_are_not_put_among_others(index: Path) -> None:
    aspect = Aspect("brushwork")
    with output_folder(index) as opened:
        assert opened is not None
        parts = list(opened.manifest.parts)
        for number in (3, 4):
            lacking = {name: file for name, file in parts[number].files.items() if "brushwork" not in name}
            parts[number] = replace(parts[number], files=lacking)
        before = live_content(recorded(opened, replace(opened.manifest, parts=tuple(parts))))
    run(index)
    opened = IndexDirectory.open(index, verify=True)
    assert [part.has(aspect) for part in opened.manifest.parts] == [True, False, True]
    assert [len(part.shards) for part in opened.manifest.parts] == [3, 2, 3]
    after = live_content(opened)
    assert after["items"].equals(before["items"])
    assert {**after, "items": None} == {**before, "items": None}


def test_groups_of_any_parts_are_final(full: Path) -> None:
    manifest = IndexDirectory.open(full).manifest
    chance = np.random.default_rng(0)
    for _ in range(200):
        parts = []
        for number in range(int(chance.integers(0, 12))):
            rows = int(chance.integers(0, 9))
            shard = f"//{chance.integers(1, 3)}/x" if chance.random() < 0.3 else "x"
            parts.append(PartRecord(number, (shard,), rows, 0, {}, removed=int(chance.integers(0, rows + 1))))
        groups = part_groups(replace(manifest, parts=tuple(parts)), 8)
        assert [part for group in groups for part in group] == parts
        assert all(len({part.source for part in group}) == 1 for group in groups)
        assert all(len(group) == 1 or sum(part.live for part in group) <= 8 for group in groups)
        # However many of the first are done, the others stay what they are; and of all done, none is left.
        for finished in range(len(groups) + 1):
            done = [PartRecord(100 + n, g[0].shards, sum(p.live for p in g), 0, {}) for n, g in enumerate(groups)]
            now = (*done[:finished], *(part for group in groups[finished:] for part in group))
            again = part_groups(replace(manifest, parts=now), 8)
            assert again == [*((part,) for part in done[:finished]), *groups[finished:]]


def answers(searcher: Searcher) -> list[Any]:
    asked: list[tuple[list[Any], dict[str, Any]]] = [
        ([("picture-000003", "brushwork")], {}),
        ([("picture-000003", "overall"), ("picture-000040", "brushwork", -0.7)], {"overall_penalty": 0.3}),
        ([("picture-000030", "overall")], {"where": "price >= 3", "dedupe": 0.5}),
        ([("picture-000030", "overall"), ("picture-000012", "brushwork")], {"exact": False, "nprobe": 2}),
    ]
    return [[(hit.key, hit.score) for hit in searcher.query(terms, k=60, **more)] for terms, more in asked]


def test_a_searcher_gives_the_same_answers_to_the_last_bit(index: Path) -> None:
    before = answers(Searcher.open(index))
    assert len(before[0]) == COUNT - 10 - 1
    run(index, "--rows", 20)
    assert answers(Searcher.open(index)) == before


def test_who_reads_goes_on_reading_files_that_were_not_looked_at_yet(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = answers(Searcher.open(index))
    searcher = Searcher.open(index)
    before = set(tree(index))
    run(index, "--rows", 20)
    assert "the old files stay until" in capsys.readouterr().out
    assert {name for name in before if "part-" in name} <= set(tree(index))
    assert answers(searcher) == expected
    assert searcher.refresh()
    assert answers(searcher) == expected
    del searcher
    gc.collect()
    run(index, "--rows", 20)
    assert "the old files stay until" not in capsys.readouterr().out
    opened = IndexDirectory.open(index, verify=True)
    named = {name for part in opened.manifest.parts for name in part.files}
    assert {name for name in tree(index) if "part-" in name} == named


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_between_every_two_steps(tmp_path: Path, stride: int) -> None:
    index = tmp_path / "index"
    write_index(
        index,
        {"overall": unit_rows(9, 1)},
        rows_per_part=2,
    )
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array([8]))
    command = [sys.executable, "-m", "tests.fixtures.kill_living", "compact", str(stride), str(tmp_path), str(index)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **one_thread})
    found = json.loads(ran.stdout)
    assert (found["bad"], found["unlike"], found["same"]) == ([], [], True)
    # Two new parts of three files, each with its manifest and its epoch, and what they make superfluous. Fewer would
    # mean that the hooks no longer meet the writer.
    assert found["moments"] >= 2 * (3 + 2) * 6 + 5 * 3
    assert [part.shards for part in IndexDirectory.open(tmp_path / "out").manifest.parts] == [
        ("shard-00000", "shard-00001", "shard-00002"),
        ("shard-00003", "shard-00004"),
    ]


def test_without_room_nothing_is_begun(
    index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(index)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(indexer.compacting.compaction.shutil, "disk_usage", lambda path: usage(10, 9, 1000))
    with pytest.raises(
        IndexDirectoryError, match=r"takes [\d,]+ bytes beside the old ones, and its disk has 1,000 free"
    ):
        compact(index, rows=1000, progress=False)
    assert content(index) == before


def test_a_damaged_file_is_named_and_given_no_new_checksum(index: Path) -> None:
    part = IndexDirectory.open(index).manifest.parts[1]
    path = index / vectors_file(Aspect("brushwork"), part.id)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(IndexDirectoryError, match=r"part-00001\.npy does not have the checksum"):
        compact(index, rows=1000, progress=False)
    assert len(IndexDirectory.open(index).manifest.parts) == 8


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexDirectoryError, match="does not exist"):
        run(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_memory_does_not_grow_with_a_part(tmp_path: Path) -> None:
    rows, dim = 16_384, 1024
    index = write_index(tmp_path / "index", {"overall": np.eye(2, dim, dtype=np.float32)}, rows_per_part=1)
    with output_folder(index) as opened:
        assert opened is not None
        manifest = grown(opened, rows)
        opened = remove_rows(recorded(opened, manifest), np.array([1, 5]))
        tracemalloc.start()
        done = compact_parts(opened, rows=65536, progress=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    (part,) = done.index.manifest.parts
    assert (part.rows, part.files[vectors_file(Aspect("overall"), part.id)].bytes) == (
        2 * rows - 2,
        128 + (2 * rows - 2) * dim * 2,
    )
    # Of 67 MB of vectors no more than two blocks, and all items.
    assert peak < 48 << 20


def grown(index: IndexDirectory, rows: int) -> Manifest:
    """Return a manifest of the same parts, each of as many rows as said."""
    parts = []
    for part in index.manifest.parts:
        number = part.id
        items = [Item(f"{number}-{row}", "x", None, None, 1, 1, 1) for row in range(rows)]
        name = vectors_file(Aspect("overall"), number)
        vectors = np.zeros((rows, index.dim), "<f2")
        vectors[np.arange(rows), np.arange(rows) % index.dim] = 1.0
        files = {
            **part.files,
            f"items/part-{number:05d}.parquet": write_items(index.path, number, item_table(items)),
            name: write_array(index.path / name, vectors),
        }
        parts.append(replace(part, rows=rows, files=files))
    return replace(index.manifest, parts=tuple(parts))


def test_codes_are_copied_and_not_made_anew(index: Path) -> None:
    before = content(index)
    run(index)
    with output_folder(index) as opened:
        assert opened is not None
        make_codes(opened, opened.aspects, progress=False)
    after = content(index)
    made = [name for name in after if name.endswith((".safetensors",))]
    assert len(made) == 3
    assert all(after[name] == before[name] for name in made)


@pytest.mark.parametrize("count", [0, 1, 64, 200])
def test_files_in_pieces_have_the_bytes_of_files_written_at_once(tmp_path: Path, count: int) -> None:
    at_once, pieces = tmp_path / "once", tmp_path / "pieces"
    array = unit_rows(count, 1).astype("<f2")
    blocks = [array[:3], array[3:3], array[3:]]
    written = write_array_blocks(pieces / "a.npy", blocks, dtype=array.dtype, shape=array.shape)
    assert written == write_array(at_once / "a.npy", array)
    items = item_table([Item(f"k{n}", f"f{n // 7}", None, n, 1, 2, 3, {"s": f"v{n % 3}"}) for n in range(count)])
    ledger = error_table([LedgerLine(f"k{n}", "why") for n in range(count)])
    small = pa.table([pa.array([bytes([n]) * n for n in range(count)], pa.binary())], schema=THUMBNAIL_SCHEMA)
    for name, table, schema, rows, settings in (
        ("items", items, items.schema, 65536, TABLE_SETTINGS),
        ("errors", ledger, ERROR_SCHEMA, 65536, TABLE_SETTINGS),
        ("thumbnails", small, THUMBNAIL_SCHEMA, 16, THUMBNAIL_SETTINGS),
    ):
        parts = [table.slice(start, 7) for start in range(0, count, 7)]
        path = pieces / f"{name}/part-00000.parquet"
        write_tables(path, parts, schema=schema, rows_per_group=rows, settings=settings)
    write_items(at_once, 0, items)
    write_ledger(at_once, 0, [LedgerLine(f"k{n}", "why") for n in range(count)])
    write_thumbnails(at_once, 0, small["thumbnail"].to_pylist())
    assert tree(pieces) == tree(at_once)
    assert pq.read_metadata(pieces / "thumbnails/part-00000.parquet").num_rows == count
