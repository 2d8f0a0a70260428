"""JSON lines in the authors' layout: what is read, what is dropped, and one clear reason for every line refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.fixtures.judgements import VOTES, triplet_record, write_lines, write_triplets
from tests.fixtures.picture_folders import picture_bytes
from tpips_model.aspects import Aspect
from tpips_model.errors import ImageError
from train.judgements import Judgement, JudgementDataError, PictureSource, Refusal
from train.judgements.item_record import NO_ASPECT, NO_LABEL
from train.judgements.json_lines import MAX_JSON_BYTES, json_object
from train.judgements.triplet_lines import read_triplet_lines


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder with the pictures 0.png, 1.png and 2.png."""
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture_bytes(number))
    return tmp_path


def line(factors: Any = None, **more: Any) -> dict[str, Any]:
    usual = [{"name": "lighting", "label": "p0", "probs": [1, 0, 0]}]
    paths = {"p0_path": "0.png", "p1_path": "1.png", "p2_path": "2.png"}
    return {**paths, "factors": usual if factors is None else factors, **more}


def factor(**more: Any) -> dict[str, Any]:
    return {"name": "mood", "label": "p1", "probs": [0.2, 0.6, 0.2]} | more


def test_the_authors_layout_is_read(tmp_path: Path) -> None:
    found = read_triplet_lines(write_triplets(tmp_path, 2))
    assert found.refusals == ()
    assert found.dropped == {}
    assert [(one.item, one.aspect.text, one.votes, one.raters) for one in found.judgements] == [
        ("triplets:1", "overall", (1.0, 0.0, 0.0), 5),
        ("triplets:1", "lighting", (0.2, 0.8, 0.0), 5),
        ("triplets:1", "mood", (0.25, 0.25, 0.5), 4),
        ("triplets:2", "overall", (0.0, 1.0, 0.0), 5),
        ("triplets:2", "lighting", (0.0, 0.2, 0.8), 5),
        ("triplets:2", "mood", (0.5, 0.25, 0.25), 4),
    ]
    assert {one.kind for one in found.judgements} == {"odd-one-out"}
    first = found.judgements[0].pictures[0]
    assert isinstance(first, PictureSource)
    assert first.key == "images/000/0.png"
    assert first.load().tobytes() == Image.open(tmp_path / "images/000/0.png").tobytes()


def test_a_reference_makes_a_2afc_item(pictures: Path) -> None:
    record = triplet_record(["2.png", "0.png", "1.png"], {"3D shape": (1, 4)})
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [record | {"id": 7, "subset": "nvs"}]))
    (only,) = found.judgements
    assert (only.kind, only.item, only.subset, only.votes) == ("2afc", "7", "nvs", (0.2, 0.8))
    assert [picture.key for picture in only.pictures] == ["2.png", "0.png", "1.png"]


def test_a_factor_without_a_label_is_dropped_and_counted(pictures: Path) -> None:
    lines = [
        line([factor(), factor(name="color", label=None), factor(name="pose", label="")]),
        line([factor(label=None, probs=None)]),
        line([]),
    ]
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", lines))
    assert [one.aspect.text for one in found.judgements] == ["mood"]
    assert found.refusals == ()
    assert found.dropped == {NO_LABEL: 3, NO_ASPECT: 2}


def test_rounded_probabilities_become_shares(pictures: Path) -> None:
    rounded, exact = factor(label="p0", probs=[0.333, 0.333, 0.333]), factor(name="pose", probs=[0.1, 0.7, 0.2])
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [line([rounded, exact])]))
    assert found.judgements[0].votes == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-12)
    assert found.judgements[1].votes == (0.1, 0.7, 0.2)


REFUSED = {
    "no JSON": ("{oops", "malformed line: it is not JSON"),
    "a list": ("[1]", "malformed line: it must be a JSON object, but is of type list"),
    "nothing but nesting": ("[" * 100_000, "malformed line: it is not JSON"),
    "NaN": ('{"factors": [NaN]}', "malformed line: it is not JSON (NaN is no number)"),
    "no path": ({"p0_path": "0.png", "factors": []}, "the line has no p1_path, p2_path"),
    "no factors": (line() | {"factors": None}, '"factors" must be a list'),
    "a factor of text": (line(["mood"]), "a factor must be"),
    "missing image": (line(p1_path="9.png"), "picture '9.png' does not exist in"),
    "a folder": (line(p1_path="."), "is no regular file"),
    "a path of a number": (line(p1_path=3), "a picture's path must be text, but is 3"),
    "an empty path": (line(p1_path=""), "a picture's path must be text"),
    "a null character": (line(p1_path="0\0.png"), "null"),
    "half a pair": (line(p1_path="\ud800.png"), "picture"),
    "one picture three times": (line(p1_path="0.png", p2_path="./0.png"), "pictures are one and the same, '0.png'"),
    "a name twice": (json.dumps(line())[:-1] + ', "p1_path": "0.png"}', "malformed line: an object has 'p1_path'"),
    "a name twice below": ('{"factors": [{"label": "p0", "label": "p1"}]}', "an object has 'label' twice"),
    "an unknown label": (line([factor(label="p3")]), "aspect 'mood' has the unknown label 'p3'; expected p0, p1, p2"),
    "a label of another kind": (line([factor(label=["p1"])]), "has the unknown label"),
    "a sum below one": (line([factor(probs=[0.2, 0.6, 0.1])]), "that sum to 0.9 instead of one"),
    "a sum above one": (line([factor(probs=[0.2, 1.0, 0.1])]), "that sum to 1.3 instead of one"),
    "a negative share": (line([factor(probs=[-0.2, 1.0, 0.2])]), "needs 3 probs from 0 to 1"),
    "two shares": (line([factor(probs=[0.0, 1.0])]), "needs 3 probs from 0 to 1"),
    "a share of text": (line([factor(probs=["0", 1, 0])]), "needs 3 probs from 0 to 1"),
    "a true share": (line([factor(probs=[0, True, 0])]), "needs 3 probs from 0 to 1"),
    "no shares": (line([{"name": "mood", "label": "p1"}]), "needs 3 probs from 0 to 1"),
    "a label against its shares": (line([factor(label="p0")]), "has the label p0, but its probs [0.2, 0.6, 0.2]"),
    "an aspect twice": (line([factor(), factor(name="Mood")]), "aspect 'Mood' stands twice"),
    "an aspect of nothing": (line([factor(name=" ")]), "an aspect must not be empty"),
    "an aspect of a number": (line([factor(name=5)]), "an aspect's name must be words, but is 5"),
    "no raters": (line([factor(raters=0)]), "has 0 raters"),
    "an id of a list": (line(id=[1]), '"id" must be a short printable text'),
    "a subset that rings": (line(subset="a\x07"), '"subset" must be a short printable text'),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_line_is_refused_with_its_number_and_reason(pictures: Path, bad: Any, reason: str) -> None:
    good = line()
    text = bad if isinstance(bad, str) else json.dumps(bad)
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [good, "", text, good]))
    assert [(one.where, reason in one.reason) for one in found.refusals] == [("a.jsonl:3", True)], found.refusals
    assert [one.item for one in found.judgements] == ["a:1", "a:4"]


def test_an_id_on_two_lines_is_refused(pictures: Path) -> None:
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [line(id="x"), line(id="y"), line(id="x")]))
    assert found.refusals == (
        Refusal("a.jsonl:3", "the id 'x' stands on a.jsonl:1 already; put all of its factors on one line"),
    )


def test_a_line_without_end_does_not_fill_the_memory(pictures: Path) -> None:
    file = pictures / "a.jsonl"
    file.write_text(json.dumps(line()) + "\n" + " " * (2 * MAX_JSON_BYTES) + "\n" + json.dumps(line()) + "\n")
    found = read_triplet_lines(file)
    assert [one.where for one in found.refusals] == ["a.jsonl:2"]
    assert [one.item for one in found.judgements] == ["a:1", "a:3"]


def test_bytes_that_are_no_text_are_refused_and_a_byte_order_mark_is_not(pictures: Path) -> None:
    file = pictures / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(line()).encode() + b'\n{"p0_path": "\xff"}\n')
    found = read_triplet_lines(file)
    assert len(found.judgements) == 1
    assert found.refusals == (Refusal("a.jsonl:2", "malformed line: it is not UTF-8 (byte 13)"),)


@pytest.mark.parametrize("path", ["../outside.png", "link.png", "linked/outside.png", "linked/../../outside.png"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside.png").write_bytes(picture_bytes(1))
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    (root / "linked").symlink_to(tmp_path)
    for number in range(3):
        (root / f"{number}.png").write_bytes(picture_bytes(number))
    found = read_triplet_lines(write_lines(root / "a.jsonl", [line(p0_path=path)]))
    (refusal,) = found.refusals
    assert "leads out of the folder" in refusal.reason
    absolute = read_triplet_lines(write_lines(root / "a.jsonl", [line(p0_path=str(tmp_path / "outside.png"))]))
    assert "leads out of the folder" in absolute.refusals[0].reason


def test_links_and_ways_round_inside_the_folder_are_one_picture(pictures: Path) -> None:
    (pictures / "link.png").symlink_to(pictures / "0.png")
    (pictures / "sub").mkdir()
    ways = ["0.png", "link.png", "sub/../0.png", "./0.png", str(pictures / "0.png")]
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [line(p0_path=way) for way in ways]))
    same = {one.pictures[0] for one in found.judgements}
    assert len(found.judgements) == len(ways)
    assert {picture.key for picture in same} == {"0.png"}
    assert len(same) == 1


def test_pictures_may_lie_elsewhere(tmp_path: Path) -> None:
    lines = write_triplets(tmp_path / "there", 1)
    moved = tmp_path / "here" / "triplets.jsonl"
    moved.parent.mkdir()
    lines.rename(moved)
    assert len(read_triplet_lines(moved).refusals) == 1
    assert len(read_triplet_lines(moved, images_root=tmp_path / "there").judgements) == len(VOTES)
    with pytest.raises(JudgementDataError, match=r"the pictures' folder .* cannot be used"):
        read_triplet_lines(moved, images_root=tmp_path / "nowhere")
    with pytest.raises(JudgementDataError, match="is no folder; give the folder"):
        read_triplet_lines(moved, images_root=moved)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(JudgementDataError, match=r"cannot read .*a.jsonl: No such file"):
        read_triplet_lines(tmp_path / "a.jsonl")


def test_a_pipe_is_no_picture_and_is_not_waited_for(pictures: Path) -> None:
    os.mkfifo(pictures / "pipe.png")
    found = read_triplet_lines(write_lines(pictures / "a.jsonl", [line(p0_path="pipe.png")]))
    assert "is no regular file" in found.refusals[0].reason


def test_a_picture_that_vanishes_or_breaks_is_named_when_it_is_loaded(pictures: Path) -> None:
    (only,) = read_triplet_lines(write_lines(pictures / "a.jsonl", [line()])).judgements
    (pictures / "0.png").unlink()
    (pictures / "1.png").write_bytes(b"no picture")
    with pytest.raises(ImageError, match=r"cannot read picture '0.png'.*No such file"):
        only.pictures[0].load()
    with pytest.raises(ImageError, match=r"picture '1.png'"):
        only.pictures[1].load()


@pytest.mark.parametrize(
    ("pictures_given", "votes"), [(3, (0.5, 0.4)), (3, (0.2, 0.2, 0.2, 0.4)), (2, (0.5, 0.5)), (3, (-0.5, 1.5))]
)
def test_a_judgement_that_is_none_cannot_be_made(pictures_given: int, votes: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"fit no judgement|no shares that sum to one"):
        Judgement("x", (None,) * pictures_given, Aspect("mood"), votes)  # type: ignore[arg-type]


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_reason(data: bytes) -> None:
    try:
        expected = json.loads(data)
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert json_object(data) == expected
    else:
        with pytest.raises(ValueError, match=r"^it (is not|must be)"):
            json_object(data)


@pytest.mark.parametrize("name", ["pipe.jsonl", "folder.jsonl"])
def test_lines_are_read_from_regular_files_alone_and_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(JudgementDataError, match=r"(is no regular file|Is a directory); give a file of JSON lines"):
        read_triplet_lines(tmp_path / name)
