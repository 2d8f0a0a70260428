"""A log gets few whole lines of a progress bar, and a terminal gets tqdm's."""

from __future__ import annotations

import io
import re

import pytest

from tpips_model import progress_bar
from tpips_model.progress_bar import ProgressBar


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only when a test says so, for the bar and for tqdm."""
    now = [1000.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then_with_rate_and_end(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar(total=1000, desc="indexing", unit=" images", file=log, dynamic_ncols=True) as bar:
        for _ in range(500):
            clock[0] += 0.2
            bar.set_postfix_str("longest: a.tar 3 s", refresh=False)
            bar.update()
        bar.refresh()
        now = log.getvalue()
    assert "\r" not in log.getvalue()
    lines = log.getvalue().splitlines()
    assert len(now.splitlines()) == 3, "100 seconds, a line every 30"
    assert re.fullmatch(
        r"indexing: +15% 15\d/1000 \[00:30<0\d:\d\d, +5\.\d\d images/s, "
        r"ends \d{4}-\d\d-\d\d \d\d:\d\d, longest: a\.tar 3 s\]",
        lines[0],
    )
    assert re.fullmatch(r"indexing: +50% 500/1000 \[01:40<01:40, +5\.00 images/s, longest: a\.tar 3 s\]", lines[-1])
    assert len(lines) == 4


def test_a_log_gets_one_line_of_what_is_short_and_none_of_what_leaves_nothing(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar(total=3, desc="merging", unit=" images", file=log) as bar:
        clock[0] += 1.5
        bar.update(3)
    assert log.getvalue() == "merging: 100% 3/3 [00:01<00:00,  2.00 images/s]\n"
    for options in ({"leave": False}, {"disable": True}):
        quiet = io.StringIO()
        with ProgressBar(total=3, desc="fetching", file=quiet, **options) as bar:
            bar.update(3)
        assert quiet.getvalue() == ""


def test_a_log_gets_no_line_of_what_had_nothing_to_do(clock: list[float]) -> None:
    for options in ({"total": 0}, {"total": 5}, {}, {"total": 9, "initial": 4}):
        log = io.StringIO()
        with ProgressBar(desc="compacting", unit=" images", file=log, **options):
            clock[0] += 2
        assert log.getvalue() == ""
    assert list(ProgressBar([], "reading", 0, file=log)) == []
    assert log.getvalue() == ""


def test_two_bars_at_once_in_a_log_do_not_move_its_cursor(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar(total=2, desc="outer", file=log) as outer, ProgressBar(total=2, desc="inner", file=log) as inner:
        clock[0] += 40
        inner.update()
        outer.update()
    assert [line[:6] for line in log.getvalue().splitlines()] == ["inner:", "outer:", "inner:", "outer:"]
    assert "\x1b" not in log.getvalue()


def test_without_a_total_a_line_has_what_is_known(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar(desc="reading", unit=" images", file=log) as bar:
        clock[0] += 31
        bar.update(62)
    first, last = log.getvalue().splitlines()
    assert first.startswith("reading: 62 images [00:31")
    assert last == "reading: 62 images [00:31,  2.00 images/s]"


def test_a_terminal_gets_the_bar_that_is_drawn_over_itself(clock: list[float]) -> None:
    terminal = Terminal()
    with ProgressBar(total=10, desc="indexing", file=terminal) as bar:
        for _ in range(10):
            clock[0] += 1
            bar.update()
    assert terminal.getvalue().count("\r") > 10
    assert "█" in terminal.getvalue() or "#" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_a_message_stands_in_a_line_of_its_own(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar(total=4, desc="step", file=log, tells_end=False) as bar:
        clock[0] += 31
        bar.update()
        bar.write("a message", file=log)
        clock[0] += 31
        bar.update()
    first, message, second, _ = log.getvalue().split("\n")[:4]
    assert (first[:4], message, second[:4]) == ("step", "a message", "step")
    assert "ends" not in log.getvalue()
    assert "\r" not in log.getvalue()
