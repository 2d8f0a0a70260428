from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from search import Searcher
from search.term_text import parse_term_text
from search.terms import QueryError
from tests.fixtures.indices import write_index
from tpips_model.errors import AspectError

KEYS = ["a.jpg", "12:30.jpg", r"C:\pictures\b.jpg", "c.jpg:brushwork", "d", "7"]


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    vectors = np.eye(6, dtype=np.float32)
    texts = ("overall", "brushwork", "color palette", "ratio 16:9", "1984")
    index = write_index(tmp_path_factory.mktemp("terms") / "index", dict.fromkeys(texts, vectors), keys=KEYS)
    return Searcher.open(index)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.jpg:brushwork", ("a.jpg", "brushwork", 1.0)),
        ("a.jpg:Color  Palette:0.7", ("a.jpg", "Color Palette", 0.7)),
        ("a.jpg:brushwork:-0.5", ("a.jpg", "brushwork", -0.5)),
        ("a.jpg:brushwork:1e-1", ("a.jpg", "brushwork", 0.1)),
        ("12:30.jpg:brushwork", ("12:30.jpg", "brushwork", 1.0)),
        ("12:30.jpg:brushwork:2", ("12:30.jpg", "brushwork", 2.0)),
        (r"C:\pictures\b.jpg:color palette:2", (r"C:\pictures\b.jpg", "color palette", 2.0)),
        (r"C:\elsewhere\b.jpg:color palette", (r"C:\elsewhere\b.jpg", "color palette", 1.0)),
        ("c.jpg:brushwork:brushwork", ("c.jpg:brushwork", "brushwork", 1.0)),
        ("c.jpg:brushwork:overall:3", ("c.jpg:brushwork", "overall", 3.0)),
        ("a.jpg:ratio 16:9", ("a.jpg", "ratio 16:9", 1.0)),
        ("a.jpg:ratio 16:9:0.5", ("a.jpg", "ratio 16:9", 0.5)),
        ("a.jpg:1984", ("a.jpg", "1984", 1.0)),
        ("a.jpg:1984:2", ("a.jpg", "1984", 2.0)),
        ("7:1984", ("7", "1984", 1.0)),
        ("unknown.jpg:unknown aspect:3", ("unknown.jpg", "unknown aspect", 3.0)),
        ("unknown:with:colons:unknown aspect", ("unknown:with:colons", "unknown aspect", 1.0)),
    ],
)
def test_reading(searcher: Searcher, text: str, expected: tuple[str, str, float]) -> None:
    term = parse_term_text(text, searcher)
    assert (term.image, str(term.aspect), term.weight) == expected


def test_a_file_decides(searcher: Searcher, tmp_path: Path) -> None:
    path = tmp_path / "x:brushwork"
    path.write_bytes(b"")
    assert parse_term_text(f"{path}:overall", searcher).image == str(path)


@pytest.mark.parametrize("text", ["", "a.jpg", ":brushwork", "a.jpg:", "a.jpg: ", ":", ":brushwork:0.5"])
def test_what_is_no_term(searcher: Searcher, text: str) -> None:
    with pytest.raises(QueryError, match=r"should be IMAGE:ASPECT or IMAGE:ASPECT:WEIGHT, such as"):
        parse_term_text(text, searcher)


def test_weight_that_is_no_weight(searcher: Searcher) -> None:
    with pytest.raises(QueryError, match="must be a finite number"):
        parse_term_text("a.jpg:brushwork:nan", searcher)


def test_aspect_that_is_none(searcher: Searcher) -> None:
    with pytest.raises(AspectError, match="no letter or digit"):
        parse_term_text("a.jpg:!!!", searcher)


@pytest.mark.parametrize("weight", ["abc", "1_0", "٣", "1,5", "0x1"])
def test_a_weight_that_is_no_number_is_not_taken_for_an_aspect(searcher: Searcher, weight: str) -> None:
    with pytest.raises(QueryError, match=f"the weight '{weight}' of the term 'a.jpg:brushwork:{weight}' is no number"):
        parse_term_text(f"a.jpg:brushwork:{weight}", searcher)
