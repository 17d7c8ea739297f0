"""``scripts/trials corpus``: every command that fits a file is run, and one table shows the
outcomes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "scripts")
NET = (
    'name: "n"\ninput: "data"\ninput_shape { dim: 1 dim: 2 }\nlayer { name: "r" type: "ReLU" '
    'bottom: "data" top: "data" }\n'
)


@pytest.fixture
def corpus(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    from trials import corpus

    return corpus


def test_files_of_all_kinds_give_one_table(tmp_path):
    both = (
        "NPURunConfig(dump_config=DumpConfig(enable_dump=True, enable_dump_debug=True, "
        "dump_path='/d'))\n"
    )
    for name, text in {
        "good.py": "NPURunConfig(dump_config=DumpConfig(True, '/d'))\n",
        "wrong.py": both,
        "as_wrong.py": both,
        "acl.json": '{"dump": {"dump_path": "/d", "dump_list": [{}]}}',
        "net.prototxt": NET,
        "broken.prototxt": "layer {",
        "broken.onnx": "no model",
    }.items():
        (tmp_path / name).write_text(text)
    words = [
        sys.executable,
        os.path.join(SCRIPTS, "trials"),
        "corpus",
        str(tmp_path),
        "--jobs",
        "2",
        "--files",
    ]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert (
        "| config check | code 1 | 2 | error: dump-with-debug |\n|  |  |  | %s |"
        % (tmp_path / "as_wrong.py")
        in done.stdout
    )
    assert "| config check | code 0 | 2 | note: dump-path-not-found |" in done.stdout
    assert (
        "| golden caffe deinplace | code 0 | 1 |" in done.stdout
        and "| golden caffe deinplace | code 4 | 1 |" in done.stdout
    )
    assert (
        "| golden onnx dump | code 4 | 1 | FILE" in done.stdout
        and "| graph | code 0 | 1 |" in done.stdout
    )
    assert (
        "7 files, 13 commands: 0 ended in a traceback, 0 ended in a signal, 0 did not end"
        in done.stdout
    )
    assert (
        sorted(os.listdir(str(tmp_path)))[-1] == "wrong.py" and len(os.listdir(str(tmp_path))) == 7
    )


def test_a_folder_without_files_is_refused(tmp_path):
    words = [sys.executable, os.path.join(SCRIPTS, "trials"), "corpus", str(tmp_path)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )
    assert done.returncode == 2 and "no file in" in done.stderr


@pytest.mark.parametrize(
    "code, errors, outcome, message",
    [
        (3, "net.onnx: dump file\n  PROBLEM: 3 bytes\n", "code 3", "N bytes"),
        (
            4,
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n",
            "traceback",
            "KeyError: '…'",
        ),
        (
            4,
            "goldwatch: ValueError: no 7\n  hint: this is a fault of goldwatch: please\n",
            "traceback",
            "goldwatch: ValueError: no N",
        ),
        (-11, "", "signal", "signal 11"),
        (4, "goldwatch: /a/net.onnx: byte 17: no\n  hint: x\n", "code 4", "FILE: byte N: no"),
        (0, "note: x\nwarning: 3 ops\n", "code 0", "warning: N ops"),
    ],
)
def test_the_outcome_of_a_command_is_classified(
    corpus, monkeypatch, code, errors, outcome, message
):
    result = subprocess.CompletedProcess(
        [], code, errors.encode(), b"" if code == 3 else errors.encode()
    )
    monkeypatch.setattr(corpus.subprocess, "run", lambda *args, **options: result)
    assert corpus.attempt(("/a/net.onnx", ("inspect", "/a/net.onnx"), "/out"), 9) == (
        "inspect",
        "/a/net.onnx",
        outcome,
        message,
    )


def test_crashed_commands_are_listed_first_and_counted(corpus):
    rows = [corpus.Tried("graph", str(number), "code 0", "") for number in range(3)]
    rows += [
        corpus.Tried("graph", "7", "traceback", "KeyError: a|b"),
        corpus.Tried("graph", "8", "no end", "more than 9 s"),
    ]
    lines = corpus.table(rows, 5)
    assert lines[2:5] == [
        "| graph | traceback | 1 | KeyError: a\\|b |", "| graph | no end | 1 | more than 9 s |",
        "| graph | code 0 | 3 |  |"
    ]  # fmt: skip
    assert (
        lines[-1]
        == "5 files, 5 commands: 1 ended in a traceback, 0 ended in a signal, 1 did not end"
    )
