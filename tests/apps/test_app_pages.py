"""The pages' logic, run without a browser."""

from __future__ import annotations

import gc
import re
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import apps.app_script
from apps.annotation_items import make_items
from apps.app_command import main
from apps.app_settings import AppSettings
from apps.query_state import PictureRef, QueryRow, QueryState
from apps.resources import Resources, open_resources
from apps.votes import VoteFolder
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from search import Searcher, Term
from tests.fixtures.app_gallery import COUNT, picture
from tests.fixtures.indices import StubEmbedder, write_index

SCRIPT = Path(apps.app_script.__file__)
TIMEOUT = 60


def compose(state: QueryState | None = None) -> AppTest:
    """Return a session of the Compose page, opened by a link."""
    session = AppTest.from_file(SCRIPT, default_timeout=TIMEOUT)
    for name, values in (state.to_params() if state else {}).items():
        session.query_params[name] = values
    session.run()
    assert not session.exception
    return session


def page(name: str, app_resources: Resources, **query: str) -> AppTest:
    """Return a session of another page."""

    def script(name: str) -> None:
        import importlib

        importlib.import_module(f"apps.screens.{name}").show()

    session = AppTest.from_function(script, default_timeout=TIMEOUT, kwargs={"name": name})
    session.session_state["resources"] = app_resources
    session.session_state["entering"] = False
    for parameter, value in query.items():
        session.query_params[parameter] = value
    session.run()
    assert not session.exception
    return session


def shown(session: AppTest) -> list[str]:
    """Return the keys of the results that a session of the Compose page shows."""
    return list(session.session_state["compose"].asked[1])


def link(session: AppTest, name: str) -> list[str]:
    """Return a parameter of the address bar, as a list however many values it has."""
    value = session.query_params[name]
    return [value] if isinstance(value, str) else list(value)


def row(number: int, aspect: str = "brushwork", weight: float = 1.0) -> QueryRow:
    return QueryRow(PictureRef("key", f"picture {number:02d}.png"), aspect, weight)


def widget(widgets: Any, label: str) -> Any:
    return next(one for one in widgets if one.label.startswith(label))


@pytest.mark.usefixtures("app_settings")
class TestCompose:
    def test_start_leads_to_results(self) -> None:
        session = compose()
        assert "alike in one sense" in session.title[0].value
        session.button(key="try-0").click().run()
        assert len(shown(session)) == 24
        assert link(session, "aspect") == ["brushwork", "color palette"]

    def test_a_link_gives_what_the_searcher_gives(self, app_gallery: Path) -> None:
        state = QueryState(rows=(row(3), row(9, "color palette", -0.5)), penalty=0.2, where='style = "Cubism"')
        terms = [Term("picture 03.png", "brushwork"), Term("picture 09.png", "color palette", -0.5)]
        expected = Searcher.open(app_gallery).query(terms, 24, 0.2, where='style = "Cubism"')
        assert shown(compose(state)) == expected.keys

    def test_one_row_has_the_recommended_penalty(self, app_gallery: Path) -> None:
        session = compose(QueryState(rows=(row(3),)))
        assert shown(session) == Searcher.open(app_gallery).similar("picture 03.png", "brushwork", 24).keys
        assert widget(session.slider, "Hold back").value == 0.3

    def test_every_widget_changes_the_link(self) -> None:
        session = compose(QueryState(rows=(row(3), row(9, "color palette"))))
        widget(session.slider, "How much row 2").set_value(-0.5).run()
        assert link(session, "weight") == ["1", "-0.5"]
        widget(session.toggle, "On").set_value(False).run()
        assert link(session, "on") == ["0", "1"]
        widget(session.selectbox, "In which sense, row 2").set_value("overall").run()
        assert link(session, "aspect") == ["brushwork", "overall"]
        widget(session.multiselect, "style").select("Fauvism").run()
        assert link(session, "any.style") == ["Fauvism"]
        widget(session.slider, "year").set_value((1910.0, 1939.0)).run()
        assert link(session, "min.year") == ["1910"]
        assert "max.year" not in session.query_params
        widget(session.slider, "Hold back").set_value(0.15).run()
        assert link(session, "penalty") == ["0.15"]
        for _ in range(6):
            session.button(key="undo").click().run()
        assert {name: link(session, name) for name in ("weight", "aspect")} == {
            "weight": ["1", "1"],
            "aspect": ["brushwork", "color palette"],
        }
        session.button(key="redo").click().run()
        assert link(session, "weight") == ["1", "-0.5"]
        assert not session.exception

    def test_paging_goes_on_where_the_first_page_ends(self, app_gallery: Path) -> None:
        session = compose(QueryState(rows=(row(3),)))
        session.button(key="page-Next").click().run()
        expected = Searcher.open(app_gallery).similar("picture 03.png", "brushwork", 48).keys[24:]
        assert link(session, "page") == ["2"]
        assert any(f"Pictures 25–{24 + len(expected)} of" in caption.value for caption in session.caption)

    def test_an_upload_is_found_and_a_broken_one_is_told(self) -> None:
        session = compose()
        session.file_uploader[0].upload("mine.png", picture(77), "image/png").run()
        assert link(session, "image")[0].startswith("upload:")
        assert len(shown(session)) == 24
        session.file_uploader[-1].upload("torn.png", picture(78)[:99], "image/png").run()
        assert any("torn.png could not be opened" in warning.value for warning in session.warning)
        assert len(link(session, "image")) == 1

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            (QueryState(rows=(QueryRow(PictureRef("key", "gone"), "brushwork"),)), "no picture 'gone'"),
            (QueryState(rows=(QueryRow(PictureRef("upload", "0" * 32), "brushwork"),)), "drop it here again"),
            (QueryState(rows=(row(1),), where="year >="), "cannot read the filter"),
            (QueryState(rows=(row(1),), where="year > 3000"), "No picture matches"),
            (QueryState(rows=(row(1, weight=0.0),)), "Switch on a row"),
        ],
    )
    def test_what_cannot_be_answered_is_told(self, state: QueryState, words: str) -> None:
        session = compose(state)
        said = [*session.info, *session.error, *session.warning, *session.markdown]
        assert any(words in one.value for one in said)

    def test_ten_sessions_do_not_mix(self, app_gallery: Path) -> None:
        searcher = Searcher.open(app_gallery)
        sessions = [compose(QueryState(rows=(row(number),))) for number in range(10)]
        for number, session in reversed(list(enumerate(sessions))):
            widget(session.selectbox, "In which sense").set_value("color palette" if number % 2 else "overall").run()
        for number, session in enumerate(sessions):
            aspect = "color palette" if number % 2 else "overall"
            assert shown(session) == searcher.similar(f"picture {number:02d}.png", aspect, 24).keys
            assert link(session, "image") == [f"key:picture {number:02d}.png"]


def test_senses_shows_a_row_for_every_aspect(app_resources: Resources) -> None:
    session = page("senses", app_resources, picture="key:picture 04.png")
    headings = "".join(one.value for one in session.get("html"))
    assert re.findall('tpips-sense">([a-z ]+) <', headings) == list(app_resources.aspects)
    assert widget(session.slider, "Hold back").value == 0.3
    assert any("recommends" in caption.value for caption in session.caption)
    session.toggle(key="senses-both").set_value(True).run()
    assert not session.exception
    labels = [caption.value for caption in session.caption]
    assert (labels.count("as they come"), labels.count("look-alikes held back by 0.3")) == (3, 3)


def test_compare_says_which_aspect_says_which(app_resources: Resources) -> None:
    session = page("compare", app_resources, reference="key:picture 04.png")
    assert any(one.value.startswith("Closest by **brushwork**") for one in session.markdown)
    widget(session.multiselect, "Senses").set_value(["brushwork", "hem of the dress"]).run()
    assert not session.exception
    assert any("by **hem of the dress**" in one.value for one in session.markdown)
    assert link(session, "sense") == ["brushwork", "hem of the dress"]
    session.button(key="compare-clear").click().run()
    assert any("Add a candidate" in info.value for info in session.info)


def test_a_link_to_a_picture_that_is_gone_leaves_the_pages_usable(app_resources: Resources) -> None:
    session = page("compare", app_resources, reference="key:gone", candidate="key:picture 01.png")
    assert any("no picture 'gone'" in warning.value.replace("\\", "") for warning in session.warning)
    assert any(one.value.startswith("Closest by") for one in session.markdown)
    session = page("senses", app_resources, picture="upload:" + "0" * 32)
    assert any("drop it here again" in error.value for error in session.error)
    assert session.file_uploader


def test_video_follows_an_example_and_a_folder(app_resources: Resources) -> None:
    session = page("video", app_resources)
    session.button(key="video-example").click().run()
    assert not session.exception
    assert len(session.session_state["video"].frames) == 36
    files = [(f"{number}.png", picture(number), "image/png") for number in (10, 2, 1)]
    session.file_uploader[1].set_value(files).run()
    assert [frame.label for frame in session.session_state["video"].frames] == ["1.png", "2.png", "10.png"]
    session.file_uploader[0].upload("clip.mp4", b"no clip", "video/mp4").run()
    assert any("the clip cannot be played" in warning.value for warning in session.warning)


@pytest.mark.parametrize("name", ["compose", "compare", "video", "annotate"])
def test_what_an_idle_page_lets_download_holds_no_earlier_version_of_the_index(
    name: str, app_settings: AppSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    shutil.copytree(app_settings.index, index)
    resources = open_resources(AppSettings.of(index, votes=tmp_path / "votes"))
    offered: list[Any] = []  # Streamlit keeps these as long as the page is open
    monkeypatch.setattr("streamlit.download_button", lambda label, data, *_, **__: offered.append(data))
    item = make_items(resources.view, "odd-one-out", seed=1)[0]
    VoteFolder(tmp_path / "votes", threading.Lock()).append(resources, item, "Bo/1", {"brushwork": "p0"})
    asked = {"image": "key:picture 03.png", "aspect": "brushwork", "weight": "1"} if name == "compose" else {}
    session = page(name, resources, **asked)
    if name == "video":
        session.button(key="video-example").click().run()
    if name == "annotate":
        session.text_input(key="annotator").set_value("Ana").run()
    before = weakref.ref(resources.searcher.index)
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array([5, 6]))
    resources.refresh()
    assert len(resources.view.sample_rows(99)) == COUNT - 2
    gc.collect()
    assert offered
    assert before() is None


def test_annotate_asks_for_a_name_first(app_resources: Resources) -> None:
    session = page("annotate", app_resources)
    assert any("Type your name" in info.value for info in session.info)
    session.text_input(key="annotator").set_value("Ana").run()
    assert not session.exception


def test_two_candidates_are_not_compared_without_a_sense(tmp_path: Path, app_settings: AppSettings) -> None:
    vectors = StubEmbedder().embed([picture(number) for number in range(5)], ["overall"])
    index = write_index(tmp_path / "index", {"overall": vectors[:, 0]}, pictures=[picture(n) for n in range(5)])
    session = page("annotate", open_resources(AppSettings.of(index, votes=tmp_path / "votes")))
    session.text_input(key="annotator").set_value("Ana").run()
    assert not session.exception
    session.segmented_control(key="annotate-kind").set_value("2afc").run()
    assert any("none but overall" in info.value for info in session.info)


def test_index_tells_what_was_left_out(app_resources: Resources) -> None:
    session = page("index", app_resources)
    assert {metric.label: metric.value for metric in session.metric}["Pictures"] == "40"
    assert any("broken.jpg" in str(table.value.values) for table in session.table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda folder: [str(folder / "none")], "does not exist"),
        (lambda folder: [str(folder)], "holds no finished index"),
    ],
)
def test_the_command_tells_what_is_wrong(
    arguments: Callable[[Path], list[str]], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(arguments(tmp_path))
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(app_settings: AppSettings, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit, match="1"):
            main([str(app_settings.index), "--port", str(taken.getsockname()[1]), "--no-browser"])
    assert "give another port with --port" in capsys.readouterr().err
