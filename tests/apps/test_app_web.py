"""Pictures whose address a user pastes: downloaded within bounds, from the public web alone, and only where allowed."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from PIL import Image

import apps.app_server
import apps.uploads
import apps.web_pictures
from apps.app_command import main
from apps.app_settings import AppSettings
from apps.web_pictures import download_picture
from indexer.sources.web import open_web
from tests.apps.test_app_pages import compose, link, shown
from tests.fixtures.app_gallery import picture
from tests.fixtures.web_server import Page, WebServer, web_server
from tpips_model.errors import ImageError


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as served:
        yield served


@pytest.fixture
def public(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """The server, taken for one of the public web."""

    def anywhere(url: str, *, private: bool, seconds: float) -> Any:
        assert not private
        return open_web(url, private=True, seconds=seconds)

    monkeypatch.setattr(apps.web_pictures, "open_web", anywhere)
    return server


def test_a_picture_is_downloaded_and_named(public: WebServer) -> None:
    public.pages["/a b/été.png"] = public.pages["/a%20b/%C3%A9t%C3%A9.png"] = Page(picture(7))
    assert download_picture(f"  {public.address}/a b/été.png?token=1 ") == (picture(7), "été.png")
    assert public.requests[0][2] is None


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (
            Page(b" <!-- x -->\n<!DOCTYPE html><title>"),
            r"is a page, and not a picture; copy the address of the picture",
        ),
        (Page(failures=[404]), "answered 404"),
        (Page(failures=[503, 503]), "answered 503"),  # asked once: somebody is waiting
        (Page(b"x" * 100, cuts=[10]), "broke off"),
        (Page(redirect="file:///etc/passwd"), "not followed"),
    ],
)
def test_what_cannot_be_downloaded_is_told(public: WebServer, page: Page, message: str) -> None:
    public.pages["/a.png"] = page
    with pytest.raises(ImageError, match=message) as told:
        download_picture(f"{public.address}/a.png?secret=1")
    assert "secret" not in str(told.value)
    assert len(public.requests) == 1


def test_no_more_is_read_than_may_be_uploaded(public: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps.web_pictures, "MAX_UPLOAD_BYTES", 100_000)
    public.pages["/a.png"] = Page(b"x" * 3_000_000, unsized=True)
    assert 100_000 < len(download_picture(f"{public.address}/a.png")[0]) < 300_000


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org/a.png", "s3://bucket/a.png"])
def test_other_kinds_of_address_are_refused(address: str) -> None:
    with pytest.raises(ImageError, match="is no address of the web; paste one that begins with https://"):
        download_picture(address)


@pytest.mark.parametrize("address", ["http://[bad/x", "http://", "http://exa mple/x", "x" * 300, "http://a\nb/"])
def test_no_address_at_all_is_told(address: str) -> None:
    with pytest.raises(ImageError, match="check the address, or save the picture and drop the file"):
        download_picture(address)


@pytest.mark.parametrize("address", ["http://x\r\nHost: y/", "http://h/a\tb.png", "h/\x1b[2J", "http://h/?a=\x85b"])
def test_an_address_with_control_characters_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(ImageError, match="holds a control character, such as a line break, which no address") as told:
        download_picture(address)
    assert str(told.value).isprintable()


def test_long_addresses_are_shortened_in_messages(public: WebServer) -> None:
    public.pages[f"/{'a' * 3000}"] = Page(b"<html>")
    for address in (f"{public.address}/{'a' * 3000}", f"{public.address}/{'b' * 3000}", f"ftp://{'h' * 3000}"):
        with pytest.raises(ImageError, match=r"(aa|bb|hh)… (is a page|answered 404|is no address)") as told:
            download_picture(address)
        assert len(str(told.value)) < 300


def test_a_name_that_is_not_looked_up_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: let_go.wait(30))
    monkeypatch.setattr(apps.web_pictures, "SECONDS", 0.1)
    try:
        with pytest.raises(ImageError, match=r"pictures\.example/a\.png took too long; check the address"):
            download_picture("pictures.example/a.png")
    finally:
        let_go.set()


def test_the_name_is_one_line(public: WebServer) -> None:
    public.pages["/a%0D%0Ab.png"] = Page(picture(7))
    assert download_picture(f"{public.address}/a%0D%0Ab.png")[1] == "ab.png"


def test_this_machine_is_not_reached(server: WebServer) -> None:
    server.pages["/a.png"] = Page(picture(7))
    with pytest.raises(ImageError, match="leads to this machine or a private network"):
        download_picture(f"{server.address}/a.png")
    assert server.requests == []


@pytest.mark.usefixtures("app_settings")
def test_without_leave_no_address_is_asked_for() -> None:
    assert [one for one in compose().text_input if "address" in one.label] == []


def test_a_pasted_address_becomes_a_row(
    app_settings: AppSettings, public: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AppSettings.of(app_settings.index, votes=app_settings.votes, web=True).to_environment().items():
        monkeypatch.setenv(name, value)
    public.pages["/mine.png"] = Page(picture(77))
    public.pages["/text.png"] = Page(b"some text")
    session = compose()
    session.text_input[0].set_value(f"{public.address}/mine.png").run()
    assert not session.exception
    assert link(session, "image")[0].startswith("upload:")
    assert len(shown(session)) == 24
    (field,) = [one for one in session.text_input if str(one.key).startswith("address-add")]
    field.set_value(f"{public.address}/text.png").run()
    assert any("text.png could not be opened" in warning.value for warning in session.warning)
    assert len(link(session, "image")) == 1


def test_a_large_picture_of_the_web_is_refused(
    app_settings: AppSettings, public: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps.uploads, "MAX_UPLOAD_PIXELS", 100)
    buffer = io.BytesIO()
    Image.new("RGB", (40, 40)).save(buffer, "PNG")
    public.pages["/wide.png"] = Page(buffer.getvalue())
    with pytest.raises(ImageError, match="over the bound"):
        apps.uploads.UploadStore().add(*download_picture(f"{public.address}/wide.png"))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ([], True),
        (["--no-web"], False),
        (["--host", "0.0.0.0"], False),
        (["--host", "0.0.0.0", "--web"], True),
    ],
)
def test_the_command_allows_it_where_no_other_machine_can_ask(
    app_settings: AppSettings, monkeypatch: pytest.MonkeyPatch, options: list[str], allowed: bool
) -> None:
    seen: list[AppSettings] = []

    class Started:
        def run(self, **_: Any) -> None:
            pass

    def make(settings: AppSettings, *, host: str) -> Started:
        seen.append(settings)
        return Started()

    monkeypatch.setattr(apps.app_server, "make_app", make)
    monkeypatch.setattr("apps.free_port.check_port_free", partial(lambda *_: None))
    with pytest.raises(SystemExit, match="0"):
        main([str(app_settings.index), "--no-browser", *options])
    assert [settings.web for settings in seen] == [allowed]
