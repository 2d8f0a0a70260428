"""Who indexes by words that the model can but guess at is told before it begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.building.build_config import BuildConfig
from indexer.command_line import app
from indexer.commands.word_remarks import tell_word_remarks
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import write_pictures
from tpips_model.errors import AspectError

NOTE = "note: mini does not know the word '{}' (it reads English): what it finds by it is a guess\n"


def index(path: Path, model: str = "mini") -> Path:
    vectors = np.eye(2, StubEmbedder.dim, dtype=np.float32)
    return write_index(
        path, {"overall": vectors, "Farbe": vectors}, model_name=model, fingerprint=StubEmbedder.fingerprint
    )


@pytest.mark.parametrize("command", ["build", "plan"])
def test_a_new_index_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for module in ("building.build", "planning.work"):
        monkeypatch.setattr(f"indexer.{module}.load_embedder", lambda name, **_: StubEmbedder())
    data = write_pictures(tmp_path / "data", 3)
    arguments = [command, "--data", str(data), "--out", str(tmp_path / "index"), "--no-progress"]
    ran = CliRunner().invoke(app, [*arguments, "--aspect", "Pinselführung", "--aspect", "colour palette"])
    assert (ran.exit_code, ran.stderr) == (0, NOTE.format("Pinselführung"))
    assert "note: mini" not in ran.stdout


def test_more_pictures_are_told_of_the_words_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: StubEmbedder())
    data = write_pictures(tmp_path / "data", 3)
    ran = CliRunner().invoke(
        app, ["add", str(index(tmp_path / "index")), "--data", str(data), "--prefix", "more", "--no-progress"]
    )
    assert (ran.exit_code, ran.stderr) == (0, NOTE.format("Farbe"))


def test_only_new_words_are_remarked_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_word_remarks(BuildConfig(out=index(tmp_path / "index"), aspects=("farbe", "Licht", "lighting")))
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", NOTE.format("Licht"))


def test_other_models_are_not_spoken_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_word_remarks(BuildConfig(out=index(tmp_path / "index", "stub"), aspects=("Licht",)))
    tell_word_remarks(BuildConfig(out=tmp_path / "none", aspects=("Licht",), model="Qwen/Qwen3-VL-Embedding-2B"))
    assert capsys.readouterr().err == ""


def test_no_words_are_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(AspectError, match="has no letter or digit"):
        tell_word_remarks(BuildConfig(out=tmp_path / "none", aspects=("?",)))
