"""Pictures in the app: uploads, thumbnails, addresses, and the model that all share."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import apps.uploads
from apps.app_settings import AppSettings
from apps.picture_items import record_items
from apps.query_state import PictureRef
from apps.resources import Resources, open_resources
from apps.shared_embedder import SharedEmbedder
from apps.thumbnails import Thumbnails, upload_jpeg
from apps.uploads import UploadStore
from indexer import ModelRecord
from indexer.importing.config import ImportConfig
from indexer.importing.vectors import import_vectors
from tests.fixtures.app_client import app_client
from tests.fixtures.app_gallery import picture
from tests.fixtures.indices import StubEmbedder
from tpips_model.aspects import OVERALL
from tpips_model.errors import ImageError, ModelError, TpipsError

RECORD = ModelRecord("stub", "stub:1", 16, "similar by {aspect}", 0.3)


def test_uploads_are_found_by_their_hash_and_bounded() -> None:
    one, two = picture(1), picture(2)
    store = UploadStore(max_bytes=len(one) + len(two) - 1)
    first = store.add(one, "one.png")
    assert (store.get(first), store.name(first), store.add(one, "again.png")) == (one, "one.png", first)
    second = store.add(two, "two.png")
    assert (store.get(first), store.get(second)) == (None, two)


@pytest.mark.parametrize("data", [b"", b"not a picture", picture(1)[:200], b"\x89PNG\r\n\x1a\n" + b"x" * 60])
def test_a_broken_upload_is_told_kindly(data: bytes) -> None:
    with pytest.raises(ImageError, match=r"holiday\.png could not be opened as a picture"):
        UploadStore().add(data, "holiday.png")


def test_a_large_upload_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImageError, match="up to 20 MB"):
        UploadStore().add(b"x" * (apps.uploads.MAX_UPLOAD_BYTES + 1), "huge.jpg")
    monkeypatch.setattr(apps.uploads, "MAX_UPLOAD_PIXELS", 100)
    with pytest.raises(ImageError, match="over the bound"):
        UploadStore().add(picture(1), "wide.png")


def test_thumbnails_are_made_once_and_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.new("RGB", (800, 400), "red").save(buffer, "JPEG", exif=exif)
    reads: list[int] = []
    thumbnails = Thumbnails()

    def make() -> bytes:
        reads.append(1)
        return upload_jpeg(buffer.getvalue(), 160)

    made = [thumbnails.get("a", 160, make) for _ in range(3)]
    shown = Image.open(io.BytesIO(made[0]))
    assert (len(reads), shown.size, dict(shown.getexif())) == (1, (80, 160), {})


def test_pictures_have_addresses(app_settings: AppSettings, app_resources: Resources) -> None:
    with app_client(app_settings) as client:
        answer = client.get(app_resources.address(PictureRef("key", "picture 03.png"), 160))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        assert max(Image.open(io.BytesIO(answer.content)).size) == 160
        digest = app_resources.uploads.add(picture(50), "mine.png")
        assert client.get(app_resources.address(PictureRef("upload", digest), 160)).status_code == 200
        assert client.get("/picture/999").status_code == 404
        assert client.get("/picture/1?size=161").status_code == 400
        assert client.get("/upload/" + "0" * 32).status_code == 404
        assert client.get("/picture/1", headers={"host": "elsewhere.example"}).status_code == 400


def test_one_model_serves_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    class Counting(StubEmbedder):
        def embed(self, images, aspects):  # type: ignore[no-untyped-def]
            calls.append(len(images))
            return super().embed(images, aspects)

    loaded: list[threading.Thread] = []
    monkeypatch.setattr("apps.shared_embedder.load_embedder", lambda name: loaded.append(name) or Counting())
    shared = SharedEmbedder(RECORD)
    pictures = [picture(number) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda data: shared.embed([data], ["mood", "overall"]), pictures))
    expected = StubEmbedder().embed(pictures, ["mood", "overall"])
    assert np.allclose(np.concatenate(found), expected)
    assert np.allclose(shared.embed(pictures, ["overall"]), expected[:, 1:])
    assert (loaded, sum(calls)) == (["stub"], 6)


def test_a_model_of_another_fingerprint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.shared_embedder.load_embedder", lambda name: StubEmbedder())
    with pytest.raises(ModelError, match="index was made by 'stub' of fingerprint other"):
        SharedEmbedder(ModelRecord("stub", "other", 16, "", 0.0)).warm()


def test_an_upload_that_is_gone_is_told(app_resources: Resources) -> None:
    with pytest.raises(TpipsError, match="drop it here again"):
        app_resources.image(PictureRef("upload", "0" * 32))
    with pytest.raises(TpipsError, match=r"did you mean picture 03\.png"):
        app_resources.image(PictureRef("key", "picture 03"))


def test_the_size_is_a_fact_only_where_it_is_known(app_resources: Resources, tmp_path: Path) -> None:
    (item,) = record_items(app_resources, [1])
    assert item["facts"][-1] == ["size", "8 × 8"]
    np.save(tmp_path / "a.npy", np.eye(2, 16, dtype=np.float32), allow_pickle=False)
    (tmp_path / "keys.csv").write_text("key,year\na,1900\nb,1901\n")
    import_vectors(
        ImportConfig(
            tmp_path / "imported",
            vectors=((OVERALL, str(tmp_path / "a.npy")),),
            keys=str(tmp_path / "keys.csv"),
            progress=False,
        )
    )
    (item,) = record_items(open_resources(AppSettings.of(tmp_path / "imported", votes=tmp_path / "votes")), [1])
    assert (item["width"], item["height"], item["facts"]) == (0, 0, [["year", "1901"]])
