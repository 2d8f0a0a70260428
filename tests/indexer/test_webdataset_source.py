from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest
from braceexpand import braceexpand

from indexer.sources.shard_files import _expanded_count, expand_files
from indexer.sources.source import BadSample, Indexed, Sample, SourceError
from indexer.sources.webdataset import TARS, WebDatasetSource
from tests.fixtures.picture_folders import picture_bytes
from tests.fixtures.tars import write_tar


def samples(source: WebDatasetSource) -> list[Sample | BadSample]:
    return [sample for shard in source.shards(Indexed()) for sample in source.read(shard)]


def good(source: WebDatasetSource) -> dict[str, Sample]:
    return {sample.key: sample for sample in samples(source) if isinstance(sample, Sample)}


def faults(source: WebDatasetSource) -> list[tuple[str, str]]:
    return [(sample.key, sample.reason) for sample in samples(source) if isinstance(sample, BadSample)]


def test_pictures_are_found_again_by_file_and_offset(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "000.tar", [("x/a.png", picture_bytes(1)), ("x/a.txt", b"hi"), ("b.JPG", b"no picture")]
    )
    found = good(WebDatasetSource(str(path)))
    assert list(found) == ["000/x/a", "000/b"]
    sample = found["000/x/a"]
    assert (sample.file, sample.member, sample.data) == ("000.tar", "x/a.png", picture_bytes(1))
    assert sample.offset is not None
    assert path.read_bytes()[sample.offset : sample.offset + sample.size] == picture_bytes(1)


def test_only_the_last_suffix_of_a_member_is_one(tmp_path: Path) -> None:
    members = [
        ("v1.2/a.b_1.jpg", b"1"),
        ("v1.2/a.b_1.json", b'{"n": 1}'),
        ("v1.2/a.b_2.jpg", b"2"),
        ("a.b_2.json", b"{}"),
    ]
    found = good(WebDatasetSource(str(write_tar(tmp_path / "s.0.tar", members))))
    assert {key: dict(sample.metadata) for key, sample in found.items()} == {
        "s.0/v1.2/a.b_1": {"n": 1},
        "s.0/v1.2/a.b_2": {},
    }


def test_side_files_become_metadata_wherever_they_stand(tmp_path: Path) -> None:
    record = {"painter": "é", "year": 1888, "width": 3, "cls": "x", "tags": ["a"], "signed": True, "none": None}
    members = [
        ("a.json", json.dumps(record).encode()),
        ("a.png", picture_bytes(1)),
        ("b.png", picture_bytes(2)),
        ("a.txt", b" a caption \n"),
        ("b.cls", b"7\n"),
        ("a.cls", b"cat"),
        ("b.npy", b"passed over"),
    ]
    found = good(WebDatasetSource(str(write_tar(tmp_path / "0.tar", members))))
    assert dict(found["0/a"].metadata) == {
        "txt": "a caption",
        "cls": "cat",
        "painter": "é",
        "year": 1888,
        "meta_width": 3,
        "meta_cls": "x",
        "signed": True,
        "none": None,
    }
    assert dict(found["0/b"].metadata) == {"cls": 7}


def test_a_side_file_that_cannot_be_used_is_a_line_and_the_picture_stays(tmp_path: Path) -> None:
    members = [(f"{name}.png", picture_bytes(1)) for name in "abcdef"]
    members += [
        ("a.json", b"{"),
        ("b.json", b"[1]"),
        ("c.json", b"[" * 99_999),
        ("d.txt", b"\xff"),
        ("e.txt", bytes(1 << 19)),
    ]
    members += [("f.json", json.dumps({str(number): 1 for number in range(999)}).encode())]
    source = WebDatasetSource(str(write_tar(tmp_path / "0.tar", members)))
    assert list(good(source)) == [f"0/{name}" for name in "abcdef"]
    assert [key for key, _ in faults(source)] == [f"0/{name}" for name in "abcdef"]
    assert all(reason.startswith("indexed, but without its side file: .") for _, reason in faults(source))


def test_repeated_stems_keep_their_keys_for_the_build_to_report(tmp_path: Path) -> None:
    members = [
        ("a.png", picture_bytes(1)),
        ("a.txt", b"first"),
        ("b.png", picture_bytes(2)),
        ("a.jpg", picture_bytes(3)),
    ]
    given = samples(WebDatasetSource(str(write_tar(tmp_path / "0.tar", members))))
    assert [sample.key for sample in given] == ["0/a", "0/b", "0/a"]
    assert [dict(sample.metadata) for sample in given if isinstance(sample, Sample)] == [{"txt": "first"}, {}, {}]


def test_member_names_are_names_and_never_paths(tmp_path: Path) -> None:
    names = [
        "/etc/passwd.png",
        "../../up.png",
        "./here//x.png",
        "a/../b.png",
        "new\nline.png",
        "back\\slash.png",
        ".png",
    ]
    path = write_tar(tmp_path / "0.tar", [(name, picture_bytes(1)) for name in names[:-1]])
    assert list(good(WebDatasetSource(str(path)))) == [
        "0/etc/passwd",
        "0/__/__/up",
        "0/here/x",
        "0/a/__/b",
        "0/new\\nline",
        "0/back\\slash",
    ]
    assert not (tmp_path / "up.png").exists()


def test_links_folders_and_unsupported_pictures_in_a_tar(tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in (
            ("link.png", tarfile.SYMTYPE),
            ("hard.png", tarfile.LNKTYPE),
            ("pipe.png", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        folder = tarfile.TarInfo("folder.png")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        archive.addfile(tarfile.TarInfo("x.heic"))
    assert faults(WebDatasetSource(str(path))) == [
        ("0/link", ".png member is a link inside the tar, which is not followed"),
        ("0/hard", ".png member is a link inside the tar, which is not followed"),
        ("0/pipe", ".png member is no regular file"),
        ("0/x", ".heic pictures are not supported; convert them to JPEG or PNG"),
    ]


def test_every_truncation_keeps_what_can_be_read_and_says_so(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "whole.tar", [(f"{number}.png", picture_bytes(number)) for number in range(3)])
    pictures = {f"{number}": picture_bytes(number) for number in range(3)}
    ends = [sample.offset + sample.size for sample in good(WebDatasetSource(str(whole))).values() if sample.offset]
    data = whole.read_bytes()
    for length in range(600, ends[-1] + 600, 97):
        path = tmp_path / "cut.tar"
        path.write_bytes(data[:length])
        source = WebDatasetSource(str(path))
        found = {key.removeprefix("cut/"): sample.data for key, sample in good(source).items()}
        assert found == dict(list(pictures.items())[: sum(end <= length for end in ends)])
        assert faults(source)[-1][0] == "cut.tar"
        assert "ends early" in faults(source)[-1][1]


def test_damage_in_the_middle_and_a_second_tar_behind_are_not_passed_over(tmp_path: Path) -> None:
    one = write_tar(tmp_path / "1.tar", [("a.png", picture_bytes(1)), ("b.png", picture_bytes(2))]).read_bytes()
    second_header = one.index(b"b.png")
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(one[:second_header] + b"?" * 512 + one[second_header + 512 :])
    assert list(good(WebDatasetSource(str(damaged)))) == ["damaged/a"]
    assert faults(WebDatasetSource(str(damaged)))[0][1].startswith(f"the tar is damaged at byte {second_header:,}")
    joined = tmp_path / "joined.tar"
    joined.write_bytes(one + one)
    assert list(good(WebDatasetSource(str(joined)))) == ["joined/a", "joined/b"]
    assert "goes on behind its end mark" in faults(WebDatasetSource(str(joined)))[0][1]


def test_a_tar_without_pictures_says_what_it_holds(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "0.tar", [("a.parquet", b"x"), ("b.parquet", b"x"), ("c.txt", b"x")])
    assert faults(WebDatasetSource(str(path))) == [("0.tar", "the tar holds no pictures, but 2 × .parquet, 1 × .txt")]


@pytest.fixture
def eleven(tmp_path: Path) -> Path:
    for number in range(11):
        write_tar(tmp_path / f"shards/{number:03d}.tar", [("a.png", picture_bytes(number))])
    return tmp_path / "shards"


@pytest.mark.parametrize(
    "pattern", ["{000..010}.tar", "*.tar", "", "{00{0..9},010}.tar", "{000..009}.tar::010.tar", "00?.tar::010.tar"]
)
def test_shards_are_named_by_pattern_wildcard_or_folder(
    eleven: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(eleven)
    source = WebDatasetSource(pattern or ".")
    names = [shard.name for shard in source.shards(Indexed())]
    assert names == [f"{number:03d}.tar" for number in range(11)]
    assert source.root == eleven.resolve()
    left = source.shards(Indexed(shards=frozenset(names[:9])))
    assert [shard.name for shard in left] == ["009.tar", "010.tar"]


def test_shards_keep_the_patterns_order_and_come_once(eleven: Path) -> None:
    source = WebDatasetSource(str(eleven / "{010,002,010}.tar"))
    assert [shard.name for shard in source.shards(Indexed())] == ["010.tar", "002.tar"]


def test_shards_of_several_folders_have_keys_of_their_own(tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_tar(tmp_path / name / "0.tar", [("a.png", picture_bytes(1))])
    source = WebDatasetSource(str(tmp_path / "{x,y}/0.tar"))
    assert list(good(source)) == ["x/0/a", "y/0/a"]
    narrower = WebDatasetSource(str(tmp_path / "y/0.tar"), root=source.root)
    assert (narrower.root, list(good(narrower))) == (source.root, ["y/0/a"])


def test_patterns_that_name_no_shards_are_errors(tmp_path: Path, eleven: Path) -> None:
    with pytest.raises(SourceError, match=r"2 of the 13 shards .* do not exist, the first is .*011\.tar"):
        expand_files(str(eleven / "{000..012}.tar"), TARS)
    with pytest.raises(SourceError, match="do not exist, the first is"):
        expand_files(str(tmp_path / "none*.tar"), TARS)
    with pytest.raises(SourceError, match="cannot expand the pattern"):
        expand_files(str(eleven / "{000..010.tar"), TARS)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.png").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"holds no \.tar file, but 1 × \.png; for a folder of pictures give"):
        expand_files(str(tmp_path / "pictures"), TARS)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("data.parquet", b"PAR1....", "is no tar: it looks like a parquet file"),
        ("data.tar", b"PAR1....", "is no tar: it looks like a parquet file"),
        ("data.csv", b"key,url\n1,2\n", "is no tar: it looks like a table of text"),
        ("data.tar", b"", "is no tar: it looks like an empty file"),
        ("data.tar", gzip.compress(bytes(2000), mtime=0), "is no tar: it looks like gzip-compressed data"),
        ("data.tar", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("data.tar", b"hello", "is no tar: it looks like plain text"),
        ("data.tar", bytes(range(256)) * 4, "is no tar: it looks like binary data"),
        ("data.tar.gz", b"", "is no tar: it looks like an empty file"),
        ("data.tgz", gzip.compress(b"hello", mtime=0), "is no tar: it looks like gzip-compressed data"),
        ("data.tar.gz", gzip.compress(bytes(2000), mtime=0)[:9], "is no tar: it looks like gzip-compressed data"),
        ("data.tar.zst", b"", "is compressed in a way that is not unpacked here; unpack it to a plain .tar"),
    ],
)
def test_what_is_no_tar_is_an_error_that_says_what_it_looks_like(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=message):
        WebDatasetSource(str(tmp_path / name))


@pytest.mark.parametrize(
    "pattern",
    [
        "{000..999999999999}.tar",
        "{0..999}{0..999}{0..999}.tar",
        "{a,{0..999}{0..999}{0..999}}.tar",
        "https://h/{0..2000000..1}.tar",
        "{0..600000}.tar::{0..600000}.tar",
    ],
)
def test_a_pattern_of_too_many_shards_is_refused_before_it_is_expanded(pattern: str) -> None:
    with pytest.raises(SourceError, match=r"cannot expand the pattern .*it names more than 1,000,000 files"):
        expand_files(pattern, TARS)
    with pytest.raises(SourceError, match="cannot expand the pattern"):
        expand_files("{" * 5000 + "}" * 5000, TARS)


@pytest.mark.parametrize(
    "pattern",
    ["x{1..12}{a..e}", "{a,b{1..3},{c,{4..9..2}}}-{5..-5..3}", r"\{1..99}{,x}", "{{1..3}}", "a,b{1}", "{Y..b}", "a}b"],
)
def test_what_a_pattern_expands_to_is_counted(pattern: str) -> None:
    try:
        expected = len(list(braceexpand(pattern)))
    except ValueError:
        return
    assert _expanded_count(pattern) == expected
