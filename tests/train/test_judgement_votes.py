"""Raw votes become distributions by the rules of section 3.1 and Appendix A; all tables here are counted by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.judgements import vote_record, write_lines
from tests.fixtures.picture_folders import picture_bytes
from train.agreement import human_consensus
from train.judgements.item_record import NO_ASPECT
from train.judgements.raw_votes import SENTINEL_ITEM, read_raw_votes
from train.judgements.vote_rules import (
    AMBIGUOUS,
    CANNOT_TELL,
    FAILED_SENTINEL,
    NO_SENTINEL,
    NO_VOTES,
    ONE_SIDED,
    TIE,
    vote_shares,
)

PATHS = ["0.png", "1.png", "2.png"]
TWICE = ["0.png", "1.png", "0.png"]  # a sentinel: p1 is the odd one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(picture_bytes(number))
    return tmp_path


def read(folder: Path, records: list[Any]) -> Any:
    return read_raw_votes(write_lines(folder / "votes.jsonl", records))


def shares(found: Any) -> dict[tuple[str, str], tuple[tuple[float, ...], int]]:
    return {(one.item, one.aspect.text): (one.votes, one.raters) for one in found.judgements}


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([0, 0, 0, 0, 0], (1.0, 0.0, 0.0)),
        ([0, 1, 1, 2, 1], (0.2, 0.6, 0.2)),
        ([0, 1, 1, None, 1], (0.25, 0.75, 0.0)),
        ([0, None, 1, None, 1], (1 / 3, 2 / 3, 0.0)),
        ([0, None, None, None, 0], AMBIGUOUS),
        ([None] * 5, AMBIGUOUS),
        ([None, None], NO_VOTES),
        ([], NO_VOTES),
        ([0, 1, 2, None, None], (1 / 3, 1 / 3, 1 / 3)),
    ],
)
def test_odd_one_out_by_hand(choices: list[int | None], expected: Any) -> None:
    assert vote_shares(choices, members=3) == (expected if isinstance(expected, str) else pytest.approx(expected))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([1, 1, 1, 1, 1], (0.0, 1.0)),
        ([1, 0, 1, 1, 0], (0.4, 0.6)),
        ([1, 0, 1, None, None], (1 / 3, 2 / 3)),
        ([1, 0, 1, 0, None], TIE),
        ([1, 0, None, None, None], AMBIGUOUS),
    ],
)
def test_2afc_by_hand(choices: list[int | None], expected: Any) -> None:
    assert vote_shares(choices, members=2) == (expected if isinstance(expected, str) else pytest.approx(expected))


@given(st.lists(st.sampled_from([0, 1, 2, None]), max_size=9), st.randoms())
def test_shares_count_the_votes_in_any_order(choices: list[int | None], random: Any) -> None:
    result = vote_shares(choices, members=3)
    shuffled = list(choices)
    random.shuffle(shuffled)
    assert vote_shares(shuffled, members=3) == result
    valid = [choice for choice in choices if choice is not None]
    assert isinstance(result, str) == (len(choices) - len(valid) >= 3 or not valid)
    if not isinstance(result, str):
        counts = Counter(valid)
        assert [round(share * len(valid), 9) for share in result] == [counts[member] for member in range(3)]
        assert 1 / 3 - 1e-9 <= human_consensus([result])[0] <= 1 + 1e-9


def test_a_file_of_votes_by_hand(folder: Path) -> None:
    # Five sessions; "lighting" of t1: p0 p0 p1 ? p0; "mood": ? ? ? p1 p1; t2 has one aspect, and nobody can tell.
    lighting = ["p0", "p0", "p1", "can't tell", "p0"]
    mood = [None, "can’t tell", "can't tell", "p1", "p1"]
    records = [
        vote_record(f"s{number}", "t1", PATHS, {"lighting": one, "mood": other}, subset="general")
        for number, (one, other) in enumerate(zip(lighting, mood, strict=True))
    ]
    records += [vote_record(f"s{number}", "t2", ["1.png", "2.png", "3.png"], {"pose": None}) for number in range(5)]
    found = read(folder, records)
    assert shares(found) == {("t1", "lighting"): ((0.75, 0.25, 0.0), 4)}
    assert found.judgements[0].subset == "general"
    assert found.dropped == {CANNOT_TELL: 1 + 3 + 5, AMBIGUOUS: 2, NO_ASPECT: 1}
    assert found.refusals == ()


def test_votes_of_sessions_that_fail_a_sentinel_do_not_count(folder: Path) -> None:
    def session(name: str, vote: str, sentinel: list[Any]) -> list[Any]:
        answers = [vote_record(name, f"check{n}", TWICE, {"overall": one}) for n, one in enumerate(sentinel)]
        return [*answers, vote_record(name, "t1", PATHS, {"overall": vote, "mood": vote})]

    records = [
        *session("good", "p0", ["p1"]),
        *session("better", "p1", ["p1", "p1"]),
        *session("careless", "p2", ["p1", "p0"]),
        *session("unsure", "p2", ["can't tell"]),
        vote_record("unseen", "t1", PATHS, {"overall": "p2"}),
    ]
    found = read(folder, records)
    assert shares(found) == {("t1", "overall"): ((0.5, 0.5, 0.0), 2), ("t1", "mood"): ((0.5, 0.5, 0.0), 2)}
    assert found.dropped == {FAILED_SENTINEL: 4, NO_SENTINEL: 1, SENTINEL_ITEM: 2}


def test_a_sentinel_may_be_stated(folder: Path) -> None:
    stated = [
        vote_record("right", "check", PATHS, {"overall": "p2"}, sentinel="p2"),
        vote_record("wrong", "check", PATHS, {"overall": "p0"}, sentinel="p2"),
    ]
    votes = [vote_record(name, "t1", ["3.png", "1.png", "2.png"], {"mood": "p0"}) for name in ("right", "wrong")]
    found = read(folder, [*stated, *votes])
    assert shares(found) == {("t1", "mood"): ((1.0, 0.0, 0.0), 1)}
    assert found.dropped == {FAILED_SENTINEL: 1, SENTINEL_ITEM: 1}


def test_2afc_votes_and_their_sentinels(folder: Path) -> None:
    def record(session: str, item: str, paths: list[str], answer: str) -> dict[str, Any]:
        named = dict(zip(("ref_path", "p0_path", "p1_path"), paths, strict=True))
        return {"session": session, "item": item, **named, "answers": {"material": answer}}

    records = [
        record("a", "same", ["0.png", "1.png", "0.png"], "p1"),
        record("b", "same", ["0.png", "1.png", "0.png"], "p0"),
    ]
    records += [record("a", "t", PATHS, "p1"), record("b", "t", PATHS, "p0")]
    found = read(folder, records)
    assert shares(found) == {("t", "material"): ((0.0, 1.0), 1)}
    tied = read(folder, records[2:])
    assert tied.judgements == ()
    assert tied.dropped == {TIE: 1, NO_ASPECT: 1}


def edits(item: str, answers: dict[str, str], **more: Any) -> list[Any]:
    """Return one line a session of a 2AFC item: aspect → a letter a session, a, b or ? for "can't tell"."""
    paths = dict(zip(("ref_path", "p0_path", "p1_path"), PATHS, strict=True))
    told = {"a": "p0", "b": "p1", "?": None}
    sessions = zip(*answers.values(), strict=True)
    return [
        {"session": f"s{n}", "item": item, **paths, "answers": dict(zip(answers, map(told.get, votes), strict=True))}
        | more
        for n, votes in enumerate(sessions)
    ]


def test_an_edited_item_with_one_majority_throughout_is_dropped(folder: Path) -> None:
    """Appendix A.2: "triplets whose human majority votes are the same image for every aspect"."""
    records = [
        # candidate a by 3 of 5, 5 of 5, 2 of 3: one method throughout
        *edits("one-sided", {"hair": "aaabb", "pose": "aaaaa", "sky": "aab??"}, subset="editing"),
        # b has the sky, by 3 of 5
        *edits("mixed", {"hair": "aaaab", "pose": "aaaaa", "sky": "abbab"}, subset="editing"),
        # what would tell them apart is a tie, or more than two who cannot tell: no majority, and dropped itself
        *edits("tied", {"hair": "bbbba", "pose": "bbb?a", "sky": "aabb?"}, subset="Image Editing"),
        *edits("unclear", {"hair": "bbbba", "pose": "bbb?a", "sky": "aa???"}, subset="editing"),
        # one aspect alone shows no method that leads in all
        *edits("single", {"hair": "bbbba", "sky": "aa???"}, subset="editing"),
        # pictures that are no edits are kept, unless it is stated that they are
        *edits("nvs", {"hair": "aaaaa", "pose": "aaaaa"}, subset="nvs"),
        *edits("stated", {"hair": "aaaaa", "pose": "aaaaa"}, subset="nvs", edited=True),
        *edits("denied", {"hair": "aaaaa", "pose": "aaaaa"}, subset="editing", edited=False),
    ]
    found = read(folder, records)
    assert found.refusals == ()
    assert shares(found) == {
        ("mixed", "hair"): ((pytest.approx(0.8), pytest.approx(0.2)), 5),
        ("mixed", "pose"): ((1.0, 0.0), 5),
        ("mixed", "sky"): ((0.4, 0.6), 5),
        ("single", "hair"): ((pytest.approx(0.2), 0.8), 5),
        **{(item, aspect): ((1.0, 0.0), 5) for item in ("nvs", "denied") for aspect in ("hair", "pose")},
    }
    assert found.dropped == {ONE_SIDED: 4, CANNOT_TELL: 2 + 2 + 4 + 3, TIE: 1, AMBIGUOUS: 2}


def test_odd_one_out_items_have_no_such_rule(folder: Path) -> None:
    found = read(folder, [vote_record("s", "t", PATHS, {"mood": "p0", "sky": "p0"}, subset="editing")])
    assert len(found.judgements) == 2


GOOD = vote_record("s", "t", PATHS, {"mood": "p0"})
NEXT = {**GOOD, "session": "z"}
REFUSED = {
    "no session": ({**GOOD, "session": ""}, 'the line has no "session"'),
    "no answers": ({**NEXT, "answers": {}}, '"answers" must be'),
    "an unknown answer": ({**NEXT, "answers": {"mood": "p3"}}, "the answer for 'mood' is 'p3'; expected p0, p1, p2"),
    "an answer of a list": ({**NEXT, "answers": {"mood": ["p0"]}}, "the answer for 'mood' is"),
    "an aspect twice": ({**NEXT, "answers": {"mood": "p0", "Mood": "p1"}}, "aspect 'Mood' is answered twice"),
    "other pictures": ({**NEXT, "p0_path": "3.png"}, "item 't' has other pictures"),
    "a second answer": (GOOD, "session 's' has answered item 't' on votes.jsonl:1 already"),
    "all pictures the same": (vote_record("s", "u", ["0.png"] * 3, {"mood": "p0"}), "so that no answer is right"),
    "a wrong sentinel": (vote_record("s", "u", TWICE, {"mood": "p0"}, sentinel="p0"), "by its pictures p1 is right"),
    "a missing picture": (vote_record("s", "u", ["0.png", "1.png", "9.png"], {"mood": "p0"}), "does not exist"),
    "an edit of three": ({**NEXT, "edited": True}, "it is for 2AFC items"),
    "an unknown edit": ({**NEXT, "edited": 1}, '"edited" must be true or false, but is 1'),
    "no JSON": ("{", "malformed line"),
}


@pytest.mark.parametrize(("bad", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_line_counts_not_at_all(folder: Path, bad: Any, reason: str) -> None:
    found = read(folder, [GOOD, bad])
    assert [one.where for one in found.refusals] == ["votes.jsonl:2"]
    assert reason in found.refusals[0].reason
    assert shares(found) == {("t", "mood"): ((1.0, 0.0, 0.0), 1)}
