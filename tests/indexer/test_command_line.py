from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from indexer.command_line import app
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.verifying.vector_check import check_vectors
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import picture_bytes, write_pictures
from tests.indexer.test_build import interrupt_at
from tpips_model import AspectLike, ImageLike, TpipsError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: StubEmbedder())
    folder = write_pictures(tmp_path / "data", 10)
    (folder / "0004.png").write_text("bad")
    (folder / "0006.png").write_text("worse")
    return folder


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def build(data: Path, *more: object) -> Result:
    return command("build", "--data", data, "--out", data.parent / "index", "--no-progress", *more)


def test_build_says_what_it_did(data: Path) -> None:
    made = build(data, "--aspect", "brushwork", "--aspect", "color palette", "--batch-size", 4, "--shard-size", 5)
    assert made.exit_code == 0
    assert re.search(r"^indexed 8 images in [\d.]+ s \([\d.]+ images/s\)$", made.stdout, re.M)
    told = "2 could not be indexed, or not wholly, or were there already; which and why: tpips-index info --errors"
    assert f"{told} {data.parent}/index" in made.stdout
    assert f"{data.parent}/index holds 8 images" in made.stdout
    again = build(data)
    assert "nothing was missing" in again.stdout
    added = build(data, "--aspect", "lighting")
    assert "added to the images there before: lighting" in added.stdout
    (data / "0000.png").unlink()
    (data / "0001.png").write_bytes(picture_bytes(1) + b"more")
    gone = build(data)
    assert gone.exit_code == 0
    assert "1 indexed image changed and 1 vanished since; the index keeps them" in gone.stdout
    assert "Restore them; say where they are now: tpips-index moved" in gone.stdout


def test_build_advises_to_compact_many_parts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.commands.build.MANY_PARTS", 2)
    told = build(data, "--shard-size", 2).stdout
    assert "the index has 5 parts, and opens and answers faster with fewer: tpips-index compact" in told
    assert "parts, and opens" not in build(data, "--out", data.parent / "two", "--shard-size", 20).stdout


def test_build_says_that_it_made_codes(data: Path) -> None:
    told = build(data, "--aspect", "brushwork", "--codes").stdout
    assert "made codes for approximate search: overall, brushwork" in told
    assert "made codes" not in build(data).stdout


def test_progress_tells_images_a_second_and_time_left(data: Path) -> None:
    made = command("build", "--data", data, "--out", data.parent / "index", "--shard-size", 3)
    assert re.search(r"indexing: 100%.* 10/10 \[.*<.*images/s", made.stderr)


def test_info_tells_what_the_index_holds(data: Path) -> None:
    build(data, "--aspect", "brushwork", "--shard-size", 5)
    told = command("info", data.parent / "index", "--verify").stdout
    for words in (
        "stub, 16 dimensions",
        "stub:1",
        "folder:",
        "8 in 2 parts",
        "brushwork",
        "complete",
        "it begins with …",
    ):
        assert words in told
    assert "incomplete" not in told


def test_a_model_that_gives_every_picture_one_vector_is_noticed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(StubEmbedder):
        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
            vectors = super().embed(images, aspects)
            vectors[:, -1] = np.eye(1, self.dim)
            return vectors

    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: Broken())
    build(data, "--aspect", "brushwork", "--shard-size", 5)
    told = command("info", data.parent / "index", "--verify").stdout
    assert "All images have the same vector under 'brushwork'" in told
    assert "under 'overall'" not in told


def test_info_names_the_pictures_that_were_skipped(data: Path) -> None:
    build(data, "--aspect", "brushwork")
    index = IndexDirectory.open(data.parent / "index")
    told = command("info", index.path, "--errors").stdout
    for line in index.errors().to_pylist():
        assert f"{line['key']}: {line['reason']}" in told


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 0.6])
def test_verify_finds_damaged_vectors_behind_good_checksums(tmp_path: Path, value: float) -> None:
    vectors = np.eye(4, dtype=np.float32)
    index = write_index(tmp_path / "index", {"overall": vectors})
    stored = np.load(index / "aspects/overall/part-00000.npy", allow_pickle=False)
    stored[2] = value
    np.save(index / "aspects/overall/part-00000.npy", stored, allow_pickle=False)
    refresh_checksums(index)
    key = IndexDirectory.open(index).items(["key"])["key"][2].as_py()
    with pytest.raises(IndexDirectoryError, match=f"the vector of '{key}' under 'overall' has length"):
        check_vectors(IndexDirectory.open(index, verify=True))


def refresh_checksums(index: Path) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    for part in manifest["parts"]:
        for name, record in part["files"].items():
            data = (index / name).read_bytes()
            record.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (index / "manifest.json").write_text(json.dumps(manifest))


def test_info_as_json(data: Path) -> None:
    build(data, "--aspect", "brushwork", "--shard-size", 5)
    record = json.loads(command("info", data.parent / "index", "--json").stdout)
    assert (record["images"], record["parts"], record["errors"], record["dim"]) == (8, 2, 2, 16)
    assert record["source"] == f"folder:{data.resolve()}"
    assert list(record["errors_by_reason"].values()) == [2]
    (examples,) = record["error_examples"].values()
    listed = json.loads(command("info", data.parent / "index", "--json", "--errors").stdout)["error_lines"]
    assert [line["key"] for line in listed] == examples
    assert all(line["reason"] for line in listed)
    files = list((data.parent / "index/aspects/brushwork").iterdir())
    assert record["aspects"][1] == {
        "text": "brushwork",
        "slug": "brushwork",
        "bytes": sum(path.stat().st_size for path in files),
        "complete": True,
        "codes_bytes": 0,
        "coded": False,
    }
    assert record["complete_with"] is None


def test_an_interrupted_build_says_that_it_can_go_on_and_info_names_the_command(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(data, "--shard-size", 5)
    with monkeypatch.context() as patch:
        patch.setattr("indexer.building.build.load_embedder", lambda name, **_: interrupt_at(1))
        stopped = build(data, "--aspect", "lighting")
    assert stopped.exit_code == 130
    assert "interrupted; what is finished is kept, and the same command goes on from there" in stopped.stderr
    told = json.loads(command("info", data.parent / "index", "--json").stdout)
    assert [aspect["complete"] for aspect in told["aspects"]] == [True, False]
    assert told["complete_with"] == f"tpips-index build --out {data.parent}/index"
    assert "An aspect is incomplete; to complete it: tpips-index build" in command("info", data.parent / "index").stdout
    assert command("build", "--out", data.parent / "index", "--no-progress").exit_code == 0
    assert json.loads(command("info", data.parent / "index", "--json").stdout)["complete_with"] is None


@pytest.mark.parametrize(("name", "place"), [("verify", "verify.verify_index"), ("plan", "plan.plan_build")])
def test_what_only_looks_says_when_interrupted_that_nothing_was_changed(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    build(data)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"indexer.commands.{place}", interrupt)
    index = data.parent / "index"
    stopped = command(name, index, *(["--data", data] if name == "plan" else []))
    assert (stopped.exit_code, stopped.stderr) == (130, "interrupted; nothing was changed\n")


def test_control_c_ends_the_program_with_130(data: Path) -> None:
    program = (
        "import os, signal, indexer.building.build, indexer.command_line as c\n"
        # As at a terminal; a process started in the background inherits that SIGINT is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tests.fixtures.indices import StubEmbedder\n"
        "class Slow(StubEmbedder):\n"
        "    def embed(self, images, aspects):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        return super().embed(images, aspects)\n"
        "indexer.building.build.load_embedder = lambda name, **_: Slow()\n"
        "c.app()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "build", "--data", str(data), "--out", str(data.parent / "index")],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 128 + signal.SIGINT
    assert "the same command goes on from there" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "--data", "none", "--out", "index"), "--data none does not exist"),
        (("build", "--out", "index", "--aspect", "x"), "there is no index at index yet"),
        (("info", "none"), "does not exist; make one with"),
        (("build", "--data", "data", "--out", "index", "--aspect", " "), "an aspect must not be empty"),
        (("build", "--data", "data", "--out", "data"), "holds something that is no index"),
    ],
)
def test_errors_are_left_to_main(
    data: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(data.parent)
    ended = command(*arguments)
    assert ended.exit_code == 1
    assert isinstance(ended.exception, TpipsError)
    assert message in str(ended.exception)


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: StubEmbedder())
    write_pictures(tmp_path / "[red]", 1)
    out = tmp_path / "[bold]"
    assert command("build", "--data", tmp_path / "[red]", "--out", out, "--aspect", "[x] y").exit_code == 0
    told = command("info", out).stdout.replace("\n", "")
    assert "[x] y" in told
    assert "[bold]" in re.sub(r"[│\s]", "", told)
