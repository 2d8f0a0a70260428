"""Killed at any moment and run again, a build gives the same index, byte for byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from indexer.directory import IndexDirectory
from tests.fixtures.picture_folders import tree, write_pictures
from tests.fixtures.stub_build import run_stub_build

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


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in MOMENTS]
)
def test_killed_between_every_two_steps(tmp_path: Path, case: str) -> None:
    data = write_pictures(tmp_path / "data", 5)
    (data / "0003.png").write_text("bad")
    command = [sys.executable, "-m", "tests.fixtures.kill_each_step", str(data), str(tmp_path), case]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **one_thread})
    found = json.loads(ran.stdout)
    assert (found["bad"], found["same"]) == ([], True)
    assert found["moments"] >= MOMENTS[case]


def kill_at_random_moments(tmp_path: Path, *, kills: int, pictures: int) -> int:
    """Kill ``kills`` builds and complete each; return in how many the index had been begun but not finished."""
    data = write_pictures(tmp_path / "data", pictures)
    (data / "0007.png").write_text("bad")
    run_stub_build(data, tmp_path / "whole")
    expected = tree(tmp_path / "whole")
    part_files = sum(name.count("/part-") for name in expected)
    chance = random.Random(0)
    landed = begun_but_unfinished = 0
    while landed < kills:
        out = tmp_path / f"killed-{landed}"
        # A moment of the work rather than of the clock, so that kills land in it however busy the machine is.
        if not killed(data, out, files=chance.randrange(part_files), pause=chance.uniform(0, 0.02)):
            assert tree(out) == expected
            shutil.rmtree(out)
            continue
        landed += 1
        if (out / "manifest.json").exists():
            parts = IndexDirectory.open(out, verify=True).manifest.parts
            begun_but_unfinished += len(parts) < -(-pictures // 16)
        run_stub_build(data, out)
        assert tree(out) == expected
        shutil.rmtree(out)
    return begun_but_unfinished


def killed(data: Path, out: Path, *, files: int, pause: float) -> bool:
    """Kill a build some time after it has written ``files`` files; return whether it was still running."""
    command = [sys.executable, "-m", "tests.fixtures.stub_build", str(data), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        while process.poll() is None and len(list(out.rglob("part-*"))) < files:
            time.sleep(0.001)
        time.sleep(pause)
        process.kill()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


def test_killed_at_random_moments(tmp_path: Path) -> None:
    assert kill_at_random_moments(tmp_path, kills=8, pictures=60) >= 2


@pytest.mark.slow
def test_killed_at_fifty_random_moments(tmp_path: Path) -> None:
    assert kill_at_random_moments(tmp_path, kills=50, pictures=400) >= 25
