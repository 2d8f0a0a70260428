"""Killed at any moment and run again, a build gives the same index, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.picture_folders import write_pictures

# Of two parts and one aspect. A file written has six moments, and one removed has one; fewer would mean that the hooks
# no longer meet the writer.
MOMENTS = {
    "build with codes": 2 * 4 * 6 + (2 + 2 * 2) * 6,
    "add an aspect": 2 * 2 * 6,
    "train anew": (1 + 2 + 2 * 2) * 6 + 3,
    "remove codes": 6 + 3,
    "make lists": (1 + 1 + 2 * 2) * 6,
    "make other lists": (1 + 1 + 1 + 2 * 2) * 6 + 3,
    "remove lists": 6 + 3,
}


# All that these do is part of making other lists.
SLOW = ("make lists", "remove lists")


def run_program(name: str, *arguments: object) -> Any:
    """Run a program of the fixtures with one thread, and return what it prints."""
    command = [sys.executable, "-m", f"tests.fixtures.{name}", *map(str, arguments)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one_thread})
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in MOMENTS]
)
def test_killed_between_every_two_steps(tmp_path: Path, case: str) -> None:
    data = write_pictures(tmp_path / "data", 5)
    (data / "0003.png").write_text("bad")
    found = run_program("kill_each_step", data, tmp_path, case)
    assert (found["bad"], found["unlike"], found["same"]) == ([], [], True)
    assert found["moments"] >= MOMENTS[case]


@pytest.mark.parametrize(
    ("kills", "pictures", "unfinished"), [(8, 60, 2), pytest.param(50, 400, 25, marks=pytest.mark.slow)]
)
def test_killed_at_random_moments(tmp_path: Path, kills: int, pictures: int, unfinished: int) -> None:
    data = write_pictures(tmp_path / "data", pictures)
    (data / "0007.png").write_text("bad")
    found = run_program("kill_at_random", data, tmp_path, kills)
    assert found["bad"] == []
    assert found["unfinished"] >= unfinished
