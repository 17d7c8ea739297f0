"""Paths of the wrong kind on the command line: the message says what they are and what takes
them.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile

import numpy as np
import pytest
from in_process import run_here

from goldwatch.dumps.write import write_dump

TIME = "20260102030405"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with dumps, golden data, a result, and models as far as they are looked at."""
    onnx = pytest.importorskip("onnx")
    root = tmp_path_factory.mktemp("given")
    step = root / "dump" / TIME / "0" / "net" / "1" / "0"
    os.makedirs(str(step))
    os.makedirs(str(root / "golden"))
    value = np.ones((2, 4), np.float32)
    write_dump(str(step / "Relu.relu.1.0.1700000000000000"), [], [value])
    np.save(str(root / "golden" / "relu.0.1700000000000000.npy"), value)
    (root / "net.om").write_bytes(b"IMOD" + bytes(300))
    (root / "notes.txt").write_text("hello\nthis is text\n")
    info = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")]
    fields = [[info(name, 1, (2, 4))] for name in "xy"]
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", *fields)),
        str(root / "net.onnx"),
    )
    with tarfile.open(str(root / "dump.tar.gz"), "w") as archive:
        archive.addfile(tarfile.TarInfo("dump"), io.BytesIO())
    done = run_here(["goldwatch", "compare", "dump", "golden", "-o", "result"], root)
    assert done.returncode in (0, 3), done.stderr
    shutil.copytree(str(root / "result"), str(root / "located" / "run"))
    (root / "located" / "locate.json").write_text("{}")
    return root


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            "watch dump --golden golden -o out",
            "watch has no option --golden",
            "GOLDEN is an argument: write goldwatch watch [OPTIONS] TARGET GOLDEN",
        ),
        (
            "compare dump golden --ops relu",
            "compare has no option --ops",
            "compare --help-all shows",
        ),
        (
            "replay net.onnx dump -f net.json -o out",
            "TARGET and MODEL are exchanged: net.onnx is an ONNX model, dump is a folder with a "
            "device's dumps",
            "name the dumps first: goldwatch replay dump net.onnx",
        ),
        (
            "cure net.om -f net.json -o out",
            "RESULT: net.om is an offline model (.om), not the result of a comparison",
            "goldwatch locate MODEL net.om -o OUT makes a result",
        ),
        (
            "report dump",
            "OUT: dump is a folder with a device's dumps, not the result of a comparison",
            "goldwatch compare dump GOLDEN -f OM.json -o OUT makes a result",
        ),
        (
            "report golden --html a.html",
            "golden is a folder with golden data, not",
            "compare DUMPS",
        ),
        ("diff result dump", "RUN_B: dump is a folder with a device's dumps, not", "compare dump"),
        ("diff golden result", "RUN_A: golden is a folder with golden data, not", "DUMPS golden"),
        ("convert notes.txt -o out", "this is a text file", "numpy.loadtxt"),
        (
            "golden tf dump -o out -- net.onnx",
            "net.onnx is an ONNX model, no script",
            "goldwatch golden onnx dump net.onnx makes",
        ),
        (
            "golden caffe dump net.onnx --random-weights 1 -o out",
            "net.onnx: an ONNX model, not a prototxt",
            "goldwatch golden onnx dump takes it",
        ),
        (
            "submodel net.onnx --start rely --end zzz -o out",
            "start rely, end zzz: no such node in net.onnx",
            "near rely: relu; all names",
        ),
        ("submodel net.onnx --start zzz --end relu -o out", "start zzz", "for example, x, relu"),
        ("submodel net.om --start a --end b -o out", "an offline model (.om), not an", "an .onnx"),
        (
            "graph dump -o net.html",
            "MODEL: dump is a folder with a device's dumps",
            "json of the om",
        ),
        ("compare dump.tar.gz golden -o out", "this is a tar archive (not compressed)", "tar -xf"),
        (
            "watch dump net.onnx -o out",
            "GOLDEN: net.onnx: this is an ONNX model, not a",
            "goldwatch",
        ),
        (
            "compare dump golden -o golden/../dump/%s/0/net/1/0" % TIME,
            "device's dumps: results",
            "-o",
        ),
        (
            "golden onnx dump net.onnx --random 1 -o dump",
            "dump holds a device's dumps",
            "dump/golden",
        ),
        (
            "golden onnx dump net.onnx --random 1 -o result",
            "holds results of a comp",
            "result/golden",
        ),
        ("locate net.onnx net.om -o dump", "OUT: dump holds a device's dumps: what", "dump/out"),
        ("locate net.onnx net.om -o result", "result holds results of a comp", "result/out"),
        ("report located --html x.html", "located is what locate wrote", "located/run"),
        ("inspect dump --op none", "dump: no op's name matches none", "for example, relu"),
    ],
)
def test_what_was_given_and_what_takes_it_are_told(place, words, message, hint):
    done = run_here(["goldwatch", *words.split()], place)
    assert done.returncode in (2, 4), done.stdout + done.stderr
    assert message in done.stderr and hint in done.stderr, done.stderr


def test_files_of_others_in_out_are_named(place):
    os.makedirs(str(place / "mine"))
    (place / "mine" / "keep.txt").write_text("mine")
    words = ["goldwatch", "compare", "dump", "golden", "-o", "mine"]
    note = "note: mine is not empty (it holds keep.txt): what is there stays"
    assert note in run_here(words, place).stderr
    # Now they are of an earlier run.
    assert note not in run_here(words, place).stderr
