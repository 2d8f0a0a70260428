from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.lock import writer_lock
from indexer.sources import SourceError
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import tree, write_pictures
from tests.fixtures.picture_tables import write_hub_parquet
from tests.fixtures.rights import as_nobody
from tests.indexer.test_build import run
from tpips_model import ModelError


def test_there_must_be_pictures_and_nothing_is_left_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist; give a folder of pictures"):
        run(tmp_path / "index", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no pictures, but nothing"):
        run(tmp_path / "index", f"folder:{tmp_path}/empty")
    with pytest.raises(BuildError, match=r"there is no index at .* yet; say with --data where the pictures are"):
        run(tmp_path / "index", None, "brushwork")
    assert not (tmp_path / "index").exists()
    with pytest.raises(BuildError, match=r"there is no index at .* yet"):
        run(tmp_path / "empty", None, "brushwork")
    assert tree(tmp_path / "empty") == {}


def test_a_folder_of_broken_pictures_is_an_error_with_the_reasons_and_can_be_mended(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    for path in data.iterdir():
        path.write_bytes(b"hello" if path.name != "0003.png" else b"")
    with pytest.raises(BuildError, match=r"could be indexed: 5 × it begins with b'hello'.*such as '0000.png'.*; 1 × "):
        run(tmp_path / "index", data)
    assert not (tmp_path / "index").exists()
    write_pictures(data, 6)
    assert run(tmp_path / "index", data).images == 6


def test_a_broken_first_shard_does_not_count_before_a_picture_is_indexed(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 8)
    for number in range(4):
        (data / f"{number:04d}.png").write_bytes(b"bad")
    summary = run(tmp_path / "index", data)
    assert (summary.images, summary.errors, summary.parts) == (4, 4, 2)
    assert IndexDirectory.open(tmp_path / "index", verify=True).errors().num_rows == 4


@pytest.mark.parametrize("names", [["photo.jpg"], ["items/mine.txt"], ["lock", "notes.txt"]])
def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
    before = tree(tmp_path / "out")
    with pytest.raises(IndexDirectoryError, match=r"holds something that is no index, such as .* new or empty folder"):
        run(tmp_path / "out", write_pictures(tmp_path / "data", 1))
    assert tree(tmp_path / "out") == before


def test_an_output_folder_that_is_a_file_or_under_one_is_an_error(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 1)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file/index"):
        with pytest.raises(IndexDirectoryError, match=r"cannot write .*file.*; something that is no folder stands in"):
            run(out, data)


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_output_folder_is_an_error(existing: bool) -> None:
    # Not in tmp_path, whose parents nobody but their owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        data = write_pictures(folder / "data", 2)
        if existing:
            run(folder / "closed", data)
        else:
            (folder / "closed").mkdir()
        (folder / "closed").chmod(0o555)
        out = folder / "closed" if existing else folder / "closed/index"
        if existing and os.geteuid() == 0:
            (out / "lock").chmod(0o444)
        with as_nobody(), pytest.raises(IndexDirectoryError, match=r"cannot write .*denied; the output folder must be"):
            run(out, data, "lighting")
        (folder / "closed").chmod(0o755)


def full_disk(monkeypatch: pytest.MonkeyPatch, *, after: int, of: str = "write") -> None:
    """Let the write after ``after`` others meet a full disk, as the kernel tells it of /dev/full."""
    left = [after]

    def open_file(path: Any, mode: str) -> IO[bytes]:
        left[0] -= 1
        return open("/dev/full" if left[0] < 0 else path, mode)

    def flush(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if of == "write":
        monkeypatch.setattr("tpips_model.durable_files.open", open_file, raising=False)
    else:
        monkeypatch.setattr("tpips_model.durable_files.os.fsync", flush)


@pytest.mark.parametrize(("of", "after"), [("write", 0), ("write", 4), ("write", 13), ("flush", 1), ("flush", 9)])
def test_a_full_disk_is_one_error_and_the_build_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, after: int
) -> None:
    data = write_pictures(tmp_path / "data", 12)
    run(tmp_path / "whole", data, "brushwork")
    with monkeypatch.context() as patch:
        full_disk(patch, after=after, of=of)
        with pytest.raises(IndexDirectoryError, match="No space left on device; free some space and run the same"):
            run(tmp_path / "index", data, "brushwork")
    if (tmp_path / "index").exists():
        assert not any(name.endswith(".tmp") for name in tree(tmp_path / "index"))
    if (tmp_path / "index/manifest.json").exists():
        IndexDirectory.open(tmp_path / "index", verify=True)
    run(tmp_path / "index", data, "brushwork")
    assert tree(tmp_path / "index") == tree(tmp_path / "whole")


def test_a_file_size_limit_set_by_the_system_is_the_same_error(tmp_path: Path) -> None:
    write_pictures(tmp_path / "data", 12)
    command = [sys.executable, "-m", "tests.fixtures.stub_build", str(tmp_path / "data"), str(tmp_path / "index")]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert ran.returncode == 1
    assert "IndexDirectoryError: cannot write" in ran.stderr
    assert "File too large; free some space" in ran.stderr


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 2)
    run(tmp_path / "index", data)
    with writer_lock(tmp_path / "index"):
        with pytest.raises(IndexDirectoryError, match=r"another program is writing to .*; wait for it to end"):
            run(tmp_path / "index", data, "brushwork")
        assert IndexDirectory.open(tmp_path / "index").rows == 2
    assert run(tmp_path / "index", data, "brushwork").aspects_added


class Other(StubEmbedder):
    name = "other"
    fingerprint = "stub:2"


def test_another_model_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 2)
    run(tmp_path / "index", data)
    before = tree(tmp_path / "index")
    message = r"made by the model 'stub' \(fingerprint stub:1, 16 .*not by 'other' \(fingerprint stub:2.*another --out"
    with pytest.raises(ModelError, match=message):
        run(tmp_path / "index", data, "brushwork", embedder=Other())
    assert tree(tmp_path / "index") == before


def test_an_unknown_model_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 2)
    with pytest.raises(ModelError, match="nope"):
        build(BuildConfig(out=tmp_path / "index", data=str(data), model="nope", progress=False))
    assert not (tmp_path / "index").exists()


def test_other_pictures_than_the_indexs_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "index", write_pictures(tmp_path / "data", 2))
    other = write_pictures(tmp_path / "other", 2)
    with pytest.raises(BuildError, match=r"was made from folder:.*data, and not from folder:.*other; give the same"):
        run(tmp_path / "index", other)


def test_a_damaged_index_is_not_built_upon(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    run(tmp_path / "index", data)
    path = tmp_path / "index/aspects/overall/part-00001.npy"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(IndexDirectoryError, match=r"part-00001.npy has .* bytes instead of"):
        run(tmp_path / "index", data, "brushwork")


class Faulty(StubEmbedder):
    def __init__(self, fault: str) -> None:
        self._fault = fault

    def embed(self, images: Any, aspects: Any) -> Any:
        vectors = super().embed(images, aspects)
        if self._fault == "nan":
            vectors[-1, -1, 0] = np.nan
        elif self._fault == "long":
            vectors *= 1.01
        elif self._fault == "zero":
            vectors[0] = 0
        elif self._fault == "shape":
            vectors = vectors[:, 0]
        else:
            vectors = vectors.astype(np.float64)
        return vectors


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", "not finite for '0002.png' under 'brushwork'"),
        ("long", "of length 1.01 for '0000.png' under 'overall'"),
        ("zero", "of length 0 for '0000.png' under 'overall'"),
        ("shape", r"gave float32 \(3, 16\) .* float32 \(3, 2, 16\) is expected"),
        ("type", "gave float64"),
    ],
)
def test_vectors_that_must_not_be_stored_stop_the_build_and_keep_what_was_there(
    tmp_path: Path, fault: str, message: str
) -> None:
    data = write_pictures(tmp_path / "data", 3)
    with pytest.raises(ModelError, match=message):
        run(tmp_path / "index", data, "brushwork", embedder=Faulty(fault))
    assert not (tmp_path / "index").exists()
    run(tmp_path / "index", data, "brushwork")
    before = tree(tmp_path / "index")
    (write_pictures(data / "new", 3) / "0002.png").rename(data / "new/0002.png")
    with pytest.raises(ModelError, match=message.replace("'0", "'new/0")):
        run(tmp_path / "index", data, embedder=Faulty(fault))
    assert tree(tmp_path / "index") == before


@pytest.mark.parametrize("name", ["batch_size", "shard_size"])
def test_sizes_are_at_least_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match=f"{name} must be at least 1, but is 0"):
        run(tmp_path / "index", tmp_path, **{name: 0})


def test_a_table_without_rows_is_an_error_that_says_so(tmp_path: Path) -> None:
    write_hub_parquet(tmp_path / "a.parquet", [])
    with pytest.raises(BuildError, match=r"could be indexed: as a source of kind parquet it has no rows and no pic"):
        run(tmp_path / "index", tmp_path / "a.parquet")
    assert not (tmp_path / "index").exists()
