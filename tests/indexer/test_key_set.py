from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.building import key_set
from indexer.building.key_set import KeySet
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.tars import write_tar
from tests.indexer.test_build import run

KEYS = st.text("abc", max_size=3)


@given(st.lists(st.lists(KEYS, max_size=8), max_size=12), st.lists(KEYS, max_size=20), st.sampled_from([1, 2, 7, 0]))
def test_it_is_a_set_even_where_all_hashes_collide(parts: list[list[str]], asked: list[str], buckets: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if buckets:
            patch.setattr(key_set, "_hash", lambda key: len(key) % buckets)
        keys = KeySet(parts.__getitem__)
        for number, part in enumerate(parts):
            keys.add(part, number)
        expected = {key for part in parts for key in part}
        assert len(keys) == sum(map(len, parts))
        assert [key in keys for key in asked] == [key in expected for key in asked]
        assert keys.among(asked) == expected.intersection(asked)


def test_parts_are_looked_into_only_where_a_hash_is_known() -> None:
    parts = [[f"{part}/{number}" for number in range(100)] for part in range(50)]
    looked: list[int] = []
    keys = KeySet(lambda part: looked.append(part) or parts[part])  # type: ignore[func-returns-value]
    for number, part in enumerate(parts):
        keys.add(part, number)
    assert keys.among(f"new/{number}" for number in range(1000)) == frozenset()
    assert looked == []
    assert keys.among(["7/3", "7/4", "9/99", "9/100"]) == {"7/3", "7/4", "9/99"}
    assert looked == [7, 9]


def test_blocks_stay_few() -> None:
    keys = KeySet(lambda part: ())
    for number in range(1000):
        keys.add([f"{number}/{one}" for one in range(10)], number)
    assert len(keys) == 10_000
    assert len(keys._blocks) <= 8


def test_no_picture_is_lost_to_a_collision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in range(4):
        members = [(f"{number}.png", picture_bytes(10 * shard + number)) for number in range(4)]
        write_tar(tmp_path / f"s{shard}.tar", members)
        write_tar(tmp_path / f"s{shard}/x.tar", [("0.png", picture_bytes(90)), ("1.png", picture_bytes(91))])
        write_tar(tmp_path / f"s{shard}.tar", [*members, ("x/0.png", picture_bytes(92))])
    pattern = f"{tmp_path}/{{s0,s1,s2,s3,s0/x,s1/x,s2/x,s3/x}}.tar"
    run(tmp_path / "index", pattern)
    monkeypatch.setattr(key_set, "_hash", lambda key: 5)
    summary = run(tmp_path / "colliding", pattern)
    assert (summary.images, summary.errors) == (4 * 5 + 4, 4)
    assert tree(tmp_path / "colliding") == tree(tmp_path / "index")
