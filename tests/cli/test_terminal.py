"""compare on a terminal: lines fit, suspects come first, the last lines are verdict, culprit and
next command.
"""

from __future__ import annotations

import os
import shlex
import sys

import pytest
from in_process import run_here
from terminals import run_on_terminal


def words_for(folder, *more):
    return [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        "dump",
        "golden",
        "-f",
        "net.json",
        "-o",
        str(folder),
        *more,
    ]


def raw(words, cwd, **environment):
    """Return every byte that a command shows on a terminal, as text."""
    return run_on_terminal(words, cwd=cwd, env={**os.environ, **environment})[0].decode("utf-8")


def wide(line):
    return len(line.encode("gbk"))


@pytest.mark.parametrize("op_name", ["second", "scope/" * 30 + "conv", "层" * 25 + "/卷积"])
def test_names_fit_the_terminal_and_the_last_line_is_a_command_that_runs(
    op_name, make_network, on_terminal, tmp_path
):
    make_network(str(tmp_path), op_name=op_name)
    plain = run_here(words_for("piped"), tmp_path).stdout.splitlines()
    text, code = on_terminal(words_for("shown"), 80, cwd=str(tmp_path))
    lines = text.splitlines()
    assert code == 1 and max(map(wide, lines)) <= 80
    assert (
        plain[-3] == "fail: 3 ops, 5 rows: 3 pass, 1 fail, 1 absent as expected; 1 suspect"
        and plain[-3] in lines
    )
    assert plain[-2].startswith(op_name + " (Relu) is the first operator outside its limits")
    assert plain[-1].startswith("next: goldwatch compare-op ")
    start = max(number for number, line in enumerate(lines) if line.startswith("next: "))
    command = shlex.split("\n".join(lines[start:])[len("next: ") :].replace("\\\n", ""))
    assert command[-5:] == [op_name, "-f", "net.json", "-o", "shown/detail"]
    assert run_here([*command, "--rows", "none"], tmp_path).returncode in (0, 1)


def test_a_passing_run_proposes_a_next_command(make_network, tmp_path):
    make_network(str(tmp_path), wrong=False)
    lines = run_here(words_for("out"), tmp_path).stdout.splitlines()
    assert lines[-3:] == [
        "pass: 3 ops, 5 rows: 4 pass, 0 fail, 1 absent "
            "as expected", "No operator is outside its limits.",
        "next: goldwatch report out --html out/report.html",
    ]  # fmt: skip
    assert run_here(shlex.split(lines[-1])[1:], tmp_path).returncode == 0


@pytest.mark.parametrize(("table", "rows"), [("first", 4), ("all", 5), ("none", 0)])
def test_the_table_option_chooses_the_rows_shown(table, rows, network, tmp_path):
    out = run_here(words_for(tmp_path / "out", "--table", table), network).stdout
    assert (
        sum(
            line.split()[:1] in (["pass"], ["FAIL"], ["absent"], [">"]) for line in out.splitlines()
        )
        == rows
    )
    assert out.splitlines()[-1].startswith("next: ")


def test_colours_and_progress_appear_on_terminals_only(network, tmp_path):
    shown = raw(words_for(tmp_path / "a"), network, TERM="xterm", NO_COLOR="")
    assert "\x1b[31mFAIL" in shown and "\x1b[1;31mfail\x1b[0m: 3 ops" in shown
    stages = [
        "reading the model ...",
        "listing GOLDEN ...",
        "listing TARGET ...",
        "writing the result files [",
    ]
    places = [shown.index(stage) for stage in stages]
    assert places == sorted(places) and shown.index("verdict") > places[-1]
    for environment in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb", "NO_COLOR": ""}):
        text = raw(words_for(tmp_path / environment["TERM"]), network, **environment)
        assert "\x1b[3" not in text and ("\x1b" in text) == (environment["TERM"] != "dumb")
    assert (
        "..." not in raw(words_for(tmp_path / "q", "-q"), network, NO_COLOR="1").split("verdict")[0]
    )
    done = run_here(words_for(tmp_path / "p"), network)
    assert "\x1b" not in done.stdout + done.stderr and "listing" not in done.stderr


@pytest.mark.parametrize("command", ["compare", "watch"])
def test_a_quiet_command_prints_the_verdict_without_its_table(command, network, tmp_path):
    words = words_for(tmp_path / "q", "-q")
    words[words.index("compare")] = command
    words += ["--until-idle", "0.1"] if command == "watch" else []
    text = raw(words, network, NO_COLOR="1")
    assert "rel. Euclid" not in text and "rows:" in text and "next: goldwatch" in text
