"""A merge of several hosts whose disks do not answer, or stop answering."""

from __future__ import annotations

import json
import threading

import pytest
from merged_hosts import check_merge, follow_until_quiet, make_row, merge_to_the_end, read_merge

from goldwatch.metrics.row import FAIL, PASS
from goldwatch.run.merging import host_run_reader, new_row_batches
from goldwatch.schemas.documents import check_document


@pytest.fixture
def hang(monkeypatch, until):
    """``hang(source)`` lets the disk of a host not answer any more, until ``hang(source, False)``:
    then it has answered what was asked.
    """
    gates = {}

    class Waiting(host_run_reader.HostRunReader):
        def __init__(self, folder):
            if folder in gates:
                gates[folder].wait()
            super().__init__(folder)

    monkeypatch.setattr(host_run_reader, "HostRunReader", Waiting)

    def change(one, hangs=True):
        if hangs:
            gates[one.folder] = threading.Event()
            one._asker._patience_s = 0.0
        else:
            one._asker._patience_s = 60.0
            gates.pop(one.folder).set()
            until(lambda: not one._asker.waits)

    yield change
    for gate in gates.values():
        gate.set()


def test_a_disk_that_does_not_answer_delays_no_other_host(hosts, merging, hang, tmp_path):
    for host in hosts:
        host.begin().put(
            *(make_row(op, verdict=FAIL if op == 2 else PASS) for op in range(4))
        ).finish()
    said = []
    with merging(hosts, said=said, until_idle_s=0.01, poll_s=0.01) as merge:
        hang(merge.sources[2])
        merge.follow()
        result = merge.finish()
        check_merge(hosts[:2], str(tmp_path / "all"))
        hang(merge.sources[2], False)
    assert result.exit_code == 1 and result.summary.rows == 8
    assert [entry["state"] for entry in result.summary.hosts] == ["finished", "finished", "silent"]
    assert (
        "host c has not finished" in result.sentence
        and "host c: its disk does not answer" in result.summary.warnings
    )
    assert "host c: silent (its disk does not answer)" in said
    with open(str(tmp_path / "all" / "result.json"), encoding="utf-8") as stream:
        check_document(json.load(stream), "result", "result.json")
    merge_to_the_end(merging(hosts))
    check_merge(hosts, str(tmp_path / "all"))


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("turns", range(1, 12, 2))
def test_a_disk_that_stops_answering_is_continued_later(
    hosts, merging, hang, tmp_path, monkeypatch, turns, killed
):
    """What was begun of its rows is finished later, by another merge, too; the others go on at
    once.
    """
    monkeypatch.setattr(new_row_batches, "MOST_ROWS", 5)
    for host in hosts:
        host.begin().put(
            *(
                make_row(op, device, step)
                for op in range(2)
                for device in range(2)
                for step in range(4)
            )
        ).finish()
    out = str(tmp_path / "all")
    merge = merging(hosts)
    merge.__enter__()
    for _ in range(turns):
        merge._turn()
    silent = merge.sources[turns % 3]
    hang(silent)
    follow_until_quiet(merge)
    counts = dict(read_merge(out, "SELECT host, sum(passed) FROM host_place GROUP BY host"))
    assert all(counts[other.host] == 16 for other in merge.sources if other is not silent)
    hang(silent, False)
    if killed:
        merge.__exit__(None, None, None)
        merge = merging(hosts)
        merge.__enter__()
    merge.stop("test")
    merge.follow()
    assert merge.finish().summary.passed == 48
    merge.__exit__(None, None, None)
    check_merge(hosts, out)
