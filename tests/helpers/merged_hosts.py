"""Hosts whose runs a test writes row by row, a merge of them, and its expected result, computed
slowly.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections import defaultdict

import pytest

from goldwatch.metrics.row import FAIL, NOT_COMPARED, PASS, Row
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions
from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import SUMMARY


class Host:
    """A host's run: a store that is open for writing, or has ended."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.store = None

    def begin(self, force: bool = False, **other) -> Host:
        options = ComparisonOptions(
            target=self.folder + "/dump", golden=self.folder + "/golden", out=self.folder
        )
        self.store = RunStore.begin(self.folder, {**options.identity(), **other}, force)
        return self

    def put(self, *rows: Row) -> Host:
        self.store.put_all(rows)
        return self

    def finish(self, verdict: str = "") -> None:
        counts = self.store.counted.all()
        found = verdict or (
            FAIL if counts.get(FAIL) else "incomplete" if counts.get(NOT_COMPARED) else PASS
        )
        self.store.set(
            SUMMARY,
            {
                "verdict": found,
                "warnings": [],
                "suspects": [],
                "steps_without_golden": [],
                "first_divergence": None,
            },
        )
        self.stop()

    def stop(self) -> None:
        self.store.close()
        self.store = None


def make_row(
    number: int,
    device: int = 0,
    step: int = 0,
    verdict: str = PASS,
    distance: float = 0.001,
    **other,
) -> Row:
    fields = {
        "index": number,
        "op": "op%d" % number,
        "op_type": "Relu",
        "tensor": "op%d:output:0" % number,
        "kind": "output",
        "tensor_index": 0,
        "verdict": verdict,
        "device": str(device),
        "model": "net",
        "model_id": "1",
        "step": str(step),
        "group": ("op%d" % number,),
        "op_sequence": number,
        "metrics": {}
        if verdict == NOT_COMPARED
        else {"CosineSimilarity": 1.0 - distance, "RelativeEuclideanDistance": distance},
        "reason": "" if verdict == PASS else "it differs",
        "target_file": "%d/net/1/%d/Relu.op%d.1.1.%d" % (device, step, number, number),
        "cause": "golden_missing" if verdict == NOT_COMPARED else "",
    }
    fields.update(other)
    return Row(**fields)


@pytest.fixture
def hosts(tmp_path):
    """Three hosts, the run of none begun."""
    found = [Host(str(tmp_path / name)) for name in ("a", "b", "c")]
    yield found
    for host in found:
        if host.store is not None:
            host.stop()


@pytest.fixture
def merging(tmp_path):
    """Return a function that opens a merge of hosts."""

    def merge(hosts, **options):
        said = options.pop("said", [])
        force = options.pop("force", False)
        asked = MergeOptions(tuple(host.folder for host in hosts), str(tmp_path / "all"), **options)
        return Merge(asked, force, said.append)

    return merge


def follow_until_quiet(merge) -> None:
    """Let a merge take all that there is now."""
    for source in merge.sources:
        source.look_again()
    merge._take_back_at = 0.0
    while merge._turn():
        merge._take_back_at = 0.0


def merge_to_the_end(merge):
    """Take all, end, and return the result."""
    with merge:
        merge.stop("test")
        merge.follow()
        return merge.finish()


def read_merge(folder: str, sql: str):
    with sqlite3.connect(
        "file:%s?mode=ro" % os.path.join(folder, "run.sqlite"), uri=True
    ) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        found = connection.execute(sql).fetchall()
    connection.close()
    return found


def slow_step_ops(folders):
    """Return what table step_op should hold: {(model, step, op, tensor, metric): (count, worst,
    mean)}.
    """
    values = defaultdict(list)
    for folder in folders:
        with RunStore.open(folder) as store:
            for row in store.rows("arrival"):
                if row.verdict in (PASS, FAIL):
                    for metric, value in row.metrics.items():
                        if isinstance(value, (int, float)) and not math.isnan(value):
                            values[
                                row.model or "", row.step or "", row.op, row.tensor, metric
                            ].append(float(value))
    found = {}
    for key, some in values.items():
        worst = min(some) if key[-1] == "CosineSimilarity" else max(some)
        mean = sum(some) / len(some) if any(map(math.isinf, some)) else math.fsum(some) / len(some)
        found[key] = (len(some), repr(worst), repr(mean))
    return found


def step_ops(out: str):
    """Return what table step_op holds, in the same form."""
    sql = "SELECT model, step, op, tensor, metric, count, worst, mean FROM step_op"
    return {
        tuple(line[:5]): (line[5], *(repr(float(value)) for value in line[6:]))
        for line in read_merge(out, sql)
    }


def slow_rows(hosts):
    """Return the rows that did not pass, as result.json has them, with their hosts, sorted."""
    found = []
    for name, folder in hosts:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as stream:
            found += [
                {"host": name, **row}
                for row in json.load(stream)["rows"]
                if row["verdict"] in (FAIL, NOT_COMPARED)
            ]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def check_merge(hosts, out):
    """Compare what the merged store tells with the runs themselves."""
    folders = [host.folder for host in hosts]
    assert step_ops(out) == slow_step_ops(folders)
    expected, counts = set(), {}
    for host in hosts:
        with RunStore.open(host.folder) as store:
            for row in store.rows("arrival"):
                key = (os.path.basename(host.folder), row.device, row.step)
                counts.setdefault(key, {}).setdefault(row.verdict, 0)
                counts[key][row.verdict] += 1
                if row.verdict in (FAIL, NOT_COMPARED):
                    expected.add((*key, row.tensor, row.verdict, row.index))
    rows = read_merge(
        out,
        'SELECT host, device, step, tensor, verdict, "index" FROM row WHERE verdict IN '
        "('fail', 'not_compared')",
    )
    assert len(rows) == len(set(rows)) and set(rows) == expected
    found = read_merge(
        out, "SELECT host, device, step, passed, failed, not_compared FROM host_place"
    )
    assert {line[:3]: dict(zip((PASS, FAIL, NOT_COMPARED), line[3:])) for line in found} == {
        key: {verdict: some.get(verdict, 0) for verdict in (PASS, FAIL, NOT_COMPARED)}
        for key, some in counts.items()
    }
