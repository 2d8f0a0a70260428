from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from search import command_line
from search.command_line import app, main
from tests.fixtures.indices import StubEmbedder, write_index

TERMS = ("--term", "picture 01:brushwork", "--term", "picture 02:color palette:-0.5")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["query", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_table(gallery: Path) -> None:
    printed = run(str(gallery), *TERMS, "-k", "3", "--penalty", "0.3")
    for word in ("best 3 of 30, overall penalty 0.3", "brushwork", "color palette", "× -0.5"):
        assert word in printed
    assert printed.count("picture ") == 3


def test_a_key_cannot_command_the_terminal(tmp_path: Path) -> None:
    keys = ["\x1b[2Jcleared\r\n", "[red]plain[/red]"]
    index = write_index(tmp_path / "index", {"overall": np.eye(2, dtype=np.float32)}, keys=keys)
    printed = run(str(index), "--term", f"{keys[1]}:overall", "--include-queries")
    assert "\x1b[2J" not in printed
    assert "cleared" in printed
    assert "[red]plain[/red]" in printed


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_guess_of_the_bundled_model_is_told_beside_the_answer(tmp_path: Path, more: tuple[str, ...]) -> None:
    vectors = np.eye(2, dtype=np.float32)
    index = write_index(tmp_path / "index", {"overall": vectors, "Farbe": vectors}, model_name="mini")
    asked = ["--term", "picture-000000:Farbe", "--term", "picture-000001:farbe", "--term", "picture-000001:overall"]
    result = CliRunner().invoke(app, ["query", str(index), *asked, *more])
    assert result.exit_code == 0, result.output
    told = "note: mini does not know the word 'Farbe' (it reads English): what it finds by it is a guess\n"
    assert result.stderr == told
    assert "note: mini" not in result.stdout


def test_json_and_files(gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.query_embedder.load_embedder", lambda name: StubEmbedder())
    path = gallery / "gallery" / "000004.png"
    record = json.loads(run(str(gallery), "--term", f"{path}:Brushwork:0.5", "--json", "--k", "40"))
    assert record["terms"] == [{"image": "000004.png", "aspect": "brushwork", "weight": 0.5}]
    assert len(record["hits"]) == 29
    kept = json.loads(run(str(gallery), "--term", f"{path}:Brushwork:0.5", "--json", "--include-queries"))
    assert kept["hits"][0]["key"] == "picture 04"


def test_html_comes_with_the_table(gallery: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    printed = run(str(gallery), *TERMS, "--html", str(target))
    assert "best 10 of 30" in printed
    assert f"wrote {target} with 10 pictures" in printed.replace("\n", "")
    assert target.read_text(encoding="utf-8").count("data:image/jpeg") == 12


def test_html_comes_with_json(gallery: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    printed = run(str(gallery), *TERMS, "--html", str(target), "--json", "-k", "3")
    assert len(json.loads(printed)["hits"]) == 3
    assert target.read_text(encoding="utf-8").count("data:image/jpeg") == 5


def test_selection_options(gallery: Path) -> None:
    where = 'artist = "artist 1" and year >= 1910'
    options = ("--where", where, "--offset", "1", "-k", "3", "--dedupe", "0.9999", "--min-score", "-9", "--exact")
    printed = " ".join(run(str(gallery), *TERMS, *options).split())
    assert f"2 to 4 of 7 (of 30) where {where}, score at least -9" in printed
    assert "alike" in printed
    record = json.loads(run(str(gallery), *TERMS, *options, "--json"))
    facts = {name: value for name, value in record.items() if name not in ("terms", "hits", "rescored")}
    assert facts == {
        "overall_penalty": 0.0, "total": 30, "where": where, "selected": 7, "offset": 1, "min_score": -9.0,
        "dedupe": 0.9999, "exact": True, "probed": None, "live": None,
    }  # fmt: skip
    assert [hit["rank"] for hit in record["hits"]] == [2, 3, 4]
    assert {hit["metadata"]["artist"] for hit in record["hits"]} == {"artist 1"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["query"],
        ["query", "somewhere"],
        ["query", "somewhere", *TERMS, "-k", "0"],
        ["query", "somewhere", *TERMS, "--offset", "-1"],
        ["query", "somewhere", *TERMS, "--penalty", "much"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    printed = capsys.readouterr()
    assert "Usage:" in printed.out + printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{missing}", *TERMS], "error: index {missing} does not exist"),
        (
            ["{gallery}", "--term", "picture 01:line art"],
            "error: aspect 'line art' is not indexed; indexed aspects: 'overall'",
        ),
        (["{gallery}", "--term", "pictur 01:brushwork"], "error: 'pictur 01' is neither the key"),
        (["{gallery}", "--term", "picture 01"], "error: the term 'picture 01' should be IMAGE:ASPECT"),
        (["{gallery}", *TERMS, "--html", "{missing}/x/p.html"], "error: cannot write the page"),
        (["{gallery}", *TERMS, "--where", "artist = Monet"], "error: there is no column 'Monet' to filter by"),
        (["{gallery}", *TERMS, "--where", ""], "error: cannot read the filter '' at its end"),
        (["{gallery}", *TERMS, "--dedupe", "0"], "error: dedupe must be a cosine above 0"),
        (["{gallery}", *TERMS, "--penalty", "nan"], "error: the overall penalty must be a finite number"),
    ],
)
def test_a_users_fault_is_one_line_and_exit_status_1(
    gallery: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"{gallery}": str(gallery), "{missing}": str(tmp_path / "missing")}

    def filled(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    with pytest.raises(SystemExit, match="1"):
        main(["query", *map(filled, arguments)])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(filled(message))
    assert printed.err.count("\n") == 1


def test_interrupted(gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line.Searcher, "open", interrupt)
    with pytest.raises(SystemExit, match="130"):
        main(["query", str(gallery), *TERMS])


def test_as_a_program(gallery: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "search.command_line", "query", str(gallery), *TERMS, "--json"],
        capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert len(json.loads(ran.stdout)["hits"]) == 10


def test_importing_search_loads_no_library_it_may_not_need() -> None:
    program = (
        "import sys, search; print([name for name in "
        "('torch', 'transformers', 'pandas', 'jinja2', 'typer', 'faiss', 'rich', 'lark') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
