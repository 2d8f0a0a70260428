from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError, BuildSummary
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.engines.local import LocalPool
from indexer.engines.threads import threads_each
from indexer.engines.worker_engine import WorkerEngine
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.worker_embedders import Deadly, Faulty, Noted, NotedDeadly, Refusing, Unloadable
from tests.fixtures.worker_shards import killing, write_shards
from tpips_model import ModelError


def run(out: Path, data: Path | str | None, *aspects: str, embedder: Any = None, **config: Any) -> BuildSummary:
    settings = {"shard_size": 4, "batch_size": 3, "workers": 2, **config}
    given = None if data is None else str(data)
    return build(
        BuildConfig(out=out, data=given, aspects=aspects, progress=False, **settings),
        embedder=embedder or StubEmbedder(),
    )


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []
    assert [one.name for one in threading.enumerate() if one.name.startswith(("read", "decode", "write"))] == []


def test_workers_make_the_index_that_one_process_makes(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data")
    for out, workers in (("one", 1), ("two", 2)):
        summary = run(tmp_path / out, data, "brushwork", workers=workers, thumbnails=32)
        assert (summary.images, summary.parts) == (7 * 7 + 7, 14)
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    reasons = " ".join(IndexDirectory.open(tmp_path / "two").errors()["reason"].to_pylist())
    assert reasons.count("has the key of an earlier picture, which is kept") == 2 * 7  # across shards
    assert reasons.count("which is kept") == 3 * 7
    for out, workers in (("one", 1), ("two", 2)):
        assert run(tmp_path / out, None, "lighting", workers=workers).aspects_added
        assert run(tmp_path / out, data, "lighting", workers=workers).parts == 0
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_fewer_shards_than_workers(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 5)
    run(tmp_path / "one", data, workers=1)
    assert run(tmp_path / "three", data, workers=3).parts == 2
    assert tree(tmp_path / "three") == tree(tmp_path / "one")


def test_workers_that_are_killed_are_replaced(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data")
    run(tmp_path / "one", data, workers=1)
    (tmp_path / "pids").mkdir()
    with killing(tmp_path / "pids", times=3) as killed:
        run(tmp_path / "two", data, embedder=Noted(tmp_path / "pids", 0.05))
    assert len(killed) == 3
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_a_shard_that_kills_every_worker_is_named_and_what_is_finished_is_kept(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 16)
    good = (data / "0009.png").read_bytes()
    (data / "0009.png").write_bytes(picture_bytes(9, width=60))
    message = r"the shard files-00002 could not be done: each worker that tried ended, the last of 4 was killed \(by"
    with pytest.raises(BuildError, match=message):
        run(tmp_path / "index", data, embedder=Deadly())
    # The two before it, however far the others were; the one behind it does not come before it.
    assert [part.shards for part in IndexDirectory.open(tmp_path / "index").manifest.parts] == [
        ("files-00000",),
        ("files-00001",),
    ]
    (data / "0009.png").write_bytes(good)
    run(tmp_path / "index", data)
    run(tmp_path / "one", data, workers=1)
    assert tree(tmp_path / "index") == tree(tmp_path / "one")


def test_a_shard_that_kills_workers_in_one_batch_is_given_up_at_once(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 16)
    (data / "0011.png").write_bytes(picture_bytes(9, width=60))  # in the second batch of its shard
    (tmp_path / "pids").mkdir()
    message = (
        r"the shard files-00002 could not be done: .*, the last of 2 was killed \(.*\) after embedding 3 pictures, as"
    )
    with pytest.raises(BuildError, match=message):
        run(tmp_path / "index", data, embedder=NotedDeadly(tmp_path / "pids"))
    # Two workers that died alone, at most one that died in company, and the other one of the two at a time.
    assert len(list((tmp_path / "pids").iterdir())) <= 4
    assert [part.rows for part in IndexDirectory.open(tmp_path / "index").manifest.parts] == [4, 4]


def test_an_error_of_the_users_is_raised_in_its_turn(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data", marked=3)
    for out, workers in (("one", 1), ("two", 2)):
        with pytest.raises(ModelError, match=r"^it has seen the marked picture$"):
            run(tmp_path / out, data, embedder=Refusing(), workers=workers)
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_an_error_of_ours_keeps_its_kind_and_says_where_it_arose(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data", shards=2, marked=0)
    with pytest.raises(KeyError, match="no such tensor") as caught:
        run(tmp_path / "index", data, embedder=Faulty())
    assert "worker_embedders.py" in str(caught.value.__cause__)
    assert not (tmp_path / "index").exists()


def test_a_model_that_cannot_be_loaded_is_an_error() -> None:
    for ends, message in (
        (False, "^no such model here$"),
        (True, r"loads the model ended with status 3, 3 times; see"),
    ):
        engine = WorkerEngine(LocalPool(Unloadable(ends), workers=2), 2)
        try:
            with pytest.raises((ModelError, BuildError), match=message):
                _ = engine.model
        finally:
            engine.close()


def test_a_second_writer_is_refused_while_workers_are_at_it(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 30)
    (tmp_path / "pids").mkdir()
    first = threading.Thread(
        target=run, args=(tmp_path / "index", data), kwargs={"embedder": Noted(tmp_path / "pids", 0.05)}
    )
    first.start()
    while not list((tmp_path / "pids").iterdir()):
        time.sleep(0.01)
    with pytest.raises(IndexDirectoryError, match="another program is writing to"):
        run(tmp_path / "index", data)
    first.join()
    run(tmp_path / "one", data, workers=1)
    assert tree(tmp_path / "index") == tree(tmp_path / "one")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_stopped_takes_its_workers_along_and_can_be_gone_on_with(
    tmp_path: Path, sent: signal.Signals
) -> None:
    data = write_pictures(tmp_path / "data", 48)
    (tmp_path / "pids").mkdir()
    command = [sys.executable, "-m", "tests.fixtures.worker_build", *map(str, (data, tmp_path / "index"))]
    with subprocess.Popen([*command, str(tmp_path / "pids")], start_new_session=True) as process:
        while not (tmp_path / "index/manifest.json").exists():
            time.sleep(0.01)
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as a terminal does
        else:
            process.kill()
    assert process.returncode == -sent
    deadline = time.monotonic() + 20
    while (left := [name for name in os.listdir(tmp_path / "pids") if is_running(int(name))]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert left == []
    index = IndexDirectory.open(tmp_path / "index", verify=True)
    assert 0 < len(index.manifest.parts) < 12
    run(tmp_path / "index", data, "brushwork")
    run(tmp_path / "one", data, "brushwork", workers=1)
    assert tree(tmp_path / "index") == tree(tmp_path / "one")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="workers must be at least 1, but is 0"):
        BuildConfig(out=tmp_path, workers=0)
    with pytest.raises(BuildError, match="a Ray address is given, and the engine is 'local'; give --engine ray"):
        BuildConfig(out=tmp_path, ray_address="auto")
    with pytest.raises(BuildError, match="unknown engine 'slurm'; known engines: local, ray"):
        BuildConfig(out=tmp_path, engine="slurm")


def test_cores_are_shared_out_and_what_the_user_says_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_each(workers, of=8) for workers in (1, 3, 8, 20)] == [8, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [threads_each(workers, of=8) for workers in (1, 8)] == [2, 1]
