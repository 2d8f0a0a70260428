"""An index that is browsed away from its pictures, and one that grows while it is browsed."""

from __future__ import annotations

import io
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient as ApiClient
from PIL import Image

from apps.app_server import shared_resources
from apps.app_settings import AppSettings
from apps.exports import contact_sheet, to_zip
from apps.first_pictures import first_html
from apps.query_state import PictureRef, QueryRow, QueryState
from apps.server import ServerSettings, make_application
from indexer import IndexDirectory
from indexer.columns import ITEM_SCHEMA, Item
from indexer.commands.thumbnails import add_thumbnails
from indexer.file_names import removed_file
from indexer.index_changes import recorded
from indexer.output_folder import output_folder
from indexer.part import write_array, write_part
from search import Searcher
from tests.apps.test_app_pages import compose, page, row, shown, widget
from tests.fixtures.app_client import app_client
from tests.fixtures.app_gallery import ASPECTS, picture, write_app_gallery
from tests.fixtures.indices import StubEmbedder
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError
from tpips_model.images import to_rgb
from tpips_model.loading import BUNDLED_MODELS


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with thumbnails, copied to where its pictures are not."""
    folder = tmp_path_factory.mktemp("away")
    there = write_app_gallery(folder / "there")
    with output_folder(there) as opened:
        assert opened is not None
        add_thumbnails(opened, 128, progress=False)
    (there / "gallery").rename(folder / "pictures")
    return Path(shutil.copytree(there, folder / "here"))


@pytest.fixture
def away(moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppSettings:
    monkeypatch.setitem(BUNDLED_MODELS, StubEmbedder.name, "tests.fixtures.indices:StubEmbedder")
    settings = AppSettings.of(moved, votes=tmp_path / "votes")
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    return settings


def size(data: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(data)).size


def test_every_size_has_a_picture(away: AppSettings) -> None:
    resources = shared_resources(away)
    with app_client(away) as client:
        for asked, longest in ((0, 128), (160, 128), (360, 128), (1280, 128)):
            answer = client.get(resources.address(PictureRef("key", "picture 04.png"), asked))
            assert (answer.status_code, max(size(answer.content))) == (200, longest)


def test_the_first_page_says_so(away: AppSettings) -> None:
    session = compose()
    assert any("Small versions that the index keeps are shown instead" in info.value for info in session.info)
    assert len(session.session_state["compose"].history.states) == 1
    session.button(key="try-0").click().run()
    assert not session.exception
    assert len(shown(session)) == 24


@pytest.mark.parametrize("name", ["senses", "compare", "video", "annotate", "index"])
def test_every_other_page_works(away: AppSettings, name: str) -> None:
    session = page(name, shared_resources(away))
    if name == "video":  # what needs the picture itself is told
        session.button(key="video-example").click().run()
        assert any("say where the pictures are now" in warning.value for warning in session.warning)
    if name == "compare":
        widget(session.multiselect, "Senses").set_value(["hem of the dress"]).run()
        assert any("say where the pictures are now" in error.value for error in session.error)
    assert not session.exception


def test_a_query_is_answered_as_ever(away: AppSettings) -> None:
    session = compose(QueryState(rows=(row(3), row(9, "color palette"))))
    terms = [("picture 03.png", "brushwork"), ("picture 09.png", "color palette")]
    assert shown(session) == Searcher.open(away.index).query(terms, 24).keys


def test_without_thumbnails_there_is_a_note_and_no_crash(
    tmp_path: Path, away: AppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = write_app_gallery(tmp_path / "index")
    (index / "gallery").rename(tmp_path / "pictures")
    settings = AppSettings.of(index, votes=tmp_path / "votes")
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    session = compose(QueryState(rows=(row(3),)))
    assert len(shown(session)) == 24
    assert any("tpips-index thumbnails" in info.value for info in session.info)
    resources = shared_resources(settings)
    with app_client(settings) as client:
        answer = client.get(resources.address(PictureRef("key", "picture 04.png"), 360))
        assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    found = AppSettings.of(index, {"": tmp_path / "pictures"}, tmp_path / "votes")
    assert shared_resources(found).view.away() is None


def test_the_api_serves_the_thumbnail(moved: Path) -> None:
    index = IndexDirectory.open(moved)
    with ApiClient(make_application(index, ServerSettings(), embedder=StubEmbedder())) as client:
        answer = client.get("/items/picture%2004.png/image?size=100")
        assert (answer.status_code, max(size(answer.content))) == (200, 100)
        assert max(size(client.get("/items/picture%2004.png/image?size=1000").content)) == 128
        refused = client.get("/items/picture%2004.png/image")
        assert refused.status_code == 404
        assert str(moved) not in refused.text


def test_results_are_exported(moved: Path, tmp_path: Path) -> None:
    hits = Searcher.open(moved).query([("picture 03.png", "brushwork")], 4)
    sheet = to_rgb(contact_sheet(hits))
    colours = sheet.crop((0, 84, sheet.width, 324)).getcolors(1 << 20) or []
    assert len(colours) > 500  # pictures, and no grey fields
    with pytest.raises(TpipsError, match="none of the pictures' files can be read any more"):
        to_zip(hits)
    data = tmp_path / "some"
    shutil.copytree(moved.parent / "pictures", data)
    some = Searcher.open(moved, data_root=data).query([("picture 03.png", "brushwork")], 4)
    (data / str(some[1].record["file"])).unlink()
    with zipfile.ZipFile(io.BytesIO(to_zip(some))) as archive:
        assert len([name for name in archive.namelist() if name.endswith(".png")]) == 3
        assert some[1].key in archive.read("missing.txt").decode()


@pytest.fixture
def growing(tmp_path: Path, away: AppSettings, monkeypatch: pytest.MonkeyPatch) -> AppSettings:
    settings = AppSettings.of(write_app_gallery(tmp_path / "growing"), votes=tmp_path / "votes")
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    return settings


def add_pictures(index: Path, count: int) -> None:
    """Add copies of the first pictures under new keys, as one more part."""
    with output_folder(index) as opened:
        assert opened is not None
        items = [
            replace(Item(**{name: record[name] for name in ITEM_SCHEMA.names}), key=f"added {number:02d}.png")
            for number, record in enumerate(opened.items().to_pylist()[:count])
        ]
        vectors = StubEmbedder().embed([picture(number) for number in range(count)], ASPECTS)
        part = write_part(
            opened.path,
            len(opened.manifest.parts),
            shard="added",
            items=items,
            errors=(),
            vectors={Aspect(aspect): vectors[:, place] for place, aspect in enumerate(ASPECTS)},
        )
        recorded(opened, replace(opened.manifest, parts=(*opened.manifest.parts, part)))


def test_pictures_that_are_added_are_found_at_the_next_click(growing: AppSettings) -> None:
    session = compose()
    assert any("40 pictures are here" in caption.value for caption in session.caption)
    address = shared_resources(growing).address(PictureRef("key", "picture 03.png"), 160)
    add_pictures(growing.index, 5)
    session.button(key="shuffle").click().run()
    assert any("45 pictures are here" in caption.value for caption in session.caption)
    found = shown(compose(QueryState(rows=(QueryRow(PictureRef("key", "added 04.png"), "overall"),))))
    assert len(found) == 24
    resources = shared_resources(growing)
    assert resources.address(PictureRef("key", "picture 03.png"), 160) == address  # browsers keep what they have
    with app_client(growing) as client:
        assert client.get(address).status_code == 200
        assert client.get(resources.address(PictureRef("key", "added 04.png"), 160)).status_code == 200
        assert client.get(address.partition("&of=")[0] + "&of=another").status_code == 404


def test_an_index_that_is_emptied_says_so(growing: AppSettings) -> None:
    session = compose()
    with output_folder(growing.index) as opened:
        assert opened is not None
        parts = []
        for part in opened.manifest.parts:
            name = removed_file(part.id, part.rows)
            file = write_array(growing.index / name, np.arange(part.rows, dtype=np.uint32))
            parts.append(replace(part, removed=part.rows, files={**part.files, name: file}))
        recorded(opened, replace(opened.manifest, parts=tuple(parts)))
    session.run()
    assert not session.exception
    assert any("holds no pictures any more" in info.value for info in session.info)
    assert first_html(shared_resources(growing), {}) == ""


def test_an_index_that_breaks_is_shown_as_it_was(growing: AppSettings) -> None:
    session = compose(QueryState(rows=(row(3),)))
    (growing.index / "manifest.json").write_text("{}")
    session.run()
    assert not session.exception
    assert any("you see it as it was" in warning.value for warning in session.warning)
    assert len(shown(session)) == 24
