"""An index of imported vectors is one like any other, without pictures and without a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.codes import make_codes
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.importing.config import ImportConfig
from indexer.importing.model import loadable_model
from indexer.importing.vectors import import_vectors
from search import Searcher
from search.duplicates.groups import find_duplicates
from search.page import render_page
from tests.fixtures.exports import unit_vectors
from tests.fixtures.picture_folders import picture_bytes
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError, ModelError
from tpips_model.loading import load_embedder

COUNT = 300


def imported(tmp_path: Path, *aspects: str, dim: int = 16, **options: object) -> Path:
    for number, aspect in enumerate(aspects):
        np.save(tmp_path / f"{aspect}.npy", unit_vectors(COUNT, dim, seed=number), allow_pickle=False)
    vectors = tuple((Aspect(aspect), str(tmp_path / f"{aspect}.npy")) for aspect in aspects)
    import_vectors(ImportConfig(tmp_path / "index", vectors, progress=False, **options))  # type: ignore[arg-type]
    return tmp_path / "index"


def test_it_answers_by_key_exactly_and_by_codes(tmp_path: Path) -> None:
    path = imported(tmp_path, "overall", "color palette")
    index = make_codes(IndexDirectory.open(path), IndexDirectory.open(path).aspects, progress=False)
    searcher = Searcher(index)
    terms = [("000007", "color palette"), ("000100", "overall", 0.5)]
    exact = searcher.query(terms, k=20, overall_penalty=0.3, exact=True)
    assert len(exact) == 20
    assert "000007" not in exact.keys
    assert searcher.query(terms, k=20, overall_penalty=0.3, exact=False).keys == exact.keys
    assert len(searcher.similar("000007", "color palette", k=5)) == 5


def test_its_hits_have_no_picture_and_the_page_says_so(tmp_path: Path) -> None:
    hits = Searcher.open(imported(tmp_path, "overall")).query([("000007", "overall")], k=3)
    with pytest.raises(IndexDirectoryError, match="item '"):
        hits.image(0)
    with pytest.raises(IndexDirectoryError, match="item '000007'"):
        hits.terms[0].image()
    page = render_page(hits)
    assert page.count('class="fault"') == 4
    assert "<img" not in page
    assert len(hits.to_records()) == 3


def test_a_picture_needs_the_model(tmp_path: Path) -> None:
    searcher = Searcher.open(imported(tmp_path, "overall"))
    with pytest.raises(ModelError, match="imported vectors"):
        searcher.query([(picture_bytes(1), "overall")])
    with pytest.raises(ModelError, match=r"of a model that is not known.*--model-name and --fingerprint"):
        loadable_model(searcher.index.manifest.model.name)


def test_a_model_of_the_given_fingerprint_serves(tmp_path: Path) -> None:
    mini = load_embedder("mini")
    path = imported(tmp_path, "overall", dim=mini.dim, model_name="mini", fingerprint=mini.fingerprint)
    assert len(Searcher.open(path).query([(picture_bytes(1), "overall")], k=4)) == 4


def test_a_model_of_another_fingerprint_is_refused(tmp_path: Path) -> None:
    path = imported(tmp_path, "overall", dim=load_embedder("mini").dim, model_name="mini")
    with pytest.raises(ModelError, match="fingerprint imported:"):
        Searcher.open(path).query([(picture_bytes(1), "overall")])


def test_without_overall_there_is_no_penalty(tmp_path: Path) -> None:
    searcher = Searcher.open(imported(tmp_path, "style"))
    assert len(searcher.similar("000007", "style", k=3)) == 3
    with pytest.raises(AspectError, match="'overall' is not indexed"):
        searcher.query([("000007", "style")], overall_penalty=0.3)


def test_its_bytes_are_not_looked_for(tmp_path: Path) -> None:
    report = find_duplicates(IndexDirectory.open(imported(tmp_path, "overall")), progress=False)
    assert (report.identical, report.unreadable, report.without_picture) == ((), (), COUNT)
