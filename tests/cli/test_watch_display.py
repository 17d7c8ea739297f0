from __future__ import annotations

import sys

import pytest

from goldwatch.cli import printing, progress
from goldwatch.cli.printing import show_status
from goldwatch.cli.progress import ProgressBar
from goldwatch.cli.watch_display import LiveDisplay, progress_text
from goldwatch.metrics.row import Row
from goldwatch.run.watch_progress import WatchProgress


def row(number, verdict):
    op = "op%d" % number
    return Row(
        index=number,
        op=op,
        op_type="Relu",
        tensor=op + ":output:0",
        kind="output",
        verdict=verdict,
        reason="why",
    )


@pytest.mark.parametrize(("terminal", "told"), [(True, 20), (False, 50)])
def test_a_terminal_is_not_flooded_with_failing_rows(terminal, told, capsys, monkeypatch):
    monkeypatch.setattr(progress, "is_terminal", lambda stream: terminal and stream is sys.stderr)
    with LiveDisplay(quiet=False) as display:
        for number in range(50):
            display.on_row(row(number, "fail"))
            display.on_row(row(number, "pass"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("FAIL op") for line in lines] == [True] * told + [False] * (
        len(lines) - told
    )
    assert len(lines) == told + terminal and (not terminal or "further failing rows" in lines[-1])


@pytest.mark.parametrize("columns", [12, 20, 40, 80])
def test_a_line_of_progress_fits_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setattr(progress, "columns_of", lambda stream: columns)
    monkeypatch.setattr(printing, "columns_of", lambda stream: columns)
    for done in (0, 16, 2000):
        show_status(progress.bar_text("planning and comparing", done, 2000))
        line = capsys.readouterr().err[len("\r\x1b[K") :]
        assert len(line) < columns and str(done)[:3] in line and ("[" in line) == (columns >= 80)


@pytest.mark.parametrize("columns", [10, 39, 79, 131])
@pytest.mark.parametrize("first", [None, row(7, "fail"), row(10**30, "fail")])
def test_the_live_line_fits_and_keeps_failures_and_the_first_divergence(columns, first):
    text = progress_text(WatchProgress(12345, 321, 12, 4096, 10**9, 60.0, first), 123.4, columns)
    assert len(text) <= columns and (columns < 39 or text.startswith("321 failed"))
    assert (
        columns < 39
        or first is None
        or ("; first op" in text and text.endswith(("put:0", "op7", "0000")))
    )
    assert columns < 79 or first is not None or "MB/s" in text
    told = progress_text(
        WatchProgress(12345, 321, 12, 4096, 10**9, 60.0, first, 20), 123.4, columns
    )
    assert len(told) <= columns and (columns < 39 or told.startswith("321 failed (20 provisional)"))


@pytest.mark.parametrize("provisional", [0, 20])
@pytest.mark.parametrize("columns", [50, 80, 131])
def test_the_live_line_shows_arrived_ops_and_the_first_failing_op(columns, provisional):
    first = row(7, "fail")
    text = progress_text(
        WatchProgress(12345, 321, 12, 4096, 10**9, 60.0, first, provisional, (1200, 16000)),
        123.4,
        columns,
    )
    assert (
        len(text) <= columns
        and text.startswith("321 failed")
        and text.endswith(("; first op7:output:0", "; first op7"))
    )
    assert "1200 of 16000 ops" in text or (columns == 50 and "1200/16000 ops" in text)
    nothing = progress_text(WatchProgress(40, 0, 0, 0, 0, 1.0, None, 0, (0, 340)), 0.0, 50)
    assert nothing.startswith("0 failed, 0 of 340 ops, 40 rows")


@pytest.fixture
def on_terminal(monkeypatch):
    """A live display on a terminal."""
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    return LiveDisplay(quiet=False)


def test_a_programs_output_starts_on_a_line_of_its_own(on_terminal, capsys):
    on_terminal.show("0 failed, 3 rows")
    with on_terminal.beside(b"step 1\n"):
        sys.stderr.write("step 1\n")
    on_terminal.show("0 failed, 4 rows")
    # The line is taken away before the output, and drawn anew behind it.
    assert (
        capsys.readouterr().err
        == "\r\x1b[K0 failed, 3 rows\r\x1b[Kstep 1\n\r\x1b[K0 failed, 4 rows"
    )


def test_nothing_is_drawn_behind_a_programs_unfinished_line(on_terminal, capsys):
    with on_terminal.beside(b"loading"):
        sys.stderr.write("loading")
    on_terminal.show("0 failed")
    on_terminal.say("FAIL op1")
    on_terminal.show("1 failed")
    assert capsys.readouterr().err == "loading\nFAIL op1\n\r\x1b[K1 failed"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def standing(rows, ops):
    return WatchProgress(rows, 2, 0, 0, 0, 1.0, None, 0, ops)


def test_the_log_of_a_watch_has_a_line_every_ten_seconds(clock, capsys):
    with LiveDisplay(quiet=False) as display:
        for second in range(31):
            clock.now = 100.0 + second
            display.on_progress(standing(4 * second, (second, 40)))
    lines = capsys.readouterr().err.splitlines()
    assert [line[: len("2 failed, 10 of 40 ops")] for line in lines] == [
        "2 failed, %d of 40 ops" % second for second in (10, 20, 30)
    ]


def test_an_idle_watch_adds_no_lines_to_a_log(clock, capsys):
    with LiveDisplay(quiet=False) as display:
        for _ in range(100):
            clock.now += 10.0
            display.on_progress(standing(4, (1, 40)))
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("total", "line"), [(40, "reading: 20 of 40 (50 %)"), (0, "reading: 20 so")]
)
def test_the_log_of_a_long_task_has_a_line_every_ten_seconds(total, line, clock, capsys):
    with ProgressBar("reading") as bar:
        for second in range(21):
            clock.now = 100.0 + second
            bar.update(second, total)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[1].startswith(line) and "\x1b" not in lines[1]


def test_a_short_task_or_a_quiet_one_logs_nothing(clock, capsys):
    with ProgressBar("reading") as bar, ProgressBar("writing", quiet=True) as silent:
        for second in range(100):
            silent.update(second, 100)
            clock.now += 1.0
            if second < 9:
                bar.show("part %d" % second, second, 100)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_new_stage_at_once_and_is_cleared_at_the_end(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    with ProgressBar("reading") as bar:
        bar.show("reading", 1, 4)
        bar.show("reading", 2, 4)
        bar.show("judging", 0, 0)
    shown = capsys.readouterr().err
    assert "1/4" in shown and "2/4" not in shown and "judging ..." in shown
    assert shown.endswith("\r\x1b[K")
