from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.directory import IndexDirectory
from indexer.lock import writer_lock
from search.command_line import app
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import content, picture_bytes, write_pictures
from tests.fixtures.tars import write_tar


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = np.random.default_rng(1).standard_normal((20, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return write_index(
        tmp_path / "an index",
        {"overall": vectors},
        metadata=[{"year": 1900 + row} for row in range(20)],
        pictures=[picture_bytes(row) for row in range(20)],
        rows_per_part=6,
    )


def command(*arguments: object, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["remove", *map(str, arguments)], input=text)
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


def removed(index: Path) -> list[int]:
    return [int(row) for row in IndexDirectory.open(index, verify=True).removed_rows]


def test_by_key_by_file_of_keys_by_filter_and_all_at_once(index: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("picture-000003\npicture-000009\n")
    code, said = command(
        index, "--key", "picture-000001", "--keys-from", tmp_path / "keys.txt", "--where", "year >= 1918"
    )
    assert code == 0
    assert "removed 5 images: picture-000001, picture-000003, picture-000009, picture-000018, picture-000019" in said
    assert "5 removed images are stored still; to be rid of them: tpips-index compact '" in said
    assert said.endswith("holds 15 images\n")
    assert removed(index) == [1, 3, 9, 18, 19]
    assert command(index, "--where", "year >= 1918") == (
        0,
        f"removed 0 images\n5 removed images are stored still; to be rid of them: tpips-index compact '{index}'\n"
        f"{index} holds 15 images\n",
    )


def test_keys_come_through_a_pipe(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(index, "--keys-from", "-", text="picture-000004\n\n")[0] == 0
    assert removed(index) == [4]
    assert command(index, "--keys-from", "-", text="")[1].startswith("removed 0 images\n")


def test_keys_end_with_nulls_or_lines_of_any_system(index: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"\xef\xbb\xbfpicture-000001\r\npicture-000002\r\n")
    assert command(index, "--keys-from", tmp_path / "keys.txt")[0] == 0
    assert command(index, "--keys-from", "-", "--null", text="picture-000005\0picture-000006\0")[0] == 0
    assert removed(index) == [1, 2, 5, 6]


def test_what_is_no_file_of_keys_is_not_read(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = command(index, "--keys-from", "/dev/zero")
    assert (code, "is no regular file" in said) == (1, True)
    monkeypatch.setattr("search.commands.remove._MAX_KEYS_BYTES", 20)
    assert "more than 20 bytes of keys" in command(index, "--keys-from", "-", text="picture-000005\n" * 3)[1]
    assert removed(index) == []


def test_a_dry_run_changes_nothing(index: Path) -> None:
    before = content(index)
    code, said = command(index, "--where", "year < 1910", "--dry-run")
    assert (code, said) == (
        0,
        "would remove 10 images: picture-000000, picture-000001, picture-000002, picture-000003, picture-000004, …\n"
        f"{index} holds 20 images\n",
    )
    assert content(index) == before | {"lock": b""}


def test_vanished_and_changed_pictures(index: Path) -> None:
    (index / "gallery/000005.png").unlink()
    (index / "gallery/000007.png").write_bytes(b"another picture")
    assert "would remove 1 image: picture-000007" in command(index, "--changed", "--dry-run")[1]
    assert "removed 1 image: picture-000005" in command(index, "--vanished")[1]
    assert "removed 1 image: picture-000007" in command(index, "--vanished", "--changed", "--again")[1]
    assert removed(index) == [5, 7]
    assert IndexDirectory.open(index).errors()["key"].to_pylist() == ["picture-000005"]


def test_a_place_that_is_away_is_not_emptied(index: Path) -> None:
    (index / "gallery").rename(index.parent / "elsewhere")
    code, said = command(index, "--vanished")
    assert code == 1
    assert "are gone, as when a disk is away or the index was moved; nothing was removed" in said
    assert removed(index) == []
    (index.parent / "elsewhere").rename(index / "gallery")
    (index / "gallery/000004.png").unlink()
    assert command(index, "--vanished")[0] == 0
    for path in (index / "gallery").iterdir():
        path.unlink()
    assert command(index, "--vanished")[0] == 1
    assert command(index, "--vanished", "--even-all")[0] == 0
    assert IndexDirectory.open(index).live_count == 0


def test_removed_pictures_can_come_back(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    tars = write_tar(tmp_path / "tars/a.tar", [(f"{n}.png", picture_bytes(20 + n)) for n in range(3)]).parent

    def run(place: object, *, retry: bool = False) -> None:
        config = BuildConfig(out=out, data=str(place), new_source=True, retry_failed=retry, progress=False)
        build(config, embedder=StubEmbedder())

    run(data)
    run(tars)
    assert command(out, "--key", "0001.png", "--key", "0002.png", "--key", "tars/a/1")[0] == 0
    assert command(out, "--undo", "--key", "0001.png")[1].startswith("1 removed image may be indexed again")
    run(data, retry=True)
    keys = sorted(IndexDirectory.open(out).live_items(["key"])["key"].to_pylist())
    assert keys[:3] == ["0000.png", "0001.png", "0003.png"]
    assert command(out, "--undo")[1].startswith("2 removed images may be indexed again")
    run(data, retry=True)
    run(tars, retry=True)
    opened = IndexDirectory.open(out, verify=True)
    assert (opened.live_count, opened.errors().num_rows) == (9, 0)
    assert command(out, "--undo")[1].startswith("0 removed images")
    assert command(out, "--undo", "--vanished")[0] == 2


def test_moved_pictures_are_found_again(index: Path) -> None:
    def moved(*arguments: object) -> str:
        result = CliRunner().invoke(app, ["moved", str(index), *map(str, arguments)])
        return result.output + (str(result.exception) if result.exception else "")

    (index / "gallery").rename(index.parent / "new place")
    before = content(index)
    (index.parent / "other").mkdir()
    assert "none of the pictures is in" in moved(index.parent / "other")
    assert "does not exist" in moved(index.parent / "nowhere")
    assert "no source of the index has the prefix 'x'; there are ''" in moved(
        index.parent / "new place", "--prefix", "x"
    )
    assert content(index) == before | {"lock": b""}
    (index.parent / "new place/000003.png").unlink()
    assert "new place now; in all 1 is gone and 0 have changed" in moved(index.parent / "new place")
    opened = IndexDirectory.open(index, verify=True)
    assert opened.manifest.source.root == "../new place"
    assert opened.item_bytes(opened.items().to_pylist()[5]) == picture_bytes(5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to remove: --key, --keys-from, --where"),
        (["--key", "picture-000003", "--key", "picture-0000"], "no picture has the key 'picture-0000'; near it"),
        (["--where", "yeer = 3"], "yeer"),
        (["--keys-from", "nowhere.txt"], "the file of keys .*nowhere.txt cannot be read"),
        (["--keys-from", sys.executable], "the file of keys .* cannot be read"),
    ],
)
def test_what_cannot_be_removed_is_one_error_and_nothing_is(index: Path, arguments: list[str], message: str) -> None:
    code, said = command(index, *arguments)
    assert code != 0
    assert message.split(".*")[0] in " ".join(said.split())
    assert removed(index) == []


def test_where_there_is_no_index_none_is_made(tmp_path: Path) -> None:
    code, said = command(tmp_path / "nothing", "--key", "a")
    assert code == 1
    assert "does not exist" in said
    assert not (tmp_path / "nothing").exists()


def test_two_writers_are_one_too_many(index: Path) -> None:
    with writer_lock(index):
        code, said = command(index, "--key", "picture-000003")
    assert code == 1
    assert "is writing to" in said
