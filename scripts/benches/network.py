"""goldwatch compare as users run it, beside plain numpy and the floor, on files it writes itself.

Three workloads: 69 ops with the shapes of ResNet-50 (inputs and outputs dumped, about 500 MB), one
tensor of 51.2 M elements, and 4,000 ops of 16 elements. Wall time of whole processes (and, in
brackets, processor time with all children), files in the page cache, the fastest of some runs; peak
memory is VmHWM. With --both each workload has a line for the compiled kernel and one for numpy's;
with --cold every run begins with files that are not in the page cache.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import workload
from kernel import cpu

from goldwatch.metrics.compiled.choice import about_kernel

HERE = os.path.dirname(os.path.abspath(__file__))


def peak_bytes(pid):
    """VmHWM of a process, 0 when it is gone."""
    try:
        with open("/proc/%d/status" % pid) as stream:
            for line in stream:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def children(pid):
    """Process ids of the direct children, of all threads."""
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as stream:
                found += [int(text) for text in stream.read().split()]
    except OSError:
        pass
    return found


def measure(command, kernel=""):
    """Run a command, with ``GOLDWATCH_KERNEL`` where one is given.

    Returns wall and processor seconds, peak bytes of the process and of its biggest child, and its
    exit code.
    """
    environment = dict(
        os.environ, OPENBLAS_NUM_THREADS="1", **({"GOLDWATCH_KERNEL": kernel} if kernel else {})
    )
    # Where it is set each process compiles all modules anew, which nothing that is installed does.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        own = child = finished = 0
        try:
            while not finished:
                own = max(own, peak_bytes(process.pid))
                for pid in children(process.pid):
                    child = max(child, peak_bytes(pid))
                time.sleep(0.01)
                finished, status, usage = os.wait4(process.pid, os.WNOHANG)
        except BaseException:
            # It may have had the terminal's Ctrl-C too.
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        seconds = time.perf_counter() - begin
        process.returncode = (
            os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        )
        if process.returncode not in (0, 1):
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace")[-2000:]
            sys.stderr.write(
                "%s: exit code %d\n%s\n" % (" ".join(command), process.returncode, text)
            )
    return seconds, usage.ru_utime + usage.ru_stime, own, child, process.returncode


def fastest(commands, repeat, kernel=""):
    """Return the fastest of several runs with the largest peaks and the largest exit code."""
    runs = [measure(command, kernel) for command in (commands() for _ in range(repeat))]
    return tuple(min(run[i] for run in runs) for i in (0, 1)) + tuple(
        max(run[i] for run in runs) for i in (2, 3, 4)
    )


def compare_command(root, out, jobs):
    shutil.rmtree(out, ignore_errors=True)
    paths = [
        os.path.join(root, "dump"),
        os.path.join(root, "golden"),
        "-f",
        os.path.join(root, "model.json"),
        "-o",
        out,
    ]
    return [sys.executable, "-m", "goldwatch", "compare", "-q", "--jobs", str(jobs)] + paths


def forget(root):
    """Take all files below a folder out of the page cache."""
    os.sync()
    for base, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(base, name), "rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bench(title, root, options):
    out = os.path.join(options.folder, "out")
    script = [sys.executable, os.path.join(HERE, "plain.py"), root]

    def measured(command, kernel=""):
        def begun():
            if options.cold:
                forget(root)
            return command()

        return fastest(begun, options.repeat, kernel)

    plain = measured(lambda: script + ["plain"])
    least = measured(lambda: script + ["floor"])
    found = [
        measured(lambda: compare_command(root, out, options.jobs), kernel)
        for kernel in options.kernels
    ]
    mega = 1e6
    for ours, kernel in zip(found, options.kernels):
        times = ("%.2f s (%.2f)" % times[:2] for times in (ours, plain, least))
        ratios = (plain[0] / ours[0], ours[0] / least[0])
        peaks = (ours[2] / mega, ours[3] / mega, plain[2] / mega)
        name = "%s %s" % (title, kernel) if kernel else title
        size = workload.total_bytes(root) / mega
        print(
            ("%-22s %5.0f" + " %15s" * 3 + " %8.1f" * 2 + " %8.0f" * 3)
            % ((name, size) + tuple(times) + ratios + peaks),
            flush=True,
        )
    return found


def two_dumps(root, options, npy):
    """The dumps against a copy of themselves, without a model: equal bytes are found, wherever they
    lie.
    """
    copy, out = root + "-again", os.path.join(options.folder, "out")
    if not os.path.isdir(copy):
        shutil.copytree(os.path.join(root, "dump"), copy)

    def command():
        shutil.rmtree(out, ignore_errors=True)
        words = [
            "compare",
            "-q",
            "--jobs",
            str(options.jobs),
            os.path.join(root, "dump"),
            copy,
            "-o",
            out,
        ]
        return [sys.executable, "-m", "goldwatch", *words]

    found = fastest(command, options.repeat, options.kernels[0])
    print(
        "%-22s %.2f s (%.2f), processor time %.2f of one against npy"
        % ("two dumps", *found[:2], found[1] / npy[1]),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench network", description=__doc__)
    parser.add_argument(
        "--folder",
        help="where the workloads are written and kept (default: a temporary folder; about 900 MB)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes of goldwatch (default 2)")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs, of which the fastest counts (default 3)"
    )
    parser.add_argument("--both", action="store_true", help="the compiled kernel and numpy's")
    parser.add_argument(
        "--cold", action="store_true", help="files come from the disk, not from the page cache"
    )
    parser.add_argument("--only", choices=("network", "huge", "tiny"), help="one workload only")
    options = parser.parse_args()
    options.kernels = ("compiled", "numpy") if options.both else ("",)
    if options.folder:
        return run(options)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        return run(options)


def run(options):
    machine = (platform.python_version(), np.__version__, cpu(), os.cpu_count() or 1, options.jobs)
    print("python %s, numpy %s, %s, %d processors, --jobs %d" % machine)
    print(about_kernel())
    columns = (
        "MB",
        "goldwatch",
        "plain",
        "floor",
        "plain/gw",
        "gw/floor",
        "parent",
        "worker",
        "plain",
    )
    print("%94s %26s" % ("", "peak memory, MB"))
    print(("%-22s %5s" + " %15s" * 3 + " %8s" * 5) % (("",) + columns))
    code = 0
    for name, title, make, arguments in (
        ("network", "69 ops", workload.resnet, (4,)),
        ("huge", "51.2 M tensor", workload.huge, ()),
        ("tiny", "4000 tiny ops", workload.tiny, ()),
    ):
        if options.only in (None, name):
            root = workload.prepare(os.path.join(options.folder, name), make, *arguments)
            found = bench(title, root, options)
            code = max(code, *(ours[4] for ours in found))
            two_dumps(root, options, found[0])
            if name == "tiny":
                wall, spent = (
                    " and ".join("%.2f" % (ours[i] / 4000 * 1e3) for ours in found) for i in (0, 1)
                )
                print("%-22s %s ms per op, %s ms of processor time" % ("", wall, spent))
    helps = fastest(lambda: [sys.executable, "-m", "goldwatch", "--help"], options.repeat)
    print("goldwatch --help: %.2f s" % helps[0])
    return 0 if code in (0, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
