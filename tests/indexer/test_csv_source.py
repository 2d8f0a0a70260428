from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.sources import BadSample, Indexed, Sample, Source, SourceError, open_source
from indexer.sources.csv_rows import CsvFile
from tests.fixtures.built_sources import bad, build_index, cache_at, everything, good, stored_pictures
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.picture_tables import write_csv
from tests.fixtures.web_server import Page, WebServer, web_server


def source(path: Path | str, *, out: Path = Path("nowhere"), shard_size: int = 256) -> Source:
    return open_source(f"csv:{path}", out=out, shard_size=shard_size)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for _ in cache_at(tmp_path / "cache", monkeypatch):
        with web_server() as served:
            yield served


def test_paths_and_metadata(tmp_path: Path) -> None:
    write_pictures(tmp_path / "photos", 3)
    rows = [
        ["path", "year", "score", "code", "title", "size"],
        ["photos/0000.png", 1888, "1.5", "007", 'a "b", c', "L"],
        ["./photos//0001.png", "", "2", "8", "two\nlines", ""],
        [tmp_path / "photos/0002.png", "unknown", "-3e2", "", "é", "S"],
    ]
    index = build_index(f"csv:{write_csv(tmp_path / 'list.csv', rows)}", tmp_path / "index")
    assert stored_pictures(index).keys() == {
        "photos/0000.png",
        "photos/0001.png",
        f"{tmp_path}/photos/0002.png".lstrip("/"),
    }
    assert index.items(["file", "year", "score", "code", "title", "meta_size"]).to_pylist() == [
        {"file": "photos/0000.png", "year": "1888", "score": 1.5, "code": "007", "title": 'a "b", c', "meta_size": "L"},
        {"file": "photos/0001.png", "year": None, "score": 2.0, "code": "8", "title": "two\nlines", "meta_size": None},
        {"file": "photos/0002.png", "year": "unknown", "score": -300.0, "code": None, "title": "é", "meta_size": "S"},
    ]


def test_columns_and_folder_of_the_users_choice(tmp_path: Path) -> None:
    write_pictures(tmp_path / "far away", 2)
    path = write_csv(
        tmp_path / "lists/a.csv", [["id", "what it is"], ["x", "0000.png"], ["y", "0001.png"], ["", "0001.png"]]
    )
    data = f"{path}?image=what%20it%20is&key=id&root={tmp_path}/far%20away"
    found = everything(source(data))
    assert [(one.key, type(one)) for one in found] == [("x", Sample), ("y", Sample), ("a.csv:2", BadSample)]
    assert source(data).root == tmp_path / "far away"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_line_ends_and_byte_order_marks(tmp_path: Path, delimiter: str, end: str) -> None:
    write_pictures(tmp_path, 2)
    text = end.join([f"n{delimiter}Image Path", f"1{delimiter}0000.png", "", f'"2"{delimiter}"0001.png"'])
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert {key: dict(one.metadata) for key, one in good(source(tmp_path / "a.csv")).items()} == {
        "0000.png": {"n": 1},
        "0001.png": {"n": 2},
    }


def test_a_bad_row_costs_that_row_alone(tmp_path: Path) -> None:
    write_pictures(tmp_path, 6)
    lines = [
        b"path,title",
        b"0000.png,one",
        b'0001.png,"an open quote',
        b"0002.png,three",
        b"0003.png,caf\xe9",
        b"0004.png,too,many",
        b'0005.png,"a""quote"',
        b'0005.png,"x"y',
        b"../0001.png,outside",
        b",nothing",
        b"none.png,gone",
        b"a\0b.png,null",
        b"0005.png," + b"x" * 200_000,
    ]
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    found = everything(source(tmp_path / "a.csv"))
    assert [one.key for one in found if isinstance(one, Sample)] == ["0000.png", "0002.png", "0005.png"]
    assert [(one.key, one.reason.partition(":")[0]) for one in found if isinstance(one, BadSample)] == [
        ("a.csv:1", "the row is no csv"),
        ("a.csv:3", "the row is not UTF-8"),
        ("a.csv:4", "the row has 3 fields, and the header 2"),
        ("a.csv:6", "the row is no csv"),
        ("__/0001.png", f"lies outside {tmp_path}; say where the pictures are with ?root=FOLDER"),
        ("a.csv:8", "the row names no picture"),
        ("none.png", "cannot be read"),
        ("a\\x00b.png", "cannot be read"),
        ("a.csv:11", "the row is no csv"),
    ]


def test_links_that_lead_outside_are_not_followed(tmp_path: Path) -> None:
    write_pictures(tmp_path / "in", 1)
    (tmp_path / "secret.png").write_bytes(picture_bytes(9))
    (tmp_path / "in/link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "in/loop.png").symlink_to(tmp_path / "in/loop.png")
    rows = [["path"], ["link.png"], ["loop.png"], ["/etc/hostname"], ["in"], ["https://x/y.png"]]
    reasons = bad(source(write_csv(tmp_path / "in/a.csv", rows)))
    assert reasons.keys() >= {"link.png", "loop.png", "etc/hostname"}
    assert reasons["link.png"].startswith("lies outside")


def test_an_interrupted_and_a_grown_table_give_the_same_index(tmp_path: Path) -> None:
    write_pictures(tmp_path / "data", 10)
    lines = ["path,n", *(f"{number:04d}.png,{number}" for number in (0, 1, 2, 1, 4, 5, 6, 7, 8, 9))]
    path = tmp_path / "data/a.csv"
    path.write_text("\n".join(lines[:6]))
    build_index(f"csv:{path}", tmp_path / "grown", shard_size=2)
    path.write_text("\n".join(lines))
    index = build_index(f"csv:{path}", tmp_path / "grown", shard_size=3)
    assert [part.shards[0].partition("~")[0] for part in index.manifest.parts] == [
        "a.csv[0-2]",
        "a.csv[2-4]",
        "a.csv[4-5]",
        "a.csv[5-8]",
        "a.csv[8-10]",
    ]
    assert index.items(["key"])["key"].to_pylist() == [f"{n:04d}.png" for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)]
    assert index.errors()["key"].to_pylist() == ["0001.png"]
    before = tree(tmp_path / "grown")
    build_index(f"csv:{path}", tmp_path / "grown", shard_size=2)
    assert tree(tmp_path / "grown") == before
    path.write_text("\n".join(["path,n", "0009.png,0", *lines[1:]]))
    with pytest.raises(SourceError, match=r"rows 0 to 2 of .*a\.csv are not what they were when they were indexed"):
        build_index(f"csv:{path}", tmp_path / "grown")
    path.write_text("\n".join(lines[:4]))
    with pytest.raises(SourceError, match="are not what they were when they were indexed"):
        build_index(f"csv:{path}", tmp_path / "grown")


def test_a_table_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    write_pictures(tmp_path, 2)
    path = write_csv(tmp_path / "a.csv", [["path"], ["0000.png"], ["0001.png"]])
    opened = source(path)
    (shard,) = opened.shards(Indexed())
    path.write_text("path\n0001.png\n0000.png\n")
    with pytest.raises(SourceError, match="are not what they were"):
        list(opened.read(shard))


def test_rows_from_anywhere_are_the_rows_of_the_whole(tmp_path: Path) -> None:
    chance = random.Random(0)
    for _ in range(60):
        text = "a,b\n" + "".join(chance.choice('x,"\n\r,é"') for _ in range(60))
        data = bytearray(text.encode())
        data[chance.randrange(4, len(data))] = 0xFF
        (tmp_path / "a.csv").write_bytes(data)
        file = CsvFile(tmp_path / "a.csv")
        whole = list(file.rows())
        assert all(row.end > row.start for row in whole)
        for number, row in enumerate(whole):
            assert list(file.rows(row.start)) == whole[number:]


def test_addresses_are_fetched_once_and_kept(server: WebServer, tmp_path: Path) -> None:
    for number in range(3):
        server.pages[f"/{number}.png"] = Page(picture_bytes(number), failures=[503] if number == 1 else [])
    base = server.address.removeprefix("http://")
    rows = [
        ["url", "caption"],
        [f"http://me:hush@{base}/0.png?sig=hush", "a"],
        [f"http://{base}/1.png", "b"],
        [f"http://{base}/none.png", "c"],
        ["file:///etc/passwd", "d"],
        ["", "e"],
        [f"http://{base}/1.png", "f"],
        ["http://[::1/x.png", "g"],
        [f"http://{base}/2.png", "h"],
    ]
    data = f"csv:{write_csv(tmp_path / 'a.csv', rows)}?private=yes"
    index = build_index(data, tmp_path / "index", shard_size=3)
    assert index.data_root == tmp_path / "index/gallery"
    pictures = stored_pictures(index)
    assert list(pictures.values()) == [picture_bytes(number) for number in range(3)]
    assert [key.partition("~")[0] for key in pictures] == [f"{base}/{number}.png" for number in range(3)]
    ledger = {row["key"]: row["reason"] for row in index.errors().to_pylist()}
    assert ledger == {
        f"{base}/none.png": "the address answered 404 Not Found",
        "etc/passwd": "the address is none of http or https",
        "a.csv:4": "the address is missing",
        f"{base}/1.png": ledger[f"{base}/1.png"],
        "[__1/x.png"
        if "[__1/x.png" in ledger
        else "[::1/x.png": "the address is none that can be read (Invalid IPv6 URL)",
    }
    assert "has the key of an earlier picture" in ledger[f"{base}/1.png"]
    asked = len(server.requests)
    build_index(data, tmp_path / "index")
    assert len(server.requests) == asked
    for path, content in tree(tmp_path / "index").items():
        assert b"hush" not in content, path


def test_addresses_of_private_networks_are_refused_unless_asked_for(server: WebServer, tmp_path: Path) -> None:
    server.pages["/0.png"] = Page(picture_bytes(0))
    path = write_csv(tmp_path / "a.csv", [["url"], [f"{server.address}/0.png"]])
    (reason,) = bad(source(path, out=tmp_path)).values()
    assert reason.startswith("the address leads to this machine or a private network")
    assert server.requests == []


def test_a_network_that_is_gone_ends_the_build(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sources.named_pictures._NETWORK_GONE", 5)
    path = write_csv(tmp_path / "a.csv", [["url"], *([f"http://127.0.0.1:9/{number}.png"] for number in range(9))])
    with pytest.raises(SourceError, match=r"no server answered for 5 addresses in a row.*run the same command again"):
        everything(source(f"{path}?private=yes", out=tmp_path))


def test_a_folder_that_goes_meanwhile_ends_the_build(tmp_path: Path) -> None:
    write_pictures(tmp_path / "disk", 2)
    path = write_csv(tmp_path / "a.csv", [["path"], ["0000.png"], ["0001.png"]])
    opened = source(f"{path}?root={tmp_path}/disk")
    (shard,) = opened.shards(Indexed())
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    with pytest.raises(SourceError, match="has gone; bring it back"):
        list(opened.read(shard))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n", "", "has the columns 'a', 'b', and none of them is known to name pictures; say which with"),
        ("a,b\n1,2\n", "?image=c", r"has no column 'c' \(image=…\); its columns: 'a', 'b'"),
        ("path,b\n1,2\n", "?key=c", r"has no column 'c' \(key=…\)"),
        ("path,path\n1,2\n", "", "names the column 'path' twice"),
        ("path\n", "", "has a header row and nothing else"),
        ("\n", "", "has no header row"),
        ('"path\n', "", "has no header row"),
        ("https://x/a.png\nhttps://x/b.png\n", "", "has no header row: its first row holds an address"),
        ("PAR1", "", "is no csv file: it looks like a parquet file"),
        ("", "", "is no csv file: it looks like an empty file"),
        ("path\nx\n", "?split=a", "unknown option 'split' behind"),
    ],
)
def test_unclear_tables_are_errors_that_say_what_to_give(tmp_path: Path, text: str, options: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(SourceError, match=message):
        source(f"{tmp_path}/a.csv{options}").shards(Indexed())


def test_places_that_are_no_csv_file(tmp_path: Path) -> None:
    for place, message in (
        (tmp_path, "is a folder; give a csv file"),
        (tmp_path / "none.csv", "does not exist; give a csv file"),
        ("https://me:hush@x/a.csv?sig=hush", "https://x/a.csv is not on this machine; fetch the csv file first"),
    ):
        with pytest.raises(SourceError, match=message):
            source(place)
