"""Signals during finalisers are not lost, and interrupts are told from other errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from goldwatch.base.interrupts import (
    caused_by_interrupt,
    interrupt_state,
    terminations_interrupt,
    uninterrupted,
)
from goldwatch.run.stop_signals import Signals

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = """
import os, signal, sys, time, weakref
from goldwatch.base.interrupts import handle_interrupts, handle_termination
number = getattr(signal, sys.argv[2])
if sys.argv[1] == "heeded":
    handle_interrupts()
    handle_termination()
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

def callback(name, file_name):
    # As the library's own: a function of this name in a file of that name, called at the end of an object's life.
    space = {"end": lambda: os.kill(os.getpid(), number)}
    exec(compile("def %s(_):\\n    end()\\n    sum(range(9))\\n" % name, file_name, "exec"), space)
    return space[name]

class Lock:
    pass

if sys.argv[3] == "__del__":
    Lock.__del__ = callback("__del__", "any.py")
lock = Lock()
reference = weakref.ref(lock, callback(*sys.argv[3:5])) if sys.argv[4:] else None
try:
    del lock
    for _ in range(1000):
        time.sleep(0.005)
    print("lost")
except (KeyboardInterrupt, SystemExit):
    print("heeded")
"""  # noqa: E501


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("how", ["heeded", "lost"])
@pytest.mark.parametrize(
    "where",
    [
        "cb <frozen importlib._bootstrap>",
        "remove <frozen importlib._bootstrap>",
        "_lock_unlock_module <frozen importlib._bootstrap>",
        "register lib/abc.py",
        "remove lib/weakref.py",
        "__call__ lib/weakref.py",
        "_remove lib/_weakrefset.py",
        "__del__",
    ],
)
def test_a_signal_during_an_objects_finaliser_is_not_lost(where, how, number):
    """Python itself loses it: that is why."""
    words = [sys.executable, "-c", SCRIPT, how, number, *where.split(" ", 1)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    assert done.stdout.decode().split() == [how]


def test_a_watchs_second_signal_is_not_lost():
    class Closing:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(9))

    names = []
    with pytest.raises(KeyboardInterrupt), Signals(names.append):
        Closing()
        assert names == ["SIGINT"]
        Closing()
        threading.Event().wait(30)


def while_handling(inner, outer):
    outer.__context__ = inner
    return outer


def test_an_error_caused_by_an_interrupt_is_recognised():
    assert caused_by_interrupt(KeyboardInterrupt())
    assert caused_by_interrupt(
        while_handling(KeyboardInterrupt(), SystemError("returned a result with an error set"))
    )
    assert caused_by_interrupt(
        while_handling(while_handling(KeyboardInterrupt(), OSError()), ValueError())
    )
    # Tests before this one may have raised interrupts in its process.
    now = interrupt_state()
    assert not caused_by_interrupt(while_handling(OSError(), ValueError()), now)
    assert not caused_by_interrupt(None)


def test_an_interrupt_handled_before_the_entry_is_not_a_cause():
    handled = KeyboardInterrupt()
    try:
        raise handled
    except KeyboardInterrupt:
        entered = interrupt_state()
    error = while_handling(while_handling(handled, OSError()), ValueError())
    assert caused_by_interrupt(error) and not caused_by_interrupt(error, entered)
    assert caused_by_interrupt(
        while_handling(while_handling(handled, KeyboardInterrupt()), OSError()), entered
    )
    assert caused_by_interrupt(handled, entered)


def test_a_signal_outside_of_finalisers_is_raised_at_once():
    code = "import os, signal\nfrom goldwatch.base.interrupts import handle_interrupts\n"
    code += "handle_interrupts()\n"
    code += (
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(9))\nexcept "
        "KeyboardInterrupt:\n    print('raised')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.decode().split() == ["raised"]


def test_another_programs_signal_handler_is_kept():
    code = (
        "import signal\nfrom goldwatch.base.interrupts import "
        "handle_interrupts\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    )
    code += "handle_interrupts()\nprint(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.decode().split() == ["True"]


def test_an_error_that_hides_its_interrupt_is_recognised():
    code = (
        "import os, signal, sys\nfrom goldwatch.base.interrupts import caused_by_interrupt, "
        "interrupt_state, handle_interrupts\nhandle_interrupts()\n"
    )
    code += "print(caused_by_interrupt(ImportError()))\n"
    code += (
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(9))\nexcept "
        "KeyboardInterrupt:\n    pass\n"
    )
    code += (
        "print(caused_by_interrupt(ImportError()), caused_by_interrupt(None), "
        "caused_by_interrupt(OSError(), interrupt_state()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.decode().split() == ["False", "True", "False", "False"]


def interrupted_at_exit(before):
    code = (
        "import atexit, os, signal, sys, threading\nfrom goldwatch import cli\nfrom "
        "goldwatch.__main__ import main\n"
    )
    code += (
        "atexit.register(lambda: [os.kill(os.getpid(), signal.SIGINT), sum(range(9))])\n" + before
    )
    done = subprocess.run(
        [sys.executable, "-c", code + "main()\n"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_ctrl_c_while_python_exits_does_not_change_the_exit_code():
    assert interrupted_at_exit("cli.main = lambda: print('done')\n") == (0, "done\n", "")
    assert interrupted_at_exit("cli.main = lambda: sys.exit(3)\n") == (3, "", "")


@pytest.mark.parametrize(
    "end",
    [
        "raise KeyboardInterrupt",
        "sys.exit(130)",
        "threading.Thread(target=threading.Event().wait).start()",
    ],
)
def test_a_second_ctrl_c_ends_waiting_at_exit(end):
    """A thread that never ends would have Python wait for ever: here its end is the atexit
    function's.
    """
    code = "def command():\n    %s\ncli.main = command\nthreading._shutdown = lambda: None\n" % end
    returncode, _, stderr = interrupted_at_exit(code)
    assert returncode == -signal.SIGINT and stderr in ("", "goldwatch: interrupted\n")


def test_ctrl_c_within_exec_exits_with_130(tmp_path):
    """As dataclasses and named tuples are made; Python itself would end ``python -m`` by the signal
    then.
    """
    (tmp_path / "program.py").write_text("from goldwatch.__main__ import main\nmain('commands')\n")
    (tmp_path / "commands.py").write_text(
        "def main():\n    exec('import os, signal\\nos.kill(os.getpid(), "
        "signal.SIGINT)\\nsum(range(9))')\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "program"], env=environment, stderr=subprocess.PIPE, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, b"goldwatch: interrupted\n")


@pytest.mark.parametrize("phase, step", [("end", 1), ("end", 13), ("start", 1), ("start", 13)])
def test_ctrl_c_at_any_bytecode_shows_no_traceback(phase, step):
    """No traceback, and the command's own exit code from a moment on that is a few bytecodes behind
    its end.
    """
    words = [
        sys.executable,
        os.path.join(HERE, "helpers", "interrupt_each_bytecode.py"),
        phase,
        "3",
        str(step),
    ]
    ends = json.loads(subprocess.check_output(words, timeout=600).decode())
    if phase == "start":
        # What comes before main's first bytecode is Python's; from 3.12 on it looks for signals a
        # little later.
        code, _ = ends.pop(0)
        assert sys.version_info < (3, 8) or code == (
            -signal.SIGINT if sys.version_info < (3, 12) else 130
        )
    codes = [code for code, _ in ends]
    first = codes.index(3)
    assert set(codes[:first]) == {130} and set(codes[first:]) == {3}
    assert len(codes) - first > 10
    assert {message.split("\n")[0] for _, message in ends[:first]} <= {"", "goldwatch: interrupted"}
    assert not any(message for _, message in ends[first:])


@pytest.mark.parametrize("kind", ["RuntimeError", "ImportError"])
def test_ctrl_c_that_an_import_turns_into_another_error_exits_with_130(tmp_path, kind):
    """As the body of a class with a descriptor does: whatever is named there raises
    RuntimeError.
    """
    (tmp_path / "click.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(9))\n"
        "except KeyboardInterrupt as error:\n    raise %s('broken') from error\n" % kind
    )
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", "limits"],
        env=environment,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, b"goldwatch: interrupted\n")


def test_ctrl_c_in_a_weakref_callback_during_imports_is_not_lost(tmp_path):
    """What is raised in a weak reference's callback is printed and forgotten."""
    (tmp_path / "click.py").write_text(
        "import os, signal, weakref\nclass Thing:\n    pass\nthing = Thing()\n"
        "reference = weakref.ref(thing, lambda _: [os.kill(os.getpid(), signal.SIGINT), "
        "sum(range(9))])\ndel thing\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "goldwatch", "limits"],
        env=environment,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, b"goldwatch: interrupted\n")


@pytest.mark.parametrize("module", ["goldwatch", "goldwatch.testing"])
def test_ctrl_c_as_main_is_called_exits_with_130(module):
    """There Python looks for signals before main has begun with its first line."""
    code = (
        "import runpy, sys\n"
        "def trace(frame, event, _):\n"
        "    if frame.f_code.co_name == 'main' and "
        "frame.f_code.co_filename.endswith('__main__.py'):\n"
        "        sys.settrace(None)\n"
        "        raise KeyboardInterrupt\n"
        "sys.argv[1:] = ['--help']\n"
        "sys.settrace(trace)\n"
        "runpy.run_module(%r, run_name='__main__')\n" % module
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"goldwatch: interrupted\n")


@pytest.mark.parametrize("inside", [True, False])
def test_an_interrupt_within_uninterrupted_is_raised_at_its_end(inside):
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            done.append("inner")
        done.append("outer")
        if inside:
            raise ValueError("hidden")
    assert (
        done == ["inner", "outer"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    with uninterrupted():
        pass


def test_an_interrupt_during_a_finaliser_is_raised_later():
    """Raised there, Python would drop it."""
    came = threading.Event()

    class Closing:
        def __del__(self):
            with uninterrupted():
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda number, frame: came.set())
    try:
        Closing()
        assert came.wait(30)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_process_interrupts_it_in_such_a_block(number) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), terminations_interrupt():
        os.kill(os.getpid(), number)
        for _ in range(1000):
            sum(range(9))
    assert signal.getsignal(number) is before
