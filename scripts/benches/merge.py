"""What a merge of several hosts' runs costs: seconds and memory for so many rows, one in a thousand
failing, all metrics in each.

    scripts/bench merge [--rows N] [--hosts N] [--devices N] [--steps N]

The runs are made first (a minute for a million rows); only the merge is measured, from the start of
its process to its end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from multiprocessing import Pool

from goldwatch.metrics.row import FAIL, MEASURES, PASS, Row
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import SUMMARY

TENSORS = (("input", 0), ("output", 0))
SOME = 5000


def rows_of(seed, devices, steps, ops):
    """Yield the rows of a host's run, in the order of a watch: step by step, its devices in
    turn.
    """
    dice = random.Random(seed)
    for step in range(steps):
        for device in range(devices):
            for number in range(ops):
                for kind, index in TENSORS:
                    bad = dice.random() < 0.001
                    metrics = {
                        name: dice.random() * 1e-3
                        for name in MEASURES
                        if name != "StandardDeviation"
                    }
                    spread = {"mean": dice.random(), "std": dice.random()}
                    metrics.update(
                        CosineSimilarity=1.0 - dice.random() * 1e-6,
                        StandardDeviation={"target": spread, "golden": spread},
                    )
                    op = "model/layer%d/MatMul" % number
                    yield Row(
                        index=number, op_sequence=number, op=op, op_type="MatMul", group=(op,),
                        golden=op, kind=kind, tensor_index=index,
                        tensor="%s:%s:%d" % (op, kind, index), verdict=FAIL if bad else PASS,
                        reason="it differs" if bad else "",
                        time="20260102030405", device=str(device), model="net", model_id="1",
                        step=str(step), shape=(4, 1024),
                        target_dtype="float16", golden_dtype="float32", metrics=metrics,
                        nan={"target": 0, "golden": 0},
                        inf={"target": 0, "golden": 0}, decided_by="CosineSimilarity>0.99",
                        target_file="%d/net/1/%d/%s.bin" % (device, step, op),
                        golden_file="%d/%s.npy" % (step, op),
                        timestamp_us=1767323045000000 + number,
                    )  # fmt: skip


def make_run(asked):
    """Write the store of a host's run that has finished."""
    folder, seed, devices, steps, ops = asked
    options = ComparisonOptions(target=folder + "/dump", golden=folder + "/golden", out=folder)
    with RunStore.begin(folder, options.identity()) as store:
        some = []
        for row in rows_of(seed, devices, steps, ops):
            some.append(row)
            if len(some) == SOME:
                store.put_all(some)
                some = []
        store.put_all(some)
        store.set(
            SUMMARY,
            {
                "verdict": FAIL,
                "warnings": [],
                "suspects": [],
                "steps_without_golden": [],
                "first_divergence": None,
            },
        )


def measured(words):
    """Run a command; return seconds, those of the processor, and its largest memory in
    megabytes.
    """
    began = time.monotonic()
    pid = os.spawnv(os.P_NOWAIT, words[0], words)
    _, status, usage = os.wait4(pid, 0)
    if status >> 8 not in (0, 1):
        raise SystemExit("the merge ended with %d" % (status >> 8))
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench merge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="of all hosts together")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--devices", type=int, default=8, help="of each host")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--folder", help="where the runs are made; by default a folder that is removed at the end"
    )
    given = parser.parse_args()
    ops = max(1, round(given.rows / (given.hosts * given.devices * given.steps * len(TENSORS))))
    rows = ops * given.hosts * given.devices * given.steps * len(TENSORS)
    folder = given.folder or tempfile.mkdtemp()
    try:
        outs = [os.path.join(folder, "host%d" % number) for number in range(given.hosts)]
        with Pool(min(given.hosts, os.cpu_count() or 1)) as pool:
            pool.map(
                make_run,
                [(out, number, given.devices, given.steps, ops) for number, out in enumerate(outs)],
            )
        merge = [
            sys.executable,
            "-m",
            "goldwatch",
            "watch",
            "--merge",
            *outs,
            "-o",
            os.path.join(folder, "merged"),
            "--force",
        ]
        seconds, processor, megabytes = measured(
            [*merge, "--until-idle", "0.01", "-q", "--table", "none"]
        )
        print("%10s %8s %10s %10s %6s" % ("rows", "seconds", "processor", "rows/s", "MB"))
        print(
            "%10d %8.1f %10.1f %10.0f %6.0f" % (rows, seconds, processor, rows / seconds, megabytes)
        )
    finally:
        if not given.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
