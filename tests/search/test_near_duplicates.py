"""Near-duplicates against a naive walk down the whole ranking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search import Searcher
from tests.fixtures.indices import write_index
from tests.search.conftest import unit

COUNT, DIM = 240, 12


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """Loose and tight groups, with items that are exactly the same, and an aspect that has nothing to do with them."""
    generator = np.random.default_rng(5)
    centres = generator.standard_normal((25, DIM))
    groups = generator.integers(0, len(centres), COUNT)
    spread = generator.choice([0.0, 0.01, 0.05, 0.3], (COUNT, 1))
    overall = unit(centres[groups] + spread * generator.standard_normal((COUNT, DIM)))
    metadata = [{"number": number} for number in range(COUNT)]
    folder = tmp_path_factory.mktemp("alike") / "index"
    vectors = {"overall": overall, "color": unit(generator.standard_normal((COUNT, DIM)))}
    return Searcher.open(write_index(folder, {a: v.astype(np.float32) for a, v in vectors.items()}, metadata=metadata))


def naive(ranked: list[int], overall: np.ndarray, threshold: float) -> dict[int, list[int]]:
    """Walk down a ranking: an item goes to the first one kept that it is near, else it is kept."""
    kept: dict[int, list[int]] = {}
    for row in ranked:
        near = [other for other in kept if float(overall[row] @ overall[other]) >= threshold - 1e-9]
        if near:
            kept[near[0]].append(row)
        else:
            kept[row] = []
    return kept


@settings(max_examples=30, deadline=None)
@given(
    number=st.integers(0, COUNT - 1),
    weight=st.sampled_from([1.0, -1.0]),
    threshold=st.sampled_from([1.0, 0.9999, 0.98, 0.9, 0.5, 0.05]),
    least=st.sampled_from([0, 120, COUNT - 5, COUNT]),
    offset=st.integers(0, 30),
    k=st.integers(1, 40),
    min_score=st.sampled_from([None, -0.2, 0.4]),
)
def test_collapsing_equals_a_walk_down_the_whole_ranking(
    searcher: Searcher,
    number: int,
    weight: float,
    threshold: float,
    least: int,
    offset: int,
    k: int,
    min_score: float | None,
) -> None:
    terms = [(f"picture-{number:06d}", "color", weight)]
    where = f"number >= {least}"
    everything = searcher.query(terms, k=COUNT, where=where, min_score=min_score)
    overall = np.concatenate(searcher.index.vectors("overall")).astype(np.float64)
    expected = naive([hit.row for hit in everything], unit(overall), threshold)
    page = searcher.query(terms, k, where=where, min_score=min_score, dedupe=threshold, offset=offset)
    assert [hit.row for hit in page] == list(expected)[offset : offset + k]
    for hit in page:
        assert [searcher.keys.row(key) for key in hit.duplicates] == expected[hit.row]


def test_copies_are_one_hit(tmp_path: Path) -> None:
    """More copies than the first fetches hold, and of a query that is itself one of them."""
    vectors = np.concatenate([np.tile(np.eye(1, 4), (700, 1)), np.eye(4)[1:]]).astype(np.float32)
    searcher = Searcher.open(write_index(tmp_path / "index", {"overall": vectors}, rows_per_part=512))
    hits = searcher.query([("picture-000005", "overall")], k=3, dedupe=1.0, exclude_queries=False)
    assert [hit.row for hit in hits] == [0, 700, 701]
    assert [len(hit.duplicates) for hit in hits] == [699, 0, 0]
    assert hits[0].duplicates[:5] == tuple(f"picture-{row:06d}" for row in range(1, 6))
    others = searcher.query([("picture-000005", "overall")], k=3, dedupe=1.0)
    assert [(hit.row, hit.duplicates) for hit in others] == [(700, ()), (701, ()), (702, ())]
