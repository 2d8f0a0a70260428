"""Any source becomes any layout, whole or not at all, and nothing is lost on the way round."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.judgements import write_bapps, write_lines, write_triplets
from tests.fixtures.picture_folders import picture_bytes, tree
from tpips_model.errors import TpipsError
from train.judgements import Judgement, JudgementDataError, JudgementSet, load_judgements
from train.judgements.export import encoded, export_judgements
from train.judgements.whole_folder import whole_folder


def content(judgements: Sequence[Judgement]) -> list[tuple[object, ...]]:
    """All that a judgement is, but for where its pictures lie."""
    return [
        (
            one.item,
            one.kind,
            one.aspect,
            one.votes,
            one.subset,
            one.raters,
            *((p.key, encoded(p)) for p in one.pictures),
        )
        for one in judgements
    ]


def test_lines_to_shards_and_back_are_the_same_lines_and_files(tmp_path: Path) -> None:
    lines = write_triplets(tmp_path / "given", 5, subsets=("general", "", "editing"))
    given_set = load_judgements(str(lines))
    export_judgements(given_set, tmp_path / "shards", per_shard=2)
    shards = load_judgements(str(tmp_path / "shards"))
    assert content(shards.judgements) == content(given_set.judgements)
    assert len(list((tmp_path / "shards").iterdir())) == 3
    assert export_judgements(shards, tmp_path / "back/triplets.jsonl") == tmp_path / "back"
    back = load_judgements(str(tmp_path / "back/triplets.jsonl"))
    assert content(back.judgements) == content(given_set.judgements)
    named = [{"id": f"triplets:{number}", **json.loads(line)} for number, line in enumerate(lines.open(), 1)]
    assert [json.loads(line) for line in (tmp_path / "back/triplets.jsonl").open()] == named
    assert tree(tmp_path / "back/images") == tree(tmp_path / "given/images")


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    found = load_judgements("procedural:families=1,triplets=2")
    for name in ("one", "two"):
        export_judgements(found, tmp_path / name)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.parametrize("target", ["shards", "lines/all.jsonl"])
def test_a_mix_of_sources_survives(tmp_path: Path, target: str) -> None:
    write_triplets(tmp_path / "given", 2)
    spec = f"{tmp_path}/given/triplets.jsonl+procedural:families=1,triplets=2+bapps:{write_bapps(tmp_path)}"
    found = load_judgements(spec)
    export_judgements(found, tmp_path / target)
    assert content(load_judgements(str(tmp_path / target)).judgements) == content(found.judgements)


shares = st.integers(1, 9).flatmap(
    lambda raters: st.tuples(st.integers(0, raters), st.integers(0, raters)).map(
        lambda cuts: (min(cuts), max(cuts) - min(cuts), raters - max(cuts))
    )
)
words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
aspects = words.filter(lambda text: any(char.isalnum() for char in text))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    votes=st.lists(st.tuples(aspects, shares), min_size=1, max_size=4, unique_by=lambda one: one[0].casefold()),
    key=words.filter(lambda text: "/" not in text and "\\" not in text and text not in (".", "..")),
    subset=words,
)
def test_whatever_is_read_survives(
    tmp_path_factory: pytest.TempPathFactory, votes: list, key: str, subset: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for number, name in enumerate((f"{key}.png", "1.PNG", "2")):
        (folder / name).write_bytes(picture_bytes(number))
    factors = [
        {"name": name, "label": f"p{counts.index(max(counts))}", "probs": [one / sum(counts) for one in counts]}
        for name, counts in votes
    ]
    record = {"p0_path": f"{key}.png", "p1_path": "1.PNG", "p2_path": "2", "factors": factors, "subset": subset}
    found = load_judgements(str(write_lines(folder / "a.jsonl", [record])), allow_refusals=True)
    if found.refusals:  # two names of one aspect, which differ in more than case
        assert "stands twice" in found.refusals[0].reason
        return
    export_judgements(found, folder / "shards")
    export_judgements(load_judgements(str(folder / "shards")), folder / "back/a.jsonl")
    assert content(load_judgements(str(folder / "shards")).judgements) == content(found.judgements)
    back = load_judgements(str(folder / "back/a.jsonl")).judgements
    assert [one[:6] for one in content(back)] == [one[:6] for one in content(found.judgements)]
    assert [encoded(p) for p in back[0].pictures] == [encoded(p) for p in found.judgements[0].pictures]


def test_pictures_of_one_key_and_keys_that_are_no_names_lie_under_their_digest(tmp_path: Path) -> None:
    class Named:
        def __init__(self, key: str, seed: int) -> None:
            self.key, self.seed = key, seed

        def encoded(self) -> bytes:
            return picture_bytes(self.seed)

    keys = ["a.png", "A.png", "../b.png", "/c.png", "d:e.png", "x" * 300, "a//b.png", "all.jsonl", "by-digest/0.png"]
    write_triplets(tmp_path / "given", 3, votes={"mood": (1, 0, 0)})
    plain = load_judgements(str(tmp_path / "given/triplets.jsonl")).judgements
    named = [Named(key, seed) for seed, key in enumerate(keys)]
    renamed = [
        Judgement(one.item, tuple(named[3 * number : 3 * number + 3]), one.aspect, one.votes)  # type: ignore[arg-type]
        for number, one in enumerate(plain)
    ]
    out = tmp_path / "out/all.jsonl"
    export_judgements(JudgementSet(tuple(renamed)), out)
    back = load_judgements(str(out)).judgements
    assert back[0].pictures[0].key == "a.png"
    others = [picture for one in back for picture in one.pictures][1:]
    assert all(picture.key.startswith("by-digest/") for picture in others)
    assert [encoded(picture) for one in back for picture in one.pictures] == [picture_bytes(n) for n in range(9)]
    assert sorted(os.listdir(tmp_path)) == ["given", "out"]


@pytest.mark.parametrize("target", ["out", "out/all.jsonl"])
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, target: str) -> None:
    found = load_judgements(str(write_triplets(tmp_path / "given", 3)))
    (tmp_path / "given/images/002/1.png").unlink()
    with pytest.raises(JudgementDataError, match=r"nothing is exported: cannot read picture 'images/002/1.png'"):
        export_judgements(found, tmp_path / target)
    assert os.listdir(tmp_path) == ["given"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    found = load_judgements(str(write_triplets(tmp_path / "given", 3)))

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        export_judgements(found, tmp_path / "out", on_item=stop)
    assert os.listdir(tmp_path) == ["given"]


def test_nothing_that_is_there_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_judgements(str(write_triplets(tmp_path / "given", 1)))
    before = tree(tmp_path / "given")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out in ("given", "given/again.jsonl", "given/triplets.jsonl/x", "link"):
        with pytest.raises(TpipsError, match=r"is there already; give a folder that is new or empty|cannot write"):
            export_judgements(found, tmp_path / out)
    assert tree(tmp_path / "given") == before
    (tmp_path / "empty").mkdir()
    export_judgements(found, tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == ["shard-000000.tar"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(JudgementDataError, match="is there already"):
        export_judgements(found, Path("all.jsonl"))
    assert os.listdir() == []


def test_a_whole_folder_has_the_rights_of_any_other(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "a/b") as folder:
        (folder / "file").write_text("x")
        assert not (tmp_path / "a/b").exists()
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "a/b").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert tree(tmp_path / "a") == {"b/file": b"x"}
