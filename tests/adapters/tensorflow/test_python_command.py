"""The command behind ``--``: the word python, its options, the script."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from goldwatch.adapters.python_command_line import parse_python_words
from goldwatch.adapters.tensorflow import pythons
from goldwatch.adapters.tensorflow.golden_rules import feed_of
from goldwatch.adapters.tensorflow.pythons import find_tensorflow_python, probe
from goldwatch.base.errors import EnvironmentProblem, UsageError


@pytest.mark.parametrize(
    "words, expected",
    [
        (["s.py", "-c", "x"], ([], "file", "s.py", ["-c", "x"])),
        (["-u", "-W", "error", "s.py"], (["-u", "-W", "error"], "file", "s.py", [])),
        (
            ["-uB", "-Wignore", "-Xdev", "s.py", "--"],
            (["-u", "-B", "-W", "ignore", "-X", "dev"], "file", "s.py", ["--"]),
        ),
        (["-m", "pkg.mod", "-v"], ([], "module", "pkg.mod", ["-v"])),
        (["-umpkg"], (["-u"], "module", "pkg", [])),
        (["-c", "print(1)", "a"], ([], "code", "print(1)", ["a"])),
        (["-", "a"], ([], "stdin", "-", ["a"])),
    ],
)
def test_options_of_python_are_told_from_the_script_and_its_arguments(words, expected):
    assert parse_python_words(words) == expected


@pytest.mark.parametrize(
    "words", [[], ["-u"], ["-c"], ["--nonsense", "s.py"], ["-Z", "s.py"], ["-W"]]
)
def test_words_without_a_script_are_refused(words):
    with pytest.raises(UsageError):
        parse_python_words(words)


@pytest.mark.parametrize(
    "node, op_type, expected",
    [
        ("_arg_input_0_0", "_Arg", ("input", 0)),
        ("_arg_scope/x_1_2_10", "_Arg", ("scope/x_1", 2)),
        ("_arg_input_0_0", "Mul", None),
        ("_recv_input_0", "_Recv", ("input", 0)),
        ("b/_1", "_Recv", None),
        ("input", "_Arg", None),
    ],
)
def test_a_feed_node_is_traced_to_the_op_and_slot_it_feeds(node, op_type, expected):
    assert feed_of(node, op_type) == expected


def fake_python(folder, name, version, tensorflow):
    """Write a program that answers the probe as a Python of that version with that TensorFlow
    would.
    """
    path = folder / name
    found = "null" if tensorflow is None else '"%s"' % tensorflow
    answers = (
        "*find_spec*) echo 'goldwatch-probe [[%d, %d], %s]';; *) echo 'goldwatch-python %d.%d';;"
        % (version + (found,) + version)
    )
    path.write_text('#!/bin/sh\ncase "$2" in %s esac\n' % answers)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def no_others(monkeypatch, tmp_path):
    """Hide the Pythons of this machine."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", "%s:/usr/bin:/bin" % (tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, "running", (3, 13), None))
    return tmp_path


def test_no_python_with_tensorflow_is_an_error_with_a_hint(no_others):
    with pytest.raises(EnvironmentProblem) as caught:
        find_tensorflow_python(None, "python")
    assert "3.7" in caught.value.hint and "`python=" in caught.value.hint


def test_the_python_that_was_typed_is_tried_before_the_running_one_and_pyenvs(
    no_others, monkeypatch
):
    versions = no_others / "pyenv" / "versions" / "3.7.16" / "bin"
    versions.mkdir(parents=True)
    of_pyenv = fake_python(versions, "python3.7", (3, 7), "1.15.5")
    assert find_tensorflow_python(None, "python").path == of_pyenv
    running = fake_python(no_others, "running2", (3, 11), "2.21.0")
    monkeypatch.setattr(sys, "executable", running)
    assert find_tensorflow_python(None, "python").path == running
    named = fake_python(no_others / "bin", "python", (3, 7), "1.15.0")
    found = find_tensorflow_python(None, "python")
    assert (found.path, found.version, found.tensorflow) == (named, "3.7", "1.15.0")
    assert find_tensorflow_python(running, "python").path == running


def test_a_python3_7_on_the_path_is_found(no_others):
    named = fake_python(no_others / "bin", "python3.7", (3, 7), "1.15.5")
    assert find_tensorflow_python(None, None).path == named


def test_a_python_option_without_tensorflow_or_without_program_is_refused(no_others):
    with pytest.raises(EnvironmentProblem):
        find_tensorflow_python(fake_python(no_others, "empty", (3, 11), None), "python")
    with pytest.raises(UsageError):
        find_tensorflow_python(str(no_others / "nothing"), "python")
    with pytest.raises(EnvironmentProblem):
        find_tensorflow_python(None, str(no_others / "nothing"))


def test_probing_a_real_python_tells_its_version():
    python = probe(sys.executable)
    assert python is not None and python.version == "%d.%d" % sys.version_info[:2]
    assert pythons.probe("/bin/false") is None


def test_wrong_options_exit_with_2(tf, script, tmp_path):
    name = script("print(1)")
    assert tf("dump", "--", "python", name).code == 2
    assert tf("dump", "-o", "g").code == 2
    assert tf("dump", "-o", "g", "--", "bash", "x.sh").code == 2
    assert tf("dump", "-o", "g", "--steps", "1,x", "--", "python", name).code == 2
    assert tf("dump", "-o", "g", "--steps", "1", "--run-index", "1", "--", "python", name).code == 2
    assert tf("dump", "-o", "g", "--run-index", "-1", "--", "python", name).code == 2
    assert tf("dump", "-o", "g", "--inputs", "x", "--pb", "f").code == 2
    assert tf("dump", "-o", "g", "--inputs", "x=y", "--", "python", name).code == 2
    assert tf("dump", "-o", "g", "--pb", "f", "--", "python", name).code == 2
    assert tf("dump", "-o", "g", "--pb", "f", "--saved-model", "d").code == 2
    assert tf("dump", "-o", "g", "--pb", "nothing.pb").code == 4
    assert tf("dump", "-o", "g", "--saved-model", str(tmp_path)).code == 4
    missing = tf("dump", "-o", "g", "--format", "json", "--", "python", "none.py")
    assert missing.code == 4 and "none.py" in missing.json()["error"]["message"]
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x.0.1700000000000000.npy").write_bytes(b"")
    refused = tf("dump", "-o", "used", "--", "python", name)
    assert refused.code == 2 and "--force" in refused.err
    assert not os.path.exists(str(tmp_path / "g"))
