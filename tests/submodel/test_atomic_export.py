"""An export appears completely or not at all; it needs no framework and no memory for the
weights.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from wire_graph import layer

from goldwatch.base.protowire import varint

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)
NET = os.path.join(DATA, "resblock.prototxt")

# Ends the process by a signal when the n-th file of the export is created.
STOPPED = """
import os, sys
from goldwatch.cli import main
from goldwatch.recomputing.submodel import write_export
number, left = int(sys.argv.pop(1)), [int(sys.argv.pop(1))]
create = write_export.NewFolder.create
def stopped(self, *parts):
    stream = create(self, *parts)
    stream.write(b"half")
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), number)
    return stream
write_export.NewFolder.create = stopped
main()
"""

USED = """
import re, sys
from goldwatch.cli.error_handling import run_command
from goldwatch.cli import goldwatch
try:
    run_command(goldwatch, sys.argv[1:])
finally:
    loaded = {name.split(".")[0] for name in sys.modules}
    # Not getrusage: its peak is that of the process before the exec, too.
    peak = re.search(r"VmHWM:\\s*([0-9]+) kB", open("/proc/self/status").read()).group(1)
    print(peak, sorted(loaded & {"tensorflow", "caffe", "cv2", "google", "onnx", "torch"}))
"""


@pytest.mark.parametrize("signal", [2, 9, 15])
@pytest.mark.parametrize("file", [1, 2, 4, 8])
def test_a_stopped_export_leaves_no_folder(device, tmp_path, signal, file):
    words = [
        "submodel",
        NET,
        "--start",
        "pool1",
        "--end",
        "res2a",
        "--om",
        device / "model.json",
        "--dump",
        device / "dump",
    ]
    command = [
        sys.executable,
        "-c",
        STOPPED,
        str(signal),
        str(file),
        *map(str, words),
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == (130 if signal == 2 else -signal), done.stderr
    left = os.listdir(str(tmp_path / "out"))
    assert not [name for name in left if name.startswith("dump_result")]
    if signal == 2:
        assert left == []


def test_an_export_imports_no_framework_and_reads_no_weights_into_memory(tmp_path):
    size = 48 << 20
    dims = b"".join(varint(dim) for dim in (64, 3, 256, 256))
    with open(str(tmp_path / "n.caffemodel"), "wb") as stream, open(
        str(tmp_path / "n.prototxt"), "w"
    ) as net:
        net.write(
            'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: '
            "3 } } }\n"
        )
        for number in range(3):
            stream.write(layer("c%d" % number, (bytes(size), dims)))
            bottom = "c%d" % (number - 1) if number else "data"
            text = (
                'layer { name: "c%d" type: "Convolution" bottom: "%s" top: "c%d" '
                "convolution_param { num_output: 64 } }\n"
            )
            net.write(text % (number, bottom, number))
    words = [
        "submodel",
        "n.prototxt",
        "--start",
        "c1",
        "--end",
        "c2",
        "--shape",
        "c0=1,3,256,256",
        "-o",
        "out",
        "-q",
    ]
    command = [sys.executable, "-c", USED, *words]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, cwd=str(tmp_path), timeout=120, check=True
    )
    folder, used = done.stdout.decode().strip().split("\n")
    peak, loaded = used.split(" ", 1)
    assert loaded == "[]"
    assert os.path.getsize(str(tmp_path / folder / "dump.caffemodel")) > 2 * size
    assert int(peak) * 1024 < 2 * size, "more memory than the weights that were copied"
