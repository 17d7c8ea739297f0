"""`goldwatch submodel`: a large .caffemodel against a plain copy of as many bytes, and a prototxt
of many layers against --help.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from goldwatch.base.protowire import field, varint

LAYER = (
    'layer { name: "c%d" type: "Convolution" bottom: "c%d" top: "c%d"\n  convolution_param { '
    "num_output: 1024 kernel_size: 4 } }\n"
)
COPY = "import shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2])"
DIMS = b"".join(map(varint, (1024, 64, 4, 4)))


def write_net(folder, layers, weights):
    """A chain of convolutions of 4 MiB each."""
    with open(os.path.join(folder, "net.prototxt"), "w", encoding="ascii") as text:
        text.write(
            'name: "net"\nlayer { name: "c0" type: "Input" top: "c0" input_param { shape { '
            "dim: 1 dim: 64 dim: 4 dim: 4 } } }\n"
        )
        text.writelines(LAYER % (number, number - 1, number) for number in range(1, layers + 1))
    if not weights:
        return
    with open(os.path.join(folder, "net.caffemodel"), "wb") as stream:
        for number in range(1, layers + 1):
            blobs = field(7, field(7, field(1, DIMS)) + field(5, os.urandom(4 << 20)))
            stream.write(field(100, field(1, b"c%d" % number) + blobs))


def run(folder, words):
    """Return seconds and peak MB of one command."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    spent = time.perf_counter() - begin
    if status:
        raise SystemExit("%s: exit status %d" % (" ".join(words), status))
    return spent, usage.ru_maxrss / 1024


def best(folder, words, rounds):
    found = []
    for _ in range(rounds):
        shutil.rmtree(os.path.join(folder, "out"), ignore_errors=True)
        found.append(run(folder, words))
    return min(seconds for seconds, _ in found), max(memory for _, memory in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=232, help="size of the weights")
    parser.add_argument("--layers", type=int, default=10000, help="of the long prototxt")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="goldwatch-bench-")
    own = [sys.executable, "-m", "goldwatch", "submodel"]
    try:
        layers = options.mb // 4
        write_net(folder, layers, True)
        cut = own + [
            "net.prototxt",
            "--start",
            "c3",
            "--end",
            "c%d" % layers,
            "--shape",
            "c2=1,1024,4,4",
            "-o",
            "out",
        ]
        plain = [sys.executable, "-c", COPY, "net.caffemodel", "copy"]
        rows = [
            (
                "weights of %d MB" % options.mb,
                best(folder, cut, options.rounds),
                "a copy",
                best(folder, plain, options.rounds),
            )
        ]
        write_net(folder, options.layers, False)
        os.unlink(os.path.join(folder, "net.caffemodel"))
        cut = own + [
            "net.prototxt",
            "--start",
            "c3",
            "--end",
            "c%d" % (options.layers - 5),
            "--shape",
            "c2=1,1024,4,4",
            "-o",
            "out",
        ]
        starting = best(folder, own + ["--help"], options.rounds)
        rows.append(
            ("%d layers" % options.layers, best(folder, cut, options.rounds), "--help", starting)
        )
        print("%-22s %9s %8s   %-8s %9s   ratio" % ("", "submodel", "peak", "against", ""))
        for name, (seconds, memory), other, (base, _) in rows:
            print(
                "%-22s %7.2f s %5.0f MB   %-8s %7.2f s   %5.1f"
                % (name, seconds, memory, other, base, seconds / base)
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
