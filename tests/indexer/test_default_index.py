"""``tpips-index build --aspect brushwork --data wikiart``: without --out, the index is named for its data."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from indexer.building.build_config import BuildError
from indexer.command_line import app
from indexer.commands.default_index import chosen_index, default_index
from indexer.directory import IndexDirectory
from indexer.sources.source import SourceError
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import tree, write_pictures
from tests.fixtures.web_server import WebServer
from tests.indexer.test_hub_source import COMMITS, hub, publish, wikiart

__all__ = ["hub"]  # a fixture, which pytest finds by its name


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: StubEmbedder())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--no-progress"])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("demo", "demo-index"),
        ("wikiart", "wikiart-index"),
        ("wikiart:/data/WikiArt", "WikiArt-index"),
        ("openimages?split=validation", "openimages-validation-index"),
        ("openimages:/data/oi?split=test", "oi-test-index"),
        ("hf:huggan/wikiart", "wikiart-index"),
        ("/home/me/Pictures/", "Pictures-index"),
        ("folder:pictures/../photos", "photos-index"),
        (".", "here-index"),
        ("folder:.", "here-index"),
        ("*.tar", "here-index"),
        ("webdataset:shards/{000..127}.tar", "shards-index"),
        ("/data/a?b/0.tar", "data-index"),
        ("shards/train.tar.gz", "train-index"),
        ("csv:lists/holiday.csv?image=photo&key=id", "holiday-index"),
        ("parquet:data/train-*.parquet", "data-index"),
        ("s3://bucket/*.tar", "bucket-index"),
        ("https://me:secret@example.org/cats/0.tar?X-Amz-Signature=1f", "0-index"),
        ("webdataset:https://example.org/cats/{0..9}.tar", "cats-index"),
        ("/", "pictures-index"),
        ("folder:a\nb", "a-b-index"),
        ("hf:..", "hf-index"),
        ("hf:huggan/..?split=test", "huggan-test-index"),
        ("hf:", "hf-index"),
        ("https://x.org/..", "x.org-index"),
        ("https://x.org:80/./", "x.org-80-index"),
        ("https://", "pictures-index"),
        ("https://x.org/a%3Ftoken=SECRET", "a-index"),
        ("https://x.org/a%253ftoken=SECRET", "a-index"),
        ("https://x.org/a;jsessionid=SECRET", "a-index"),
        ("https://x.org/a%3bjsessionid=SECRET.tar", "a-index"),
        ("https://x.org/a.tar.gz%23SECRET", "a-index"),
        ("https://x.org/%3Ftoken=SECRET", "x.org-index"),
        ("webdataset:https://x.org/c%2F..%2Fd.tar", "c-..-d-index"),
        ("a;jsessionid=SECRET", "a-index"),
        ("wikiart:~/Été %3Ftoken=SECRET", "Été-index"),
        ("folder:-rf", "rf-index"),
        ("folder:.cache", "cache-index"),
        ("folder:चित्र 2024", "चित्र 2024-index"),
        ("folder:" + "x" * 300, "x" * 60 + "-index"),
        ("hf:me/" + "x" * 300 + "?split=" + "y" * 300, "x" * 60 + "-index"),
        ("https://x.org/" + "%E7%8C%AB" * 200 + ".tar", "猫" * 60 + "-index"),
    ],
)
def test_the_name_is_that_of_the_data(data: str, name: str) -> None:
    assert default_index(data) == Path(name)
    assert chosen_index(data, Path("other")) == Path("other")


def test_a_folder_whose_name_looks_like_a_pattern_or_a_file_keeps_it(here: Path) -> None:
    for name, index in (("[red]", "red"), ("summer.csv", "summer.csv"), ("C#; 50%3F off", "C- 50-3F off")):
        (here / name).mkdir()
        assert default_index(name) == Path(f"{index}-index")
    assert default_index("webdataset:C#; 50%3F off/{0..9}.tar") == Path("C- 50-3F off-index")


def test_the_same_command_goes_on_with_the_same_index(here: Path) -> None:
    write_pictures(here / "Pictures", 3)
    made = command("build", "--aspect", "brushwork", "--data", "Pictures")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("making the index Pictures-index (--out gives another place)\n")
    write_pictures(here / "Pictures", 2, first=3)
    again = command("build", "--aspect", "brushwork", "--data", "Pictures")
    assert again.stdout.startswith("going on with the index Pictures-index (")
    assert "indexed 2 images" in again.stdout
    index = IndexDirectory.open(here / "Pictures-index", verify=True)
    assert (index.live_count, [aspect.text for aspect in index.aspects]) == (5, ["overall", "brushwork"])
    assert sorted(path.name for path in here.iterdir()) == ["Pictures", "Pictures-index"]


def test_pictures_of_the_current_folder_are_indexed_without_the_index_in_it(here: Path) -> None:
    write_pictures(here, 3)
    for _ in range(2):
        assert command("build", "--data", ".", "--thumbnails", 32).exit_code == 0
    assert IndexDirectory.open(here / "here-index").live_count == 3


def test_nothing_is_said_of_an_index_before_the_data_are_accepted(here: Path) -> None:
    for data in ("demo?x=1", "nosuch", "https://x.org/..", "hf:.."):
        refused = command("build", "--data", data)
        assert isinstance(refused.exception, SourceError)
        assert refused.output == ""
    assert list(here.iterdir()) == []


def test_a_name_that_no_folder_can_have_is_shortened(here: Path) -> None:
    longest = "x" * 250
    write_pictures(here / longest, 1)
    made = command("build", "--data", longest)
    assert made.exit_code == 0, made.output
    assert IndexDirectory.open(here / f"{'x' * 60}-index").live_count == 1


def test_what_is_in_the_way_is_left_alone(here: Path) -> None:
    write_pictures(here / "Pictures", 1)
    write_pictures(here / "Pictures-index", 1)
    before = tree(here)
    refused = command("build", "--data", "Pictures")
    assert "holds something that is no index" in str(refused.exception)
    assert tree(here) == before
    assert command("build", "--data", "Pictures", "--out", "mine").exit_code == 0


def test_another_folder_of_the_same_name_is_no_part_of_it(here: Path) -> None:
    for place in ("one/Pictures", "two/Pictures"):
        write_pictures(here / place, 1)
    assert command("build", "--data", "one/Pictures").exit_code == 0
    refused = command("build", "--data", "two/Pictures")
    assert "or build another index with another --out" in str(refused.exception)


def test_without_data_and_out_one_error_says_what_to_give(here: Path) -> None:
    for name in ("build", "plan"):
        refused = command(name, "--aspect", "brushwork")
        assert isinstance(refused.exception, BuildError)
        assert "say with --data where the pictures are" in str(refused.exception)
        assert "--out" in str(refused.exception)
    assert list(here.iterdir()) == []


def test_wikiart_without_a_path_and_without_a_network_says_what_to_do(
    hub: WebServer, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    refused = command("build", "--aspect", "brushwork", "--data", "wikiart")
    assert isinstance(refused.exception, SourceError)
    assert "cannot fetch the data set huggan/wikiart: no answer from the hub" in str(refused.exception)
    assert "or give a local copy with --data wikiart:PATH" in str(refused.exception)
    assert list(here.iterdir()) == []


def test_wikiart_without_a_path_comes_from_the_hub(hub: WebServer, tmp_path: Path, here: Path) -> None:
    publish(hub, "huggan/wikiart", COMMITS["one"], wikiart(tmp_path))
    made = command("build", "--aspect", "brushwork", "--data", "wikiart")
    assert made.exit_code == 0, made.output
    assert IndexDirectory.open(here / "wikiart-index", verify=True).live_count == 6
    hub.pages.clear()  # what has been fetched needs no network
    again = command("build", "--aspect", "brushwork", "--data", "wikiart")
    assert again.exit_code == 0, again.output
    assert "going on with the index wikiart-index" in again.stdout
    assert "nothing was missing" in again.stdout
