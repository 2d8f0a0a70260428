"""What a build takes of memory does not grow with what it indexes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def program(*arguments: object) -> str:
    command = [sys.executable, "-m", "tests.fixtures.many_items", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD})
    return ran.stdout


def measured(folder: Path, *, shards: int) -> dict[str, Any]:
    program("write", folder / "data", shards, 1000)
    found: dict[str, Any] = json.loads(program("index", folder / "data", folder / "index"))
    assert found["images"] == shards * 1000
    again: dict[str, Any] = json.loads(program("index", folder / "data", folder / "index"))
    assert again["images"] == 0
    return {"first": found["megabytes"], "again": again["megabytes"]}


@pytest.mark.slow
def test_six_times_as_many_items_take_hardly_more_memory(tmp_path: Path) -> None:
    few, many = measured(tmp_path / "few", shards=10), measured(tmp_path / "many", shards=60)
    # 50,000 more items at 12 bytes are 0.6 MB; a Python string of each key alone would be 4 MB, an item 50 MB.
    assert many["first"] - few["first"] < 12
    assert many["again"] - few["again"] < 12
    assert many["first"] < 400
