"""goldwatch watch: latency from the last write to the committed row, the rate beside a producer at
full speed, and many small files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from goldwatch.testing.dump_server import DumpServer
from goldwatch.testing.synthetic_chain import Network


class Watcher:
    """A running watch; its rows are asked for as any reader may."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.target = os.path.join(folder, "dump")
        self.out = os.path.join(folder, "out")
        os.makedirs(self.target, exist_ok=True)
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            "watch",
            self.target,
            os.path.join(folder, "golden"),
            "-o",
            self.out,
            "-q",
        ]
        words += ["-f", os.path.join(folder, "model.json"), *options]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.connection = None
        while self.connection is None:
            time.sleep(0.05)
            path = os.path.join(self.out, "run.sqlite")
            if os.path.exists(path):
                self.connection = sqlite3.connect(
                    "file:%s?mode=ro" % path, uri=True, timeout=30, isolation_level=None
                )
        time.sleep(1.5)

    def rows(self, where="1"):
        try:
            return self.connection.execute("SELECT count(*) FROM row WHERE " + where).fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    def peak_mib(self):
        with open("/proc/%d/status" % self.process.pid) as stream:
            found = [line.split()[1] for line in stream if line.startswith("VmHWM")]
        return int(found[0]) / 1024

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait()


def latency(folder, count, size):
    """One dump at a time; each is waited for."""
    network = Network(10, size, inputs=False)
    network.write(folder)
    watcher = Watcher(folder)
    times = []
    for step in range((count + 9) // 10):
        for dump in network.dumps(step=step):
            before = watcher.rows("verdict = 'pass'")
            DumpServer(watcher.target, [dump]).run()
            written = time.perf_counter()
            while watcher.rows("verdict = 'pass'") == before:
                time.sleep(0.001)
            times.append((time.perf_counter() - written) * 1000)
            time.sleep(0.02)
    watcher.end()
    times.sort()
    at = [times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.9, 0.99)]
    print(
        "latency, %d dumps of %d bytes: median %.0f ms, p90 %.0f ms, p99 %.0f ms, longest %.0f ms"
        % (len(times), size, *at, times[-1])
    )


def sustained(folder, total, size, rate):
    """A producer in a process of its own."""
    network = Network(8, size, inputs=False)
    network.write(folder)
    watcher = Watcher(folder, "--keep", "failed")
    steps = max(1, total // (8 * size))
    code = (
        "import sys; from goldwatch.testing.dump_server import DumpServer; from "
        "goldwatch.testing.synthetic_chain import Network\n"
        "network = Network(8, %d, inputs=False)\n"
        "DumpServer(sys.argv[1], (dump for step in range(%d) for dump in "
        "network.dumps(step=step)), bytes_per_s=%r).run()"
    )
    begin = time.perf_counter()
    producer = subprocess.Popen([sys.executable, "-c", code % (size, steps, rate), watcher.target])
    producer.wait()
    written = time.perf_counter() - begin
    while watcher.rows("verdict = 'pass'") < 8 * steps:
        time.sleep(0.01)
    done = time.perf_counter() - begin
    megabytes = steps * 8 * size / 1e6
    peak = watcher.peak_mib()
    watcher.end()
    text = (
        "sustained, %.0f MB in dumps of %.0f MB%s: producer %.0f MB/s, all rows %.0f MB/s, %.1f s "
        "after the last write; peak %.0f MiB"
    )
    asked = "" if rate is None else " (asked for %.0f MB/s)" % (rate / 1e6)
    print(
        text
        % (
            megabytes,
            size / 1e6,
            asked,
            megabytes / written,
            megabytes / done,
            done - written,
            peak,
        )
    )


def small(folder, count):
    """Many small files at once."""
    network = Network(100, 512, inputs=False)
    network.write(folder)
    watcher = Watcher(folder)
    before = watcher.peak_mib()
    begin = time.perf_counter()
    for step in range(count // 100):
        DumpServer(watcher.target, network.dumps(step=step)).run()
    written = time.perf_counter() - begin
    while watcher.rows("verdict = 'pass'") < count // 100 * 100:
        time.sleep(0.1)
    done = time.perf_counter() - begin
    peak = watcher.peak_mib()
    text = (
        "%d files of 512 bytes: written in %.1f s, all rows after %.1f s (%.0f files/s); peak "
        "memory %.0f MiB, %.0f MiB at the start"
    )
    print(text % (count, written, done, count / done, peak, before))
    begin = time.perf_counter()
    watcher.end()
    print("    its end (tables, result.json, verdict) took %.1f s" % (time.perf_counter() - begin))


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench watch", description=__doc__)
    parser.add_argument("--dumps", type=int, default=200, help="for the latency (default 200)")
    parser.add_argument("--files", type=int, default=100000, help="small files (default 100000)")
    parser.add_argument(
        "--megabytes", type=int, default=3000, help="for the sustained rate (default 3000)"
    )
    parser.add_argument(
        "--rate", type=float, default=300, help="MB/s of the paced producer (default 300)"
    )
    parser.add_argument("--folder", help="where to write (default: a temporary folder)")
    options = parser.parse_args()
    jobs = [
        lambda folder: latency(folder, options.dumps, 1000 * 1000 // 512 * 512),
        lambda folder: sustained(folder, options.megabytes * 1000000, 64 << 20, options.rate * 1e6),
        lambda folder: sustained(folder, options.megabytes * 1000000, 64 << 20, None),
        lambda folder: small(folder, options.files),
    ]
    for job in jobs:
        folder = tempfile.mkdtemp(dir=options.folder)
        try:
            job(folder)
            sys.stdout.flush()
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
