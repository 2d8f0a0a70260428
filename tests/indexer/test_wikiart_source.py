from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from indexer.sources import SourceError, open_source
from tests.fixtures.built_sources import bad, build_index, good, stored_pictures
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.picture_tables import ARTGAN, write_artgan, write_hub_parquet


def test_artgan_pictures_have_the_classes_of_their_lists(tmp_path: Path) -> None:
    found = good(open_source(f"wikiart:{write_artgan(tmp_path)}", out=tmp_path / "index"))
    assert list(found) == sorted(ARTGAN)
    assert {key: dict(one.metadata) for key, one in found.items()} == {
        ARTGAN[0]: {"style": "Art_Nouveau", "artist": "alphonse-mucha", "split": "train"},
        ARTGAN[1]: {
            "style": "Impressionism",
            "artist": "joaqu\u00e3\u00adn-sorolla",
            "genre": "genre_painting",
            "artist_class": "Joaquin_Sorolla",
            "split": "train",
        },
        ARTGAN[2]: {"style": "Realism", "artist": "m.c.-escher", "genre": "abstract_painting", "split": "val"},
        ARTGAN[3]: {"style": "Realism", "artist": "a", "split": "train"},
        ARTGAN[4]: {"style": "Rococo", "artist": "a"},
    }


def test_artgan_is_indexed_and_found_again(tmp_path: Path) -> None:
    write_artgan(tmp_path / "art")
    index = build_index(f"wikiart:{tmp_path}/art", tmp_path / "index", shard_size=2)
    assert index.manifest.source.kind == "wikiart"
    assert index.data_root == tmp_path / "art/wikiart"
    assert stored_pictures(index) == {name: picture_bytes(number, format="JPEG") for number, name in enumerate(ARTGAN)}
    # A list's missing picture is one line, and does not keep the picture from being indexed once it is there.
    assert index.errors().to_pylist() == [
        {
            "key": "Style/style_train.csv",
            "reason": "the list names 1 pictures that are not there, such as 'Rococo/gone_away.jpg'",
        }
    ]
    before = tree(tmp_path / "index")
    build_index(f"wikiart:{tmp_path}/art", tmp_path / "index", shard_size=2)
    assert tree(tmp_path / "index") == before
    (tmp_path / "art/wikiart/Rococo/gone_away.jpg").write_bytes(picture_bytes(9, format="JPEG"))
    index = build_index(f"wikiart:{tmp_path}/art", tmp_path / "index")
    assert index.items(["key", "style"]).to_pylist()[-1] == {"key": "Rococo/gone_away.jpg", "style": "Rococo"}
    assert index.errors().num_rows == 1


def test_artgan_names_match_in_either_unicode_form(tmp_path: Path) -> None:
    write_artgan(tmp_path)
    (tmp_path / "wikiart" / ARTGAN[1]).rename(tmp_path / "wikiart" / unicodedata.normalize("NFD", ARTGAN[1]))
    found = good(open_source(f"wikiart:{tmp_path}", out=tmp_path / "index"))
    assert found[unicodedata.normalize("NFD", ARTGAN[1])].metadata["genre"] == "genre_painting"


def test_artgan_lists_that_contradict_each_other_or_are_damaged_are_lines(tmp_path: Path) -> None:
    write_artgan(tmp_path)
    (tmp_path / "Style/style_train.csv").write_bytes(
        f"{ARTGAN[0]},0\r\n{ARTGAN[0]},1\r\nno class\r\n\xff,\r\n".encode("latin-1")
    )
    (tmp_path / "Genre/genre_class").unlink()
    source = open_source(f"wikiart:{tmp_path}", out=tmp_path / "index")
    assert bad(source) == {
        "Style/style_train.csv": f"the list gives {ARTGAN[0]!r} the class 1 besides 0, which is kept; has no picture "
        "and class in line 3: 'no class'; has no picture and class in line 4: '\\\\xff,'"
    }
    assert good(source)[ARTGAN[1]].metadata["genre"] == "1"  # the number, where its name is not known


def test_artgan_without_lists_takes_what_the_names_say(tmp_path: Path) -> None:
    write_artgan(tmp_path)
    found = good(open_source(f"wikiart:{tmp_path}/wikiart", out=tmp_path / "index"))
    assert dict(found[ARTGAN[0]].metadata) == {"style": "Art_Nouveau", "artist": "alphonse-mucha"}


def test_a_local_copy_of_the_hubs_files(tmp_path: Path) -> None:
    labels = {
        "artist": (["Unknown Artist", "boris-kustodiev"], [1, 0]),
        "genre": (["abstract_painting", "Unknown Genre"], [1, 0]),
        "style": (["Abstract_Expressionism", "Art_Nouveau"], [1, 1]),
    }
    pictures = [picture_bytes(number, format="JPEG") for number in range(2)]
    write_hub_parquet(tmp_path / "hub/data/train-00000-of-00072.parquet", pictures, labels=labels)
    index = build_index(f"wikiart:{tmp_path}/hub", tmp_path / "hub/index")
    assert index.manifest.source.kind == "wikiart"
    assert stored_pictures(index) == {f"train-00000-of-00072/{row}": data for row, data in enumerate(pictures)}
    assert index.items(["artist", "genre", "style"]).to_pylist() == [
        {"artist": "boris-kustodiev", "genre": "Unknown Genre", "style": "Art_Nouveau"},
        {"artist": "Unknown Artist", "genre": "abstract_painting", "style": "Art_Nouveau"},
    ]


def test_what_is_no_copy_is_an_error_that_says_what_one_holds(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match="is no copy of WikiArt: it holds neither parquet files nor folders of styles"
    ):
        open_source(f"wikiart:{tmp_path}", out=tmp_path / "index")
    with pytest.raises(SourceError, match="do not exist"):
        open_source(f"wikiart:{tmp_path}/none", out=tmp_path / "index")
