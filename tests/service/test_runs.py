"""Runs as the API shows them."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest
from in_process import run_here
from merged_hosts import Host, follow_until_quiet
from merged_hosts import make_row as make_host_row

from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions

FIELDS = {
    "id",
    "path",
    "state",
    "verdict",
    "model",
    "devices",
    "steps",
    "rows",
    "passed",
    "failed",
    "not_compared",
    "expected_absent",
}
FIELDS |= {"progress", "started", "age_s", "host"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the finished run ``out``."""
    folder = tmp_path_factory.mktemp("lab")
    for words in (["make", "net", "--ops", "3"], ["serve", "net", "dump"]):
        assert run_here([sys.executable, "-m", "goldwatch.testing", *words], folder).returncode == 0
    assert (
        run_here(
            ["goldwatch", "compare", "dump", "net/golden", "-f", "net/model.json", "-o", "out"],
            folder,
        ).returncode
        == 0
    )
    return folder


def test_a_finished_run_equals_its_result_json(serving, finished):
    server = serving(finished)
    (run,) = server.runs()
    assert set(run) >= FIELDS
    with open(str(finished / "out" / "result.json")) as stream:
        result = json.load(stream)
    assert (run["state"], run["verdict"], run["progress"], run["path"]) == (
        "finished",
        "pass",
        1.0,
        str(finished / "out"),
    )
    for name in ("rows", "passed", "failed", "not_compared", "expected_absent"):
        assert run[name] == result["summary"][name]
    assert (run["model"], run["devices"], run["steps"]) == ("net", ["0"], ["0"])
    full = server.json("/api/v1/runs/" + run["id"])
    assert full["summary"] == result["summary"] and full["limits"] == result["limits"]
    rows = server.json("/api/v1/runs/%s/rows" % run["id"])
    assert (
        rows["last_id"]
        == max(row["id"] for row in rows["rows"])
        == full["last_id"]
        == full["void"] + len(rows["rows"])
    )
    without = [
        {name: value for name, value in row.items() if name not in ("id", "final")}
        for row in rows["rows"]
    ]
    assert sorted(map(json.dumps, without)) == sorted(map(json.dumps, result["rows"]))


def test_rows_are_paged(serving, live, row):
    store = live("out")
    store.put_all([row(number) for number in range(10)])
    server = serving(os.path.dirname(os.path.dirname(store.path)))
    (run,) = server.runs()
    seen, after = [], 0
    while True:
        page = server.json("/api/v1/runs/%s/rows?after=%d&limit=3" % (run["id"], after))
        if not page["rows"]:
            assert page["last_id"] == after
            break
        seen += [(found["id"], found["op"]) for found in page["rows"]]
        after = page["last_id"]
    assert seen == [(number + 1, "op%d" % number) for number in range(10)]


def test_a_run_is_running_stopped_or_finished(serving, live, row, tmp_path, clock):
    clock[0] = 1000
    store = live("out")
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    assert (run["state"], run["verdict"], run["rows"], run["progress"]) == (
        "running",
        None,
        0,
        None,
    )
    assert (run["last_id"], run["void"], run["stored"]) == (0, 1000, 0)
    store.put(row(1))
    store.put(row(2, verdict="fail", device="12", step="7"))
    (run,) = server.runs()
    assert (run["last_id"], run["void"], run["stored"]) == (1002, 1000, 2)
    assert (run["state"], run["verdict"], run["passed"], run["failed"]) == ("running", "fail", 1, 1)
    assert (run["devices"], run["steps"]) == (["0", "12"], ["0", "7"])
    store.close()
    (run,) = server.runs()
    assert (run["state"], run["verdict"]) == ("stopped", "fail")
    server.end()
    again = serving(tmp_path / "lab")
    assert [found["id"] for found in again.runs()] == [run["id"]]


def test_the_progress_of_a_run_is_the_share_of_expected_files(serving, live, row, tmp_path):
    store = live("out")
    store.set("expected", {"files": 4, "bytes": 400})
    store.put_file(str(tmp_path / "lab" / "dump" / "a"), 100, 1, "x")
    store.put_file(str(tmp_path / "lab" / "golden" / "a"), 100, 1, "x")
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    assert (run["progress"], run["files_done"], run["bytes_done"], run["bytes_expected"]) == (
        0.25,
        1,
        100,
        400,
    )
    assert run["ops"] is None
    # A watch knows its ops.
    store.set("ops", {"come": 3, "expected": 4})
    (run,) = server.runs()
    assert (run["progress"], run["ops"]) == (0.75, {"come": 3, "expected": 4})


def test_compare_stores_how_many_files_it_expects(finished):
    from goldwatch.store.store import RunStore

    with RunStore.open(str(finished / "out")) as store:
        expected = store.get("expected")
    found = [path for path in (finished / "dump").rglob("*") if path.is_file()]
    assert expected == {"files": len(found), "bytes": sum(path.stat().st_size for path in found)}


def test_the_list_of_runs_is_filtered_and_paged(serving, live, row, tmp_path):
    for name, verdict in (("first", "pass"), ("second", "fail"), ("third", "pass")):
        live(name).put(row(1, verdict=verdict))
    server = serving(tmp_path / "lab")
    assert [run["failed"] for run in server.json("/api/v1/runs?q=second")["runs"]] == [1]
    assert server.json("/api/v1/runs?verdict=fail")["total"] == 1
    assert server.json("/api/v1/runs?verdict=none")["total"] == 2
    pages = [server.json("/api/v1/runs?limit=1&offset=%d" % offset) for offset in range(4)]
    assert [page["total"] for page in pages] == [3] * 4 and [
        len(page["runs"]) for page in pages
    ] == [1, 1, 1, 0]
    assert len({page["runs"][0]["id"] for page in pages[:3]}) == 3
    assert server.json("/api/v1/runs?q=nowhere") == {"runs": [], "total": 0}
    for wrong in ("limit=-1", "limit=x", "offset=1.5", "verdict=good", "limit=" + "9" * 30):
        assert server.json("/api/v1/runs?" + wrong, status=400)["error"]["kind"] == "usage"


def test_folders_that_are_no_runs_are_not_listed(serving, live, row, tmp_path):
    """Links are not followed, another program's database is told as such, a damaged store too."""
    live("out").put(row(1))
    outside = live("out", root="outside")
    outside.put(row(1))
    os.symlink(str(tmp_path / "outside"), str(tmp_path / "lab" / "linked"))
    os.makedirs(str(tmp_path / "lab" / "stolen"))
    os.symlink(outside.path, str(tmp_path / "lab" / "stolen" / "run.sqlite"))
    os.makedirs(str(tmp_path / "lab" / "noise"))
    (tmp_path / "lab" / "noise" / "run.sqlite").write_bytes(b"no database at all" * 100)
    server = serving(tmp_path / "lab")
    runs = {os.path.basename(run["path"]): run for run in server.runs()}
    assert set(runs) == {"out", "noise"} and runs["out"]["error"] is None
    assert runs["noise"]["error"] and runs["noise"]["verdict"] is None
    assert server.json("/api/v1/runs/%s/rows" % runs["noise"]["id"], status=409)["error"]["message"]
    assert server.json("/api/v1/runs/" + "0" * 16, status=404)["error"]["kind"] == "not_found"


def test_a_run_whose_folder_became_a_link_is_gone(serving, live, row, tmp_path):
    live("out").put(row(1))
    live("out", root="outside").put(row(1))
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    shutil.move(str(tmp_path / "lab" / "out"), str(tmp_path / "lab" / "moved"))
    os.symlink(str(tmp_path / "outside" / "out"), str(tmp_path / "lab" / "out"))
    assert server.ask("/api/v1/runs/" + run["id"])[0] == 404
    assert server.ask("/api/v1/runs/%s/rows" % run["id"])[0] == 404


def test_prometheus_metrics_are_served(serving, live, row, tmp_path):
    store = live("out")
    store.put_all([row(1), row(2, verdict="fail")])
    server = serving(tmp_path / "lab")
    (run,) = server.runs()
    status, headers, body = server.ask("/metrics")
    text = body.decode()
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'goldwatch_rows{run="%s",name="lab/out",verdict="pass"} 1\n' % run["id"] in text
    assert 'goldwatch_failures{run="%s",name="lab/out"} 1\n' % run["id"] in text
    for name in ("goldwatch_lag_seconds", "goldwatch_bytes"):
        assert '%s{run="%s",name="lab/out"} ' % (name, run["id"]) in text


def test_a_merge_counts_rows_of_all_hosts(serving, tmp_path):
    """Its store holds those that did not pass."""
    hosts = [Host(str(tmp_path / "hosts" / name)) for name in ("left", "right")]
    for host in hosts:
        host.begin().put(*(make_host_row(op, device, 3) for op in range(4) for device in range(2)))
    hosts[1].put(make_host_row(0, 1, 4, verdict="fail"))
    (tmp_path / "lab").mkdir()
    server = serving(tmp_path / "lab")
    with Merge(
        MergeOptions(tuple(host.folder for host in hosts), str(tmp_path / "lab" / "all"))
    ) as merge:
        follow_until_quiet(merge)
        (run,) = server.runs()
        expected = {"rows": 17, "passed": 16, "failed": 1, "not_compared": 0, "expected_absent": 0}
        assert {name: run[name] for name in expected} == expected and run["state"] == "running"
        assert (run["model"], run["devices"], run["steps"]) == (
            "net",
            ["left/0", "left/1", "right/0", "right/1"],
            ["3", "4"],
        )
        told = (data for kind, _, data in server.stream(run["id"]) if kind == "progress")
        assert next(told)["rows"] == 17
        # More that passes is told, though no row of it is stored.
        hosts[0].put(make_host_row(9, 0, 9))
        follow_until_quiet(merge)
        assert next(data for data in told if data["rows"] > 17)["passed"] == 17
        metrics = server.ask("/metrics")[2].decode()
        assert 'goldwatch_rows{run="%s",name="lab/all",verdict="pass"} 17' % run["id"] in metrics
        for host in hosts:
            host.finish()
        merge.stop("test")
        merge.follow()
        merge.finish()
    (run,) = server.runs()
    full = server.json("/api/v1/runs/" + run["id"])
    assert run["stored"] == 1 < run["rows"]
    steps = server.json("/api/v1/runs/%s/steps?limit=1" % run["id"])
    assert steps["steps"][0]["count"] in (1, 2, 4) and "CosineSimilarity" in steps["metrics"]
    left = steps["unstored"]
    assert len({(one["host"], one["device"], one["step"]) for one in left}) == len(left) > 1
    assert sum(one["rows"] for one in left) == run["rows"] - run["stored"]
    assert sum(one["passed"] for one in left) == run["passed"]
    (drawn,) = server.json("/api/v1/runs/%s/overview" % run["id"])["models"]
    assert (drawn["model"], drawn["steps"], len(drawn["ops"])) == ("net", ["3", "4", "9"], 5)
    assert drawn["worst"] == [[0.001, 0.001, None], *[[0.001, None, None]] * 3, [None, None, 0.001]]
    table = server.ask("/api/v1/runs/%s/files/step_op.csv" % run["id"])[2]
    assert table.startswith(b"Step,Model,OpName,TensorIndex,Metric,Devices,Worst,Mean")
    assert (
        run["state"] == "finished"
        and run["rows"] == 18
        and all(run[name] == full["summary"][name] for name in expected)
    )
