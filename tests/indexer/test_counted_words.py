"""One image is no "1 images", in whatever a command tells."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.command_line import app
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import write_pictures

_THINGS = "images|parts|pictures|items|vectors|lines|shards|aspects|columns|codes|lists|files"
_WRONG = re.compile(rf"(?<![\d.,])1 [a-z ]*({_THINGS})\b")


def told(*arguments: object) -> str:
    ran = CliRunner().invoke(app, [*map(str, arguments), "--no-progress"], env={"COLUMNS": "200"})
    assert ran.exit_code == 0, ran.output
    assert _WRONG.findall(ran.output) == [], ran.output
    return ran.output


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("building.build", "planning.work", "verifying.verify"):
        monkeypatch.setattr(f"indexer.{place}.load_embedder", lambda name, **_: StubEmbedder())


def test_an_index_of_one_image_in_one_part(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 1), tmp_path / "index"
    assert "1 image in 1 shard" in told("plan", "--data", data, "--out", out)
    assert "indexed 1 image in" in told("build", "--data", data, "--out", out, "--codes")
    assert "index holds 1 image\n" in told("build", "--data", data, "--out", out)
    assert "1 code made again under 1 aspect" in told("verify", out)
    assert "there is only 1 image, so 1 list instead of 4" in told("codes", out, "--lists", 4)
    assert "pixels for 1 image," in told("thumbnails", out, "--side", 32)
    assert "nothing to compact\n" in told("compact", out)
    assert "wrote 1 image under" in told("export", out, "--to", tmp_path / "all.parquet")
    imported = told("import-embeddings", "--from", tmp_path / "all.parquet", "--out", tmp_path / "imported")
    assert "imported 1 image of" in imported
    told("build", "--data", data, "--out", tmp_path / "again")
    merged = told("merge", out, tmp_path / "again", "--out", tmp_path / "merged")
    assert "1 image was there already and is left out; which" in merged
    assert "merged holds 1 image\n" in merged
    (data / "0000.png").write_bytes(b"another")
    assert "1 indexed image changed and 0 vanished since" in told("build", "--data", data, "--out", out)


def test_compaction_says_what_it_did(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 8), tmp_path / "index"
    told("build", "--data", data, "--out", out, "--shard-size", 2)
    with output_folder(out) as opened:
        assert opened is not None
        remove_rows(opened, np.array([0, 2, 4, 6]))
    assert "wrote 4 parts anew; 4 removed images are no longer stored\n" in told("compact", out, "--rows", 1)
    assert "4 parts became 2\n" in told("compact", out, "--rows", 2)
    with output_folder(out) as opened:
        assert opened is not None
        remove_rows(opened, np.array([0]))
    shown = told("compact", out, "--rows", 2)
    assert "wrote 1 part anew; 1 removed image is no longer stored\n" in shown
    assert "index holds 3 images in 2 parts\n" in shown
