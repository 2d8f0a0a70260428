"""A command ends with one line, whatever goes wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tpips_model.errors import TpipsError
from tpips_model.terminal import INTERRUPTED, began_as_interrupt, run_command

FULL_DISK = "interrupted, and then: [Errno 28] No space left\n"


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (TpipsError("no such\n index \x1b[31m'a'"), 1, "error: no such index �[31m'a'\n"),
        (PermissionError(13, "Permission denied", "out"), 1, "error: [Errno 13] Permission denied: 'out'\n"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (caused(RuntimeError("Error calling __set_name__"), KeyboardInterrupt()), INTERRUPTED, "interrupted\n"),
        (caused(ImportError("x"), caused(ValueError(), KeyboardInterrupt())), INTERRUPTED, "interrupted\n"),
        (caused(OSError(28, "No space left"), KeyboardInterrupt()), INTERRUPTED, FULL_DISK),
    ],
)
def test_faults(error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=f"^{status}$"):
        run_command(raising(error))
    assert capsys.readouterr().err == line


def test_our_own_faults_are_shown_whole() -> None:
    with pytest.raises(AssertionError, match="a bug"):
        run_command(raising(AssertionError("a bug")))


def test_what_became_of_an_interrupt_is_told_from_what_did_not() -> None:
    circle = ValueError()
    circle.__context__ = caused(RuntimeError(), circle)
    assert not began_as_interrupt(circle)
    context = ValueError("while cleaning up")
    context.__context__ = KeyboardInterrupt()
    assert began_as_interrupt(context)


def test_interrupts_are_raised_while_a_command_runs_and_handled_as_before_afterwards() -> None:
    def handler(number: int, frame: object) -> None:
        raise AssertionError("not while the command runs")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(SystemExit, match=f"^{INTERRUPTED}$"):
            run_command(lambda: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        run_command(lambda: signal.raise_signal(signal.SIGINT))  # as behind nohup
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reader_that_has_had_enough() -> None:
    """As in ``tpips-index info --errors … | head -1``."""
    program = "from tpips_model.terminal import run_command; run_command(lambda: print('line\\n' * 99_999, flush=True))"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1
