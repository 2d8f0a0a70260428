"""Asking by words that are not indexed."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from search import Searcher
from search.live import LiveLook
from search.live.look import totals
from search.live.surrogate import surrogate, telling
from search.terms import QueryError, TermLike
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, COUNT, png
from tpips_model.aspects import AspectLike
from tpips_model.errors import AspectError
from tpips_model.images import ImageLike

WORDS = "evening mood"
MANY = 600


class CountingEmbedder(StubEmbedder):
    """Counts the pictures that it embeds under words that are not indexed."""

    def __init__(self) -> None:
        self.pictures = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Return what the stub gives."""
        if any(str(aspect) not in ASPECTS for aspect in aspects):
            self.pictures += len(images)
        return super().embed(images, aspects)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, pictures: list[bytes]) -> Searcher:
    """The gallery as it would be if ``WORDS`` were indexed."""
    aspects = (*ASPECTS, WORDS)
    vectors = StubEmbedder().embed(pictures, aspects)
    path = write_index(
        tmp_path_factory.mktemp("indexed") / "index",
        {aspect: vectors[:, column] for column, aspect in enumerate(aspects)},
        rows_per_part=8,
        pictures=pictures,
        keys=[f"picture {number:02d}" for number in range(COUNT)],
        metadata=[{"artist": f"artist {number % 3}", "year": 1900 + number} for number in range(COUNT)],
    )
    return Searcher.open(path, model=StubEmbedder())


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 600 pictures, with codes, each of patches that are like those of its neighbours in number."""
    random = np.random.default_rng(5)
    patches = random.integers(0, 256, (MANY, 4, 4, 3), dtype=np.uint8)
    files = []
    for one in patches:
        buffer = io.BytesIO()
        Image.fromarray(one).save(buffer, "PNG")
        files.append(buffer.getvalue())
    vectors = StubEmbedder().embed(files, ASPECTS)
    return write_index(
        tmp_path_factory.mktemp("many") / "index",
        {aspect: vectors[:, column] for column, aspect in enumerate(ASPECTS)},
        pictures=files,
        codes=True,
    )


@pytest.mark.parametrize("asked_by", ["keys", "pictures"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"overall_penalty": 0.3, "k": 5, "offset": 3},
        {"where": "year >= 1910", "exclude_queries": False},
        {"dedupe": 0.9, "min_score": -0.2, "k": 30},
    ],
)
def test_with_all_items_looked_at_the_answer_is_that_of_an_index_under_the_words(
    searcher: Searcher, indexed: Searcher, pictures: list[bytes], asked_by: str, options: dict[str, object]
) -> None:
    first, second = ("picture 03", "picture 12") if asked_by == "keys" else (pictures[3], pictures[12])
    terms: list[TermLike] = [(first, WORDS, 1.0), (second, "brushwork", -0.4), (second, WORDS, 0.3)]
    found = searcher.query(terms, live=COUNT, **options)  # type: ignore[arg-type]
    expected = indexed.query(terms, **options)  # type: ignore[arg-type]
    assert len(found) > 3
    assert [(hit.key, hit.score, hit.rank, hit.duplicates) for hit in found] == [
        (hit.key, hit.score, hit.rank, hit.duplicates) for hit in expected
    ]
    assert [hit.contributions for hit in found] == [hit.contributions for hit in expected]
    assert found.exact
    # The query's own pictures are looked at only where they may be hits.
    own = 2 if asked_by == "keys" and options.get("exclude_queries", True) else 0
    assert found.selected == expected.selected - own
    assert found.percentile(found[1].score) == pytest.approx(expected.percentile(found[1].score), abs=7.0)
    assert found.live is not None
    assert (found.live.aspects, found.live.of, found.live.unreadable) == ((WORDS,), expected.selected, 0)


def test_words_need_leave(searcher: Searcher) -> None:
    with pytest.raises(AspectError, match=r"'evening mood' is not indexed.*live=64"):
        searcher.query([("picture 03", WORDS)])


def test_words_with_characters_that_nobody_sees_are_refused(searcher: Searcher) -> None:
    with pytest.raises(AspectError, match=r"invisible character U\+202E"):
        searcher.query([("picture 03", "evening \u202emood")], live=8)


def test_indexed_aspects_need_no_look(searcher: Searcher) -> None:
    terms: list[TermLike] = [("picture 03", "brushwork")]
    found = searcher.query(terms, live=4)
    assert found.live is None
    assert found.to_record() == searcher.query(terms).to_record()


def test_similar_and_batches_look_too(searcher: Searcher) -> None:
    alone = searcher.query([("picture 03", WORDS)], overall_penalty=0.25, live=12)
    assert searcher.similar("picture 03", WORDS, live=12).to_record() == alone.to_record()
    queries: list[list[TermLike]] = [
        [("picture 03", WORDS)],
        [("picture 04", "brushwork")],
        [("picture 05", "hem of the dress"), ("picture 06", WORDS, 0.5)],
    ]
    batch = searcher.query_batch(queries, live=12)
    assert [hits.to_record() for hits in batch] == [searcher.query(q, live=12).to_record() for q in queries]
    assert [hits.live is None for hits in batch] == [False, True, False]


def test_each_item_is_embedded_once(gallery: Path) -> None:
    embedder = CountingEmbedder()
    searcher = Searcher.open(gallery, model=embedder)
    found = searcher.query([("picture 03", WORDS)], live=18)
    assert found.selected == 18
    assert embedder.pictures == 1 + 18  # picture 03 itself is no hit
    searcher.query([("picture 03", WORDS)], live=18, offset=10)
    searcher.query([("picture 03", WORDS)], live=18, where="year > 0")
    assert embedder.pictures == 1 + 18
    assert searcher.query([("picture 03", WORDS)], live=24).selected == 24
    assert embedder.pictures == 1 + 24
    assert len(searcher.query([("picture 04", WORDS)], live=1)) == 1


def test_looking_further_begins_alike() -> None:
    for fewer, more in ((64, 256), (1, 64), (17, 10_000)):
        begun = list(totals(fewer))[:-1]
        assert list(totals(more))[: len(begun)] == begun
        assert list(totals(fewer))[-1] == fewer


def test_the_likeliest_are_learnt(many: Path) -> None:
    """The stub's words are near enough to linear in one another for the learnt query to find them."""
    embedder = StubEmbedder()
    searcher = Searcher.open(many, model=embedder)
    files = [searcher.index.item_bytes(row) for row in searcher.index.items().to_pylist()]
    under = embedder.embed(files, [WORDS])[:, 0].astype(np.float64)
    overall = embedder.embed(files, ["overall"])[:, 0].astype(np.float64)
    found, by_overall = [], []
    for number in range(0, MANY, 60):
        scores = under @ under[number]
        scores[number] = -2.0
        truth = {f"picture-{row:06d}" for row in np.argsort(-scores)[:10]}
        hits = searcher.query([(f"picture-{number:06d}", WORDS)], k=10, live=128)
        assert (hits.selected, hits.exact) == (128, False)
        found.append(len(truth.intersection(hits.keys)))
        nearest = np.argsort(-(overall @ overall[number]))[:128]
        by_overall.append(len(truth.intersection(f"picture-{row:06d}" for row in nearest)))
    assert np.mean(found) >= 7.0
    assert np.mean(found) >= np.mean(by_overall) + 2.0


def test_candidates_come_by_codes_too(many: Path) -> None:
    searcher = Searcher.open(many, model=StubEmbedder())
    exact = searcher.query([("picture-000007", WORDS)], k=20, live=64, exact=True)
    codes = searcher.query([("picture-000007", WORDS)], k=20, live=64, exact=False)
    assert codes.live == exact.live
    scores = {hit.key: hit.score for hit in exact}
    shared = [hit for hit in codes if hit.key in scores]
    assert len(shared) >= 10
    assert all(hit.score == scores[hit.key] for hit in shared)


def test_candidates_come_from_the_selection(searcher: Searcher) -> None:
    found = searcher.query([("picture 03", WORDS)], k=30, live=6, where="year >= 1920")
    assert len(found) == found.selected == 6
    assert found.live is not None
    assert found.live.of == 10
    assert {hit.metadata["year"] for hit in found} <= set(range(1920, 1930))
    assert len(searcher.query([("picture 03", WORDS)], live=6, where="year > 3000")) == 0


def test_terms_that_cancel_by_every_indexed_aspect(searcher: Searcher) -> None:
    terms: list[TermLike] = [("picture 03", WORDS, 1.0), ("picture 03", "hem of the dress", -1.0)]
    assert searcher.query(terms, live=COUNT).exact
    found = searcher.query(terms, live=10, exclude_queries=False)
    assert len(found) == found.selected == 10


def test_terms_that_cancel(searcher: Searcher) -> None:
    with pytest.raises(QueryError, match="cancel each other out"):
        searcher.query([("picture 03", WORDS, 1.0), ("picture 03", "Evening  mood", -1.0)], live=8)


def test_a_weight_of_zero(searcher: Searcher) -> None:
    found = searcher.query([("picture 03", WORDS, 0.0), ("picture 04", "brushwork")], live=COUNT)
    assert found.keys == searcher.query([("picture 03", "overall", 0.0), ("picture 04", "brushwork")]).keys
    assert {hit.contributions[0] for hit in found} == {0.0}


def copy_without(tmp_path: Path, gone: Sequence[int]) -> Searcher:
    pictures = [png(seed) for seed in range(COUNT)]
    vectors = StubEmbedder().embed(pictures, ASPECTS)
    path = write_index(
        tmp_path / "index", {aspect: vectors[:, n] for n, aspect in enumerate(ASPECTS)}, pictures=pictures
    )
    for number in gone:
        (path / "gallery" / f"{number:06d}.png").unlink()
    return Searcher.open(path, model=StubEmbedder())


def test_pictures_that_are_gone_are_left_out_and_told(tmp_path: Path) -> None:
    searcher = copy_without(tmp_path, gone=(4, 5, 6))
    found = searcher.query([("picture-000003", WORDS)], k=COUNT, live=COUNT)
    assert found.live is not None
    assert (found.live.unreadable, found.selected, found.exact) == (3, COUNT - 1 - 3, False)
    assert not {"picture-000004", "picture-000005", "picture-000006"}.intersection(found.keys)
    assert found.to_record()["live"] == {"aspects": [WORDS], "of": COUNT, "unreadable": 3}


def test_pictures_that_are_back_are_read(tmp_path: Path) -> None:
    searcher = copy_without(tmp_path, gone=(4,))
    searcher.query([("picture-000003", WORDS)], live=COUNT)
    (searcher.index.path / "gallery" / "000004.png").write_bytes(png(4))
    assert searcher.query([("picture-000003", WORDS)], live=COUNT).exact


def test_no_picture_can_be_read(tmp_path: Path) -> None:
    searcher = copy_without(tmp_path, gone=range(COUNT))
    with pytest.raises(QueryError, match=r"none of the 8 pictures that were to be looked at can be read: .*000"):
        searcher.query([(png(3), WORDS)], live=8)
    with pytest.raises(QueryError, match="'picture-000003' cannot be compared by 'evening mood', which is not indexed"):
        searcher.query([("picture-000003", WORDS)], live=8)


def test_progress_is_shown_and_can_end_the_query(searcher: Searcher) -> None:
    seen: list[tuple[int, int]] = []
    searcher.query([("picture 03", WORDS)], live=LiveLook(24, lambda done, total: seen.append((done, total))))
    assert seen[0] == (0, 24)
    assert seen[-1] == (24, 24)
    assert seen == sorted(seen)

    def stop(done: int, total: int) -> None:
        if done:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        searcher.query([("picture 03", "rhythm of the lines")], live=LiveLook(24, stop))


def test_words_of_one_slug_are_one_aspect_as_in_an_index(searcher: Searcher) -> None:
    terms: list[TermLike] = [("picture 03", "red, not blue", 1.0), ("picture 09", "Red not blue", 0.5)]
    found = searcher.query(terms, live=COUNT)
    assert found.live is not None
    assert found.live.aspects == ("red, not blue",)
    assert [term.aspect.text for term in found.terms] == ["red, not blue"] * 2
    alone = {hit.key: hit.score for hit in searcher.query(terms[:1], k=COUNT, live=COUNT)}
    assert all(hit.contributions[0] == alone[hit.key] for hit in found if hit.key in alone)


def test_a_number_of_numpy_is_a_number(searcher: Searcher) -> None:
    terms: list[TermLike] = [("picture 03", WORDS)]
    assert searcher.query(terms, live=np.int64(5)).to_record() == searcher.query(terms, live=5).to_record()  # type: ignore[arg-type]


def test_progress_must_be_a_function() -> None:
    with pytest.raises(QueryError, match="progress must be a function"):
        LiveLook(5, "x")  # type: ignore[arg-type]


def test_overall_is_not_offered_to_be_looked_at(tmp_path: Path) -> None:
    vectors = StubEmbedder().embed([png(seed) for seed in range(4)], ["brushwork"])
    searcher = Searcher.open(write_index(tmp_path / "index", {"brushwork": vectors[:, 0]}), model=StubEmbedder())
    with pytest.raises(AspectError, match=r"'overall' is not indexed.*--aspect overall$"):
        searcher.query([("picture-000001", WORDS)], overall_penalty=0.3, live=4)


def test_large_pictures_are_looked_at_few_at_a_time(gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    class Noting(StubEmbedder):
        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
            batches.append(len(images))
            return super().embed(images, aspects)

    monkeypatch.setattr("search.live.live_vectors.HELD_BYTES", 3 * 8 * 8 * 5)  # the records say 8 x 8
    found = Searcher.open(gallery, model=Noting()).query([("picture 03", WORDS)], live=20)
    assert found.selected == 20
    assert max(batches) == 5
    assert found.keys == Searcher.open(gallery, model=StubEmbedder()).query([("picture 03", WORDS)], live=20).keys


@pytest.mark.parametrize("live", [0, -1, True, "64", 2.5, 10_001, [64]])
def test_live_must_be_a_number_of_items(searcher: Searcher, live: object) -> None:
    with pytest.raises(QueryError, match="live must be how many items"):
        searcher.query([("picture 03", WORDS)], live=live)  # type: ignore[arg-type]


def test_threads_get_their_own_answers(many: Path) -> None:
    searcher = Searcher.open(many, model=StubEmbedder())
    words = [f"sense {number}" for number in range(4)]
    expected = {word: searcher.query([("picture-000001", word)], live=40).to_record() for word in words}
    fresh = Searcher.open(many, model=StubEmbedder())
    found: dict[str, object] = {}

    def ask(word: str) -> None:
        found[word] = fresh.query([("picture-000001", word)], live=40).to_record()

    threads = [threading.Thread(target=ask, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_surrogate_finds_a_linear_score() -> None:
    random = np.random.default_rng(3)
    vectors, wanted = random.standard_normal((60, 12)), random.standard_normal(12)
    found = surrogate(vectors, vectors @ wanted + 7.0)
    others = random.standard_normal((200, 12))
    assert np.corrcoef(others @ found, others @ wanted)[0, 1] > 0.99


def test_of_many_items_the_best_and_some_others_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.live.surrogate.MAX_LEARNT_FROM", 60)
    scores = np.random.default_rng(4).standard_normal(500)
    kept = telling(scores)
    assert len(kept) == len(set(kept.tolist())) == 60
    assert (np.diff(kept) > 0).all()
    assert set(np.argsort(-scores)[:30]) < set(kept.tolist())
    assert scores.argmin() in kept
    assert telling(scores[:60]).tolist() == list(range(60))


@pytest.mark.parametrize(
    ("vectors", "scores"),
    [(np.ones((3, 4)), np.arange(3.0)), (np.eye(4), np.ones(4)), (np.ones((1, 4)), np.ones(1))],
)
def test_surrogate_of_nothing_to_learn(vectors: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
    assert not surrogate(vectors, scores).any()
