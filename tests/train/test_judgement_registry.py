"""One function for every source: what specs mean, how sets are joined, what is refused before any training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.judgements import triplet_record, vote_record, write_lines, write_nights, write_triplets
from tests.fixtures.picture_folders import picture_bytes
from train.judgements import JudgementDataError, load_judgements
from train.judgements.statistics import count_judgements


def test_joined_sets_keep_apart_what_is_called_the_same(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 50)):
        for number in range(3):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(picture_bytes(first + number))
        record = triplet_record([f"{number}.png" for number in range(3)], {"mood": (1, 2, 2)})
        write_lines(tmp_path / name / "same.jsonl", [record, record | {"subset": "easy"}])
    spec = f"{tmp_path}/a/same.jsonl + {tmp_path}/b/same.jsonl+nights:{write_nights(tmp_path / 'n')}"
    found = load_judgements(spec)
    assert found.name == "same+same+nights"
    assert [(one.item, one.subset) for one in found.judgements] == [
        ("same-1/same:1", "same-1"),
        ("same-1/same:2", "same-1/easy"),
        ("same-2/same:1", "same-2"),
        ("same-2/same:2", "same-2/easy"),
        ("nights/0", "nights/imagenet"),
        ("nights/1", "nights/no-imagenet"),
    ]
    pictures = {picture for one in found.judgements for picture in one.pictures}
    assert len(pictures) == 3 + 3 + 6
    assert len({picture.key for picture in pictures}) == len(pictures)


def test_a_plus_in_a_path_is_no_join(tmp_path: Path) -> None:
    lines = write_triplets(tmp_path / "a+b", 1)
    assert len(load_judgements(str(lines)).judgements) == 3
    assert len(load_judgements(f"jsonl:{lines}").judgements) == 3


def test_a_folder_is_known_by_what_it_holds(tmp_path: Path) -> None:
    write_triplets(tmp_path, 1)
    assert [one.item for one in load_judgements(str(tmp_path)).judgements] == ["triplets:1"] * 3
    (tmp_path / "other.jsonl").touch()
    with pytest.raises(JudgementDataError, match="no shard is at"):
        load_judgements(str(tmp_path))


def test_refused_lines_stop_everything_unless_allowed(tmp_path: Path) -> None:
    lines = write_triplets(tmp_path, 1)
    lines.write_text(lines.read_text() + "oops\n" * 7)
    with pytest.raises(JudgementDataError, match=r"^7 parts of .*triplets.jsonl:2: malformed .*and 2 more\. Mend them"):
        load_judgements(str(lines))
    allowed = load_judgements(str(lines), allow_refusals=True)
    assert (len(allowed.judgements), len(allowed.refusals)) == (3, 7)


def test_refusals_of_joined_sets_name_their_set(tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.jsonl", ["oops"])
    found = load_judgements(f"{bad}+procedural:families=1,triplets=1", allow_refusals=True)
    assert [one.where for one in found.refusals] == ["bad: bad.jsonl:1"]


@pytest.mark.parametrize("spec", ["", "pictures.zip", "lines:a", "bapps:", "/nowhere", "a.jsonl+"])
def test_an_unknown_spec_is_answered_with_what_there_is(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_triplets(tmp_path, 1).rename("a.jsonl")
    with pytest.raises(
        JudgementDataError, match=r"of no known kind; give FILE.jsonl, .* procedural:…, votes:…, bapps:…"
    ):
        load_judgements(spec)


def test_a_set_of_nothing_is_an_error_that_says_what_was_left_out(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture_bytes(number))
    paths = [f"{number}.png" for number in range(3)]
    votes = write_lines(tmp_path / "v.jsonl", [vote_record(str(n), "t", paths, {"mood": None}) for n in range(3)])
    with pytest.raises(JudgementDataError, match=r"holds no judgement \(left out: .*1 × item without aspects\)"):
        load_judgements(f"votes:{votes}")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(JudgementDataError, match="holds no judgement; give a source"):
        load_judgements(str(tmp_path / "empty.jsonl"))


def test_counts_by_hand(tmp_path: Path) -> None:
    write_triplets(tmp_path / "t", 3, subsets=("general", "editing"))
    found = load_judgements(f"{tmp_path}/t/triplets.jsonl+nights:{write_nights(tmp_path / 'n')}")
    # Votes 5 + 5 + 4 a triplet. Consensus: 1, 0.2² + 0.8² = 0.68, 2 · 0.25² + 0.5² = 0.375; their mean is 0.685.
    rows = [
        (
            one.kind,
            one.subset,
            one.items,
            one.judgements,
            one.aspects,
            one.votes,
            one.pictures,
            round(one.consensus.mean, 6),
        )
        for one in count_judgements(found)
    ]
    assert rows == [
        ("odd-one-out", "triplets/general", 2, 6, 3, 28, 6, 0.685),
        ("odd-one-out", "triplets/editing", 1, 3, 3, 14, 3, 0.685),
        ("odd-one-out", None, 3, 9, 3, 42, 9, 0.685),
        ("2afc", "nights/imagenet", 1, 1, 1, 7, 3, 1.0),
        ("2afc", "nights/no-imagenet", 1, 1, 1, 7, 3, 1.0),
        ("2afc", None, 2, 2, 1, 14, 6, 1.0),
    ]


def test_votes_are_unknown_where_one_judgement_does_not_say(tmp_path: Path) -> None:
    lines = write_triplets(tmp_path, 1)
    lines.write_text(lines.read_text().replace(', "raters": 4', ""))
    assert [row.votes for row in count_judgements(load_judgements(str(lines)))] == [None]


@pytest.mark.parametrize("spec", ["a\0.jsonl", "votes:a\0", "bapps:\0", "shards:\0*.tar", "procedural:families=1+\0"])
def test_a_null_character_is_refused(spec: str) -> None:
    with pytest.raises(JudgementDataError, match="hold a null character, which no path can; give another path"):
        load_judgements(spec)
