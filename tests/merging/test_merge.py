"""A merge of runs that go on, are killed, replace rows and restart, against a slow reading of the
runs.
"""

from __future__ import annotations

import csv
import json
import math
import os
import pathlib
import random
import signal
from xml.etree import ElementTree

import pytest
from merged_hosts import (
    check_merge,
    follow_until_quiet,
    make_row,
    merge_to_the_end,
    read_merge,
    slow_step_ops,
    step_ops,
)

import goldwatch
from goldwatch.base import interrupts
from goldwatch.base.errors import FormatError, InputError, UsageError
from goldwatch.metrics.row import FAIL, NOT_COMPARED, PASS
from goldwatch.reports.difference import KINDS, difference_of
from goldwatch.reports.difference_words import change_words
from goldwatch.reports.junit import JunitFile
from goldwatch.reports.markdown import MarkdownFile
from goldwatch.reports.pages.report import HtmlFile
from goldwatch.reports.pages.worst_by_op_and_step import over_devices
from goldwatch.run.merging import host_run_reader, new_row_batches
from goldwatch.run.merging.merge import Merge
from goldwatch.run.merging.options import MergeOptions, host_names
from goldwatch.run.write_report import write_report
from goldwatch.schemas.documents import check_document
from goldwatch.store import merged_metrics as stored_step_ops
from goldwatch.store.facts_and_events import PROVISIONAL
from goldwatch.store.merged_metrics import metrics_of_step_ops, worst_outputs, worst_step_ops
from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import GRAPHS


def test_two_finished_runs_are_merged(hosts, merging, tmp_path):
    for number, host in enumerate(hosts[:2]):
        host.begin().put(
            *(
                make_row(op, device, step)
                for op in range(4)
                for device in range(2)
                for step in range(3)
            )
        )
        if number:
            host.put(make_row(2, 1, 1, FAIL, 0.5))
        host.finish()
    result = merge_to_the_end(merging(hosts[:2]))
    check_merge(hosts[:2], str(tmp_path / "all"))
    assert result.exit_code == 1 and result.summary.verdict == FAIL
    assert (result.summary.rows, result.summary.passed, result.summary.failed) == (48, 47, 1)
    first = result.first_divergence
    assert (first.place.host, first.place.device, first.place.step, first.op) == (
        "b",
        "1",
        "1",
        "op2",
    )
    assert "on device 1 of host b" in result.sentence
    with open(str(tmp_path / "all" / "result.json"), encoding="utf-8") as stream:
        document = json.load(stream)
    check_document(document, "result", "result.json")
    assert [entry["verdict"] for entry in document["summary"]["hosts"]] == [PASS, FAIL]
    assert document["summary"]["first_divergence"]["host"] == "b"
    assert {row["host"] for row in document["rows"]} == {"b"}
    # All rows of the device and step where it begins are there, to see what fed it.
    assert sorted(row["op"] for row in document["rows"]) == ["op0", "op1", "op2", "op3"]


def test_passing_rows_of_all_hosts_are_counted(hosts, merging, tmp_path):
    for host in hosts:
        host.begin().put(*(make_row(op) for op in range(3))).finish()
    result = merge_to_the_end(merging(hosts))
    assert result.exit_code == 0 and result.summary.passed == 9 and list(result.rows()) == []
    assert (
        step_ops(str(tmp_path / "all"))["net", "0", "op1", "op1:output:0", "CosineSimilarity"][0]
        == 3
    )


def test_every_report_counts_rows_that_the_merge_does_not_store(hosts, merging, tmp_path):
    for number, host in enumerate(hosts):
        host.begin().put(*(make_row(op, device) for op in range(5) for device in range(2)))
        host.put(*[make_row(3, verdict=FAIL)] * (number == 1)).finish()
    merge_to_the_end(merging(hosts, max_rows=1))
    files = {str(tmp_path / kind.__name__): kind for kind in (HtmlFile, JunitFile, MarkdownFile)}
    told = write_report(str(tmp_path / "all"), files)
    assert (told.summary["rows"], told.summary["passed"], told.summary["failed"]) == (30, 29, 1)
    html, junit, markdown = (pathlib.Path(path).read_text(encoding="utf-8") for path in files)
    assert "30 rows of 5 ops" in html
    assert "<li>host a: pass, 10 rows: 10 pass, 0 fail</li>" in html and "host b, device 0" in html
    assert (
        "25 rows that pass" in markdown
        or "more rows that pass" in markdown
        and "30 rows: 29 pass, 1 fail" in markdown
    )
    suites = ElementTree.fromstring(junit)
    assert (
        sum(int(suite.get("tests")) for suite in suites)
        == len(list(suites.iter("testcase")))
        == 5 + 5
        and len(suites) == 6
    )
    assert [suite.get("failures") for suite in suites] == ["1", "0", "0", "0", "0", "0"]
    said = [
        case.find("system-out").text
        for case in suites.iter("testcase")
        if "does not store" in case.get("name")
    ]
    assert said == ["5 pass"] * 5


def test_failing_rows_beyond_the_limit_fail_in_junit(hosts, merging, tmp_path):
    hosts[0].begin().put(*(make_row(0, device, verdict=FAIL) for device in range(3))).finish()
    merge_to_the_end(merging(hosts[:1], max_rows=1))
    path = str(tmp_path / "junit.xml")
    write_report(str(tmp_path / "all"), {path: JunitFile})
    assert [suite.get("failures") for suite in ElementTree.parse(path).getroot()] == ["1", "1", "1"]


def test_nan_counts_as_no_value_in_a_merge(hosts, merging, tmp_path):
    """A metric that does not apply anywhere has no line; one device's NaN counts for nothing, and
    the other device passes all the same.
    """
    nothing = {
        "CosineSimilarity": math.nan,
        "RelativeEuclideanDistance": math.nan,
        "DifferentElements": math.nan,
    }
    hosts[0].begin().put(make_row(0, verdict=FAIL, metrics=nothing)).finish()
    hosts[1].begin().put(
        make_row(0, 1, metrics={**nothing, "RelativeEuclideanDistance": 0.5})
    ).finish()
    result = merge_to_the_end(merging(hosts[:2]))
    assert read_merge(str(tmp_path / "all"), "SELECT metric, count, worst, mean FROM step_op") == [
        ("RelativeEuclideanDistance", 1, 0.5, 0.5)
    ]
    assert result.summary.models[0].difference.verdicts == (("a/0", FAIL), ("b/1", PASS))


@pytest.mark.parametrize("seed", range(12))
def test_a_merge_follows_runs_that_change_all_the_time(hosts, merging, tmp_path, seed, monkeypatch):  # noqa: C901, PLR0915 - one story
    """Rows come, are replaced, removed and renumbered, runs end, are continued and begun anew; the
    merge is stopped and goes on.
    """
    dice = random.Random(seed)
    # A batch of many transactions, between which anything may happen.
    monkeypatch.setattr(new_row_batches, "MOST_ROWS", 5 if seed % 2 else 60_000)
    out = str(tmp_path / "all")
    hosts[0].begin()
    troubled = set()
    ask = host_run_reader.HostRun.ask

    def ask_or_not(self, question):
        if self.host in troubled and dice.random() < 0.7:
            raise host_run_reader.Unreadable(self.host, "a test")
        return ask(self, question)

    monkeypatch.setattr(host_run_reader.HostRun, "ask", ask_or_not)
    merge = merging(hosts)
    merge.__enter__()
    for _ in range(40):
        troubled = dice.choice([set(), {"a"}, {"b", "c"}])
        host = dice.choice(hosts)
        deed = dice.choice(
            [
                "put",
                "put",
                "put",
                "replace",
                "remove",
                "renumber",
                "stop",
                "anew",
                "again",
                "look",
                "slice",
                "slice",
            ]
        )
        if host.store is None:
            host.begin(force=deed == "anew", run=1 if deed == "anew" else 0) if not os.path.exists(
                host.folder
            ) else host.begin(force=True)
        rows = list(host.store.rows("arrival"))
        if deed == "put":
            spread = [
                (op, device, step) for op in range(5) for device in range(2) for step in range(3)
            ]
            host.put(*(one(dice, *where) for where in dice.sample(spread, 8)))
        elif deed == "replace" and rows:
            host.put(
                *(
                    one(dice, row.index, int(row.device), int(row.step))
                    for row in dice.sample(rows, min(4, len(rows)))
                )
            )
        elif deed == "remove" and rows:
            keys = host.store.table.keys()
            host.store.table.remove(dice.sample(keys, min(3, len(keys))), "gone")
        elif deed == "renumber" and rows:
            host.put(make_row(9, verdict=FAIL, op_sequence=None))
            host.store.table.renumber(
                {rows[0].place._replace(device="0", step="0"): {"op9": dice.randrange(20, 30)}}
            )
        elif deed == "stop":
            host.stop()
        elif deed == "anew":
            host.stop()
            host.begin(force=True, run=dice.random())
        elif deed == "again":
            merge.__exit__(None, None, None)
            merge = merging(hosts)
            merge.__enter__()
        elif deed == "slice":
            merge._turn()
        else:
            follow_until_quiet(merge)
    troubled = set()
    for host in hosts:
        if host.store is not None:
            host.stop()
        elif not os.path.exists(host.folder):
            host.begin().stop()
    merge.stop("test")
    merge.follow()
    result = merge.finish()
    merge.__exit__(None, None, None)
    check_merge(hosts, out)
    first = [row for host in hosts for row in failing(host)]
    found = result.first_divergence
    assert (found is None) == (not first)
    if found is not None:
        assert (int(found.place.step), int(found.place.device)) == min(
            (int(row.step), int(row.device)) for row in first
        )


def failing(host):
    with RunStore.open(host.folder) as store:
        return list(store.rows("arrival", verdict=FAIL))


def one(dice, op, device, step):
    verdict = dice.choice([PASS, PASS, FAIL, NOT_COMPARED])
    distance = dice.choice(
        [0.0, 1e-300, 0.1, dice.random(), math.nan, math.inf, 10.0 ** dice.randrange(-20, 20)]
    )
    return make_row(op, device, step, verdict, distance)


def test_the_first_failing_rows_are_kept_when_there_are_too_many(hosts, merging, tmp_path):
    hosts[0].begin().put(*(make_row(op, verdict=NOT_COMPARED) for op in range(4)))
    hosts[0].put(*(make_row(op, step=5, verdict=FAIL) for op in range(6))).finish()
    hosts[1].begin().put(*(make_row(op, step=3, verdict=FAIL) for op in range(6))).finish()
    result = merge_to_the_end(merging(hosts[:2], max_rows=5))
    kept = read_merge(str(tmp_path / "all"), "SELECT verdict, host, step, op FROM row")
    assert len(kept) == 5 and {line[0] for line in kept} == {FAIL}
    assert (result.first_divergence.place.host, result.first_divergence.op) == ("b", "op0")
    assert (result.summary.failed, result.summary.not_compared) == (12, 4)
    assert any("are counted, but not stored here" in warning for warning in result.summary.warnings)
    assert [entry["left_out"] for entry in result.summary.hosts] == [10, 1]


@pytest.mark.parametrize("room, said", [(1, None), (2, None), (6, True)])
def test_rows_beyond_the_limit_are_not_called_a_disagreement_of_devices(
    hosts, merging, tmp_path, room, said
):
    for host in hosts[:2]:
        host.begin().put(
            *(
                make_row(op, device, verdict=FAIL if op else PASS)
                for op in range(2)
                for device in range(3)
            )
        ).finish()
    result = merge_to_the_end(merging(hosts[:2], max_rows=room))
    assert result.summary.devices_agree is said and result.summary.failed == 6
    assert not any(model.difference for model in result.summary.models)


def test_stored_rows_that_differ_are_a_disagreement_of_devices(hosts, merging, tmp_path):
    hosts[0].begin().put(
        make_row(1, 0, verdict=FAIL),
        make_row(1, 1),
        make_row(2, 0, 1, FAIL),
        make_row(2, 1, 1, FAIL),
    ).finish()
    result = merge_to_the_end(merging(hosts[:1], max_rows=2))
    (model,) = result.summary.models
    assert (
        model.difference.verdicts == (("a/0", FAIL), ("a/1", PASS)) and model.difference.step == "0"
    )
    assert result.summary.devices_agree is False


def test_an_unfinished_run_makes_the_merge_incomplete(hosts, merging):
    hosts[0].begin().put(make_row(0)).finish()
    hosts[1].begin().put(make_row(0)).stop()
    result = merge_to_the_end(merging(hosts[:2]))
    assert result.exit_code == 3 and "host b has not finished" in result.sentence


def test_an_interrupt_before_a_merge_is_none_of_it(hosts, merging, monkeypatch):
    """The caller of the library may have caught one."""
    monkeypatch.setattr(interrupts, "_raised", [signal.SIGINT])
    with pytest.raises(InputError, match="no run came"):
        merge_to_the_end(merging(hosts))


def test_a_merge_without_any_run_is_refused(hosts, merging):
    with pytest.raises(InputError, match="no run came"):
        merge_to_the_end(merging(hosts))
    # By itself, too, and it names them all.
    said = "no store in %s, %s, %s$" % tuple(host.folder for host in hosts)
    with pytest.raises(InputError, match=said), merging(hosts, until_idle_s=0.01) as merge:
        merge.follow()


@pytest.mark.parametrize("kind", ["pipe", "empty", "garbage"])
def test_a_broken_store_does_not_delay_the_other_hosts(hosts, merging, kind):
    hosts[0].begin().put(make_row(0)).finish()
    os.makedirs(hosts[1].folder)
    path = os.path.join(hosts[1].folder, "run.sqlite")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        pathlib.Path(path).write_bytes(b"" if kind == "empty" else b"garbage" * 1000)
    said = []
    with merging(hosts[:2], said=said, until_idle_s=0.01, poll_s=0.01) as merge:
        merge.follow()
        result = merge.finish()
    assert result.exit_code == 3 and result.summary.rows == 1
    assert (
        result.sentence
        == "The run of host b has not finished: this is about the rows so far. No operator is "
        "outside its limits."
    )
    # What is empty may be a store that is just being made.
    assert any(
        ("there is no run yet in" if kind == "empty" else "host b: stopped (") in text
        for text in said
    )


def test_a_merge_into_the_out_folder_of_a_run_is_refused(hosts, merging, tmp_path):
    for host in (hosts[0], hosts[1]):
        host.begin().put(make_row(0)).finish()
    os.rename(hosts[1].folder, str(tmp_path / "all"))
    with pytest.raises(
        UsageError, match="holds the run of one host, not a merge of the runs of several hosts$"
    ):
        merging(hosts[:1]).__enter__()


def test_a_folder_of_other_files_is_refused(hosts, merging, tmp_path):
    os.makedirs(hosts[0].folder + "/20260102030405")
    with pytest.raises(InputError, match="holds other files, and no run") as caught:
        merging(hosts).__enter__()
    assert caught.value.exit_code == 4 and not os.path.exists(str(tmp_path / "all"))


def test_a_run_that_never_appears_is_named_and_waited_for_until_idle(hosts, merging):
    hosts[0].begin().put(make_row(0)).finish()
    os.makedirs(hosts[1].folder)
    said = []
    with merging(hosts, said=said, until_idle_s=0.01, poll_s=0.01) as merge:
        merge.follow()
        result = merge.finish()
    folders = (hosts[1].folder, hosts[2].folder)
    assert "there is no run yet in %s, %s: waiting for them" % folders in said
    assert result.exit_code == 3 and "The runs of hosts b, c have not finished" in result.sentence


def test_a_silent_watch_is_named_once(hosts, merging):
    """It may be frozen; each silence is told once."""
    said = []
    for host in hosts[:2]:
        host.begin().put(make_row(0))
    with merging(hosts[:2], said=said) as merge:
        for silences in (1, 2):
            hosts[0].put(make_row(silences))
            follow_until_quiet(merge)
            for _ in range(2):
                merge.sources[0].heard -= 60
                follow_until_quiet(merge)
            assert (
                said.count("host a: nothing new for 60 s; its watch lives and is waited for")
                == silences
            )
        assert not any("host b: nothing new" in text for text in said)
    for host in hosts[:2]:
        host.finish()


@pytest.mark.parametrize("ids", [[1, 2, 3, 4], [3, 4, 1, 2], [4, 1], [2], [5, 4]])
def test_rows_are_read_by_id_in_any_order(hosts, ids):
    store = hosts[0].begin().put(*(make_row(number) for number in range(5))).store
    known = [number for (number,) in store.query("SELECT id FROM row ORDER BY id")]
    with host_run_reader.HostRunReader(hosts[0].folder) as reader:
        found = reader.rows_at([known[number - 1] for number in ids])
    assert sorted(row.op for row in found) == sorted("op%d" % (number - 1) for number in ids)
    hosts[0].finish()


def test_a_diff_with_a_merge_ignores_rows_that_were_not_stored(hosts, merging, tmp_path):
    """What is not stored for want of room has neither vanished nor appeared."""
    for host in hosts[:2]:
        host.begin().put(
            *(make_row(op, step=step, verdict=FAIL) for op in range(4) for step in range(2))
        ).finish()
    merge_to_the_end(merging(hosts[:2]))
    full, cut = str(tmp_path / "full"), str(tmp_path / "all")
    os.rename(cut, full)
    merge_to_the_end(merging(hosts[:2], max_rows=3))
    for first, second in ((full, cut), (cut, full)):
        found = difference_of(first, second)
        assert {kind: len(changes) for kind, changes in found.changes.items()} == dict.fromkeys(
            KINDS, 0
        ) and found.joined == 3
        said = (
            "%s is a merge and does not store 13 that did not, for want of room: only the rows "
            "that it stores are compared; "
        )
        assert (
            found.notes == [said % cut + "nothing is said of 13 rows of the other run"]
            and found.same_model
        )
        assert found.first.rows == found.second.rows == 16


def test_a_diff_with_a_merge_knows_which_ops_passed(hosts, merging, tmp_path):
    """They neither vanished nor appeared; one that failed before or after is known to have passed,
    if all devices have a value of it.
    """
    everywhere = [(op, device) for op in range(4) for device in range(2)]
    hosts[0].begin().put(
        *(make_row(*where, verdict=FAIL if where == (1, 0) else PASS) for where in everywhere)
    ).finish()
    merge_to_the_end(merging(hosts[:1]))
    before, after = str(tmp_path / "before"), str(tmp_path / "all")
    os.rename(after, before)
    hosts[0].begin(force=True, run=2).put(
        *(make_row(*where, verdict=FAIL if where == (2, 1) else PASS) for where in everywhere)
    )
    hosts[0].put(make_row(7, 1, verdict=FAIL)).finish()
    merge_to_the_end(merging(hosts[:1]))
    found = difference_of(before, after)
    changed = {
        kind: [(one.side.op, one.side.place.device) for one in changes]
        for kind, changes in found.changes.items()
        if changes
    }
    # op7 is new, and what a store of passing rows would call appeared cannot be told from one that
    # passed.
    assert changed == {"worse": [("op2", "1")], "better": [("op1", "0")]}
    assert change_words(found.changes["worse"][0]).startswith("pass -> FAIL") and (
        found.first.rows,
        found.second.rows,
    ) == (8, 9)
    assert found.notes[0].startswith(
        before + " is a merge and does not store 4 rows that passed: only the rows"
    )
    for first, second in ((before, hosts[0].folder), (hosts[0].folder, before)):
        found = difference_of(first, second)
        kinds = [
            kind
            for kind, changes in found.changes.items()
            for change in changes
            if change.side.op == "op1"
        ]
        assert kinds == (["better"] if first == before else ["worse"]) and found.same_model
        assert {change.side.op for changes in found.changes.values() for change in changes} == {
            "op1",
            "op2",
        }


def test_folders_that_cannot_be_merged_are_refused(hosts, merging, tmp_path):
    os.symlink(hosts[0].folder, str(tmp_path / "link"))
    for sources in (
        (hosts[0].folder, hosts[0].folder + "/"),
        (hosts[0].folder, str(tmp_path / "link")),
    ):
        with pytest.raises(UsageError, match="same folder"):
            MergeOptions(sources, "all")
    with pytest.raises(UsageError, match="OUT itself"):
        MergeOptions((hosts[0].folder,), hosts[0].folder)
    hosts[0].begin().put(make_row(0)).finish()
    merge_to_the_end(merging(hosts[:1]))
    twice = MergeOptions((str(tmp_path / "all"),), str(tmp_path / "more"))
    with pytest.raises(UsageError, match="itself a merge"):
        Merge(twice).__enter__()
    assert not os.path.exists(str(tmp_path / "more"))


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/runs/h1/out", "/runs/h2/out"], ["h1", "h2"]),
        (["/runs/h1", "/runs/h2"], ["h1", "h2"]),
        (["/x/a/out", "/y/a/out"], ["x", "y"]),
        (["/x/1/o", "/y/1/p"], ["o", "p"]),
        (["/x/1/o", "/y/1/p", "/z/2/p"], ["1/o", "1/p", "2/p"]),
        (["/only"], ["only"]),
    ],
)
def test_hosts_are_called_by_what_differs_in_their_paths(paths, names):
    assert host_names(paths) == names


def test_metrics_per_step_and_op_are_stored(hosts, merging, tmp_path):
    spread = [(op, device, step) for op in range(2) for device in range(2) for step in (2, 10)]
    hosts[0].begin().put(
        *(
            make_row(*where, verdict=FAIL if where[0] else PASS, distance=0.1 * where[0] + where[2])
            for where in spread
        )
    )
    hosts[0].put(
        make_row(
            5, metrics={"CosineSimilarity": math.nan, "MaxRelativeError": math.inf}, op="=cmd()"
        )
    ).finish()
    result = merge_to_the_end(merging(hosts[:1]))
    path = str(tmp_path / "all" / "step_op.csv")
    opened = goldwatch.open_result(str(tmp_path / "all"))
    assert result.files[-2] == path and path in opened.files
    assert opened.finished and (opened.summary, opened.sentence, opened.exit_code) == (
        result.summary,
        result.sentence,
        result.exit_code,
    )
    with open(path, encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    slow = slow_step_ops([hosts[0].folder])
    keys = [
        (
            line["Model"],
            line["Step"],
            line["OpName"].lstrip("'"),
            line["TensorIndex"],
            line["Metric"],
        )
        for line in found
    ]
    assert {
        key: (int(line["Devices"]), line["Worst"], line["Mean"]) for key, line in zip(keys, found)
    } == {
        key: (count, worst.replace("inf", "Infinity"), mean.replace("inf", "Infinity"))
        for key, (count, worst, mean) in slow.items()
    }
    assert [line["Step"] for line in found] == sorted(
        (line["Step"] for line in found), key=int
    ) and found[0]["OpName"] == "'=cmd()"
    with RunStore.open(str(tmp_path / "all")) as store:
        worst = worst_step_ops(store.query, "RelativeEuclideanDistance", 2)
        assert [(line["step"], line["op"], line["count"]) for line in worst] == [
            ("10", "op1", 2),
            ("10", "op0", 2),
        ]
        assert worst_step_ops(store.query, "CosineSimilarity", 1)[0]["worst"] == 1 - 10.1
        assert worst_step_ops(store.query, "MaxRelativeError", 9)[0]["worst"] == "Infinity"
        assert "CosineSimilarity" in metrics_of_step_ops(store.query)


@pytest.mark.parametrize("metric", ["RelativeEuclideanDistance", "CosineSimilarity"])
def test_the_worst_metric_of_each_op_over_all_devices_is_known(
    hosts, merging, tmp_path, metric
) -> None:
    random.seed(5)
    expected = {}
    for host in hosts:
        host.begin()
        for op in range(12):
            for device, step, model in (
                (device, step, model)
                for device in range(2)
                for step in (2, 10)
                for model in ("net", "other")
            ):
                value = random.choice(
                    [
                        random.random(),
                        random.random(),
                        math.nan,
                        math.inf if metric[0] == "R" else 0.5,
                    ]
                )
                row = make_row(
                    op, device, step, random.choice([PASS, FAIL, NOT_COMPARED]), model=model
                )
                row = row.but(metrics={} if row.verdict == NOT_COMPARED else {metric: value})
                # What an input is does not count.
                host.put(
                    row,
                    row.but(
                        tensor="op%d:input:0" % op,
                        kind="input",
                        metrics={metric: 2.0 if metric[0] == "R" else -1.0},
                    ),
                )
                if row.verdict != NOT_COMPARED and value == value:
                    distance = 1 - value if metric[0] == "C" else value
                    expected.setdefault((model, "op%d" % op, str(step)), []).append(distance)
        host.finish()
    merge_to_the_end(merging(hosts, max_rows=3))
    with RunStore.open(str(tmp_path / "all")) as store:
        found = over_devices(
            worst_outputs(store.query, (metric,)), [{"ops": [{"name": "op7"}]}], ["op11"]
        )
    assert found["metric"] == metric and [one["model"] for one in found["models"]] == [
        "net",
        "other",
    ]
    cells = {}
    for one in found["models"]:
        assert (
            one["steps"] == ["2", "10"]
            and one["ops"][:4] == ["op7", "op11", "op0", "op1"]
            and one["ops"][-1] == "op10"
        )
        for op, line in zip(one["ops"], one["worst"]):
            cells.update(
                {
                    (one["model"], op, step): value
                    for step, value in zip(one["steps"], line)
                    if value is not None
                }
            )
    wanted = {key: max(values) for key, values in expected.items()}
    assert cells.keys() == wanted.keys()
    assert {key: float(value) for key, value in cells.items()} == {
        key: pytest.approx(value, rel=1e-6) for key, value in wanted.items()
    }


def test_too_many_ops_and_steps_are_not_drawn(hosts, merging, tmp_path, monkeypatch) -> None:
    hosts[0].begin().put(*(make_row(op) for op in range(5))).finish()
    merge_to_the_end(merging(hosts[:1]))
    with RunStore.open(str(tmp_path / "all")) as store:
        assert len(worst_outputs(store.query, ()).worst) == 5
        with pytest.raises(FormatError, match="no number"):
            worst_outputs(
                lambda *asked: [
                    line if len(line) == 1 else (*line[:-1], "x") for line in store.query(*asked)
                ],
                (),
            )
        monkeypatch.setattr(stored_step_ops, "_MOST_DRAWN", 4)
        assert worst_outputs(store.query, ()) is None


def test_networks_are_stored_while_the_hosts_go_on(hosts, merging, tmp_path):
    graphs = [
        [{"model": "net", "ops": []}],
        [{"model": "net", "ops": []}, {"model": "other", "ops": []}],
        None,
    ]
    for host, found in zip(hosts, graphs):
        host.begin().put(make_row(0))
        if found is not None:
            host.store.set(GRAPHS, found)
    with merging(hosts) as merge:
        follow_until_quiet(merge)
        assert [document["model"] for document in merge.store.get(GRAPHS)] == ["net", "other"]
        merge.stop("test")


def test_a_store_that_is_being_created_is_waited_for(hosts, merging, tmp_path):
    """Also where its watch was killed before it was made."""
    hosts[0].begin().put(make_row(0)).finish()
    os.makedirs(hosts[1].folder)
    open(os.path.join(hosts[1].folder, "run.sqlite"), "wb").close()
    said = []
    with merging(hosts[:2], said=said) as merge:
        assert merge.sources[1].state == "waiting" and not merge.sources[1].trouble
        hosts[1].begin().put(make_row(1)).finish()
        merge.stop("test")
        merge.follow()
        assert merge.finish().summary.rows == 2
    assert not any("another program" in line for line in said)


def test_the_command_waits_for_a_row_that_is_final_at_its_host(hosts, merging):
    host = hosts[0].begin()
    host.put(make_row(5, verdict=FAIL), make_row(3, verdict=FAIL), make_row(4, verdict=FAIL))
    ids = [number for (number,) in host.store.query("SELECT id FROM row ORDER BY id")]
    host.store.set(PROVISIONAL, {"upto": ids[-1], "ids": ids})
    with merging(hosts[:1]) as merge:
        follow_until_quiet(merge)
        assert merge.hook.row is None
        host.store.set(PROVISIONAL, {"upto": ids[-1], "ids": ids[1:2]})
        follow_until_quiet(merge)
        assert merge.hook.row.op == "op4", "op3, which is before it, is not final"


def test_the_command_gets_the_first_output_not_an_input_behind_it(hosts, merging):
    host = hosts[0].begin()
    fed = make_row(2, verdict=FAIL, kind="input", tensor="op2:input:0")
    host.put(fed, make_row(9, verdict=FAIL), make_row(5, verdict=FAIL))
    host.store.set(PROVISIONAL, {"upto": 2**53, "ids": []})
    with merging(hosts[:1]) as merge:
        follow_until_quiet(merge)
        assert merge.hook.row.op == "op5"
