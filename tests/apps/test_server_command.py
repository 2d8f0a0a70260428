"""The command ``tpips-serve``: what it refuses, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.serve_command import KEY_VARIABLE, _allowed_hosts, _api_key, main
from tests.fixtures.server import KEYS, write_gallery
from tpips_model.errors import TpipsError

KEY = "a-key-of-more-than-16-characters"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("command") / "index")


@pytest.mark.parametrize(
    "text", ["", "\n", "short", "with a blank in the middle", "clé-clé-clé-clé-clé", "a" * 20 + "\0"]
)
def test_unusable_keys_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TpipsError, match="at least 16 ASCII characters") as caught:
        _api_key(file)
    assert not text.strip() or text not in str(caught.value)
    if "\0" not in text:
        monkeypatch.setenv(KEY_VARIABLE, text)
        with pytest.raises(TpipsError, match=KEY_VARIABLE):
            _api_key(None)


def test_keys_come_from_a_file_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert _api_key(None) is None
    monkeypatch.setenv(KEY_VARIABLE, f"{KEY}-2")
    assert _api_key(None) == f"{KEY}-2"
    (tmp_path / "key").write_text(f"  {KEY}\r\nand a remark\n", encoding="utf-8")
    assert _api_key(tmp_path / "key") == KEY
    with pytest.raises(TpipsError, match="cannot read the API key"):
        _api_key(tmp_path / "none")


def test_loopback_is_asked_by_its_own_names_only() -> None:
    assert set(_allowed_hosts("127.0.0.1", [])) == {"127.0.0.1", "localhost", "[::1]"}
    assert "[::1]" in _allowed_hosts("::1", [])
    assert "proxy.example" in _allowed_hosts("localhost", ["proxy.example"])
    assert _allowed_hosts("0.0.0.0", []) == ()


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--port", "0"]])
def test_faults_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="1"):
        main(arguments)
    assert capsys.readouterr().err.startswith("error: ")


def test_a_port_that_is_taken_is_one_line(gallery: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SystemExit, match="1"):
            main([str(gallery), "--port", str(other.getsockname()[1])])
    assert "give another port with --port" in capsys.readouterr().err


@pytest.fixture
def server(gallery: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "key").write_text(KEY, encoding="utf-8")
    command = [sys.executable, "-m", "apps.serve_command", str(gallery), "--port", str(port), "--access-log"]
    started = subprocess.Popen(
        [*command, "--api-key-file", str(tmp_path / "key")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield started, f"http://127.0.0.1:{port}"
    finally:
        started.kill()
        started.communicate()


def test_it_serves_until_it_is_told_to_stop(server: tuple[subprocess.Popen[str], str]) -> None:
    program, url = server
    headers = {"Authorization": f"Bearer {KEY}"}
    deadline = time.monotonic() + 60.0
    while True:
        try:
            assert httpx.get(f"{url}/ready").status_code == 200
            break
        except httpx.TransportError:
            assert program.poll() is None, program.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    asked: dict[str, Any] = {"key": KEYS[20], "aspect": "brushwork"}
    with httpx.Client(base_url=url) as client:
        assert client.post("/similar", json=asked).status_code == 401
        assert client.post("/similar", json=asked, headers=headers).status_code == 200
        assert client.get("/index", headers={**headers, "Host": "evil.example"}).status_code == 400
        assert "server" not in client.get("/health").headers
        # A connection that is kept alive must not hold up the end.
        program.send_signal(signal.SIGTERM)
        output = program.communicate(timeout=20.0)[0]
    assert program.returncode in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in output
    assert "Traceback" not in output
    assert KEY not in output
    assert os.environ.get(KEY_VARIABLE) is None
