"""Ctrl-C before, while and after a command runs is at most one line, exit status 130, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [
    ("apps.entry_points", "index"),
    ("apps.entry_points", "app"),
    ("apps.entry_points", "serve"),
    ("train.command_line", "main"),
]
# Ctrl-C where a library is imported: in the import system, or where a class is made, as Python 3.11 wraps it.
PROGRAM = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.{before})

class Named:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {library!r}:
            if {in_class}:
                type("Made", (), {{"field": Named()}})
            else:
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["command", "--help"]
from {module} import {function}
{function}()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("library", "in_class"), [("numpy", False), ("typer", True), ("tpips_model", False), ("tpips_model.terminal", True)]
)
@pytest.mark.parametrize(("module", "function"), COMMANDS)
def test_an_interrupt_while_importing_ends_with_one_line(
    module: str, function: str, library: str, in_class: bool
) -> None:
    names = {"module": module, "function": function, "library": library, "in_class": in_class}
    ran = run(PROGRAM.format(before="default_int_handler", **names))
    assert (ran.returncode, ran.stderr, ran.stdout) == (130, "interrupted\n", "")


@pytest.mark.parametrize(("module", "function"), [COMMANDS[0], COMMANDS[-1]])
def test_where_interrupts_are_ignored_they_stay_so(module: str, function: str) -> None:
    names = {"module": module, "function": function, "library": "typer", "in_class": True}
    ran = run(PROGRAM.format(before="SIG_IGN", **names))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout


@pytest.mark.parametrize("call", ["apps.entry_points import index", "train.command_line import main"])
def test_without_an_interrupt_it_is_the_command(call: str) -> None:
    ran = run(f"import sys; sys.argv = ['command', '--help']; from {call} as run; run()")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout


# A thread that is still waited for sends the signal; or Python does so, nearly last of all.
WAITED_FOR = """
ended = threading.Event()
def late():
    ended.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=late).start()
"""
LAST_OF_ALL = """
ended = threading.Event()
atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(("sent", "status", "line"), [(WAITED_FOR, 130, "interrupted\n"), (LAST_OF_ALL, 0, "")])
@pytest.mark.parametrize(("module", "function"), [COMMANDS[0], COMMANDS[-1]])
def test_an_interrupt_when_the_command_has_ended_is_no_traceback(
    module: str, function: str, sent: str, status: int, line: str
) -> None:
    ran = run(
        "import atexit, os, signal, sys, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"{sent}"
        "sys.argv = ['command', '--help']\n"
        f"from {module} import {function}\n"
        f"try:\n    {function}()\n"
        "finally:\n    ended.set()\n"
    )
    assert (ran.returncode, ran.stderr) == (status, line)
