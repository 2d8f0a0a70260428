from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.columns import Item, LedgerLine
from indexer.part import NORM_TOLERANCE, write_part
from tests.fixtures.picture_folders import tree
from tpips_model import Aspect, ModelError

ASPECT = Aspect("brushwork")
ITEMS = [Item(f"k{row}", f"k{row}.png", None, None, 10, 4, 3, {"painter": "é", "year": 1900 + row}) for row in range(3)]


def unit_rows(count: int, dim: int = 8) -> np.ndarray:
    vectors = np.random.default_rng(0).standard_normal((count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (np.nan, "not finite for 'k1' under 'brushwork'"),
        (np.inf, "not finite for 'k1' under 'brushwork'"),
        (0.0, "of length 0 for 'k1' under 'brushwork'"),
        (1 + 2 * NORM_TOLERANCE, "of length 1.002 for 'k1' under 'brushwork'"),
        (1 - 2 * NORM_TOLERANCE, "of length 0.998 for 'k1' under 'brushwork'"),
        (1e30, r"of length 1e\+30 for 'k1'"),
    ],
)
def test_a_vector_that_is_no_unit_vector_is_refused_with_its_key(tmp_path: Path, factor: float, message: str) -> None:
    vectors = unit_rows(3)
    vectors[1] *= np.float32(factor)
    with pytest.raises(ModelError, match=message):
        write_part(tmp_path, 0, shard="s", items=ITEMS, errors=[], vectors={ASPECT: vectors})
    assert tree(tmp_path) == {}


def test_a_single_component_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    vectors = unit_rows(3)
    vectors[2, 5] = np.nan
    with pytest.raises(ModelError, match="not finite for 'k2'"):
        write_part(tmp_path, 0, shard="s", items=ITEMS, errors=[], vectors={ASPECT: vectors})


def test_rows_within_the_tolerance_are_taken(tmp_path: Path) -> None:
    vectors = unit_rows(3) * np.float32(1 + NORM_TOLERANCE / 2)
    record = write_part(tmp_path, 0, shard="s", items=ITEMS, errors=[], vectors={ASPECT: vectors})
    stored = np.load(tmp_path / "aspects/brushwork/part-00000.npy", allow_pickle=False)
    assert (stored.dtype, stored.shape, record.rows) == (np.float16, (3, 8), 3)
    np.testing.assert_allclose(stored, vectors, atol=5e-4)


def test_vectors_must_be_as_many_as_items(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"shape \(2, 8\) under 'brushwork' for 3 images"):
        write_part(tmp_path, 0, shard="s", items=ITEMS, errors=[], vectors={ASPECT: unit_rows(2)})


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    records = [
        write_part(
            tmp_path / name, 7, shard="s", items=ITEMS, errors=[LedgerLine("x", "why")], vectors={ASPECT: unit_rows(3)}
        )
        for name in "ab"
    ]
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert records[0] == records[1]
    assert sorted(records[0].files) == sorted(tree(tmp_path / "a"))
    assert not any(name.endswith(".tmp") for name in tree(tmp_path / "a"))
