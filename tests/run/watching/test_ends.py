"""How a watch ends, and what it reports then."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import numpy as np
import pytest

from goldwatch.config.dump_plan import DumpPlan
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions
from goldwatch.store.facts_and_events import OPS

STAMP = 1767323045000000


def test_idle_time_counts_from_the_first_dump(net, watch) -> None:
    watcher = watch(net, "--until-idle", "0.01").until_watching()
    assert watcher.process.poll() is None
    watcher.process.send_signal(signal.SIGINT)
    assert watcher.wait() == 4
    assert net.target in watcher.stderr and "no dump file came" in watcher.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_verdict_of_what_is_there(net, watch, number) -> None:
    net.write_golden()
    files = net.files()
    watcher = watch(net)
    net.put(dict(list(files.items())[:2]))
    net.until(lambda: net.count("verdict = 'pass'") == 4)
    watcher.signal(number)
    assert watcher.wait() == 3, watcher.stderr
    assert (
        "%s: what has come is judged now; once more: stop at once" % signal.Signals(number).name
        in watcher.stderr
    )
    ended = "%s ended the watch: what had not been dumped by then is not judged."
    assert ended % signal.Signals(number).name in watcher.stdout.splitlines()
    assert net.rows() == net.compare_rows()
    assert net.verdicts()["op2"] == "not_compared"


def test_a_second_signal_exits_with_130_and_the_run_can_continue(
    make_net, watch, watch_here
) -> None:
    net = make_net(shape=(4, 64, 128, 128))
    net.write_golden()
    net.put(net.files())
    watcher = watch(net).until_watching()
    # Two kinds, so that the second is one of its own even when both come before the first is
    # answered.
    watcher.signal(signal.SIGINT)
    watcher.signal(signal.SIGTERM)
    assert watcher.wait() == 130, watcher.stderr
    watcher = watch_here(net)
    assert watcher.returncode == 0, watcher.stderr
    assert net.count("verdict = 'pass'") == 8


def test_a_watch_ends_with_the_process_given_by_pid(net, watch, watch_here) -> None:
    net.write_golden()
    producer = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    watcher = watch(net, "--pid", str(producer.pid))
    net.put(net.files())
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    assert watcher.process.poll() is None
    producer.communicate()
    assert watcher.wait() == 0, watcher.stderr
    again = watch(net, "--pid", str(producer.pid), "-q")
    assert again.wait() == 0 and "warning: there is no process %d" % producer.pid in again.stderr
    assert watch_here(net, "--pid", "0").returncode == 2


@pytest.mark.parametrize("step, steps", [("0|5-7|6", 4), ("0", 1), (None, 1)])
def test_progress_counts_the_steps_that_the_dump_configuration_names(
    net, turn, step, steps
) -> None:
    net.write_golden()
    one = net.files(device=0)
    options = ComparisonOptions(
        net.target, net.golden, net.out, net.model_path, plan=DumpPlan(step=step)
    )
    with Watch(options, WatchOptions()) as running:
        assert running.arrivals.ops_come() == (0, steps * len(one))
        net.put(one)
        turns = running.turns()
        turn(turns, lambda: running.arrivals.file_count == len(one) and not running.engine.busy)
        assert running.arrivals.ops_come() == (len(one), steps * len(one))


def test_expect_all_ends_when_every_op_has_arrived(net, watch, turn, monkeypatch, at_end) -> None:
    """Of every device; however long it is quiet before."""
    net.write_golden()
    assert watch(net, "--expect-all", model=False).wait() == 2
    monkeypatch.setattr("goldwatch.run.watch._QUIET_S", 0.0)
    one, other = net.files(device=0), net.files(device=1)
    net.put(one)
    net.put(dict(list(other.items())[:1]))
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path)
    with Watch(options, WatchOptions(expect_all=True)) as running:
        # Of one place, before the first dump.
        assert running.arrivals.ops_come() == (0, len(one))
        turns = running.turns()
        turn(turns, lambda: running.arrivals.file_count == len(one) + 1 and not running.engine.busy)
        assert not at_end(running)
        assert running.arrivals.ops_come() == (len(one) + 1, 2 * len(one))
        net.put(dict(list(other.items())[1:]))
        last = list(turns)[-1]
        assert running.finish().exit_code == 0
        assert last.progress.ops == (2 * len(one), 2 * len(one))
        assert running.store.get(OPS) == {"come": 2 * len(one), "expected": 2 * len(one)}
    assert net.rows() == net.compare_rows()


def test_stop_on_divergence_ends_and_runs_the_command_with_the_row(make_net, watch) -> None:
    net = make_net(bad=1)
    net.write_golden()
    told = os.path.join(net.folder, "told")
    command = "cat >> %s; printf '%%s' \"$GOLDWATCH_ROW\" > %s.env; exit 7" % (told, told)
    watcher = watch(net, "--on-divergence", command, "--stop-on-divergence")
    net.put(net.files())
    assert watcher.wait() == 1, watcher.stderr
    with open(told) as stream:
        row = json.loads(stream.read())
    assert row["op"] == "op1" and row["verdict"] == "fail"
    with open(told + ".env") as stream:
        assert json.loads(stream.read()) == row
    assert "exit code 7" in watcher.stderr
    assert watch(net, "--on-divergence", command, "--until-idle", "0.5").wait() == 1
    with open(told) as stream:
        assert json.loads(stream.read()) == row


def test_a_second_watch_of_the_same_out_is_refused(net, watch, watch_here) -> None:
    net.write_golden()
    net.put(net.files())
    first = watch(net)
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    second = watch_here(net)
    assert second.returncode == 4 and str(first.process.pid) in second.stderr
    first.signal(signal.SIGKILL)
    first.process.wait()
    third = watch_here(net)
    assert third.returncode == 0, third.stderr
    assert net.rows() == net.compare_rows()


def test_missing_golden_data_and_wrong_options_end_the_watch(net, watch, watch_here) -> None:
    net.put(net.files())
    os.rmdir(net.golden)
    assert watch_here(net).returncode == 4
    os.mkdir(net.golden)
    watcher = watch_here(net)
    assert watcher.returncode == 4 and set(net.verdicts().values()) == {
        "not_compared",
        "expected_absent",
    }
    for options in (
        ["--until-idle", "-1"],
        ["--poll", "0"],
        ["--min-free", "much"],
        ["--keep", "some"],
        ["--golden-steps", "two"],
    ):
        assert watch_here(net, *options).returncode == 2


@pytest.mark.parametrize("options", [(), ("--golden-steps", "each")])
def test_each_step_is_watched_with_the_golden_data_of_its_step(net, watch_here, options) -> None:
    net.write_golden(below="0")
    net.write_golden(below="1")
    os.unlink(net.golden_path("op3", below="1"))
    net.put(dict(net.files(step=0), **net.files(step=1)))
    watcher = watch_here(net, *options)
    assert watcher.returncode == 3, watcher.stderr
    found = {(row["step"], row["tensor"]): row for row in net.result()["rows"]}
    assert found["0", "op3:output:0"]["verdict"] == "pass" and found["0", "op3:output:0"][
        "golden_file"
    ].startswith("0/")
    assert found["1", "op3:output:0"]["verdict"] == "not_compared"
    assert found["1", "op2:output:0"]["golden_file"].startswith("1/")
    assert net.rows() == net.compare_rows(options=options)


def test_the_newest_time_folder_is_watched(net, watch, watch_here) -> None:
    net.write_golden()
    files = net.files()

    def at(time):
        return {path.replace("20260102030405", time): data for path, data in files.items()}

    net.put(dict(at("20260101000000"), **at("20260102000000")))
    os.makedirs(os.path.join(net.target, "20260102000000", "0", "net", "1", "5"))
    watcher = watch(net, "-q")
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    net.put(at("20260103000000"))
    net.until(lambda: net.count("verdict = 'pass'") == 16)
    watcher.signal()
    assert watcher.wait() == 3, watcher.stderr
    assert "warning: left out 20260101000000" in watcher.stderr
    assert {row["time"] for row in net.result()["rows"]} == {"20260102000000", "20260103000000"}
    (empty,) = [row for row in net.result()["rows"] if row["step"] == "5"]
    assert empty["verdict"] == "not_compared" and "holds no dump" in empty["reason"]
    assert watch_here(net).returncode == 3
    assert net.count("verdict = 'pass'") == 16


def test_each_run_of_a_loop_is_compared_in_a_watch(net, watch_here) -> None:
    net.write_golden()
    for later in (1, 2):
        for name in ("op0", "op1"):
            np.save(net.golden_path(name, stamp=STAMP + later), net.values[name])
    for number in range(3):
        net.put(net.files(stamp=STAMP + 10**7 * number))
    watcher = watch_here(net)
    assert watcher.returncode == 0, watcher.stderr
    assert net.count("tensor = 'op1:output:0' AND verdict = 'pass'") == 3
    assert net.count("tensor = 'op2:output:0' AND verdict = 'pass'") == 1
    assert net.rows() == net.compare_rows()


def test_json_output_is_one_document_and_quiet_prints_nothing(net, watch_here) -> None:
    net.write_golden()
    net.put(net.files())
    watcher = watch_here(net, "--format", "json", "-q")
    assert watcher.returncode == 0
    assert json.loads(watcher.stdout) == net.result() and watcher.stderr == ""
    quiet = watch_here(net, "-q")
    assert quiet.returncode == 0 and quiet.stderr == ""
    assert quiet.stdout.startswith("pass: ") and quiet.stdout.endswith("outside its limits.\n")
    assert quiet.stdout.count("\n") == 2
