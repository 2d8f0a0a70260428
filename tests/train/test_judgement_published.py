"""BAPPS and NIGHTS in their published layouts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fixtures.judgements import write_bapps, write_nights
from train.judgements import JudgementDataError, load_judgements
from train.judgements.bapps import read_bapps
from train.judgements.nights import FEW_VOTES, read_nights


def test_bapps_is_read_as_shares_for_the_second_candidate(tmp_path: Path) -> None:
    found = read_bapps(write_bapps(tmp_path, count=4, subsets=("superres", "cnn")))
    assert found.refusals == ()
    assert [(one.item, one.subset, one.votes) for one in found.judgements[:4]] == [
        ("val/cnn/000000", "bapps/cnn", (1.0, 0.0)),
        ("val/cnn/000001", "bapps/cnn", (0.8, 0.2)),
        ("val/cnn/000002", "bapps/cnn", (0.6, 0.4)),
        ("val/cnn/000003", "bapps/cnn", (0.4, 0.6)),
    ]
    assert {one.subset for one in found.judgements} == {"bapps/cnn", "bapps/superres"}
    first = found.judgements[0]
    assert [picture.key for picture in first.pictures] == [f"val/cnn/{part}/000000.png" for part in ("ref", "p0", "p1")]
    assert first.aspect.is_overall
    assert (first.kind, first.raters) == ("2afc", 5)
    assert first.pictures[1].load().size == (12, 8)


def test_bapps_may_be_named_by_its_folder_and_split(tmp_path: Path) -> None:
    write_bapps(tmp_path, split="train", subsets=("mix",))
    write_bapps(tmp_path)
    assert {one.subset for one in load_judgements(f"bapps:{tmp_path}").judgements} == {"bapps/cnn", "bapps/color"}
    training = load_judgements(f"bapps:{tmp_path / '2afc'}@train").judgements
    assert {(one.subset, one.raters) for one in training} == {("bapps/mix", 2)}
    with pytest.raises(JudgementDataError, match="holds no BAPPS split 'test'"):
        load_judgements(f"bapps:{tmp_path}@test")


def npy(value: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read"),
        (b"text", "cannot be read"),
        (npy(np.array([{"a": 1}], object)), "cannot be read: Object arrays cannot be loaded"),
        (npy(np.zeros(2)), "is no array of one number"),
        (npy(np.array(["0.5"])), "is no array of one number"),
        (npy(np.array([np.nan])), "expected the share of people who chose p1"),
        (npy(np.array([1.5])), "expected the share of people who chose p1"),
        (npy(np.zeros(2000)), "it has over 4096 bytes"),
    ],
)
def test_a_bad_judgement_of_bapps_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (write_bapps(tmp_path) / "2afc/val/cnn/judge/000001.npy").write_bytes(content)
    found = read_bapps(tmp_path)
    assert [one.where for one in found.refusals] == ["val/cnn/000001"]
    assert reason in found.refusals[0].reason
    assert len(found.judgements) == 3


def test_missing_files_of_bapps_are_refused(tmp_path: Path) -> None:
    write_bapps(tmp_path)
    (tmp_path / "2afc/val/cnn/p1/000000.png").unlink()
    (tmp_path / "2afc/val/color/judge/000001.npy").unlink()
    (tmp_path / "2afc/val/stray").mkdir()
    found = read_bapps(tmp_path)
    assert [(one.where, one.reason) for one in found.refusals] == [
        ("val/cnn/000000", "it is missing in p1"),
        ("val/color/000001", "it is missing in judge"),
        ("val/stray", "the subset has no folder ref, p0, p1, judge"),
    ]


def test_nights_is_read_left_first(tmp_path: Path) -> None:
    found = read_nights(write_nights(tmp_path))
    assert [(one.item, one.subset, one.votes, one.raters) for one in found.judgements] == [
        ("nights/0", "nights/imagenet", (1.0, 0.0), 7),
        ("nights/1", "nights/no-imagenet", (0.0, 1.0), 7),
    ]
    assert [one.item for one in read_nights(tmp_path, split="train").judgements] == ["nights/2"]
    keys = [picture.key for picture in found.judgements[0].pictures]
    assert keys == ["ref/000/000.png", "distort/000/000_0.png", "distort/000/000_1.png"]


def test_nights_items_with_few_votes_are_dropped_and_bad_rows_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"votes": 5},
        {"votes": 6.0},
        {"left_vote": "x"},
        {"left_vote": 0},
        {"ref_path": "../a.png"},
    ]
    found = read_nights(write_nights(tmp_path, rows))
    assert [one.item for one in found.judgements] == ["nights/1"]
    assert found.dropped == {FEW_VOTES: 1}
    assert [(one.where, one.reason[:40]) for one in found.refusals] == [
        ("data.csv:4", "left_vote is 'x'; expected a whole numbe"),
        ("data.csv:5", "left_vote and right_vote are 0 and 0; ex"),
        ("data.csv:6", "picture '../a.png' leads out of the fold"),
    ]


def test_what_is_no_nights_is_said(tmp_path: Path) -> None:
    with pytest.raises(JudgementDataError, match=r"cannot read .*data.csv"):
        read_nights(tmp_path)
    (tmp_path / "data.csv").write_text("id,split\n1,test\n")
    with pytest.raises(JudgementDataError, match="has no column left_vote, right_vote"):
        read_nights(tmp_path)
    with pytest.raises(JudgementDataError, match="has no row of split 'dev'; give one of test, train"):
        load_judgements(f"nights:{write_nights(tmp_path)}@dev")
