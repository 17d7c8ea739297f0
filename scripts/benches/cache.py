"""goldwatch compare on a tensor that is larger than the page cache: bytes read from the disk, and
what stays in the cache.

The files are on a disk's file system, and the run is in a control group whose memory is limited (as
root, version 1 of control groups):

    mkdir /sys/fs/cgroup/memory/small
    echo 200M > /sys/fs/cgroup/memory/small/memory.limit_in_bytes
    scripts/bench cache --group /sys/fs/cgroup/memory/small

Version 2: mkdir /sys/fs/cgroup/small, its memory.max. Without --group the cache is the machine's.
What was read before the run by somebody else (a file of --beside MB, read once in the same group)
tells what the run pushed out of the cache.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import workload
from network import compare_command, forget

LIBRARY = ctypes.CDLL(None, use_errno=True)
COLUMNS = ("run", "seconds", "processor", "read / bytes", "of it cached", "of the other cached")


def cached(path):
    """Return the share of a file's pages that are in the page cache."""
    with open(path, "rb") as stream, mmap.mmap(
        stream.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE
    ) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * pages)()
        view = np.frombuffer(mapped, np.uint8)
        code = LIBRARY.mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapped)), found
        )
        del view
        if code:
            raise OSError(ctypes.get_errno(), "mincore")
        return float((np.frombuffer(found, np.uint8) & 1).mean())


def measure(command, group):
    """Run a command in a control group and return wall seconds, processor seconds and bytes read
    from the disk, its children's included.
    """

    def enter():
        if group:
            with open(os.path.join(group, "cgroup.procs"), "w") as stream:
                stream.write(str(os.getpid()))

    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=enter)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    if process.returncode not in (0, 1):
        sys.exit("%s: exit code %d" % (" ".join(command), process.returncode))
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_inblock * 512


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench cache",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--folder", help="where the files are written and kept (default: a temporary folder)"
    )
    parser.add_argument("--group", help="the folder of a control group, whose memory is limited")
    parser.add_argument(
        "--elements",
        type=int,
        default=102400000,
        help="of the tensor, 6 bytes each in both files (default 102400000)",
    )
    parser.add_argument("--beside", type=int, default=64, help="MB of the other file (default 64)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of goldwatch (default 2)")
    parser.add_argument("--repeat", type=int, default=3, help="runs (default 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options, options.folder or folder)


def run(options, folder):
    root = workload.prepare(
        os.path.join(folder, "cache-%d" % options.elements), workload.huge, options.elements
    )
    other = os.path.join(folder, "other")
    with open(other, "wb") as stream:
        stream.write(os.urandom(options.beside << 20))
    total = workload.total_bytes(os.path.join(root, "dump")) + workload.total_bytes(
        os.path.join(root, "golden")
    )
    print("%d MB of tensors\n%s" % (total / 1e6, "".join("%-20s" % name for name in COLUMNS)))
    rows = []
    for number in range(options.repeat):
        forget(folder)
        measure(["cat", other], options.group)
        found = measure(
            compare_command(root, os.path.join(folder, "out"), options.jobs), options.group
        )
        shares = [
            (cached(os.path.join(base, name)), os.path.getsize(os.path.join(base, name)))
            for part in ("dump", "golden")
            for base, _, names in os.walk(os.path.join(root, part))
            for name in names
        ]
        ours = sum(share * size for share, size in shares) / sum(size for _, size in shares)
        rows.append((found[0], found[1], found[2] / total, ours, cached(other)))
        show(str(number + 1), rows[-1])
    show("median", [statistics.median(column) for column in zip(*rows)])


def show(name, values):
    print("%-20s" % name + "".join("%-20.2f" % value for value in values), flush=True)


if __name__ == "__main__":
    main()
