"""What a searcher promises, on an index directory and on the same index pushed to Milvus Lite."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import typer
from hypothesis import assume, given, settings
from numpy.typing import NDArray
from typer.testing import CliRunner

from indexer import IndexDirectory, IndexDirectoryError
from indexer.removal import remove_rows
from search import Hits, Searcher
from search.commands.push import push as push_command
from search.milvus import engine as milvus_engine
from search.milvus import push as milvus_push
from search.milvus.address import MilvusAddress, MilvusError
from search.milvus.connection import MilvusConnection
from search.milvus.facts import read_facts, write_facts
from search.milvus.index import MilvusIndex
from search.milvus.push import PushedIndex, push_index
from search.milvus.selection import MilvusSelections
from search.terms import QueryError
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, png, unit
from tests.search.test_filter_language import ROWS, Condition, conditions
from tpips_model.errors import AspectError, ModelError

COUNT = 300
Terms = list[tuple[str, str, float]]


@dataclass(frozen=True)
class Query:
    """A query, and the items that its filter keeps."""

    terms: Terms
    penalty: float
    where: str | None
    kept: NDArray[np.int64]


def metadata(row: int) -> dict[str, Any]:
    return {"artist": f"artist {row % 3}", "year": None if row % 7 == 0 else 1900 + row, "été": bool(row % 2)}


def push(index: Path, address: str, **options: Any) -> PushedIndex:
    return push_index(IndexDirectory.open(index), MilvusAddress.parse(address), progress=False, **options)


def connection(address: str) -> MilvusConnection:
    return MilvusConnection.open(MilvusAddress.parse(address))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items that are alike under several aspects, some of them near-duplicates and some of the same vectors."""
    rng = np.random.default_rng(7)
    shared = rng.standard_normal((COUNT, 16))
    vectors = {aspect: unit(shared + 0.7 * rng.standard_normal((COUNT, 16))).astype(np.float32) for aspect in ASPECTS}
    for aspect in ASPECTS:
        vectors[aspect][200:230] = unit(vectors[aspect][170:200] + 0.02 * rng.standard_normal((30, 16)))
        vectors[aspect][240:245] = vectors[aspect][100]
    return write_index(
        tmp_path_factory.mktemp("milvus") / "index",
        vectors,
        rows_per_part=70,
        metadata=[metadata(row) for row in range(COUNT)],
        recommended_overall_penalty=0.25,
    )


@pytest.fixture(scope="module")
def address(index: Path) -> str:
    there = f"milvus:{index.parent / 'vectors.db'}/pictures"
    assert push(index, there) == PushedIndex(COUNT, COUNT, "FLAT")
    return there


@pytest.fixture(scope="module", params=["directory", "milvus"])
def searcher(request: pytest.FixtureRequest, index: Path, address: str) -> Searcher:
    return Searcher.open(index if request.param == "directory" else address)


@pytest.fixture(scope="module")
def vectors(index: Path) -> dict[str, NDArray[np.float64]]:
    opened = IndexDirectory.open(index)
    return {a.text: np.concatenate(opened.vectors(a)).astype(np.float64) for a in opened.aspects}


def random_queries(count: int, seed: int) -> list[Query]:
    rng = np.random.default_rng(seed)
    wheres = {
        None: lambda row: True,
        'not (year < 2000 or artist = "artist 1")': lambda row: (
            row["year"] is not None and row["year"] >= 2000 and row["artist"] != "artist 1"
        ),
        "year is null and `été`": lambda row: row["year"] is None and row["été"],
        "year > 3000": lambda row: False,
    }
    queries = []
    for number in range(count):
        where = list(wheres)[number % len(wheres)]
        terms: Terms = [
            (f"picture-{rng.integers(COUNT):06d}", str(rng.choice(ASPECTS)), float(rng.choice([1.0, 0.4, -0.7, -1.0])))
            for _ in range(rng.integers(1, 4))
        ]
        kept = np.array([row for row in range(COUNT) if wheres[where](metadata(row))], np.int64)
        queries.append(Query(terms, float(rng.choice([0.0, 0.3])), where, kept))
    return queries


def brute_force(query: Query, vectors: dict[str, NDArray[np.float64]], k: int) -> list[tuple[int, float]]:
    scores = np.zeros(COUNT)
    for key, aspect, weight in query.terms:
        image = slice(int(key[-6:]), int(key[-6:]) + 1)
        scores += weight * vectors[aspect] @ unit(vectors[aspect][image])[0]
        if aspect != "overall":
            scores -= weight * query.penalty * vectors["overall"] @ unit(vectors["overall"][image])[0]
    own = set()
    for number in {int(key[-6:]) for key, _, _ in query.terms}:
        # Five items have the vectors of number 100.
        own |= {100, *range(240, 245)} if number in {100, *range(240, 245)} else {number}
    rows = [row for row in query.kept.tolist() if row not in own]
    return sorted(((row, scores[row]) for row in rows), key=lambda pair: (-pair[1], pair[0]))[:k]


def answered(hits: Hits) -> list[tuple[Any, ...]]:
    return [(hit.rank, hit.key, hit.score, hit.contributions, hit.row, hit.metadata, hit.duplicates) for hit in hits]


def test_answers_are_those_of_a_brute_force(searcher: Searcher, vectors: dict[str, NDArray[np.float64]]) -> None:
    for query in random_queries(24, seed=1):
        hits = searcher.query(query.terms, 8, query.penalty, where=query.where)
        expected = brute_force(query, vectors, 8)
        assert [hit.row for hit in hits] == [row for row, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], atol=1e-12)
        assert hits.exact
        assert (hits.total, hits.selected, hits.where) == (COUNT, len(query.kept), query.where)
        np.testing.assert_allclose([sum(hit.contributions) for hit in hits], [hit.score for hit in hits], atol=1e-12)


def test_a_hundred_random_queries_equal_the_directorys_to_the_bit(index: Path, address: str) -> None:
    directory, collection = Searcher.open(index), Searcher.open(address)
    for number, query in enumerate(random_queries(100, seed=2)):
        page: dict[str, Any] = {
            "k": 1 + number % 12,
            "overall_penalty": query.penalty,
            "where": query.where,
            "offset": number % 5,
        }
        expected = directory.query(query.terms, **page)
        found = collection.query(query.terms, **page)
        assert answered(found) == answered(expected)
        assert found.exact


@pytest.mark.parametrize("deepest", [16_384, 16])
def test_shallow_searches_are_deepened_and_never_called_exact_without_proof(
    index: Path, address: str, monkeypatch: pytest.MonkeyPatch, deepest: int
) -> None:
    monkeypatch.setattr(milvus_engine, "FIRST_DEPTH", 4)
    monkeypatch.setattr(milvus_engine, "MAX_HITS", deepest)
    directory, collection = Searcher.open(index), Searcher.open(address)
    proven = 0
    for query in random_queries(30, seed=3):
        expected = answered(directory.query(query.terms, 2, query.penalty, where=query.where))
        found = collection.query(query.terms, 2, query.penalty, where=query.where)
        proven += found.exact
        if found.exact:
            assert answered(found) == expected
        read = collection.query(query.terms, 2, query.penalty, where=query.where, exact=True)
        assert read.exact
        assert answered(read) == expected
    assert proven == 30 if deepest > COUNT else 0 < proven < 30


def test_one_search_a_field_is_enough_for_approximate_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_engine, "ONLY_DEPTH", 40)
    hits = Searcher.open(address).query(
        [("picture-000001", "brushwork", 1.0), ("picture-000050", "color palette", -1.0)], 5, exact=False
    )
    assert len(hits) == 5
    assert 5 <= hits.rescored <= 80


def test_pages_join_and_low_scores_are_left_out(searcher: Searcher) -> None:
    terms = [("picture-000003", "brushwork", 1.0), ("picture-000090", "overall", -0.4)]
    whole = searcher.query(terms, 30)
    paged = [hit for offset in range(0, 30, 7) for hit in searcher.query(terms, 7, offset=offset)]
    assert [hit.key for hit in paged[:30]] == whole.keys
    assert [hit.rank for hit in paged] == list(range(1, 36))
    floor = whole[11].score
    assert searcher.query(terms, 30, min_score=floor).keys == whole.keys[:12]


def test_near_duplicates_collapse_alike(index: Path, address: str) -> None:
    directory, collection = Searcher.open(index), Searcher.open(address)
    duplicates = 0
    for row in (5, 100, 175, 210):
        terms = [(f"picture-{row:06d}", "brushwork", 1.0)]
        expected = directory.query(terms, 12, 0.3, dedupe=0.98)
        assert answered(collection.query(terms, 12, 0.3, dedupe=0.98)) == answered(expected)
        duplicates += sum(len(hit.duplicates) for hit in expected)
    assert duplicates


def test_a_batch_is_its_queries(searcher: Searcher) -> None:
    queries = [query.terms for query in random_queries(10, seed=4)]
    together = searcher.query_batch(queries, 5, 0.3, where="year >= 1950")
    assert [answered(hits) for hits in together] == [
        answered(searcher.query(terms, 5, 0.3, where="year >= 1950")) for terms in queries
    ]


def test_similar_takes_the_models_penalty(searcher: Searcher) -> None:
    hits = searcher.similar("picture-000009", "brushwork", 6)
    assert hits.overall_penalty == 0.25
    assert answered(hits) == answered(searcher.query([("picture-000009", "brushwork")], 6, 0.25))


def test_keys_columns_and_percentiles(searcher: Searcher) -> None:
    assert len(searcher) == len(searcher.keys) == COUNT
    assert list(searcher.keys) == [f"picture-{row:06d}" for row in range(COUNT)]
    assert searcher.keys.page(298, 9) == ["picture-000298", "picture-000299"]
    assert searcher.keys[17] == searcher.keys[17:18][0] == "picture-000017"
    assert (searcher.keys.row("picture-000017"), searcher.keys.row("else"), "else" in searcher.keys) == (
        17,
        None,
        False,
    )
    assert searcher.columns.names[-3:] == ["artist", "year", "été"]
    assert [aspect.text for aspect in searcher.aspects] == list(ASPECTS)
    for where in (None, "year >= 2000"):
        hits = searcher.query([("picture-000003", "brushwork")], 3, where=where)
        assert hits.percentile(hits[0].score) == pytest.approx(100 - 100 / hits.selected, abs=1)
    with pytest.raises(QueryError, match=r"neither the key of an indexed item nor an existing .*'picture-000017'"):
        searcher.query([("icture-000017", "brushwork")])
    with pytest.raises(AspectError, match="aspect 'shape' is not indexed; indexed aspects: 'overall', 'brushwork'"):
        searcher.query([("picture-000017", "shape")])


def test_what_a_collection_lacks_is_added_to_the_index_that_was_pushed(address: str) -> None:
    with pytest.raises(AspectError, match="build --out INDEX --aspect shape, and then tpips-index push INDEX milvus:"):
        Searcher.open(address).query([("picture-000017", "shape")])


def test_threads_may_ask_at_once(index: Path, address: str) -> None:
    collection, queries = Searcher.open(address), random_queries(12, seed=5)
    directory = Searcher.open(index)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda q: answered(collection.query(q.terms, 5, where=q.where)), queries))
    assert found == [answered(directory.query(q.terms, 5, where=q.where)) for q in queries]


def test_pictures_are_embedded_and_found_again(gallery: Path, pictures: list[bytes], tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'gallery.db'}/gallery"
    push(gallery, there)
    directory = Searcher.open(gallery, model=StubEmbedder())
    collection = Searcher.open(there, model=StubEmbedder(), data_root=gallery / "gallery")
    for image in (pictures[3], "picture 03", png(1234)):
        for terms in ([(image, "brushwork")], [(image, "overall", 1.0), (pictures[5], "color palette", -0.5)]):
            expected = directory.query(terms, 10, 0.3)
            found = collection.query(terms, 10, 0.3)
            assert answered(found) == answered(expected)
            assert found.image(0).tobytes() == expected.image(0).tobytes()
    assert "picture 07" not in collection.query([(pictures[3], "brushwork")], 30).keys  # a copy of number 3
    homeless = Searcher.open(there, model=StubEmbedder())
    hits = homeless.query([("picture 03", "brushwork")], 3)
    assert hits.keys == directory.query([("picture 03", "brushwork")], 3).keys
    with pytest.raises(IndexDirectoryError, match="a Milvus collection holds no pictures; say where they are"):
        hits.image(0)
    stranger = StubEmbedder()
    stranger.fingerprint = "stub:2"
    with pytest.raises(ModelError, match=r"milvus:.*/gallery was made by the model 'stub'"):
        Searcher.open(there, model=stranger)


# A number that is none is missing in Milvus, and Milvus Lite compares no column of doubles with such whole numbers.
FILTERED = [
    {
        **row,
        "price": None if row["price"] != row["price"] else row["price"],
        "year": 1 << 50 if row["year"] == 2**60 + 1 else row["year"],
    }
    for row in ROWS
]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> MilvusSelections:
    folder = tmp_path_factory.mktemp("filters")
    vectors = unit(np.random.default_rng(0).standard_normal((len(ROWS), 4))).astype(np.float32)
    index = write_index(folder / "index", {"overall": vectors}, metadata=FILTERED, rows_per_part=50)
    push(index, f"milvus:{folder / 'filters.db'}/rows")
    index_there = MilvusIndex.open(f"milvus:{folder / 'filters.db'}/rows")
    return MilvusSelections(index_there.connection, index_there.facts)


@settings(max_examples=80, deadline=None)
@given(condition=conditions)
def test_filters_hold_for_the_rows_that_they_describe(filtered: MilvusSelections, condition: Condition) -> None:
    refused = re.search("contains", condition.text, re.IGNORECASE) or "1" + 30 * "0" in condition.text
    assume(not refused)
    selection = filtered.of(condition.text)
    found = selection.spread(COUNT)
    assert len(found) == selection.count
    assert found.tolist() == [number for number, row in enumerate(FILTERED) if condition.holds(row)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ('artist contains "x"', r'Milvus cannot look for text regardless of capitals.*artist like "%x%"'),
        (r'artist like "a\b"', "has a backslash that is not before"),
        ("year > 1e30", "Milvus cannot compare the whole numbers of year with 1e.30 exactly"),
        ("year >", "cannot read the filter 'year >' at its end"),
        ("color = 1", "there is no column 'color' to filter by"),
        (
            pc.field("year") > 1950,
            "filtered by text such as 'year >= 1900', not by Expression; pyarrow expressions are",
        ),
    ],
)
def test_filters_that_milvus_cannot_evaluate(address: str, where: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Searcher.open(address).query([("picture-000001", "brushwork")], where=where)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nprobe": 3}, "no vector field of the collection has inverted lists"),
        ({"k": 20}, "Milvus gives at most 16 candidates a field, and 21 hits are needed"),
    ],
)
def test_what_milvus_does_not_give(
    address: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(milvus_engine, "MAX_HITS", 16)
    with pytest.raises(QueryError, match=message):
        Searcher.open(address).query([("picture-000001", "brushwork")], **options)


@pytest.mark.parametrize("kind", ["hnsw", "ivf_flat", "ivf_sq8"])
def test_other_indexes_find_much_and_prove_nothing(index: Path, tmp_path: Path, kind: str) -> None:
    there = f"milvus:{tmp_path / 'other.db'}/pictures"
    assert push(index, there, index_type=kind, aspects=["brushwork", "overall"]).index_type == kind.upper()
    directory, collection = Searcher.open(index), Searcher.open(there)
    shared = 0
    for query in random_queries(10, seed=6):
        terms = [(key, "brushwork", weight) for key, _, weight in query.terms]
        expected, found = directory.query(terms, 5), collection.query(terms, 5)
        assert not found.exact
        shared += len({*expected.keys} & {*found.keys})
        assert answered(collection.query(terms, 5, exact=True)) == answered(expected)
    assert shared >= 40


def interrupted(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Let a push die once it has sent so many batches."""
    sent = iter(range(batches))
    rows = milvus_push.islice

    def dying(*arguments: Any) -> Any:
        if next(sent, None) is None:
            raise KeyboardInterrupt("killed")
        return rows(*arguments)

    monkeypatch.setattr(milvus_push, "islice", dying)


def test_a_killed_push_goes_on(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = f"milvus:{tmp_path / 'killed.db'}/pictures"
    monkeypatch.setattr("search.milvus.fields.MAX_BATCH_ROWS", 20)
    monkeypatch.setattr(milvus_push, "BATCHES_BETWEEN_NOTES", 3)
    with monkeypatch.context() as dying:
        interrupted(dying, batches=8)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            push(index, there)
    with pytest.raises(
        MilvusError, match=r"is not finished .120 of 300 items are known to have arrived.; run the same"
    ):
        Searcher.open(there)
    assert push(index, there).sent == COUNT - 120
    assert push(index, there).sent == 0
    assert connection(there).count() == COUNT
    terms = [("picture-000150", "brushwork", 1.0), ("picture-000280", "overall", -0.5)]
    assert answered(Searcher.open(there).query(terms)) == answered(Searcher.open(index).query(terms))


DYING = """
import os, signal, sys
from pathlib import Path
from indexer import IndexDirectory
from search.milvus import fields as milvus_fields
from search.milvus import push as milvus_push
from search.milvus.address import MilvusAddress

milvus_fields.MAX_BATCH_ROWS, milvus_push.BATCHES_BETWEEN_NOTES = 7, 2
rows, left = milvus_push.islice, int(sys.argv[3])

def dying(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows(*arguments)

milvus_push.islice = dying
milvus_push.push_index(IndexDirectory.open(sys.argv[1]), MilvusAddress.parse(sys.argv[2]), progress=False)
"""


@pytest.mark.slow
def test_a_push_survives_being_killed_again_and_again(index: Path, tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'killed.db'}/pictures"
    for batches in (0, 3, 9, 14):
        program = [sys.executable, "-c", DYING, str(index), there, str(batches)]
        assert subprocess.run(program, check=False, capture_output=True).returncode == -signal.SIGKILL
    last = subprocess.run([sys.executable, "-c", DYING, str(index), there, "99"], capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    for query in random_queries(8, seed=10):
        expected = Searcher.open(index).query(query.terms, 5, where=query.where)
        assert answered(Searcher.open(there).query(query.terms, 5, where=query.where)) == answered(expected)


def test_the_command_tells_what_it_did_and_what_to_do_next(index: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(push_command)
    there = f"milvus:{tmp_path / 'command.db'}/pictures"
    arguments = [str(index), there, "--aspect", "Brushwork", "--aspect", "overall", "--metadata", "year"]
    made = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert made.exit_code == 0
    assert f"{there} holds 300 pictures, searched by FLAT\nsearch them: tpips-index query {there} --term" in made.stdout
    assert "pushing: 100%" in made.stderr
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert f"{there} holds all 300 pictures already" in again.stdout
    assert [aspect.text for aspect in Searcher.open(there).aspects] == ["brushwork", "overall"]
    with pytest.raises(MilvusError, match="the index type 'tree' is none of flat, hnsw, ivf_flat, ivf_sq8"):
        CliRunner().invoke(app, [*arguments, "--index", "tree"], catch_exceptions=False)
    with pytest.raises(MilvusError, match="there is no metadata column 'colour'; columns: artist, year, été"):
        CliRunner().invoke(app, [*arguments, "--metadata", "colour"], catch_exceptions=False)


def test_removed_items_are_left_out(index: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    vectors = {aspect: unit(rng.standard_normal((50, 8))).astype(np.float32) for aspect in ASPECTS}
    folder = write_index(tmp_path / "index", vectors, rows_per_part=20)
    remove_rows(IndexDirectory.open(folder, hold=False), np.array([0, 3, 19, 20, 49]))
    there = f"milvus:{tmp_path / 'removed.db'}/pictures"
    assert push(folder, there).rows == 45
    directory, collection = Searcher.open(folder), Searcher.open(there)
    assert list(collection.keys) == list(directory.keys)
    terms = [("picture-000021", "brushwork", 1.0)]
    assert collection.query(terms, 45).keys == directory.query(terms, 45).keys


def test_another_index_is_pushed_over_only_when_asked(index: Path, tmp_path: Path) -> None:
    vectors = {aspect: unit(np.random.default_rng(9).standard_normal((9, 8))).astype(np.float32) for aspect in ASPECTS}
    small = write_index(tmp_path / "small", vectors)
    there = f"milvus:{tmp_path / 'replaced.db'}/pictures"
    push(small, there)
    opened = Searcher.open(there)
    assert not opened.refresh()
    with pytest.raises(MilvusError, match=r"holds another index, another state .*9 items by overall.*--replace"):
        push(index, there)
    push(index, there, replace_old=True)
    assert opened.refresh()
    assert len(opened) == COUNT
    assert opened.query([("picture-000299", "overall")], 1).exact


def test_an_alias_leads_to_the_collection_that_it_has_at_the_time(index: Path, tmp_path: Path) -> None:
    file = f"milvus:{tmp_path / 'aliases.db'}"
    vectors = {aspect: unit(np.random.default_rng(9).standard_normal((9, 8))).astype(np.float32) for aspect in ASPECTS}
    push(write_index(tmp_path / "small", vectors), f"{file}/first")
    push(index, f"{file}/second")
    with connection(f"{file}/first").calling("naming") as client:
        client.create_alias("first", "current")
    opened = Searcher.open(f"{file}/current")
    assert len(opened) == 9
    with connection(f"{file}/first").calling("naming") as client:
        client.alter_alias("second", "current")
    assert len(opened.query([("picture-000003", "brushwork")], 20)) == 8
    assert opened.refresh()
    assert len(opened.query([("picture-000003", "brushwork")], 20)) == 20


def test_what_is_not_a_finished_push(index: Path, address: str, tmp_path: Path) -> None:
    with pytest.raises(MilvusError, match=r"there is no Milvus Lite file .*none\.db; make it with"):
        Searcher.open(f"milvus:{tmp_path / 'none.db'}/pictures")
    with pytest.raises(MilvusError, match="there is no collection 'none'"):
        Searcher.open(address.replace("/pictures", "/none"))
    with pytest.raises(MilvusError, match="leave out the device"):
        Searcher.open(address, device="cuda")
    foreign = f"milvus:{tmp_path / 'foreign.db'}/theirs"
    there = MilvusConnection.open(MilvusAddress.parse(foreign), make_file=True)
    with there.calling("making") as client:
        client.create_collection("theirs", dimension=4)
    with pytest.raises(MilvusError, match="is a collection that tpips-index push did not make"):
        Searcher.open(foreign)
    with pytest.raises(MilvusError, match="did not make; give another name, or drop it yourself"):
        push(index, foreign, replace_old=True)


def test_vectors_of_another_length_are_refused(index: Path, tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'dims.db'}/pictures"
    push(index, there, aspects=["brushwork"])
    collection = connection(there)
    facts = read_facts(collection, "pictures")
    assert facts is not None
    write_facts(collection, replace(facts, model=replace(facts.model, dim=17)))
    with pytest.raises(
        MilvusError, match=r"vectors of 16 dimensions under 'brushwork', and the model 'stub' .* gives 17"
    ):
        Searcher.open(there)


def test_nothing_private_goes_along(tmp_path: Path) -> None:
    vectors = {"overall": unit(np.ones((2, 8))).astype(np.float32)}
    folder = write_index(tmp_path / "index", vectors, model_name=str(tmp_path / "models" / "mine"))
    there = f"milvus:{tmp_path / 'private.db'}/pictures"
    push(folder, there)
    facts = read_facts(connection(there), "pictures")
    assert facts is not None
    assert str(tmp_path) not in facts.to_json()
    assert facts.model.name == "mine"


@pytest.mark.parametrize(
    ("aspects", "columns", "message"),
    [
        (11, 1, "the index has 11 aspects, and Milvus holds at most 10 .* choose some with --aspect"),
        (1, 60, "the index has 67 columns and 1 aspects, and Milvus holds at most 63 of both together"),
    ],
)
def test_more_than_milvus_holds(tmp_path: Path, aspects: int, columns: int, message: str) -> None:
    rows = unit(np.ones((2, 4))).astype(np.float32)
    items = [{f"column {number}": number for number in range(columns)}] * 2
    folder = write_index(tmp_path / "index", {f"aspect {n}": rows for n in range(aspects)}, metadata=items)
    with pytest.raises(MilvusError, match=message):
        push(folder, f"milvus:{tmp_path / 'wide.db'}/pictures")
    there = f"milvus:{tmp_path / 'chosen.db'}/pictures"
    push(folder, there, aspects=["aspect 0"], metadata=["column 0"])
    assert Searcher.open(there).columns.names[7:] == ["column 0"]


def test_texts_that_are_too_long(tmp_path: Path) -> None:
    rows = {"overall": unit(np.ones((1, 4))).astype(np.float32)}
    folder = write_index(tmp_path / "index", rows, metadata=[{"text": "é" * 40_000}])
    with pytest.raises(MilvusError, match="'picture-000000' has a text of 80,000 bytes in the column 'text'"):
        push(folder, f"milvus:{tmp_path / 'long.db'}/pictures")


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.milvus.connection.CONNECT_SECONDS", 0.5)
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(MilvusError, match=f"connecting failed at milvus://127.0.0.1:{port}/pictures: ") as caught:
            Searcher.open(f"milvus://127.0.0.1:{port}/pictures")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "uri", "shown"),
    [
        ("milvus://h/c", "http://h:19530", "milvus://h:19530/c"),
        ("milvus://h:1/c?tls=true&db=x", "https://h:1", "milvus://h:1/c?db=x&tls=true"),
        ("milvus://[::1]/c", "http://[::1]:19530", "milvus://[::1]:19530/c"),
        ("milvus:///a/b.db/c", "/a/b.db", "milvus:/a/b.db/c"),
        ("milvus:/a/b.db/c", "/a/b.db", "milvus:/a/b.db/c"),
    ],
)
def test_addresses(text: str, uri: str, shown: str) -> None:
    parsed = MilvusAddress.parse(text)
    assert (parsed.uri, parsed.collection, str(parsed)) == (uri, "c", shown)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus://user:secret@h/c", "no user, password or token in it, .*MILVUS_TOKEN"),
        ("milvus://h/c?token=secret", "no user, password or token in it"),
        ("milvus:vectors/c", r"names no file whose name ends with \.db"),
        ("milvus://vectors.db/c", "for a file write milvus:vectors.db/c"),
        ("milvus://h", "'' cannot be the name of a collection"),
        ("milvus://h/a-b", "'a-b' cannot be the name of a collection"),
        ("milvus://h:port/c", "the Milvus address cannot be read"),
        ("milvus://h/c?tls=yes", "must be true or false"),
    ],
)
def test_addresses_that_are_none(text: str, message: str) -> None:
    with pytest.raises(MilvusError, match=message) as caught:
        MilvusAddress.parse(text)
    assert "secret" not in str(caught.value)
