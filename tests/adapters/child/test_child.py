"""The protocol between adapters and their child processes: messages, errors, signals, every kind of
end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading

import pytest

from goldwatch.adapters.child import parent
from goldwatch.adapters.child.outcome import Outcome, log_cause
from goldwatch.adapters.child.parent import OURS, Task, run_child
from goldwatch.adapters.child.signals import NotedSignals
from goldwatch.adapters.golden_folder import JOURNAL_FILE, sweep
from goldwatch.base.errors import EnvironmentProblem, InputError, Interrupted, UsageError

WORK = """
import os, signal, subprocess, sys, time
from goldwatch.base.errors import UsageError

def touch(path):
    open(path, "w").close()

def work(job, parent):
    return globals()[job["do"]](job, parent)

def tells(job, parent):
    parent.send(step=1, other="a")
    for done in range(5):
        parent.progress(done + 1, 5)
    parent.send(step=2)

def refuses(job, parent):
    raise UsageError("not so", hint="but so")

def raises(job, parent):
    print("loading")
    raise KeyError("Flux")

def masks(job, parent):
    try:
        raise ValueError("of the layer")
    except ValueError:
        import traceback
        traceback.print_exc()
    raise SystemError("returned NULL without setting an error")

def misses(job, parent):
    open(job["path"] + "/none/file", "w")

def aborts(job, parent):
    parent.send(done=1)
    sys.stderr.write("F0101 11:22:33.444444 12 net.cpp:12] Check failed: a == b\\n*** Check failure stack trace: ***\\n")
    sys.stderr.flush()
    os.abort()

def leaves(job, parent):
    sys.exit(3)

def counts(job, parent):
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(1))
    touch(job["ready"])
    while not got:
        time.sleep(0.01)
    parent.send(got=len(got))
    return 130

def goes_on(job, parent):
    parent.progress(1, 5)
    time.sleep(600)

def sleeps(job, parent):
    touch(job["ready"])
    time.sleep(600)

def resists(job, parent):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    parent.send(grandchild=child.pid)
    touch(job["ready"])
    time.sleep(600)

def forks(job, parent):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    parent.send(grandchild=pid)
"""  # noqa: E501


@pytest.fixture
def do(tmp_path, monkeypatch):
    """Run one function of WORK in a child."""
    (tmp_path / "the_work.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(name, progress=lambda done, total: None, python=sys.executable, **job):
        folder = tmp_path / "scratch"
        folder.mkdir(exist_ok=True)
        document = dict(job, do=name, ready=str(tmp_path / "ready"))
        return run_child(Task(python, "the_work", document), str(folder), progress)

    return run


@pytest.fixture
def when_ready(tmp_path, until):
    """Do something in another thread once the child is ready."""
    threads = []

    def start(action):
        def wait():
            until((tmp_path / "ready").exists)
            action()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def alive(pid):
    """Whether a process is there, and no zombie that somebody else has to reap."""
    try:
        with open("/proc/%d/stat" % pid) as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_last_message_of_each_kind_counts(do):
    seen = []
    outcome = do("tells", lambda *pair: seen.append(pair))
    assert (
        outcome.returncode == 0
        and outcome.messages["step"] == 2
        and outcome.messages["other"] == "a"
    )
    assert outcome.messages["progress"] == [5, 5] and not outcome.interrupted and not outcome.died


def test_a_childs_goldwatch_error_arrives_with_its_kind_and_hint(do):
    error = do("refuses").problem("it", "")
    assert isinstance(error, UsageError) and (error.message, error.hint) == ("not so", "but so")


def test_an_exception_in_the_child_is_reported_with_its_place(do):
    """Traceback lines begin with "File", which is no fatal line of glog's."""
    error = do("raises").problem("caffe", "look at it")
    assert isinstance(error, InputError) and error.hint == "look at it"
    assert (
        error.message.startswith("caffe raised KeyError: 'Flux' (")
        and "the_work.py, line " in error.message
    )
    assert error.message.endswith("in raises)")


def test_an_exception_hidden_by_a_system_error_is_reported(do):
    message = do("masks").problem("caffe", "").message
    assert "SystemError" not in message and "ValueError: of the layer" in message


def test_a_missing_file_in_the_child_is_reported_by_its_path(do, tmp_path):
    error = do("misses", path=str(tmp_path)).problem("it", "")
    assert (
        isinstance(error, EnvironmentProblem)
        and error.message == "%s/none/file: No such file or directory" % tmp_path
    )


def test_a_fatal_check_is_reported_and_earlier_messages_are_kept(do):
    outcome = do("aborts")
    assert outcome.died and outcome.messages == {"done": 1}
    message = outcome.problem("caffe", "").message
    assert (
        message.startswith("caffe ended (killed by SIGABRT): F0101")
        and "Check failed: a == b" in message
    )


def test_an_exit_code_is_not_taken_for_a_crash(do):
    outcome = do("leaves")
    assert (
        outcome.returncode == 3
        and not outcome.died
        and outcome.problem("it", "").message == "it ended (exit code 3): it said nothing"
    )


def test_a_kill_is_reported_with_a_hint_at_memory():
    error = Outcome(-9, {}).problem("caffe", "")
    assert (
        isinstance(error, EnvironmentProblem)
        and "SIGKILL" in error.message
        and "memory" in error.hint
    )


def test_the_cause_is_found_in_the_childs_log():
    trace = (
        'noise\nTraceback (most recent call last):\n  File "a.py", line 7, in setup\n    '
        "x\nNameError: name\nafter\n"
    )
    assert log_cause(trace) == ["NameError: name (a.py, line 7, in setup)"]
    assert log_cause("File not found\nFinding things\n") == []
    assert (
        Outcome(1, {}, log="File not found\n\nFinding").problem("it", "").message
        == "it ended (exit code 1): File not found / Finding"
    )
    assert log_cause("a\nF20240101 11:22:33.4 1 x.cpp:1] Unknown layer\nb") == [
        "F20240101 11:22:33.4 1 x.cpp:1] Unknown layer"
    ]


def test_a_python_that_does_not_exist_is_reported(do):
    with pytest.raises(EnvironmentProblem, match="cannot be started"):
        do("tells", python="/none/python")


@pytest.fixture
def asked(monkeypatch):
    """The signals that the child's group was sent."""
    numbers = []
    ask = parent._Child._send

    def note(child, number, next_s):
        numbers.append(number)
        ask(child, number, next_s)

    monkeypatch.setattr(parent._Child, "_send", note)
    return numbers


def test_ctrl_c_is_passed_on_to_the_child_once(do, when_ready, asked):
    when_ready(interrupt)
    outcome = do("counts")
    # What is left of its group when it has ended is killed.
    assert asked == [signal.SIGINT, signal.SIGKILL]
    assert outcome.interrupted and outcome.returncode == 130 and outcome.messages == {"got": 1}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def born(monkeypatch):
    """The numbers of the children that were started; with None in front, Ctrl-C comes when one is
    there and nobody knows it yet.
    """
    real = parent.subprocess.Popen
    numbers = []

    def popen(*values, **keywords):
        child = real(*values, **keywords)
        numbers.append(child.pid)
        if numbers[0] is None:
            interrupt()
        return child

    monkeypatch.setattr(parent.subprocess, "Popen", popen)
    return numbers


def test_ctrl_c_while_the_child_starts_is_not_lost(do, born):
    born.append(None)
    outcome = do("sleeps")
    # Not even a Python that is still starting answers with a traceback.
    assert (
        outcome.interrupted
        and outcome.returncode == 130
        and outcome.log == ""
        and not alive(born[1])
    )


def test_a_child_that_ignores_ctrl_c_is_killed_with_its_group(do, when_ready, monkeypatch, until):
    monkeypatch.setattr(parent, "INTERRUPT_S", 0.1)
    monkeypatch.setattr(parent, "TERMINATE_S", 0.1)
    when_ready(interrupt)
    outcome = do("resists")
    assert outcome.interrupted and outcome.returncode == -signal.SIGKILL
    until(lambda: not alive(outcome.messages["grandchild"]))


def test_a_second_ctrl_c_kills_the_child(do, when_ready, until, asked):
    def twice():
        interrupt()
        until(lambda: asked)
        interrupt()

    when_ready(twice)
    assert do("resists").returncode == -signal.SIGKILL


def test_sigterm_ends_the_child_and_then_this_process(do, when_ready):
    when_ready(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as caught:
        do("sleeps")
    assert caught.value.code == 128 + signal.SIGTERM


def test_an_error_in_the_caller_ends_the_child(do, born):
    def progress(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        do("goes_on", progress)
    assert not alive(born[0])


def test_a_program_that_the_child_leaves_running_does_not_delay_the_end(do):
    outcome = do("forks")
    os.kill(outcome.messages["grandchild"], signal.SIGKILL)
    assert outcome.returncode == 0 and not outcome.interrupted


def test_the_childs_output_is_shown_as_ours(tmp_path, monkeypatch, capfd):
    (tmp_path / "the_work.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = run_child(
        Task(sys.executable, "the_work", {"do": "raises"}, output=OURS), str(tmp_path)
    )
    captured = capfd.readouterr()
    assert (
        captured.out == "loading\n"
        and outcome.log == ""
        and "KeyError: 'Flux'" in outcome.messages["exception"]["trace"]
    )


def test_signals_can_be_noted_outside_of_the_main_thread():
    done = []

    def enter():
        with NotedSignals() as signals:
            done.append(signals.received)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert done == [[]]


def test_a_noted_ctrl_c_is_passed_on():
    with NotedSignals() as signals:
        interrupt()
    with pytest.raises(Interrupted):
        signals.pass_on()


def test_a_folder_that_another_writer_locks_is_not_cleaned_up(tmp_path):
    (tmp_path / JOURNAL_FILE).write_text("a.0.1700000000000000.npy\n")
    (tmp_path / "a.0.1700000000000000.npy").write_text("")
    with open(str(tmp_path / JOURNAL_FILE)) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sweep(str(tmp_path), 1)
        assert len(os.listdir(str(tmp_path))) == 2
    sweep(str(tmp_path), 1)
    assert not tmp_path.exists()


@pytest.mark.parametrize(("module", "name"), [("tempfile", "mkdtemp"), ("shutil", "rmtree")])
def test_a_scratch_folder_is_removed_at_whatever_moment_ctrl_c_comes(
    tmp_path, monkeypatch, module, name
):
    """While it is made, while it is removed."""
    from goldwatch.adapters.tensorflow import parent as tensorflow_parent

    real = getattr(getattr(tensorflow_parent, module), name)

    def interrupted(*values, **keywords):
        interrupt()
        return real(*values, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(getattr(tensorflow_parent, module), name, interrupted)
        with pytest.raises(Interrupted), tensorflow_parent.scratch_folder(str(tmp_path / "g")):
            assert name == "rmtree"
    assert os.listdir(str(tmp_path)) == []


def test_the_printed_import_error_replaces_boosts_system_error() -> None:
    log = 'Traceback (most recent call last):\n  File "<frozen importlib>", line 1, in find\n'
    log += "ModuleNotFoundError: No module named 'mine'\n"
    raised = {
        "text": "SystemError: <Boost.Python.function object> returned NULL without setting an "
        "error",
        "where": "",
        "trace": "",
    }
    told = Outcome(1, {"exception": raised}, log=log).problem("caffe", "a hint").message
    assert "No module named 'mine'" in told and "SystemError" not in told
    # Without anything printed it is all there is, and other exceptions stay.
    assert "returned NULL" in Outcome(1, {"exception": raised}).problem("caffe", "a hint").message
    other = dict(raised, text="ValueError: seven")
    assert (
        "ValueError: seven / ModuleNotFoundError"
        in Outcome(1, {"exception": other}, log=log).problem("caffe", "a hint").message
    )
