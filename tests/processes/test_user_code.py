"""Processes that a user's function starts end with the process that called it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

import pytest

from goldwatch.base import user_code as usercode
from goldwatch.base.errors import NotComparable
from goldwatch.base.pool import Child

# One in the group, one that is a daemon: its parent ends at once, in a session of its own.
_STARTS = """
import os, signal, subprocess, sys
def start(words):
    made = [subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid]
    reader, writer = os.pipe()
    if not os.fork():
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        os.write(writer, b"%d" % os.getpid())
        while True:
            signal.pause()
    made.append(int(os.read(reader, 20)))
    with open(__file__ + ".pids", "w") as stream:
        stream.write(" ".join(map(str, made)))
    return eval(words)
"""


def start(script, words):
    return usercode.run_user(script, "start", words)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "starts.py"
    path.write_text(_STARTS)
    return str(path)


def started(script):
    with contextlib.suppress(FileNotFoundError), open(script + ".pids", encoding="ascii") as stream:
        return stream.read().split()
    return []


def living(script):
    pids = started(script)
    assert len(pids) == 2
    return [pid for pid in pids if os.path.exists("/proc/%s" % pid)]


def test_user_processes_end_when_the_calling_process_is_killed(script, until):
    caller = Child()
    try:
        assert caller.call((usercode.call_user, script, start, "7")) == 7
        assert len(living(script)) == 2
        os.kill(caller.pid, signal.SIGKILL)
        until(lambda: not living(script))
    finally:
        caller.close()


def test_user_processes_end_when_told_to_stop(script):
    assert usercode.call_user(script, start, "7") == 7
    usercode.stop_user_code()
    assert not living(script)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("os._exit(3)", r"exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("os.killpg(0, signal.SIGKILL)", "signal 9"),
        ("os.killpg(0, signal.SIGSTOP)", "did not end within"),
        (
            "[signal.signal(number, signal.SIG_IGN) for number in (1, 2, 15)] and signal.pause()",
            "did not end within",
        ),
    ],
)
def test_user_processes_end_when_the_function_crashes_or_hangs(
    script, words, said, monkeypatch, until
):
    class Timer(threading.Timer):
        """Its second begins when the function has started its processes, however late that is."""

        def run(self):
            until(lambda: len(started(script)) == 2)
            super().run()

    monkeypatch.setattr(usercode, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(threading, "Timer", Timer)
    with pytest.raises(NotComparable, match=said):
        usercode.call_user(script, start, words)
    assert not living(script)


@pytest.mark.parametrize("first", [usercode.run_under_guard, usercode._begin])
def test_a_user_function_killed_at_its_start_is_called_again(script, monkeypatch, first):
    """As one that the system killed: the user's code has no part in that, and is called in another
    one.
    """
    call, killed, left = Child.call, [], [1]

    def kill(child, function):
        if function[0] is first and left[0]:
            left[0] -= 1
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        return call(child, function)

    monkeypatch.setattr(Child, "call", kill)
    assert usercode.call_user(script, start, "7") == 7 and len(killed) == 1
    usercode.stop_user_code()
    left[0] = 3
    with pytest.raises(
        NotComparable,
        match="starts.py was not called, its process ended 3 times while it started .signal 9.$",
    ):
        usercode.call_user(script, start, "7")
    assert len(killed) == 4 and not any(os.path.exists("/proc/%d" % pid) for pid in killed)
    assert usercode.call_user(script, start, "8") == 8, "those that died are forgotten"
    usercode.stop_user_code()


def test_a_user_process_that_cannot_be_started_is_reported(script, monkeypatch):
    def refuse(child, function):
        raise OSError(11, "Resource temporarily unavailable")

    said = (
        "starts.py cannot be called, its process cannot be started: Resource temporarily "
        "unavailable$"
    )
    with monkeypatch.context() as patched, pytest.raises(NotComparable, match=said):
        patched.setattr(Child, "call", refuse)
        usercode.call_user(script, start, "7")
    assert usercode.call_user(script, start, "7") == 7
    usercode.stop_user_code()


def test_a_call_ends_even_when_the_guarding_process_is_killed(tmp_path):
    """What was started may stay then, but holds nothing that anybody waits for."""
    script, note = tmp_path / "plain.py", tmp_path / "pid"
    script.write_text("import os, signal, subprocess\ndef start(words):\n    exec(words)\n")
    words = (
        "open(%r, 'w').write(str(subprocess.Popen(['sleep', '1000'], close_fds=False).pid))"
        % str(note)
    )
    with pytest.raises(NotComparable, match="signal 9"):
        usercode.call_user(
            str(script), start, words + "; os.kill(os.getppid(), signal.SIGKILL); signal.pause()"
        )
    os.kill(int(note.read_text()), signal.SIGKILL)


def test_a_file_that_changes_within_a_second_is_imported_anew(tmp_path, monkeypatch):
    """Its size is the same too; Python would take the bytecode that it wrote of the first one."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    script = tmp_path / "own.py"
    for number in (1, 2):
        script.write_text("def value():\n    return %d\n" % number)
        os.utime(str(script), ns=(0, 10**18 + number))
        assert usercode.run_user(str(script), "value") == (True, number)
