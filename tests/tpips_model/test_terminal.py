"""A command ends with one line, whatever goes wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tpips_model.errors import TpipsError
from tpips_model.terminal import INTERRUPTED, run_command


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
    ],
)
def test_faults(error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=f"^{status}$"):
        run_command(raising(error))
    assert capsys.readouterr().err == line


def test_our_own_faults_are_shown_whole() -> None:
    with pytest.raises(AssertionError, match="a bug"):
        run_command(raising(AssertionError("a bug")))


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
