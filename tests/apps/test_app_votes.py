"""Annotation: the items, the votes on disk, and that training reads them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apps.annotation_items import KINDS, AnnotationItem, AnnotationKind, make_items
from apps.resources import Resources
from apps.screens.annotate import asked_aspects, chips_data
from apps.votes import CANNOT_TELL, VoteFolder, session_name
from tests.apps.test_app_pages import page
from tests.fixtures.app_gallery import COUNT
from tpips_model.errors import TpipsError
from train.judgements import JudgementDataError, load_judgements


@pytest.fixture
def folder(tmp_path: Path) -> VoteFolder:
    return VoteFolder(tmp_path / "votes", threading.Lock())


def right(item: AnnotationItem) -> str:
    return item.sentinel or "p0"


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_the_same_for_everybody(app_resources: Resources, kind: AnnotationKind) -> None:
    items = make_items(app_resources.view, kind, seed=1)
    assert items == make_items(app_resources.view, kind, seed=1)
    assert items != make_items(app_resources.view, kind, seed=2)
    assert len({item.id for item in items}) == len(items) > 0.8 * COUNT
    sentinels = [item for item in items if item.sentinel]
    assert len(sentinels) == COUNT // 8
    for item in items:
        assert (len(set(item.rows)) == 3) == (item.sentinel is None)


@pytest.mark.parametrize("kind", KINDS)
def test_votes_are_what_training_reads(app_resources: Resources, folder: VoteFolder, kind: AnnotationKind) -> None:
    items = make_items(app_resources.view, kind, seed=1)[:6]
    aspects = asked_aspects(app_resources, kind)
    for who in ("Ana/1", "Бо/1", "hasty/1"):
        for item in items:
            choice = "p1" if who == "hasty/1" and right(item) == "p0" else right(item)
            if who == "hasty/1" and item.sentinel:
                choice = CANNOT_TELL
            folder.append(app_resources, item, who, dict.fromkeys(aspects, choice))
    read = load_judgements(f"votes:{folder.path(kind)}")
    assert not read.refusals
    assert {judgement.item for judgement in read.judgements} == {item.id for item in items if not item.sentinel}
    assert Counter(len(judgement.votes) for judgement in read.judgements) == {
        3 if kind == "odd-one-out" else 2: 5 * len(aspects)
    }
    # The session that failed its sentinel does not count, and the two others agree on p0.
    assert all(judgement.raters == 2 and judgement.votes[0] == 1.0 for judgement in read.judgements)


def test_what_is_saved_says_that_a_failed_check_costs_the_sitting(app_resources: Resources, folder: VoteFolder) -> None:
    items = make_items(app_resources.view, "odd-one-out", seed=1)
    own = VoteFolder(app_resources.settings.votes, threading.Lock())
    said = []
    for answered in (items[:1], items[1:4], items[4:12]):
        for item in answered:
            wrong = answered == items[4:12] and item.sentinel
            own.append(app_resources, item, "Ana/1", {"brushwork": CANNOT_TELL if wrong else right(item)})
        session = page("annotate", app_resources)
        session.text_input(key="annotator").set_value("Ana").run()
        said += [text for one in session.markdown if (text := one.value.replace("\\", "")).startswith("This sitting:")]
        counting = 4 if len(said) == 2 else 0
        assert any(f"of 1 name, of which {counting} count" in one.value for one in session.markdown)
    assert said == [
        "This sitting: 1 answer; none counts yet, since no attention check has come.",
        "This sitting: 4 answers; they count, since every attention check so far was passed.",
        "This sitting: 12 answers; none counts, since an attention check failed. Choose another set to begin anew.",
    ]
    path = own.path("odd-one-out")
    for spec in (str(path), str(path.parent)):
        with pytest.raises(JudgementDataError, match=f"these look like votes of the app; write votes:{path}"):
            load_judgements(spec)


def test_2afc_names_a_sense_always(app_resources: Resources) -> None:
    assert "overall" in asked_aspects(app_resources, "odd-one-out")
    assert "overall" not in asked_aspects(app_resources, "2afc")
    shown = chips_data(app_resources, make_items(app_resources.view, "2afc", seed=1)[0])
    assert [picture["member"] for picture in shown["pictures"]] == ["p0", None, "p1"]


def test_a_vote_whose_writing_was_cut_short_is_taken_away(app_resources: Resources, folder: VoteFolder) -> None:
    first, second = make_items(app_resources.view, "odd-one-out", seed=1)[:2]
    aspects = asked_aspects(app_resources, "odd-one-out")
    folder.append(app_resources, first, "Ana/1", dict.fromkeys(aspects, "p2"))
    path = folder.path("odd-one-out")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"session": "Ana/1", "item": "odd')
    assert folder.answered("odd-one-out", "Ana/1") == {first.id}
    folder.append(app_resources, second, "Ana/1", dict.fromkeys(aspects, CANNOT_TELL))
    assert path.read_bytes().startswith(whole)
    assert [json.loads(line)["item"] for line in path.read_text().splitlines()] == [first.id, second.id]


def test_one_session_answers_an_item_once(app_resources: Resources, folder: VoteFolder) -> None:
    item = make_items(app_resources.view, "2afc", seed=1)[0]
    folder.append(app_resources, item, "Ana/1", {"brushwork": "p1"})
    with pytest.raises(TpipsError, match="answered already"):
        folder.append(app_resources, item, "Ana/1", {"brushwork": "p0"})
    for answers in ({}, {"brushwork": "p2"}, {"brushwork": "ref"}):
        with pytest.raises(TpipsError, match="an answer must be one of can't tell, p0, p1"):
            folder.append(app_resources, item, "Bo/1", answers)


@pytest.mark.parametrize("apps", ["one app", "an app each"])
def test_many_annotators_write_at_once(app_resources: Resources, folder: VoteFolder, apps: str) -> None:
    items = make_items(app_resources.view, "odd-one-out", seed=1)[:4]

    def annotate(name: str) -> None:
        # Locks of the folder's file exclude each other by who has opened it, not by process.
        own = folder if apps == "one app" else VoteFolder(folder.folder, threading.Lock())
        for item in items:
            own.append(app_resources, item, name, {"brushwork": "p0"})

    threads = [threading.Thread(target=annotate, args=(f"{number}/1",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(vote["session"], vote["item"]) for vote in folder.records("odd-one-out")}) == 8 * len(items)


def test_apps_take_one_answer_once(
    app_resources: Resources, folder: VoteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = VoteFolder.answered

    def read_slowly(*arguments: Any) -> set[str]:
        found = read(*arguments)
        time.sleep(0.02)  # so that others would read before this one writes
        return found

    monkeypatch.setattr(VoteFolder, "answered", read_slowly)
    item = make_items(app_resources.view, "odd-one-out", seed=1)[0]
    barrier = threading.Barrier(6)
    refused: list[str] = []

    def answer() -> None:
        own = VoteFolder(folder.folder, threading.Lock())
        barrier.wait()
        try:
            own.append(app_resources, item, "Ana/1", {"brushwork": "p0"})
        except TpipsError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=answer) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folder.records("odd-one-out")) == 1
    assert len(refused) == 5


def test_a_folder_that_cannot_be_written_is_told(app_resources: Resources, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    item = make_items(app_resources.view, "2afc", seed=1)[0]
    with pytest.raises(TpipsError, match="--votes FOLDER"):
        VoteFolder(tmp_path / "file", threading.Lock()).append(app_resources, item, "Ana/1", {"brushwork": "p1"})


def test_votes_need_a_name() -> None:
    with pytest.raises(TpipsError, match="votes need a name"):
        session_name(" \n\t ", 1)
