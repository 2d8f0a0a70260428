from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.building.build_config import BuildError
from tests.fixtures.picture_folders import tree, write_pictures
from tests.fixtures.worker_embedders import Deadly, Noted, Refusing
from tests.fixtures.worker_shards import killing, write_shards
from tests.indexer.test_engines import run
from tpips_model import ModelError


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this machine, which the engine finds there, as in a program that uses Ray itself."""
    ray = pytest.importorskip("ray", reason="Ray is not installed; it is in the extra 'distributed'")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def no_cluster() -> None:
    """Nothing of this program is connected to a cluster."""
    ray = pytest.importorskip("ray", reason="Ray is not installed; it is in the extra 'distributed'")
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_killed_three_times_it_makes_the_index_of_the_local_engine(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data")
    run(tmp_path / "local", data)
    (tmp_path / "pids").mkdir()
    with killing(tmp_path / "pids", times=3) as killed:
        run(tmp_path / "ray", data, engine="ray", embedder=Noted(tmp_path / "pids"))
    assert len(killed) == 3
    assert tree(tmp_path / "ray") == tree(tmp_path / "local")
    for out, engine in (("local", "local"), ("ray", "ray")):
        assert run(tmp_path / out, None, "lighting", engine=engine).aspects_added
    assert tree(tmp_path / "ray") == tree(tmp_path / "local")


@pytest.mark.usefixtures("cluster")
def test_an_error_of_the_users_is_raised_in_its_turn(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data", marked=3)
    for out, engine in (("local", "local"), ("ray", "ray")):
        with pytest.raises(ModelError, match=r"^it has seen the marked picture$"):
            run(tmp_path / out, data, embedder=Refusing(), engine=engine)
    assert tree(tmp_path / "ray") == tree(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_shard_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "data", shards=3, marked=2)
    with pytest.raises(
        BuildError, match=r"the shard s2\.tar could not be done: each worker that tried ended, the last"
    ):
        run(tmp_path / "index", data, embedder=Deadly(), engine="ray")


@pytest.mark.slow
@pytest.mark.usefixtures("no_cluster")
def test_a_cluster_is_started_and_ended_where_there_is_none(tmp_path: Path) -> None:
    import ray

    data = write_pictures(tmp_path / "data", 9)
    assert run(tmp_path / "ray", data, engine="ray").images == 9
    assert not ray.is_initialized()
    run(tmp_path / "one", data, workers=1)
    assert tree(tmp_path / "ray") == tree(tmp_path / "one")


@pytest.mark.usefixtures("no_cluster")
def test_a_cluster_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 3)
    with pytest.raises(BuildError, match=r"no Ray cluster answers at auto \(.*\); see to the cluster, or leave out"):
        run(tmp_path / "ray", data, engine="ray", ray_address="auto")


def test_without_ray_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    data = write_pictures(tmp_path / "data", 3)
    with pytest.raises(BuildError, match=r"--engine ray needs Ray, .* pip install 'tpips-retrieval\[distributed\]'"):
        run(tmp_path / "ray", data, engine="ray")
    assert not (tmp_path / "ray").exists()
