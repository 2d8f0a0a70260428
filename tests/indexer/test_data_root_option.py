"""--data-root says of each of an index's sources where its pictures are now."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.command_line import app
from indexer.commands.data_root import given_data_root
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.verifying.verify import VerifyConfig, verify
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import write_pictures


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--no-progress"], env={"COLUMNS": "160"})


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """An index of three sources, all of which have been moved since; one has "=" in its name."""
    for number, name in enumerate(("data", "more", "a=b")):
        place = write_pictures(tmp_path / name, 2, first=10 * number)
        config = BuildConfig(out=tmp_path / "index", data=str(place), new_source=number > 0, progress=False)
        build(config, embedder=StubEmbedder())
        (tmp_path / "now").mkdir(exist_ok=True)
        os.rename(place, tmp_path / "now" / name)
    return tmp_path / "index"


def test_every_source_is_found_where_it_is_now(moved: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    roots = ("--data-root", now / "data", "--data-root", f"more={now / 'more'}", "--data-root", f"a=b={now / 'a=b'}")
    verified = command("verify", moved, "--no-model", "--json", *roots)
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["ok"]
    assert "none of the 2 pictures" in str(command("thumbnails", moved, "--side", 32, *roots[:4]).exception)
    made = command("thumbnails", moved, "--side", 32, *roots)
    assert "thumbnails of 32 pixels for 6 images" in made.stdout
    assert all(part.has_thumbnails for part in IndexDirectory.open(moved).manifest.parts)


def test_of_several_places_for_one_source_none_is_taken_silently(moved: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    for name in ("verify", "thumbnails"):
        refused = command(name, moved, "--data-root", now / "data", "--data-root", now / "more")
        assert isinstance(refused.exception, IndexDirectoryError)
        assert "--data-root says twice where the first pictures of the index are" in str(refused.exception)
        unknown = command(name, moved, "--data-root", f"others={now / 'more'}")
        assert "has no source 'others'" in str(unknown.exception)
        assert "its sources: '', 'more', 'a=b'" in str(unknown.exception)


def test_a_folder_that_is_not_there_is_refused_wherever_it_is_given(moved: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    (tmp_path / "file").write_text("")
    for name in ("verify", "thumbnails"):
        for given in ("nosuch", "more=nosuch", f"more={tmp_path / 'file'}"):
            refused = command(name, moved, "--data-root", given)
            assert isinstance(refused.exception, IndexDirectoryError)
            folder = given.removeprefix("more=")
            assert f"--data-root {given!r}: there is no folder {folder!r}; give the one" in str(refused.exception)
    for root in (now / "gone", {"": now / "data", "more": now / "gone"}):
        with pytest.raises(IndexDirectoryError, match=r"the data root '.*gone' is no folder; give the one that"):
            IndexDirectory.open(moved, data_root=root)
        with pytest.raises(IndexDirectoryError, match=r"the data root '.*gone' is no folder; give the one that"):
            verify(VerifyConfig(moved, data_root=root, use_model=False, progress=False))


def test_an_index_opens_without_its_pictures_and_stays_open_when_they_go(moved: Path, tmp_path: Path) -> None:
    assert len(IndexDirectory.open(moved).data_roots) == 3
    opened = IndexDirectory.open(moved, data_root=tmp_path / "now/data")
    os.rename(tmp_path / "now/data", tmp_path / "unplugged")
    assert opened.reopened().data_root == tmp_path / "now/data"


def test_prefix_and_folder_are_told_apart_by_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x=y").mkdir()
    (tmp_path / "y").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    place = str(tmp_path)
    assert given_data_root(None) is given_data_root([]) is None
    for text, expected in (
        (f"{place}/x=y", {"": tmp_path / "x=y"}),
        (f"more={place}/x=y", {"more": tmp_path / "x=y"}),
        (f"a=b={place}/y", {"a=b": tmp_path / "y"}),
        (f"={place}/x=y", {"": tmp_path / "x=y"}),
        ("more=~/y", {"more": tmp_path / "y"}),
        ("more/=~/y", {"more": tmp_path / "y"}),
        ("a/b/=~/y", {"a/b": tmp_path / "y"}),
        ("/=~/y", {"/": tmp_path / "y"}),
    ):
        assert given_data_root([text]) == expected, text
    for text in ("", "more=", "="):
        with pytest.raises(IndexDirectoryError, match="names no folder; give FOLDER or PREFIX=FOLDER"):
            given_data_root([text])
    with pytest.raises(IndexDirectoryError, match="says twice where the pictures whose keys begin with 'more' are"):
        given_data_root([f"more={place}", f"more/={place}/y"])
    with pytest.raises(IndexDirectoryError, match=r"--data-root .* cannot be used"):
        given_data_root(["more=\0"])
