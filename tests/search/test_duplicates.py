from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

from indexer.codes import make_codes
from indexer.directory import IndexDirectory
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from search.commands.duplicates import duplicates
from search.commands.remove import remove
from search.duplicates.groups import find_duplicates
from search.duplicates.near_groups import stars_by_codes, stars_of_all_pairs
from search.engine import Engine
from search.terms import QueryError
from search.vectors import StoredVectors
from tests.fixtures.indices import write_index

COUNT, DIM = 60, 16


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    rows = np.asarray(vectors, np.float64)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(count: int, *, seed: int = 0, dim: int = DIM) -> NDArray[np.float32]:
    """Return vectors that lie in small clouds, chains and copies, so that nearness is not transitive."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((max(count // 6, 1), dim))
    vectors = centers[rng.integers(0, len(centers), count)] + 0.12 * rng.standard_normal((count, dim))
    vectors[count // 2 :: 7] = vectors[0]
    return unit(vectors)


def stars_by_hand(vectors: NDArray[np.float16], order: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
    """Return what each place belongs to, row by row in float64."""
    rows = vectors[order].astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    owner = np.full(len(order), -1)
    for place in range(len(order)):
        if owner[place] < 0:
            owner[(owner < 0) & (rows @ rows[place] >= threshold - 1e-9)] = place
            owner[place] = place
    return owner


def nothing(_: int) -> None:
    pass


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.98, 1.0])
@pytest.mark.parametrize("sizes", [(8, 5), (1, 1), (1000, 1000)])
def test_stars_are_those_found_row_by_row(
    threshold: float, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.duplicates.near_groups.BLOCK_ROWS", sizes[0])
    monkeypatch.setattr("search.duplicates.near_groups.TILE_ROWS", sizes[1])
    monkeypatch.setattr("search.duplicates.near_groups.CHECKED_PAIRS", 3)
    for seed in range(3):
        vectors = clustered(90, seed=seed).astype(np.float16)
        order = np.random.default_rng(seed).permutation(90)[:80]
        store = StoredVectors.of_arrays({"overall": [vectors[:31], vectors[31:]]})
        found = stars_of_all_pairs(order, store, threshold, advance=nothing)
        assert np.array_equal(found, stars_by_hand(vectors, order, threshold))


def test_no_member_of_a_star_is_far_from_what_stays() -> None:
    angles = np.linspace(0.0, np.pi / 2, 30)  # a chain: each is near the next, and the ends are at right angles
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)
    store = StoredVectors.of_arrays({"overall": [vectors]})
    owner = stars_of_all_pairs(np.arange(30), store, 0.98, advance=nothing)
    rows = unit(vectors.astype(np.float32))
    assert len(set(owner.tolist())) > 3
    assert (np.einsum("nd,nd->n", rows, rows[owner]) >= 0.98 - 1e-6).all()


@pytest.mark.parametrize("threshold", [0.9, 0.98, 1.0])
def test_the_codes_find_the_same_stars(tmp_path: Path, threshold: float) -> None:
    vectors = clustered(1500)
    index = IndexDirectory.open(write_index(tmp_path / "index", {"overall": vectors}, rows_per_part=400))
    index = make_codes(index, index.aspects, progress=False)
    store = StoredVectors.of_index(index)
    order = np.random.default_rng(0).permutation(1500)[:1200]
    found = stars_by_codes(order, Engine(store, index), store, threshold, advance=nothing)
    assert np.array_equal(found, stars_of_all_pairs(order, store, threshold, advance=nothing))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Sixty items: 3, 20 and 50 of the same bytes; 8 and 9 of the same size and other bytes; 30, 31 and 59 near."""
    rng = np.random.default_rng(1)
    pictures = [rng.bytes(200 + number) for number in range(COUNT)]
    pictures[20] = pictures[50] = pictures[3]
    pictures[9] = pictures[8][::-1]
    vectors = unit(rng.standard_normal((COUNT, DIM)))
    vectors[31] = unit(vectors[30:31] + 0.01 * rng.standard_normal((1, DIM)))[0]
    vectors[59] = unit(vectors[30:31] + 0.01 * rng.standard_normal((1, DIM)))[0]
    vectors[20] = vectors[3]  # 50 has the bytes of 3, and another vector
    return write_index(
        tmp_path / "Картины",
        {"overall": vectors, "style": vectors},
        pictures=pictures,
        keys=[f"картина {number}" for number in range(COUNT)],
        rows_per_part=25,
    )


def test_groups_of_bytes_and_of_vectors(index: Path) -> None:
    report = find_duplicates(IndexDirectory.open(index), progress=False)
    (same,) = report.identical
    assert same.keys == ("картина 3", "картина 20", "картина 50")
    assert same.sizes == (203, 203, 203)
    assert same.saved == 406
    assert report.near is not None
    (near,) = report.near
    # All have 64 pixels, so the most bytes stay.
    assert near.keys == ("картина 59", "картина 31", "картина 30")
    assert near.saved == 230 + 231
    assert near.cosines[0] == pytest.approx(1.0)
    assert min(near.cosines) > 0.98
    assert report.spare_keys() == ["картина 20", "картина 50", "картина 31", "картина 30"]
    assert (report.items, report.exact, report.unreadable, report.without_picture) == (60, True, (), 0)


def test_a_copy_is_not_told_twice(index: Path) -> None:
    """Items 3 and 20 have the same vector too; whoever removes all spare keys removes each once."""
    report = find_duplicates(IndexDirectory.open(index), cosine=1.0, progress=False)
    assert report.near == ()
    keys = find_duplicates(IndexDirectory.open(index), cosine=1e-6, progress=False).spare_keys()
    assert len(keys) == len(set(keys))


def test_removed_items_do_not_count(index: Path) -> None:
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array([3, 30, 59]))
    report = find_duplicates(IndexDirectory.open(index), progress=False)
    assert [group.keys for group in report.identical] == [("картина 20", "картина 50")]
    assert report.near == ()
    assert report.items == 57


def test_what_cannot_be_read_is_told_and_not_fatal(index: Path, tmp_path: Path) -> None:
    (index / "gallery" / "000003.png").unlink()
    (tmp_path / "outside.png").write_bytes((index / "gallery" / "000050.png").read_bytes())
    (index / "gallery" / "000050.png").unlink()
    (index / "gallery" / "000050.png").symlink_to(tmp_path / "outside.png")
    report = find_duplicates(IndexDirectory.open(index), progress=False)
    assert report.identical == ()
    assert [key for key, _ in report.unreadable] == ["картина 3", "картина 50"]
    assert "No such file" in report.unreadable[0][1]
    assert "is not inside" in report.unreadable[1][1]
    assert report.near is not None
    assert ("картина 3", "картина 20") in [group.keys for group in report.near]  # by their vectors


def test_without_overall_vectors_only_bytes_are_compared(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", {"style": unit(np.eye(4))}, pictures=[b"a", b"b", b"a", b"cc"])
    report = find_duplicates(IndexDirectory.open(index), progress=False)
    assert report.near is None
    assert [group.keys for group in report.identical] == [("picture-000000", "picture-000002")]


@pytest.mark.parametrize("cosine", [0.0, -1.0, 1.01, float("nan")])
def test_a_cosine_out_of_range_is_refused(index: Path, cosine: float) -> None:
    with pytest.raises(QueryError, match="must be above 0 and at most 1"):
        find_duplicates(IndexDirectory.open(index), cosine=cosine, progress=False)


def command(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(duplicates)
    app.command()(remove)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_command_tells_groups_and_bytes(index: Path) -> None:
    told = command("duplicates", index, "--no-progress").output
    assert "of the same bytes: 1 group among 60 images; 2 could go, 406 bytes" in told
    assert "overall similar by 0.98 or more: 1 group among 60 images; 2 could go, 461 bytes" in told
    assert "картина 20, картина 50" in told
    assert "--keys-from" in told
    both = command("duplicates", index, "--json", "--keys-only")
    assert both.exit_code == 2


def test_pictures_that_are_away_are_told_whether_or_not_any_would_have_been_read(tmp_path: Path, index: Path) -> None:
    told = command("duplicates", index, "--no-progress").output
    assert "no folder" not in told
    bare = write_index(tmp_path / "bare", {"overall": unit(np.eye(3, DIM))}, pictures=[b"a", b"bb", b"ccc"])
    for one, unread in ((index, "5 could not be read, so their bytes were not compared"), (bare, "")):
        (one / "gallery").rename(tmp_path / f"{one.name} now")
        away = f"no folder {one / 'gallery'}: no picture in it can be read, and those of different sizes were"
        told = command("duplicates", one, "--no-progress").stdout
        assert "of the same bytes: 0 groups" in told
        assert away in told
        assert unread in told
        keys = command("duplicates", one, "--no-progress", "--keys-only")
        assert away in keys.stderr
        assert "no folder" not in keys.stdout
        record = json.loads(command("duplicates", one, "--no-progress", "--json").stdout)
        assert (record["away"], record["compared"]) == ([str(one / "gallery")], 0)
        found = command("duplicates", one, "--no-progress", "--data-root", tmp_path / f"{one.name} now").output
        assert "no folder" not in found


def test_json_is_for_machines(index: Path) -> None:
    record = json.loads(command("duplicates", index, "--json", "--no-progress").output)
    assert record["identical"]["found"][0]["keys"] == ["картина 3", "картина 20", "картина 50"]
    assert record["identical"]["spare_bytes"] == 406
    assert record["near"]["groups"] == 1
    assert record["exact"] is True
    limited = json.loads(command("duplicates", index, "--json", "--cosine", 0.01, "--limit", 1, "--no-progress").output)
    assert len(limited["near"]["found"]) == 1 < limited["near"]["groups"]


def test_spare_keys_can_be_removed(index: Path, tmp_path: Path) -> None:
    keys = command("duplicates", index, "--keys-only", "--no-progress").output
    (tmp_path / "spare.txt").write_text(keys, encoding="utf-8")
    assert "removed 4 images" in command("remove", index, "--keys-from", tmp_path / "spare.txt").output
    left = IndexDirectory.open(index)
    assert left.live_count == COUNT - 4
    report = find_duplicates(left, progress=False)
    assert (report.identical, report.near) == ((), ())
    assert command("duplicates", index, "--keys-only", "--no-progress").output == ""


def test_keys_that_hold_line_breaks_are_never_taken_for_two(tmp_path: Path) -> None:
    vectors = unit(np.random.default_rng(2).standard_normal((4, DIM)))
    vectors[3] = vectors[0]
    keys = ["a", "b", "c", "c\nb"]
    index = write_index(tmp_path / "index", {"overall": vectors}, keys=keys)
    with pytest.raises(AssertionError, match="give --null here and to tpips-index remove"):
        command("duplicates", index, "--keys-only", "--no-progress")
    told = command("duplicates", index, "--keys-only", "--null", "--no-progress").stdout
    assert told == "c\nb\0"
    (tmp_path / "keys").write_bytes(told.encode())
    assert "removed 1 image" in command("remove", index, "--keys-from", tmp_path / "keys", "--null").output
    assert IndexDirectory.open(index).removed_rows.tolist() == [3]
