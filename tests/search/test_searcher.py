from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from indexer import IndexDirectoryError
from indexer.columns import LedgerLine
from search import Searcher, Term
from search.query_image import stored_unit_vectors
from search.terms import QueryError, TermLike
from search.vectors import StoredVectors
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, COUNT, png
from tpips_model.aspects import AspectLike
from tpips_model.errors import AspectError, ImageError, ModelError
from tpips_model.images import ImageLike


class CountingEmbedder(StubEmbedder):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, tuple[str, ...]]] = []

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        self.calls.append((len(images), tuple(map(str, aspects))))
        return super().embed(images, aspects)


def expected_scores(
    pictures: list[bytes], terms: list[tuple[bytes, str, float]], penalty: float
) -> NDArray[np.float64]:
    """Score every picture by the paper's formula from freshly embedded vectors."""
    embedder = StubEmbedder()
    scores = np.zeros(len(pictures))
    for image, aspect, weight in terms:
        items = embedder.embed(pictures, [aspect, "overall"]).astype(np.float64)
        query = embedder.embed([image], [aspect, "overall"])[0].astype(np.float64)
        taken_off = 0.0 if aspect == "overall" else penalty * items[:, 1] @ query[1]
        scores += weight * (items[:, 0] @ query[0] - taken_off)
    return scores


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_query_with_pictures_and_keys(searcher: Searcher, pictures: list[bytes], penalty: float) -> None:
    asked = [(png(100), "brushwork", 1.0), (pictures[4], "color palette", -0.6), (png(101), "overall", 0.3)]
    terms: list[TermLike] = [asked[0], ("picture 04", *asked[1][1:]), Term(*asked[2])]
    hits = searcher.query(terms, k=COUNT, overall_penalty=penalty, exclude_queries=False)
    scores = expected_scores(pictures, asked, penalty)
    assert {hit.row for hit in hits} == set(range(COUNT))
    for hit in hits:
        assert hit.key == f"picture {hit.row:02d}"
        assert hit.score == pytest.approx(scores[hit.row], abs=1e-3)  # the index holds halves
        assert sum(hit.contributions) == pytest.approx(hit.score, abs=1e-12)
        assert dict(hit.metadata) == {"artist": f"artist {hit.row % 3}", "year": 1900 + hit.row}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_each_contribution_is_its_terms_own_score(searcher: Searcher) -> None:
    terms = [("picture 01", "brushwork", 0.8), ("picture 02", "color palette", -0.4)]
    together = searcher.query(terms, k=COUNT, overall_penalty=0.3, exclude_queries=False)
    for number, term in enumerate(terms):
        alone = {hit.row: hit.score for hit in searcher.query([term], COUNT, 0.3, exclude_queries=False)}
        for hit in together:
            assert hit.contributions[number] == pytest.approx(alone[hit.row], abs=1e-12)


def test_similar_takes_the_models_penalty(searcher: Searcher) -> None:
    by_default = searcher.similar("picture 05", "brushwork")
    assert by_default.overall_penalty == 0.25
    asked = searcher.query([("picture 05", "brushwork")], overall_penalty=0.25)
    assert [(hit.key, hit.score) for hit in by_default] == [(hit.key, hit.score) for hit in asked]
    assert searcher.similar("picture 05", "brushwork", overall_penalty=0.0).overall_penalty == 0.0


def test_a_key_and_its_file_give_one_answer(searcher: Searcher, gallery: Path) -> None:
    by_key = searcher.query([("picture 12", "brushwork"), ("picture 11", "color palette", 0.5)])
    by_file = searcher.query(
        [
            (gallery / "gallery" / "000012.png", "brushwork"),
            (str(gallery / "gallery" / "000011.png"), "color palette", 0.5),
        ]
    )
    assert by_key.keys == by_file.keys
    np.testing.assert_allclose([h.score for h in by_key], [h.score for h in by_file], atol=1e-3)


def test_one_embed_call_per_distinct_picture(gallery: Path) -> None:
    embedder = CountingEmbedder()
    searcher = Searcher.open(gallery, model=embedder)
    one, other = png(200), Image.open(io.BytesIO(png(201)))
    searcher.query(
        [
            (one, "brushwork"),
            (other, "brushwork"),
            (bytes(one), "color palette"),
            (one, "brushwork", 0.5),
            (other, "overall"),
        ]
    )
    assert sorted(embedder.calls) == [(1, ("brushwork", "overall")), (1, ("brushwork", "overall", "color palette"))]
    embedder.calls.clear()
    searcher.query([("picture 01", "brushwork"), ("picture 02", "color palette")], overall_penalty=0.3)
    assert embedder.calls == []


def test_aspects_resolve_by_slug(searcher: Searcher) -> None:
    hits = searcher.query([("picture 01", " Color   PALETTE ")])
    assert hits.terms[0].aspect.text == "color palette"
    assert hits.keys == searcher.query([("picture 01", "color-palette")]).keys


def test_unknown_aspect(searcher: Searcher, gallery: Path) -> None:
    with pytest.raises(
        AspectError, match=r"'line art' is not indexed; indexed aspects: 'overall', 'brushwork', 'color pal"
    ) as fault:
        searcher.query([("picture 01", "line art")])
    assert f"tpips-index build --out '{gallery}' --aspect 'line art'" in str(fault.value)


def test_penalty_without_overall(tmp_path: Path) -> None:
    vectors = StubEmbedder().embed([png(1), png(2)], ["brushwork"])[:, 0]
    searcher = Searcher.open(write_index(tmp_path / "index", {"brushwork": vectors}))
    assert len(searcher.query([("picture-000000", "brushwork")])) == 1
    with pytest.raises(AspectError, match="'overall' is not indexed"):
        searcher.query([("picture-000000", "brushwork")], overall_penalty=0.3)


def test_a_skipped_picture_says_why_it_is_not_indexed(tmp_path: Path) -> None:
    lines = [LedgerLine("broken.jpg", "it is empty (0 bytes)")]
    path = write_index(tmp_path / "index", {"overall": np.eye(2, dtype=np.float32)}, errors=lines)
    with pytest.raises(QueryError, match=r"'broken.jpg' is not indexed: it was skipped, because it is empty"):
        Searcher.open(path).query([("broken.jpg", "overall")])


def test_unknown_image_names_near_keys(searcher: Searcher) -> None:
    with pytest.raises(
        QueryError,
        match=r"'pictur 03' is neither the key .* nor an existing picture file; keys like it: .*'picture 03'",
    ):
        searcher.query([("pictur 03", "brushwork")])
    with pytest.raises(
        QueryError, match=r"there is no picture file 'picture 03'; keys like it: 'picture 03' \(give a key as text\)"
    ):
        searcher.query([(Path("picture 03"), "brushwork")])
    with pytest.raises(QueryError, match="is neither the key"):
        searcher.query([("x" * 10_000, "brushwork")])
    with pytest.raises(QueryError, match="is neither the key"):
        searcher.query([("nul \0 and surrogate \ud800", "brushwork")])


def test_key_before_file(searcher: Searcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture 03").write_bytes(png(300))
    monkeypatch.chdir(tmp_path)
    assert searcher.query([("picture 03", "brushwork")]).terms[0].source.row == 3
    assert searcher.query([("./picture 03", "brushwork")]).terms[0].source.row is None


def test_unreadable_picture(searcher: Searcher, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises(ImageError, match=r"the query's broken\.jpg: "):
        searcher.query([(tmp_path / "broken.jpg", "brushwork")])


def test_k(searcher: Searcher) -> None:
    assert len(searcher.query([("picture 01", "brushwork")], k=10**6)) == COUNT - 1
    assert len(searcher.query([("picture 01", "brushwork")], k=np.int64(4))) == 4
    for k in (0, -1, 2.0, True, None, "3"):
        with pytest.raises(QueryError, match="k must be a whole number of hits, at least 1"):
            searcher.query([("picture 01", "brushwork")], k=k)  # type: ignore[arg-type]


def test_penalty_must_be_finite(searcher: Searcher) -> None:
    with pytest.raises(QueryError, match="the overall penalty must be a finite number"):
        searcher.query([("picture 01", "brushwork")], overall_penalty=float("nan"))


def test_ties_come_in_row_order(tmp_path: Path) -> None:
    vectors = np.zeros((40, 4), np.float32)
    vectors[:, 0] = 1.0
    vectors[20:, 0], vectors[20:, 1] = 0.0, 1.0
    searcher = Searcher.open(write_index(tmp_path / "index", {"overall": vectors}, rows_per_part=7))
    hits = searcher.query([("picture-000000", "overall")], k=5, exclude_queries=False)
    assert [hit.row for hit in hits] == [0, 1, 2, 3, 4]


class TestModel:
    def test_another_fingerprint_is_refused_when_given(self, gallery: Path) -> None:
        embedder = StubEmbedder()
        embedder.fingerprint = "stub:2"
        with pytest.raises(
            ModelError, match=r"made by the model 'stub' \(fingerprint stub:1, 16 dim.* \(fingerprint stub:2"
        ):
            Searcher.open(gallery, model=embedder)

    def test_another_fingerprint_is_refused_when_loaded(self, gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        embedder = StubEmbedder()
        embedder.fingerprint = "stub:2"
        monkeypatch.setattr("search.query_embedder.load_embedder", lambda name: embedder)
        searcher = Searcher.open(gallery)
        assert len(searcher.query([("picture 01", "brushwork")])) == 10
        with pytest.raises(ModelError, match="cannot be compared"):
            searcher.query([(png(1), "brushwork")])

    def test_loaded_by_the_manifests_name_once_and_late(self, gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded: list[str] = []

        def load(name: str) -> StubEmbedder:
            loaded.append(name)
            return StubEmbedder()

        monkeypatch.setattr("search.query_embedder.load_embedder", load)
        searcher = Searcher.open(gallery)
        searcher.query([("picture 01", "brushwork")])
        assert loaded == []
        searcher.query([(png(1), "brushwork")])
        searcher.query([(png(2), "brushwork")])
        assert loaded == ["stub"]

    @pytest.mark.parametrize("vectors", [np.zeros((1, 2, 16)), np.full((1, 2, 16), np.nan), np.ones((2, 16))])
    def test_vectors_that_are_none(self, gallery: Path, vectors: NDArray[np.float64]) -> None:
        class Broken(StubEmbedder):
            def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
                return vectors.astype(np.float32)

        with pytest.raises(ModelError, match="the model 'stub' gave"):
            Searcher.open(gallery, model=Broken()).query([(png(1), "brushwork")])


def test_threads_share_a_searcher(gallery: Path) -> None:
    searcher = Searcher.open(gallery, model=StubEmbedder())

    def ask(number: int) -> list[tuple[str, float]]:
        image = f"picture {number % COUNT:02d}" if number % 2 else png(number)
        hits = searcher.query([(image, ASPECTS[number % 3]), ("picture 00", "brushwork", 0.3)], overall_penalty=0.3)
        return [(hit.key, hit.score) for hit in hits]

    alone = [ask(number) for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(24))) == alone


def test_moved_pictures(gallery: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(gallery / "gallery", moved)
    bare = tmp_path / "index"
    shutil.copytree(gallery, bare, ignore=shutil.ignore_patterns("gallery"))
    hits = Searcher.open(bare).query([("picture 03", "brushwork")])
    assert not {3, 7} & {hit.row for hit in hits}  # by their vectors: there are no bytes to compare
    with pytest.raises(IndexDirectoryError, match=hits[0].key):
        hits[0].image()
    assert Searcher.open(bare, data_root=moved).query([("picture 03", "brushwork")])[0].image().size == (32, 24)


def test_index_without_items(tmp_path: Path) -> None:
    vectors = np.empty((0, StubEmbedder.dim), np.float32)
    searcher = Searcher.open(write_index(tmp_path / "index", dict.fromkeys(ASPECTS, vectors)), model=StubEmbedder())
    hits = searcher.query([(png(1), "brushwork")])
    assert (len(searcher), len(hits), hits.total, hits.percentile(0.5)) == (0, 0, 0, 0.0)
    with pytest.raises(QueryError, match="is neither the key"):
        searcher.query([("a key", "brushwork")])


def test_facts(searcher: Searcher) -> None:
    assert len(searcher) == COUNT
    assert [aspect.text for aspect in searcher.aspects] == list(ASPECTS)
    assert list(searcher.keys[:2]) == ["picture 00", "picture 01"]
    assert searcher.keys[-1] == "picture 29"
    assert "picture 05" in searcher.keys
    assert 5 not in searcher.keys
    assert repr(searcher) == "<Searcher: 30 items by overall, brushwork, color palette>"


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_damaged_vector_of_a_query_key(value: float) -> None:
    rows = np.full((1, 4), value, np.float16)
    with pytest.raises(IndexDirectoryError, match="the stored vectors of 'a key' are damaged"):
        stored_unit_vectors(StoredVectors.of_arrays({"overall": [rows]}), 0, ["overall"], key="a key")
