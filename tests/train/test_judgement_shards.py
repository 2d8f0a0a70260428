"""Our shards: a WebDataset that any reader of one understands, read lazily, and refused where it is damaged."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.judgements import write_shards
from tests.fixtures.picture_folders import picture_bytes
from tests.fixtures.tars import write_tar
from tpips_model.errors import ImageError
from train.judgements import JudgementDataError, load_judgements
from train.judgements.item_record import NO_LABEL
from train.judgements.picture_sources import TarPicture
from train.judgements.shards import read_shards

PICTURES = [picture_bytes(number) for number in range(3)]


def sample(**more: Any) -> dict[str, Any]:
    pictures = [
        {"key": f"{number}.png", "sha256": hashlib.sha256(data).hexdigest()} for number, data in enumerate(PICTURES)
    ]
    factors = [{"name": "mood", "label": "p1", "probs": [0.2, 0.8, 0]}]
    return {"format": 1, "id": "t", "kind": "odd-one-out", "pictures": pictures, "factors": factors} | more


def members(record: Any, name: str = "0", pictures: tuple[str, ...] = ("p0", "p1", "p2")) -> list[tuple[str, bytes]]:
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    return [
        (f"{name}.json", text),
        *((f"{name}.{one}.png", data) for one, data in zip(pictures, PICTURES, strict=True)),
    ]


def test_webdataset_reads_our_shards(tmp_path: Path) -> None:
    import webdataset

    found = read_shards(str(write_shards(tmp_path, 4, per_shard=3)))
    urls = [str(path) for path in sorted((tmp_path / "shards").glob("*.tar"))]
    assert [Path(url).name for url in urls] == ["shard-000000.tar", "shard-000001.tar"]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert [one["__key__"] for one in samples] == [f"{number:09d}" for number in range(4)]
    for number, one in enumerate(samples):
        judgement = found.judgements[3 * number]
        record = json.loads(one["json"])
        assert record["id"] == judgement.item
        assert record["factors"][0]["probs"] == list(judgement.votes)
        for member, picture in enumerate(judgement.pictures):
            assert one[f"p{member}.png"] == picture.encoded()  # type: ignore[attr-defined]


def test_pictures_are_read_from_the_shard_when_they_are_loaded(tmp_path: Path) -> None:
    (only,) = read_shards(str(write_tar(tmp_path / "a.tar", members(sample())))).judgements
    assert [picture.key for picture in only.pictures] == ["0.png", "1.png", "2.png"]
    assert [picture.load().size for picture in only.pictures] == [(12, 8)] * 3
    tar = tmp_path / "a.tar"
    damaged = bytearray(tar.read_bytes())
    damaged[only.pictures[1].offset + 30] ^= 1  # type: ignore[attr-defined]
    tar.write_bytes(damaged)
    assert only.pictures[0].load().size == (12, 8)
    with pytest.raises(ImageError, match=r"picture '1.png' in .*a.tar .* its checksum differs"):
        only.pictures[1].load()
    tar.unlink()
    with pytest.raises(ImageError, match=r"cannot read picture '0.png' in .*a.tar: No such file"):
        only.pictures[0].load()


def test_the_same_bytes_are_the_same_picture(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [*members(sample()), *members(sample(id="u"), "1")])
    first, second = read_shards(str(shard)).judgements
    assert first.pictures == second.pictures
    assert len({*first.pictures, *second.pictures}) == 3


def test_2afc_samples_have_a_reference(tmp_path: Path) -> None:
    record = sample(
        kind="2afc", subset="nvs", factors=[{"name": "mood", "label": "p1", "probs": [0.2, 0.8], "raters": 5}]
    )
    (only,) = read_shards(str(write_tar(tmp_path / "a.tar", members(record, pictures=("ref", "p0", "p1"))))).judgements
    assert (only.kind, only.votes, only.raters, only.subset) == ("2afc", (0.2, 0.8), 5, "nvs")


REFUSED = {
    "no json": (members(sample())[1:], "the sample has no .json"),
    "json of nothing": (members(b""), "its .json cannot be used: it is not JSON"),
    "another format": (members(sample(format=2)), 'its "format" is 2; this version reads 1'),
    "another kind": (members(sample(kind="rating")), "the \"kind\" is 'rating'; expected odd-one-out or 2afc"),
    "an unhashable kind": (members(sample(kind=[])), 'the "kind" is []'),
    "two pictures": (members(sample(pictures=sample()["pictures"][:2])), '"pictures" must be three'),
    "pictures of text": (members(sample(pictures=["a", "b", "c"])), "a picture must be"),
    "no digest": (members(sample(pictures=[{"key": "a", "sha256": "0"}] * 3)), 'needs a "key" and a "sha256"'),
    "a missing picture": (members(sample())[:-1], "picture p2 must stand in the sample once, but stands there 0 times"),
    "a picture twice": ([*members(sample()), ("0.p1.jpg", b"")], "picture p1 must stand in the sample once"),
    "bad votes": (members(sample(factors=[{"name": "a", "label": "p0", "probs": [1, 1, 0]}])), "that sum to 2 instead"),
    "the same id": (members(sample(id="good")), "the id 'good' stands in a.tar:first already"),
    "another layout": ([("0.jpg", PICTURES[0]), ("0.txt", b"a cat")], "the sample has no .json, only jpg, txt"),
}


@pytest.mark.parametrize(("bad", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_sample_is_refused_and_the_others_are_read(tmp_path: Path, bad: Any, reason: str) -> None:
    good = members(sample(id="good"), "first")
    shard = write_tar(tmp_path / "a.tar", [*good, *bad, *members(sample(id="last"), "last")])
    found = read_shards(str(shard))
    assert [one.where for one in found.refusals] == ["a.tar:0"]
    assert reason in found.refusals[0].reason
    assert [one.item for one in found.judgements] == ["good", "last"]


def test_factors_without_a_label_are_dropped(tmp_path: Path) -> None:
    factors = [*sample()["factors"], {"name": "pose", "label": None}]
    found = read_shards(str(write_tar(tmp_path / "a.tar", members(sample(factors=factors)))))
    assert (len(found.judgements), found.dropped) == (1, {NO_LABEL: 1})


@pytest.mark.parametrize("cut", ["inside the last picture", "behind the last picture", "in a header"])
def test_a_shard_that_ends_early_is_refused_never_silently_short(tmp_path: Path, cut: str) -> None:
    shard = write_tar(tmp_path / "a.tar", [*members(sample()), *members(sample(id="u"), "1")])
    last = read_shards(str(shard)).judgements[1].pictures[2]
    assert isinstance(last, TarPicture)
    end = last.offset + last.size
    padded = -(-end // 512) * 512
    lengths = {"inside the last picture": end - 9, "behind the last picture": padded, "in a header": last.offset - 100}
    data = shard.read_bytes()
    shard.write_bytes(data[: lengths[cut]])
    found = read_shards(str(shard))
    assert "the tar is damaged or cut off behind its last sample" in found.refusals[-1].reason
    assert "t" in {one.item for one in found.judgements}
    shard.write_bytes(data[:padded] + b"x" * 1024)
    assert "damaged" in read_shards(str(shard)).refusals[-1].reason


def test_no_cut_anywhere_goes_unnoticed(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", members(sample()))
    (only,) = read_shards(str(shard)).judgements
    last = only.pictures[2]
    assert isinstance(last, TarPicture)
    data = shard.read_bytes()
    for length in range(512, last.offset + last.size, 100):
        shard.write_bytes(data[:length])
        assert read_shards(str(shard)).refusals, length


def test_links_in_a_shard_are_no_pictures(tmp_path: Path) -> None:
    shard = tmp_path / "a.tar"
    with tarfile.open(shard, "w") as archive:
        for name, data in members(sample())[:-1]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("0.p2.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "picture p2 must stand in the sample once" in read_shards(str(shard)).refusals[0].reason


def test_names_cannot_command_a_terminal(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [("\x1b]0;owned\x07.json", b"{}")])
    (refusal,) = read_shards(str(shard)).refusals
    assert refusal.where.isprintable()


def test_shards_are_found_by_folder_and_wildcard(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "a[b]", 4, per_shard=2)
    every = load_judgements(str(folder)).judgements
    assert len(every) == 12
    (tmp_path / "plain").mkdir()
    for path in folder.iterdir():
        path.rename(tmp_path / "plain" / path.name)
    assert load_judgements(str(tmp_path / "plain/*.tar")).judgements == every
    assert load_judgements(f"shards:{tmp_path}/plain/shard-000001.tar").judgements == every[6:]


def test_what_is_no_shard_is_said(tmp_path: Path) -> None:
    with pytest.raises(JudgementDataError, match="no shard is at"):
        load_judgements(str(tmp_path))
    (tmp_path / "a.tar").write_bytes(b"text")
    with pytest.raises(JudgementDataError, match=r"a.tar is no uncompressed tar"):
        load_judgements(str(tmp_path / "a.tar"))
