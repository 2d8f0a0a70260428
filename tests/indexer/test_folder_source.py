from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from indexer.sources.folder import FolderSource
from indexer.sources.source import BadSample, Indexed, Sample, SourceError
from tests.fixtures.picture_folders import picture_bytes, write_pictures


def samples(source: FolderSource, indexed: Indexed | None = None) -> list[Sample | BadSample]:
    return [sample for shard in source.shards(indexed or Indexed()) for sample in source.read(shard)]


def keys(source: FolderSource) -> list[str]:
    return [sample.key for sample in samples(source) if isinstance(sample, Sample)]


def faults(source: FolderSource) -> dict[str, str]:
    return {sample.key: sample.reason for sample in samples(source) if isinstance(sample, BadSample)}


def put(path: Path, data: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture_bytes(0) if data is None else data)
    return path


def test_pictures_are_found_recursively_in_any_case_and_others_passed_over(tmp_path: Path) -> None:
    for name in (
        "b.JPG",
        "a/c.jpeg",
        "a/b/d.PnG",
        "e.webp",
        "f.gif",
        "g.bmp",
        "h.tif",
        "i.TIFF",
        "a.b_1.jpg",
        "j.avif",
    ):
        put(tmp_path / name)
    for name in ("notes.txt", "README", "jpg", "x.jpg.part", ".hidden.jpg", ".trash/k.jpg", "a/.thumbs/l.jpg"):
        put(tmp_path / name)
    assert keys(FolderSource(tmp_path)) == [
        "a.b_1.jpg",
        "a/b/d.PnG",
        "a/c.jpeg",
        "b.JPG",
        "e.webp",
        "f.gif",
        "g.bmp",
        "h.tif",
        "i.TIFF",
        "j.avif",
    ]


def test_a_sample_holds_its_bytes_and_where_they_are(tmp_path: Path) -> None:
    name, data = "Málaga/猫 1.png", picture_bytes(3)
    put(tmp_path / name, data)
    assert samples(FolderSource(tmp_path)) == [Sample(name, data, file=name, member=None, offset=None, size=len(data))]


def test_order_is_by_the_composed_form_of_the_path(tmp_path: Path) -> None:
    names = ["e\u0301a.png", "\u00e9b.png", "f.png", "z.png", "e.png"]
    for name in names:
        put(tmp_path / name)
    assert keys(FolderSource(tmp_path)) == ["e.png", "f.png", "z.png", "e\u0301a.png", "\u00e9b.png"]


def test_shards_are_runs_of_files_not_yet_indexed(tmp_path: Path) -> None:
    source = FolderSource(write_pictures(tmp_path, 5), shard_size=2)
    assert [(shard.name, shard.samples) for shard in source.shards(Indexed())] == [
        ("files-00000", 2),
        ("files-00001", 2),
        ("files-00002", 1),
    ]
    indexed = Indexed(keys=frozenset(("0001.png", "0002.png")), shards=frozenset(("files-00000",)))
    assert [(shard.name, shard.samples) for shard in source.shards(indexed)] == [("files-00001", 2), ("files-00002", 1)]
    assert [sample.key for sample in samples(source, indexed)] == ["0000.png", "0003.png", "0004.png"]


def test_a_name_that_is_not_utf_8_is_a_readable_line(tmp_path: Path) -> None:
    put(tmp_path / "good.png")
    try:
        with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9.png"), "wb") as stream:
            stream.write(picture_bytes(0))
    except OSError as error:
        pytest.skip(f"this file system takes UTF-8 names only: {error}")
    assert keys(FolderSource(tmp_path)) == ["good.png"]
    assert faults(FolderSource(tmp_path)) == {
        "caf\\xe9.png": "its name is not valid UTF-8; rename the file and run again"
    }


def test_links_outside_are_lines_and_loops_are_harmless(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "root", 1)
    put(tmp_path / "outside/secret.png")
    (root / "file.png").symlink_to(tmp_path / "outside/secret.png")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to(root)
    (root / "sub").mkdir()
    (root / "sub/back").symlink_to(root / "sub")
    (root / "self.png").symlink_to(root / "self.png")
    (root / "nowhere.png").symlink_to(root / "none.png")
    (root / "notes").symlink_to("/etc/hostname")
    outside = "is a link that leads outside the folder, which is not followed; index that folder by itself"
    nowhere = "is a link that leads nowhere"
    source = FolderSource(root)
    assert keys(source) == ["0000.png"]
    assert faults(source) == {"file.png": outside, "folder": outside, "nowhere.png": nowhere, "self.png": nowhere}


def test_links_to_pictures_inside_are_pictures_of_their_own(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "root", 1)
    put(root / ".objects/ab12", picture_bytes(7))
    (root / "linked.png").symlink_to(root / ".objects/ab12")
    (root / "hidden").symlink_to(root / ".objects")
    source = FolderSource(root)
    assert keys(source) == ["0000.png", "linked.png"]
    assert list(faults(source)) == ["hidden"]


def test_a_root_reached_through_a_link_is_no_link_outside(tmp_path: Path) -> None:
    write_pictures(tmp_path / "real", 2)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert keys(FolderSource(tmp_path / "link")) == ["0000.png", "0001.png"]


def test_pictures_that_cannot_be_decoded_and_pipes_are_lines(tmp_path: Path) -> None:
    put(tmp_path / "phone.HEIC")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    put(tmp_path / "folder.png/inside.png")
    source = FolderSource(tmp_path)
    assert keys(source) == ["folder.png/inside.png"]
    assert faults(source) == {
        "phone.HEIC": ".heic pictures are not supported; convert it to JPEG or PNG under a new name and run again",
        "pipe.png": "is no regular file",
    }


def test_the_index_inside_the_folder_is_not_looked_into(tmp_path: Path) -> None:
    write_pictures(tmp_path, 1)
    write_pictures(tmp_path / "index/gallery", 3)
    assert keys(FolderSource(tmp_path, exclude=tmp_path / "index")) == ["0000.png"]


def test_a_file_that_goes_or_grows_too_large_meanwhile_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FolderSource(write_pictures(tmp_path, 3))
    (shard,) = source.shards(Indexed())
    (tmp_path / "0001.png").unlink()
    put(tmp_path / "0002.png", bytes(5000))
    monkeypatch.setattr("indexer.stored_bytes.MAX_PICTURE_BYTES", 4000)
    read = list(source.read(shard))
    assert [type(sample) for sample in read] == [Sample, BadSample, BadSample]
    assert [sample.reason for sample in read if isinstance(sample, BadSample)] == [
        "cannot be read: No such file or directory",
        "has 5,000 bytes; at most 4,000 are read",
    ]


def test_a_folder_that_goes_meanwhile_stops_the_build(tmp_path: Path) -> None:
    source = FolderSource(write_pictures(tmp_path / "disk", 2))
    (shard,) = source.shards(Indexed())
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    with pytest.raises(SourceError, match="has gone; bring it back"):
        list(source.read(shard))


@pytest.mark.parametrize(("failures", "read"), [(2, True), (3, False)])
def test_transient_failures_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, read: bool
) -> None:
    source = FolderSource(write_pictures(tmp_path, 1))
    (shard,) = source.shards(Indexed())
    left = [OSError(errno.EIO, "Input/output error")] * failures
    real_open = os.open

    def flaky(*arguments: object, **keywords: object) -> int:
        if left:
            raise left.pop()
        return real_open(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr("indexer.stored_bytes.os.open", flaky)
    monkeypatch.setattr("indexer.stored_bytes.time.sleep", lambda _: None)
    (sample,) = source.read(shard)
    assert isinstance(sample, Sample) == read
    assert read or sample == BadSample("0000.png", "cannot be read: Input/output error")


def test_a_folder_that_may_not_be_read_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 1)
    write_pictures(tmp_path / "closed", 1)
    real_scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).rstrip("/").endswith("closed"):  # the tests may run as root, whom no mode bits stop
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_scan(path)

    monkeypatch.setattr("indexer.sources.folder.os.scandir", refuse)
    source = FolderSource(tmp_path)
    assert keys(source) == ["0000.png"]
    assert faults(source) == {"closed/": "the folder cannot be read: Permission denied"}


def test_what_is_no_folder_of_pictures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist; give a folder of pictures"):
        FolderSource(tmp_path / "none")
    with pytest.raises(SourceError, match="is a file, not a folder"):
        FolderSource(put(tmp_path / "empty/file.txt"))
    with pytest.raises(SourceError, match=r"holds no pictures, but 1 × \.txt; give a folder that holds JPEG"):
        FolderSource(tmp_path).shards(Indexed())
    put(tmp_path / "shards/000.tar")
    with pytest.raises(SourceError, match="for tar shards give --data webdataset:"):
        FolderSource(tmp_path / "shards").shards(Indexed())
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SourceError, match="holds no pictures, but nothing"):
        FolderSource(tmp_path / "nothing").shards(Indexed())
