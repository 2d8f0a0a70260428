"""Ctrl-C while a command's libraries are still being imported is one line, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Raises what Ctrl-C raises, where a library is imported.
PROGRAM = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {library!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ["command", "--help"]
from {module} import {function}
{function}()
"""


@pytest.mark.parametrize("library", ["numpy", "typer", "tpips_model", "tpips_model.terminal"])
@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("apps.entry_points", "index"),
        ("apps.entry_points", "app"),
        ("apps.entry_points", "serve"),
        ("train.command_line", "main"),
    ],
)
def test_an_interrupt_while_importing_ends_with_one_line(module: str, function: str, library: str) -> None:
    program = PROGRAM.format(module=module, function=function, library=library)
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr, ran.stdout) == (130, "interrupted\n", "")


@pytest.mark.parametrize("call", ["apps.entry_points import index", "train.command_line import main"])
def test_without_an_interrupt_it_is_the_command(call: str) -> None:
    program = f"import sys; sys.argv = ['command', '--help']; from {call} as run; run()"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout
