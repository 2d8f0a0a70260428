from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.directory import IndexDirectory
from indexer.lock import writer_lock
from search.command_line import app
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import content, picture_bytes


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
    assert "would remove 1 images: picture-000007" in command(index, "--changed", "--dry-run")[1]
    assert "removed 1 images: picture-000005" in command(index, "--vanished")[1]
    assert "removed 1 images: picture-000007" in command(index, "--vanished", "--changed", "--again")[1]
    assert removed(index) == [5, 7]
    assert IndexDirectory.open(index).errors()["key"].to_pylist() == ["picture-000005"]


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
