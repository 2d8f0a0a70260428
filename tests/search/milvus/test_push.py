"""An index pushed to Milvus: whole however often it was killed, over another one only when asked, within bounds."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from indexer import IndexDirectory
from indexer.removal import remove_rows
from search import Searcher
from search.commands.push import push as push_command
from search.milvus import push as milvus_push
from search.milvus.address import MilvusAddress, MilvusError
from search.milvus.connection import MilvusConnection
from search.milvus.facts import read_facts, write_facts
from tests.fixtures.indices import write_index
from tests.search.conftest import ASPECTS, unit
from tests.search.milvus.conftest import COUNT, answered, connection, push, random_queries


def interrupted(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Let a push die once it has sent so many batches."""
    sent = iter(range(batches))
    rows = milvus_push.islice

    def dying(*arguments: Any) -> Any:
        if next(sent, None) is None:
            raise KeyboardInterrupt("killed")
        return rows(*arguments)

    monkeypatch.setattr(milvus_push, "islice", dying)


def test_a_killed_push_goes_on(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = f"milvus:{tmp_path / 'killed.db'}/pictures"
    monkeypatch.setattr("search.milvus.fields.MAX_BATCH_ROWS", 20)
    monkeypatch.setattr(milvus_push, "BATCHES_BETWEEN_NOTES", 3)
    with monkeypatch.context() as dying:
        interrupted(dying, batches=8)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            push(index, there)
    with pytest.raises(
        MilvusError, match=r"is not finished .120 of 300 items are known to have arrived.; run the same"
    ):
        Searcher.open(there)
    assert push(index, there).sent == COUNT - 120
    assert push(index, there).sent == 0
    assert connection(there).count() == COUNT
    terms = [("picture-000150", "brushwork", 1.0), ("picture-000280", "overall", -0.5)]
    assert answered(Searcher.open(there).query(terms)) == answered(Searcher.open(index).query(terms))


DYING = """
import os, signal, sys
from pathlib import Path
from indexer import IndexDirectory
from search.milvus import fields as milvus_fields
from search.milvus import push as milvus_push
from search.milvus.address import MilvusAddress

milvus_fields.MAX_BATCH_ROWS, milvus_push.BATCHES_BETWEEN_NOTES = 7, 2
rows, left = milvus_push.islice, int(sys.argv[3])

def dying(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows(*arguments)

milvus_push.islice = dying
milvus_push.push_index(IndexDirectory.open(sys.argv[1]), MilvusAddress.parse(sys.argv[2]), progress=False)
"""


@pytest.mark.slow
def test_a_push_survives_being_killed_again_and_again(index: Path, tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'killed.db'}/pictures"
    for batches in (0, 3, 9, 14):
        program = [sys.executable, "-c", DYING, str(index), there, str(batches)]
        assert subprocess.run(program, check=False, capture_output=True).returncode == -signal.SIGKILL
    last = subprocess.run([sys.executable, "-c", DYING, str(index), there, "99"], capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    for query in random_queries(8, seed=10):
        expected = Searcher.open(index).query(query.terms, 5, where=query.where)
        assert answered(Searcher.open(there).query(query.terms, 5, where=query.where)) == answered(expected)


def test_the_command_tells_what_it_did_and_what_to_do_next(index: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(push_command)
    there = f"milvus:{tmp_path / 'command.db'}/pictures"
    arguments = [str(index), there, "--aspect", "Brushwork", "--aspect", "overall", "--metadata", "year"]
    made = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert made.exit_code == 0
    assert f"{there} holds 300 pictures, searched by FLAT\nsearch them: tpips-index query {there} --term" in made.stdout
    assert "pushing: 100%" in made.stderr
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert f"{there} holds all 300 pictures already" in again.stdout
    assert [aspect.text for aspect in Searcher.open(there).aspects] == ["brushwork", "overall"]
    with pytest.raises(MilvusError, match="the index type 'tree' is none of flat, hnsw, ivf_flat, ivf_sq8"):
        CliRunner().invoke(app, [*arguments, "--index", "tree"], catch_exceptions=False)
    with pytest.raises(MilvusError, match="there is no metadata column 'colour'; columns: artist, year, été"):
        CliRunner().invoke(app, [*arguments, "--metadata", "colour"], catch_exceptions=False)


def test_removed_items_are_left_out(index: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    vectors = {aspect: unit(rng.standard_normal((50, 8))).astype(np.float32) for aspect in ASPECTS}
    folder = write_index(tmp_path / "index", vectors, rows_per_part=20)
    remove_rows(IndexDirectory.open(folder, hold=False), np.array([0, 3, 19, 20, 49]))
    there = f"milvus:{tmp_path / 'removed.db'}/pictures"
    assert push(folder, there).rows == 45
    directory, collection = Searcher.open(folder), Searcher.open(there)
    assert list(collection.keys) == list(directory.keys)
    terms = [("picture-000021", "brushwork", 1.0)]
    assert collection.query(terms, 45).keys == directory.query(terms, 45).keys


def test_another_index_is_pushed_over_only_when_asked(index: Path, tmp_path: Path) -> None:
    vectors = {aspect: unit(np.random.default_rng(9).standard_normal((9, 8))).astype(np.float32) for aspect in ASPECTS}
    small = write_index(tmp_path / "small", vectors)
    there = f"milvus:{tmp_path / 'replaced.db'}/pictures"
    push(small, there)
    opened = Searcher.open(there)
    assert not opened.refresh()
    with pytest.raises(MilvusError, match=r"holds another index, another state .*9 items by overall.*--replace"):
        push(index, there)
    push(index, there, replace_old=True)
    assert opened.refresh()
    assert len(opened) == COUNT
    assert opened.query([("picture-000299", "overall")], 1).exact


def test_an_alias_leads_to_the_collection_that_it_has_at_the_time(index: Path, tmp_path: Path) -> None:
    file = f"milvus:{tmp_path / 'aliases.db'}"
    vectors = {aspect: unit(np.random.default_rng(9).standard_normal((9, 8))).astype(np.float32) for aspect in ASPECTS}
    push(write_index(tmp_path / "small", vectors), f"{file}/first")
    push(index, f"{file}/second")
    with connection(f"{file}/first").calling("naming") as client:
        client.create_alias("first", "current")
    opened = Searcher.open(f"{file}/current")
    assert len(opened) == 9
    with connection(f"{file}/first").calling("naming") as client:
        client.alter_alias("second", "current")
    assert len(opened.query([("picture-000003", "brushwork")], 20)) == 8
    assert opened.refresh()
    assert len(opened.query([("picture-000003", "brushwork")], 20)) == 20


def test_what_is_not_a_finished_push(index: Path, address: str, tmp_path: Path) -> None:
    with pytest.raises(MilvusError, match=r"there is no Milvus Lite file .*none\.db; make it with"):
        Searcher.open(f"milvus:{tmp_path / 'none.db'}/pictures")
    with pytest.raises(MilvusError, match="there is no collection 'none'"):
        Searcher.open(address.replace("/pictures", "/none"))
    with pytest.raises(MilvusError, match="leave out the device"):
        Searcher.open(address, device="cuda")
    foreign = f"milvus:{tmp_path / 'foreign.db'}/theirs"
    there = MilvusConnection.open(MilvusAddress.parse(foreign), make_file=True)
    with there.calling("making") as client:
        client.create_collection("theirs", dimension=4)
    with pytest.raises(MilvusError, match="is a collection that tpips-index push did not make"):
        Searcher.open(foreign)
    with pytest.raises(MilvusError, match="did not make; give another name, or drop it yourself"):
        push(index, foreign, replace_old=True)


def test_vectors_of_another_length_are_refused(index: Path, tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'dims.db'}/pictures"
    push(index, there, aspects=["brushwork"])
    collection = connection(there)
    facts = read_facts(collection, "pictures")
    assert facts is not None
    write_facts(collection, replace(facts, model=replace(facts.model, dim=17)))
    with pytest.raises(
        MilvusError, match=r"vectors of 16 dimensions under 'brushwork', and the model 'stub' .* gives 17"
    ):
        Searcher.open(there)


def test_nothing_private_goes_along(tmp_path: Path) -> None:
    vectors = {"overall": unit(np.ones((2, 8))).astype(np.float32)}
    folder = write_index(tmp_path / "index", vectors, model_name=str(tmp_path / "models" / "mine"))
    there = f"milvus:{tmp_path / 'private.db'}/pictures"
    push(folder, there)
    facts = read_facts(connection(there), "pictures")
    assert facts is not None
    assert str(tmp_path) not in facts.to_json()
    assert facts.model.name == "mine"


@pytest.mark.parametrize(
    ("aspects", "columns", "message"),
    [
        (11, 1, "the index has 11 aspects, and Milvus holds at most 10 .* choose some with --aspect"),
        (1, 60, "the index has 67 columns and 1 aspects, and Milvus holds at most 63 of both together"),
    ],
)
def test_more_than_milvus_holds(tmp_path: Path, aspects: int, columns: int, message: str) -> None:
    rows = unit(np.ones((2, 4))).astype(np.float32)
    items = [{f"column {number}": number for number in range(columns)}] * 2
    folder = write_index(tmp_path / "index", {f"aspect {n}": rows for n in range(aspects)}, metadata=items)
    with pytest.raises(MilvusError, match=message):
        push(folder, f"milvus:{tmp_path / 'wide.db'}/pictures")
    there = f"milvus:{tmp_path / 'chosen.db'}/pictures"
    push(folder, there, aspects=["aspect 0"], metadata=["column 0"])
    assert Searcher.open(there).columns.names[7:] == ["column 0"]


def test_texts_that_are_too_long(tmp_path: Path) -> None:
    rows = {"overall": unit(np.ones((1, 4))).astype(np.float32)}
    folder = write_index(tmp_path / "index", rows, metadata=[{"text": "é" * 40_000}])
    with pytest.raises(MilvusError, match="'picture-000000' has a text of 80,000 bytes in the column 'text'"):
        push(folder, f"milvus:{tmp_path / 'long.db'}/pictures")
