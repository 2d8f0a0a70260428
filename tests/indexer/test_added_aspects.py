from __future__ import annotations

from pathlib import Path

import pytest

from indexer.building.build_config import BuildError
from indexer.directory import IndexDirectory, IndexDirectoryError
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.tars import write_tar
from tests.indexer.test_build import Counting, assert_rows_are_the_pictures, interrupt_at, run
from tpips_model import AspectError


@pytest.fixture(params=["folder", "webdataset"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        folder = write_pictures(tmp_path / "data", 10)
        for number in (1, 4, 5, 6, 7):  # the second part has ledger lines only
            (folder / f"{number:04d}.png").write_text("bad")
        return f"folder:{folder}"
    for shard in range(3):
        members = [(f"{number}.png", picture_bytes(10 * shard + number)) for number in range(5)]
        write_tar(tmp_path / f"data/{shard}.tar", [*members, ("bad.png", b"bad")])
    return f"webdataset:{tmp_path}/data/{{0..2}}.tar"


def test_an_aspect_added_later_touches_no_other_file_and_gives_the_index_of_one_asked_at_once(
    tmp_path: Path, data: str
) -> None:
    run(tmp_path / "at once", data, "brushwork", "lighting", "Color palette")
    run(tmp_path / "index", data, "brushwork")
    before = tree(tmp_path / "index")
    embedder = Counting()
    summary = run(tmp_path / "index", None, "lighting", "Color palette", embedder=embedder)
    assert [aspect.text for aspect in summary.aspects_added] == ["lighting", "Color palette"]
    assert {aspects for _, aspects in embedder.asked} == {("lighting", "Color palette")}
    after = tree(tmp_path / "index")
    assert {name for name in before if before[name] != after[name]} == {"manifest.json"}
    assert {name.split("/")[1] for name in set(after) - set(before)} == {"lighting", "color-palette"}
    assert after == tree(tmp_path / "at once")
    assert_rows_are_the_pictures(IndexDirectory.open(tmp_path / "index", verify=True))


def test_adding_that_was_stopped_goes_on_to_the_same_index(tmp_path: Path, data: str) -> None:
    run(tmp_path / "at once", data, "brushwork", "lighting")
    run(tmp_path / "index", data, "brushwork")
    with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
        run(tmp_path / "index", data, "lighting", embedder=interrupt_at(1 if data.startswith("folder") else 3))
    begun = IndexDirectory.open(tmp_path / "index")
    assert [aspect.text for aspect in begun.aspects] == ["overall", "brushwork"]
    assert [aspect.text for aspect in begun.manifest.aspects] == ["overall", "brushwork", "lighting"]
    run(tmp_path / "index", None)  # what was begun is completed without naming it again
    assert tree(tmp_path / "index") == tree(tmp_path / "at once")


def test_new_pictures_and_a_new_aspect_come_together(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "data", 5)
    run(tmp_path / "index", folder, "brushwork")
    write_pictures(folder, 3, first=5)
    embedder = Counting()
    summary = run(tmp_path / "index", folder, "lighting", embedder=embedder)
    assert (summary.images, [aspect.text for aspect in summary.aspects_added]) == (3, ["lighting"])
    everything = ("overall", "brushwork", "lighting")
    assert embedder.asked == [(3, ("lighting",)), (1, ("lighting",)), (1, ("lighting",)), (3, everything)]
    assert_rows_are_the_pictures(IndexDirectory.open(tmp_path / "index"))


def test_an_aspect_whose_folder_is_taken_by_another_is_refused(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "data", 2)
    run(tmp_path / "index", folder, "color palette")
    before = tree(tmp_path / "index")
    with pytest.raises(AspectError, match="'color palette' and 'Color-Palette' would share the name"):
        run(tmp_path / "index", folder, "Color-Palette")
    assert tree(tmp_path / "index") == before


def test_a_picture_that_has_vanished_or_changed_is_named_before_anything_is_embedded(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "data", 6)
    run(tmp_path / "index", folder)
    before = tree(tmp_path / "index")
    (folder / "0004.png").rename(tmp_path / "away.png")
    (folder / "0005.png").write_bytes(picture_bytes(5) + b"more")
    embedder = Counting()
    message = "cannot add 'lighting': 1 indexed pictures have vanished and 1 have changed, such as '0004.png'; restore"
    with pytest.raises(BuildError, match=message):
        run(tmp_path / "index", folder, "lighting", embedder=embedder)
    assert (embedder.asked, tree(tmp_path / "index")) == ([], before)
    (tmp_path / "away.png").rename(folder / "0004.png")
    (folder / "0005.png").write_bytes(picture_bytes(5))
    assert run(tmp_path / "index", folder, "lighting").aspects_added


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (picture_bytes(9, width=8, height=12), "it was 12×8 pixels large and is now 8×12"),
        (b"x" * 400, "it begins with b'xxxx"),
    ],
    ids=["another picture", "no picture"],
)
def test_another_picture_of_the_same_size_in_bytes_is_noticed(tmp_path: Path, data: bytes, message: str) -> None:
    folder = write_pictures(tmp_path / "data", 2)
    size = max(len(data), len(picture_bytes(1)))
    (folder / "0001.png").write_bytes(picture_bytes(1).ljust(size, b"\0"))
    run(tmp_path / "index", folder)
    (folder / "0001.png").write_bytes(data.ljust(size, b"\0"))
    with pytest.raises(BuildError, match=f"'0001.png' has changed since it was indexed: {message}"):
        run(tmp_path / "index", folder, "lighting")


def test_a_shard_that_was_cut_since_is_noticed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "data/0.tar", [("a.png", picture_bytes(1)), ("b.png", picture_bytes(2))])
    run(tmp_path / "index", path)
    path.write_bytes(path.read_bytes()[: path.read_bytes().index(b"b.png") + 600])
    with pytest.raises(BuildError, match="1 have changed, such as '0/b'"):
        run(tmp_path / "index", None, "lighting")
    path.unlink()
    with pytest.raises(BuildError, match="2 indexed pictures have vanished"):
        run(tmp_path / "index", None, "lighting")


def test_a_picture_that_goes_while_aspects_are_added_is_named(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "data", 30)
    run(tmp_path / "index", folder)
    embedder = Counting(lambda call: (folder / "0029.png").unlink(missing_ok=True))
    with pytest.raises(IndexDirectoryError, match=r"'0029.png': .* cannot be read: No such file"):
        run(tmp_path / "index", folder, "lighting", embedder=embedder)
    assert [aspect.text for aspect in IndexDirectory.open(tmp_path / "index").aspects] == ["overall"]
