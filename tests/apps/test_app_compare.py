"""What Compare and Annotate put before people: senses of a link, ties, and no near copies."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.annotation_items import make_items
from apps.app_settings import AppSettings
from apps.comparison_example import example
from apps.gauges import gauges_html, verdict
from apps.near_copies import NEAR_DUPLICATE
from apps.picture_vectors import sample_vectors
from apps.resources import Resources, open_resources
from tests.apps.test_app_pages import link, page, widget
from tests.fixtures.app_gallery import picture
from tests.fixtures.indices import StubEmbedder, write_index
from tpips_model.aspects import Aspect
from tpips_model.comparison import Comparison
from tpips_model.images import to_rgb


def test_a_link_names_the_senses_to_compare_by(app_resources: Resources) -> None:
    named: Any = ["hem of the dress", "Brushwork", "", "\x00" * 5000, *map(str, range(30))]
    session = page("compare", app_resources, reference="key:picture 04.png", sense=named)
    chosen = widget(session.multiselect, "Senses")
    assert chosen.value[:2] == ["hem of the dress", "Brushwork"]
    assert len(chosen.value) <= 12
    assert link(session, "sense")[:2] == ["hem of the dress", "brushwork"]
    assert session.warning
    session.query_params.clear()
    session.query_params["reference"] = "key:picture 04.png"  # as the browser's back button does
    session.run()
    assert widget(session.multiselect, "Senses").value == list(app_resources.aspects)
    assert "sense" not in session.query_params


def test_equal_scores_are_a_tie() -> None:
    scores = np.array([[0.98, 0.9804, 0.5], [0.1, 0.2, 0.3]], np.float32)
    told = Comparison((Aspect("mood"), Aspect("pose")), ("a.jpg", "b.jpg", "c.jpg"), scores)
    assert verdict(told) == "Closest by **mood**: a tie of a.jpg and b.jpg · by **pose**: c.jpg"
    table = gauges_html(told, ("r.jpg", "/r"), ["/a", "/b", "/c"])
    assert [table.count(f'"word">{word}<') for word in ("tie", "closest")] == [2, 1]


def saved_anew(data: bytes, quality: int) -> bytes:
    stream = io.BytesIO()
    to_rgb(data).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


@pytest.fixture
def copies(tmp_path: Path, app_settings: AppSettings) -> Resources:
    """An index in which every picture stands four times over, saved anew each time."""
    pictures = [saved_anew(picture(number // 4), 60 + 10 * (number % 4)) for number in range(40)]
    aspects = ("overall", "brushwork", "color palette")
    vectors = StubEmbedder().embed(pictures, aspects)
    index = write_index(
        tmp_path / "copies", {aspect: vectors[:, place] for place, aspect in enumerate(aspects)}, pictures=pictures
    )
    return open_resources(AppSettings.of(index, votes=tmp_path / "votes"))


def test_near_copies_are_not_put_before_people(copies: Resources) -> None:
    def vectors(rows: Sequence[int]) -> NDArray[np.float64]:
        return sample_vectors(copies.view, rows, "overall")

    for item in make_items(copies.view, "odd-one-out", seed=1):
        distinct = vectors(sorted(set(item.rows)))
        assert int((distinct @ distinct.T >= NEAR_DUPLICATE).sum()) == len(distinct)
    for seed in range(3):
        reference, candidates = example(copies, seed)
        shown = vectors([copies.searcher.keys.row(one.name) or 0 for one in (reference, *candidates)])
        assert len(candidates) > 1
        assert int((shown @ shown.T >= NEAR_DUPLICATE).sum()) == len(shown)


def test_an_index_of_one_picture_over_and_over_is_shown_all_the_same(tmp_path: Path, app_settings: AppSettings) -> None:
    pictures = [saved_anew(picture(1), 60 + 5 * number) for number in range(5)]
    index = write_index(
        tmp_path / "same", {"overall": StubEmbedder().embed(pictures, ["overall"])[:, 0]}, pictures=pictures
    )
    resources = open_resources(AppSettings.of(index, votes=tmp_path / "votes"))
    assert all(len(set(item.rows)) == 3 for item in make_items(resources.view, "odd-one-out", 1) if not item.sentinel)
    assert len(example(resources, 0)[1]) == 1
