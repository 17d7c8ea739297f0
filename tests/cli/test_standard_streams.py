"""stdout and stderr that are closed, full, or no longer read."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

GOLDWATCH = "%s -m goldwatch" % shlex.quote(sys.executable)
COMMANDS = {
    "compare": ("compare dump golden -f net.json -o {out}", 1, "result.json"),
    "compare json": ("compare dump golden -f net.json -o {out} --format json", 1, "result.json"),
    "compare with files": (
        "compare dump golden -f net.json -o {out} --junit {out}.xml --markdown "
        "{out}/comment.md --csv {out}.csv --html {out}.html",
        1,
        "comment.md",
    ),
    "watch": ("watch dump golden -f net.json -o {out} --until-idle 0.2", 1, "result.json"),
    "inspect": ("inspect dump", 0, None),
    "config check": ("config check acl.json --format json", 0, None),
    "config check text": ("config check acl.json", 0, None),
    "config new": ("config new --for acl --dump-path dumps --model net", None, None),
    "golden tf commands": ("golden tf commands listing", 0, None),
    "golden caffe deinplace": ("golden caffe deinplace net.prototxt -o {out}.prototxt", 0, None),
    "help": ("--help", 0, None),
    "version": ("--version", 0, None),
    "help of a command": ("compare --help", 0, None),
    "error json": ("compare none none -o {out} --format json", 4, None),
}
#: Every command on a full stream, and of the ways to print each once on a closed one.
FULL = [(name, "/dev/full") for name in COMMANDS]
CLOSED = [(name, "&-") for name in ("compare with files", "watch", "help", "error json")]


def shell(folder, command):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=300,
    )


def code_of(name, network, out, redirection):
    arguments, _, written = COMMANDS[name]
    done = shell(
        network, "%s %s %s" % (GOLDWATCH, arguments.format(out=shlex.quote(str(out))), redirection)
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    if written is not None:
        assert os.path.getsize(os.path.join(str(out), written)) > 100
    return done


@pytest.mark.parametrize("name, place", FULL + CLOSED)
def test_an_unwritable_stdout_exits_with_4_and_a_sentence(name, place, network, tmp_path):
    done = code_of(name, network, tmp_path / "out", ">" + place)
    assert (
        done.returncode == 4 and "goldwatch: stdout: not everything could be printed" in done.stderr
    ), done.stderr


@pytest.mark.parametrize("name, place", FULL + CLOSED)
def test_an_unwritable_stderr_does_not_change_the_exit_code(name, place, network, tmp_path):
    code = COMMANDS[name][1]
    if code is None:
        code = code_of(name, network, tmp_path / "plain", "").returncode
    assert code_of(name, network, tmp_path / "out", "2>" + place).returncode == code


@pytest.mark.parametrize("redirection", [">&- 2>&-", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"])
def test_unwritable_stdout_and_stderr_exit_with_4(redirection, network, tmp_path):
    assert code_of("compare", network, tmp_path / "out", redirection).returncode == 4


def test_a_closed_pipe_exits_with_4_and_no_traceback(network, tmp_path):
    # More than a pipe holds, so that the writer meets the closed end.
    listing = tmp_path / "listing"
    lines = [
        "[%d.000]     100      Relu        scope/relu_%d:0" % (number, number)
        for number in range(2000)
    ]
    listing.write_text(
        "\n".join(
            [
                "2000 dumped tensor(s):",
                "",
                "t (ms)      Size (B) Op type     Tensor name",
                *lines,
                "",
            ]
        )
    )
    command = "golden tf commands %s --format json" % shlex.quote(str(listing))
    done = shell(
        network, "%s %s | head -c 5 >/dev/null; echo ${PIPESTATUS[0]}" % (GOLDWATCH, command)
    )
    assert (
        done.stdout == "4\n" and "it was closed" in done.stderr and "Traceback" not in done.stderr
    )


def test_no_opened_file_takes_the_number_of_a_closed_stream(network, tmp_path):
    done = code_of("compare", network, tmp_path / "out", ">&- 2>&-")
    assert done.returncode == 4
    with open(str(tmp_path / "out" / "run.lock")) as stream:
        assert stream.read().startswith('{"pid"')


def test_run_keeps_the_programs_log_when_stdout_is_closed(network, tmp_path):
    program = "%s -c 'print(1)'" % shlex.quote(sys.executable)
    command = "run --acl acl.json --golden golden -f net.json -o %s -- %s >&-" % (
        shlex.quote(str(tmp_path / "out")),
        program,
    )
    done = shell(network, "%s %s" % (GOLDWATCH, command))
    assert done.returncode == 4 and "Traceback" not in done.stderr
    with open(str(tmp_path / "out" / "program.log")) as stream:
        assert stream.read() == "1\n"


LONG = """
import sys
from goldwatch.cli.error_handling import OutputGone, guard_streams
guard_streams()
try:
    sys.stdout.write("x" * 500000)
    sys.stdout.flush()
except OutputGone:
    sys.exit(4)
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_noticed_without_buffering(unbuffered, tmp_path):
    program = "%s -c %s" % (shlex.quote(sys.executable), shlex.quote(LONG))
    command = "PYTHONUNBUFFERED=%s %s | head -c 10; exit ${PIPESTATUS[0]}" % (unbuffered, program)
    done = shell(str(tmp_path), command)
    assert (done.returncode, done.stdout) == (4, "x" * 10), done.stderr


def test_ctrl_c_while_streams_are_replaced_exits_as_interrupted():
    """Each is taken apart for a moment, in which nothing could be told on it."""
    code = (
        "import os, signal, sys\n"
        "from goldwatch import __main__ as start\n"
        "from goldwatch.cli import error_handling\n"
        "kind = error_handling.Messages\n"
        "def interrupted(*words, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    sum(range(9))\n"
        "    return kind(*words, **options)\n"
        "error_handling.Messages = interrupted\n"
        "sys.argv[1:] = ['limits']\n"
        "start.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"goldwatch: interrupted\n")
