from __future__ import annotations

import sys

import pytest

from goldwatch.cli import common, live_display, progress
from goldwatch.cli.common import show_status
from goldwatch.cli.live_display import LiveDisplay
from goldwatch.comparing.row import Row


def row(number, verdict):
    op = "op%d" % number
    return Row(index=number, op=op, op_type="Relu", tensor=op + ":output:0", kind="output", verdict=verdict, reason="why")


@pytest.mark.parametrize(("terminal", "told"), [(True, 20), (False, 50)])
def test_a_terminal_is_not_flooded_with_failing_rows(terminal, told, capsys, monkeypatch):
    monkeypatch.setattr(live_display, "is_terminal", lambda stream: terminal and stream is sys.stderr)
    with LiveDisplay(quiet=False) as display:
        for number in range(50):
            display.on_row(row(number, "fail"))
            display.on_row(row(number, "pass"))
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("FAIL op") for line in lines] == [True] * told + [False] * (len(lines) - told)
    assert len(lines) == told + terminal and (not terminal or "further failing rows" in lines[-1])


@pytest.mark.parametrize("columns", [12, 20, 40, 80])
def test_a_line_of_progress_fits_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setattr(progress, "columns_of", lambda stream: columns)
    monkeypatch.setattr(common, "columns_of", lambda stream: columns)
    for done in (0, 16, 2000):
        show_status(progress.bar_text("planning and comparing", done, 2000))
        line = capsys.readouterr().err[len("\r\x1b[K") :]
        assert len(line) < columns and str(done)[:3] in line and ("[" in line) == (columns >= 80)
