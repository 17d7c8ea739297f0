"""Pipes, sockets and devices given in place of files are refused at once; nothing is written
through a link.
"""

from __future__ import annotations

import ast
import os
import shutil
import socket

import numpy as np
import pytest
from in_process import run_here

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Modules that may call open(): of the kernel's own files, and of stdin.
OPENS_HERE = ("orchestrator/base/system.py", "orchestrator/cli/error_handling.py")
#: (command, the input that is no file, exit code)
COMMANDS = [
    ("compare dump golden -f SPECIAL -o out", "model", 4),
    ("compare dump golden -f net.json -o out --limits SPECIAL", "limits", 4),
    ("compare SPECIAL golden -f net.json -o out", "target", 4),
    ("compare dump SPECIAL -f net.json -o out", "golden", 4),
    ("config check SPECIAL", "acl.json", 4),
    ("config check SPECIAL", "train.py", 4),
    ("config check acl.json --om SPECIAL", "model", 4),
    ("config new --plan SPECIAL --for acl", "plan", 4),
    ("config new --for acl --dump-path /tmp --model net -o SPECIAL --merge", "output", 4),
    ("convert SPECIAL -o out", "dump", 4),
    ("inspect SPECIAL", "file", 4),
    ("limits --limits SPECIAL", "limits", 4),
    ("golden caffe deinplace SPECIAL -o new.prototxt", "prototxt", 4),
    ("golden caffe dump SPECIAL WEIGHTS --random 1 -o g", "prototxt", 4),
    ("golden caffe dump net.prototxt SPECIAL --random 1 -o g --backend numpy", "weights", 4),
    (
        "golden caffe dump net.prototxt WEIGHTS -i data=SPECIAL -o g --backend numpy",
        "input.npy",
        4,
    ),
    (
        "golden caffe dump net.prototxt WEIGHTS -i data=SPECIAL -o g --backend numpy",
        "input.npz",
        4,
    ),
    (
        "golden caffe dump net.prototxt WEIGHTS -i data=SPECIAL -o g --backend numpy",
        "input.png",
        4,
    ),
    (
        "golden caffe dump net.prototxt WEIGHTS -i data=SPECIAL:float32:1,2 -o g --backend numpy",
        "input.bin",
        4,
    ),
    ("golden tf rename SPECIAL", "folder", 4),
    ("golden tf dump --pb SPECIAL --outputs y -o g", "model", 4),
    ("run --acl SPECIAL --golden golden -o out -- true", "acl", 4),
]


def run(words, folder):
    return run_here(["goldwatch", *words], folder)


def make_special(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        made = socket.socket(socket.AF_UNIX)
        before = os.getcwd()
        # The address of a socket is short.
        os.chdir(os.path.dirname(path))
        try:
            made.bind(os.path.basename(path))
        finally:
            os.chdir(before)
            made.close()
    else:
        os.symlink("/dev/zero", path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    ("command", "name", "code"),
    COMMANDS,
    ids=["%s: %s" % (row[0].split(" SPECIAL")[0], row[1]) for row in COMMANDS],
)
def test_a_pipe_or_device_given_as_a_file_is_refused_at_once(
    command, name, code, kind, network, tmp_path
):
    special = str(tmp_path / ("s." + name))
    make_special(special, kind)
    (tmp_path / "WEIGHTS").touch()
    ours = {word: str(tmp_path / word) for word in ("out", "g", "new.prototxt", "WEIGHTS")}
    done = run(
        [ours.get(word, word).replace("SPECIAL", special) for word in command.split()], network
    )
    assert done.returncode in (code, 2) and "Traceback" not in done.stderr, done.stderr
    assert special in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize(
    "place",
    [
        "golden/mapping.csv",
        "dump/mapping.csv",
        "golden/manifest.json",
        "golden/x.0.5.npy",
        "dump/Relu.x.1.2.3",
    ],
)
def test_pipes_and_devices_below_a_folder_do_not_stop_a_comparison(place, kind, network, tmp_path):
    for name in ("dump", "golden", "net.json"):
        source, target = os.path.join(network, name), str(tmp_path / name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
    make_special(str(tmp_path / place), kind)
    done = run(["compare", "dump", "golden", "-f", "net.json", "-o", "out"], tmp_path)
    assert done.returncode in (0, 1, 3) and "Traceback" not in done.stderr, done.stderr
    for words in (
        ["inspect", os.path.dirname(place)],
        ["inspect", place],
        ["golden", "tf", "rename", "golden"],
    ):
        done = run(words, tmp_path)
        assert done.returncode in (0, 3, 4) and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", [".goldwatch-unfinished", "mapping.csv", "manifest.json"])
def test_links_in_a_golden_folder_are_not_written_through(name, tmp_path):
    from goldwatch.adapters.golden_writer import GoldenWriter
    from goldwatch.base.errors import GoldwatchError

    (tmp_path / "victim").write_text("precious")
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / name).symlink_to(tmp_path / "victim")
    try:
        with GoldenWriter(str(tmp_path / "golden"), "caffe", "1", {}, True) as writer:
            writer.reserve([("x" * 300, 0)])
            writer.write("x" * 300, 0, np.zeros(3, np.float32))
    except GoldwatchError as error:
        assert name in str(error)
    assert (tmp_path / "victim").read_text() == "precious"


def plain_opens(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
        ):
            yield node.lineno


def test_files_are_opened_through_the_filesystem_module_only():
    found = {}
    for top in ("orchestrator", "adapters", "schemas", "proto"):
        for base, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                path = os.path.relpath(os.path.join(base, name), ROOT)
                if (
                    name.endswith(".py")
                    and path not in OPENS_HERE
                    and not path.startswith("orchestrator/testing/")
                ):
                    found[path] = list(plain_opens(path))
    assert len(found) > 100 and {path: lines for path, lines in found.items() if lines} == {}
    assert list(plain_opens(OPENS_HERE[0]))
