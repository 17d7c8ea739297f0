"""A program's output is passed on completely and logged, beside the live line of a terminal."""

from __future__ import annotations

import contextlib
import os
import pty

import pytest

from goldwatch.device.launch.program import Program


@pytest.fixture
def run(tmp_path, until):
    """Runs a shell script to its end with its output on a descriptor; returns its log."""

    def call(script, target, beside=None):
        log = tmp_path / "program.log"
        more = {} if beside is None else {"beside": beside}
        with open(os.devnull, "wb") as null:
            program = Program(["sh", "-c", script], str(log), target, null.fileno(), **more)
            program.start()
            until(program.ended)
            program.close()
        return log.read_bytes()

    return call


@pytest.mark.parametrize("said, shown", [("a\\nb", b"a\nb\n"), ("a\\n", b"a\n"), ("", b"")])
def test_an_unfinished_last_line_is_ended_on_the_terminal_only(run, tmp_path, said, shown):
    with open(str(tmp_path / "out"), "wb") as out:
        log = run("printf '%s'" % said, out.fileno())
    assert (tmp_path / "out").read_bytes() == shown
    assert log == shown if said.endswith("n") else log == shown[:-1]


def test_output_on_a_terminal_is_written_around_the_live_line(run, tmp_path):
    entered = []

    @contextlib.contextmanager
    def beside(data):
        entered.append(data)
        yield

    leader, follower = pty.openpty()
    try:
        run("printf one", follower, beside)
        # A terminal may hand out a line in pieces.
        shown = os.read(leader, 100)
        while not shown.endswith(b"\n"):
            shown += os.read(leader, 100)
        assert b"".join(entered) == b"one\n" and shown == b"one\r\n"
        entered.clear()
        with open(str(tmp_path / "out"), "wb") as out:
            run("printf one", out.fileno(), beside)
        assert entered == []
    finally:
        os.close(leader)
        os.close(follower)


def test_processes_left_running_write_each_byte_to_the_log_once(tmp_path, until):
    """The log is handed on to a process of its own: of two readers of one pipe each would get a
    part.
    """
    log, go = tmp_path / "program.log", tmp_path / "go"
    # It writes before it is left and after.
    child = (
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); [ $i -eq 1500 ] && while [ "
        "! -e %s ]; do sleep 0.01; done; done" % go
    )
    with open(os.devnull, "wb") as null:
        program = Program(
            ["sh", "-c", "(%s) & exit 0" % child], str(log), null.fileno(), null.fileno()
        )
        program.start()
        until(lambda: program.document()["exit_code"] == 0)
        until(lambda: log.read_bytes().endswith(b"line 1499\n"))
        assert program.stopping(leave=True)
        program.close()
        go.write_text("")
        until(lambda: log.read_bytes().endswith(b"line 2999\n"))
    assert log.read_bytes() == b"".join(b"line %d\n" % number for number in range(3000))
