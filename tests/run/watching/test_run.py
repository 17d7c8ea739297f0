"""``goldwatch run``: the configuration, the program, its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys

import pytest
from in_process import run_here

import goldwatch
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions

PROGRAM = """
import json, os, shutil, signal, sys, time
acl, scratch, mode = sys.argv[1:4]
with open(acl) as stream:
    path = json.load(stream)["dump"]["dump_path"]
print("dumping to", path, flush=True)
print("and this is stderr", file=sys.stderr, flush=True)
if mode == "env":
    print(json.dumps(dict(os.environ)), flush=True)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(600)
for base, _, names in os.walk(scratch):
    for name in sorted(names):
        folder = os.path.join(path, os.path.relpath(base, scratch))
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(os.path.join(base, name), os.path.join(folder, name))
if mode in ("slow", "deaf"):
    time.sleep(600)
if mode.startswith("child"):
    first, second = os.path.join(path, "..", "go"), os.path.join(path, "..", "stop")
    # Asked before the fork: the program may have ended when its child asks.
    parent = os.getpid()
    if os.fork() == 0:
        if mode == "child-detached":
            os.setsid()
        while os.getppid() == parent or not os.path.exists(first):
            time.sleep(0.02)
        dumps = [os.path.join(base, name) for base, _, names in os.walk(path) for name in names if ".op1." in name]
        with open(dumps[0], "r+b") as stream:
            stream.seek(-20, 2)
            stream.write(bytes(range(100, 120)))
        while mode == "child-stays" and not os.path.exists(second):
            print("still here", flush=True)
            time.sleep(0.02)
if mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(mode) if mode.isdigit() else 0)
"""  # noqa: E501


class Setup:
    def __init__(self, net) -> None:
        self.net = net
        net.write_golden()
        net.files()
        self.scratch = [
            os.path.join(net.folder, name)
            for name in os.listdir(net.folder)
            if name.startswith("scratch")
        ][0]
        self.program = os.path.join(net.folder, "program.py")
        self.acl = os.path.join(net.folder, "acl.json")
        with open(self.program, "w") as stream:
            stream.write(PROGRAM)
        self.write_acl()

    def write_acl(self, **changes) -> None:
        dump = {
            "dump_path": self.net.target,
            "dump_mode": "all",
            "dump_list": [{"model_name": "net"}],
        }
        dump.update(changes)
        with open(self.acl, "w") as stream:
            json.dump({"dump": dump}, stream)

    def command(self, mode: str, *options: str, program=None):
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            "run",
            "--acl",
            self.acl,
            "--golden",
            self.net.golden,
            "-o",
            self.net.out,
            "--jobs",
            "2",
        ]
        words += ["-f", self.net.model_path, *options, "--"]
        return words + (program or [sys.executable, self.program, self.acl, self.scratch, mode])


@pytest.fixture
def setup(make_net):
    return lambda **options: Setup(make_net(**options))


@pytest.fixture
def run(watch):
    class Command:
        def __init__(self, words) -> None:
            self.words = words

        def command(self, *options, **kind):
            return self.words

    return lambda words: watch(Command(words))


LAYERS = """
import json, os, shutil, sys
with open(sys.argv[1]) as stream:
    dump = json.load(stream)["dump"]
for base, _, names in os.walk(sys.argv[2]):
    for name in names:
        if name.split(".")[1] in dump["dump_list"][0].get("layer", ()):
            folder = os.path.join(dump["dump_path"], os.path.relpath(base, sys.argv[2]))
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(os.path.join(base, name), os.path.join(folder, name))
"""


@pytest.mark.parametrize("ends", [(), ("--expect-all",)])
def test_ops_outside_the_configured_layers_are_not_waited_for(setup, run, ends) -> None:
    one = setup()
    one.write_acl(dump_list=[{"model_name": "net", "layer": ["op1", "op3"]}])
    running = run(
        one.command("0", *ends, program=[sys.executable, "-c", LAYERS, one.acl, one.scratch])
    )
    assert running.wait() == 0, running.stderr
    assert one.net.verdicts()["op3:output:0"] == "pass"
    assert one.net.reasons()["op2"] == "not asked for: the dump configuration names other ops"
    # What was asked for and did not come is missing.
    shutil.rmtree(one.net.target)
    one.write_acl(dump_list=[{"model_name": "net", "layer": ["op1", "op2"]}])
    program = LAYERS.replace('dump["dump_list"][0].get("layer", ())', '("op1",)')
    again = run(
        one.command("0", "--force", program=[sys.executable, "-c", program, one.acl, one.scratch])
    )
    assert again.wait() == 3, again.stderr
    assert one.net.reasons()["op2"] == "no dump file"


def alive_in_group_of(word: str):
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as stream:
                    words = stream.read()
            except OSError:
                continue
            if word.encode() in words and b"-m\0goldwatch" not in words:
                found.append(int(pid))
    return found


def test_a_program_that_succeeds_is_compared_and_passes(setup, run) -> None:
    one = setup()
    running = run(one.command("0"))
    assert running.wait() == 0, running.stderr
    assert (
        "dumping to " + one.net.target in running.stdout and "and this is stderr" in running.stderr
    )
    with open(os.path.join(one.net.out, "program.log")) as stream:
        log = stream.read()
    assert "dumping to" in log and "and this is stderr" in log
    assert one.net.result()["summary"]["program"] == {"exit_code": 0, "signal": None}
    assert one.net.count("verdict = 'pass'") == 8 and one.net.tables()[0].startswith("result_")


@pytest.mark.parametrize("mode, code, name", [("3", 3, None), ("killed", None, "SIGKILL")])
def test_a_program_that_fails_exits_with_5_and_keeps_the_verdict(
    setup, run, mode, code, name
) -> None:
    one = setup(bad=2)
    running = run(one.command(mode))
    assert running.wait() == 5
    assert (name or "exit code 3") in running.stderr and "op2" in running.stdout
    summary = one.net.result()["summary"]
    assert (
        summary["program"] == {"exit_code": code, "signal": name} and summary["verdict"] == "fail"
    )


def test_a_program_that_fails_before_dumping_says_what_may_be_wrong(setup, run) -> None:
    one = setup()
    running = run(one.command("", program=["/bin/sh", "-c", "exit 9"]))
    assert running.wait() == 5 and "exit code 9" in running.stderr
    assert one.net.result()["summary"]["program"]["exit_code"] == 9
    running = run(one.command("", program=["/bin/true"]))
    assert running.wait() == 4 and "no dump file came" in running.stderr
    said = " ".join(running.stderr.split())
    assert (
        "does the program pass %s to aclInit()? (no argument names it)" % one.acl in said
        and "is the model called 'net'" in said
    )


def test_a_failing_row_exits_with_1_and_json_is_one_document(setup, run) -> None:
    one = setup(bad=1)
    running = run(one.command("0", "--format", "json"))
    assert running.wait() == 1
    assert json.loads(running.stdout) == one.net.result() and "dumping to" in running.stderr


def test_wrong_programs_and_configurations_are_refused_before_anything_runs(setup, run) -> None:
    one = setup()
    assert run(one.command("", program=["/no/such/program"])).wait() == 4
    one.write_acl(dump_mode="everything")
    running = run(one.command("0"))
    assert (
        running.wait() == 4 and "dump_mode" in running.stderr and not os.path.exists(one.net.target)
    )
    with open(one.acl, "w") as stream:
        stream.write("{")
    assert run(one.command("0")).wait() == 4
    words = one.command("0")
    assert run([word for word in words if word not in ("--acl", one.acl)][:-1] + ["x"]).wait() == 2


def test_earlier_time_folders_are_ignored(setup, run) -> None:
    one = setup()
    old = os.path.join(one.net.target, "20250101000000")
    one.net.put(
        {
            path.replace("20260102030405", "20250101000000"): data[:50]
            for path, data in one.net.files().items()
        }
    )
    running = run(one.command("0", "--keep", "none"))
    assert running.wait() == 0, running.stderr
    assert "20250101000000" in running.stderr
    assert len([name for _, _, names in os.walk(old) for name in names]) == 4
    assert {row["time"] for row in one.net.result()["rows"]} == {"20260102030405"}


def test_several_earlier_time_folders_are_each_reported_once(setup, run) -> None:
    one = setup()
    for time in ("20250101000000", "20250102000000"):
        one.net.put(
            {path.replace("20260102030405", time): data for path, data in one.net.files().items()}
        )
    running = run(one.command("0"))
    assert running.wait() == 0, running.stderr
    assert (
        "note: 2 time folders from before the start are left alone: 20250101000000, 20250102000000"
        in running.stderr
    )
    assert running.stderr.count("20250101000000") == running.stderr.count("20250102000000") == 1


@pytest.mark.parametrize("mode", ["slow", "deaf"])
def test_one_ctrl_c_stops_the_program_and_compares_what_was_dumped(setup, run, mode) -> None:
    one = setup()
    running = run(one.command(mode, "--grace", "1"))
    one.net.until(lambda: one.net.count("verdict = 'pass'") == 8)
    running.signal()
    assert running.wait() == 0, running.stderr
    ended = "SIGINT ended the program before its own end: what had not been dumped by then is not"
    assert ended in " ".join(running.stdout.split())
    assert (
        one.net.result()["summary"]["program"]["signal"]
        == {"slow": "SIGTERM", "deaf": "SIGKILL"}[mode]
    )
    assert alive_in_group_of(one.program) == []


def test_a_second_ctrl_c_kills_the_program_and_exits_with_130(setup, run) -> None:
    one = setup()
    running = run(one.command("deaf", "--grace", "600"))
    one.net.until(lambda: one.net.count("verdict = 'pass'") == 8)
    running.signal()
    running.until_said("stopping the program")
    assert running.process.poll() is None
    running.signal(signal.SIGTERM)
    assert running.wait() == 130
    assert alive_in_group_of(one.program) == []


def test_stop_on_divergence_stops_the_program(setup, run) -> None:
    one = setup(bad=0)
    running = run(one.command("slow", "--stop-on-divergence"))
    assert running.wait() == 1, running.stderr
    program = one.net.result()["summary"]["program"]
    assert program == {"exit_code": None, "signal": "SIGTERM", "stopped": True}
    # Everybody who asks for it later hears the same.
    result = goldwatch.open_result(one.net.out)
    assert (result.exit_code, result.summary.verdict) == (1, "fail")
    junit = os.path.join(one.net.folder, "junit.xml")
    words = ["goldwatch", "report", one.net.out, "--junit", junit]
    assert run_here(words, one.net.folder).returncode == 0
    with open(junit) as stream:
        assert "the program failed" not in stream.read()


def test_a_plan_is_written_where_the_program_reads_it(setup, run) -> None:
    one = setup()
    plan = os.path.join(one.net.folder, "plan.json")
    with open(plan, "w") as stream:
        json.dump({"dump_path": one.net.target, "mode": "all", "models": [{"name": "net"}]}, stream)
    place = os.path.join(one.net.folder, "config", "acl.json")
    words = one.command("0", "--acl-at", place)
    words[words.index("--acl") : words.index("--acl") + 2] = ["--plan", plan]
    words[words.index(one.acl)] = place
    running = run(words)
    assert running.wait() == 0, running.stderr
    with open(place) as stream:
        assert json.load(stream)["dump"]["dump_path"] == one.net.target


def test_golden_data_is_made_first_by_golden_run(setup, run) -> None:
    one = setup()
    aside = one.net.golden + "-aside"
    os.rename(one.net.golden, aside)
    running = run(one.command("0", "--golden-run", "cp -r %s %s" % (aside, one.net.golden)))
    assert running.wait() == 0, running.stderr
    running = run(one.command("0", "--golden-run", "exit 3"))
    assert running.wait() == 5 and "golden data failed with exit code 3" in running.stderr


def test_the_program_sees_an_unchanged_environment(setup, run) -> None:
    one = setup()
    running = run(one.command("env"))
    assert running.wait() == 0
    line = [line for line in running.stdout.splitlines() if line.startswith("{")][0]
    # readline sets these two behind Python's back, in the process that runs the tests.
    ignored = ("COLUMNS", "LINES")
    expected = {name: value for name, value in os.environ.items() if name not in ignored}
    assert {
        name: value for name, value in json.loads(line).items() if name not in ignored
    } == expected


@pytest.mark.parametrize("mode", ["child", "child-detached"])
def test_a_child_that_outlives_the_program_is_waited_for(setup, run, mode) -> None:
    one = setup()
    running = run(one.command(mode))
    one.net.until(lambda: one.net.count("verdict = 'pass'") == 8)
    running.until_said("what it started still runs")
    assert running.process.poll() is None and len(alive_in_group_of(one.program)) == 1
    open(os.path.join(one.net.folder, "go"), "w").close()
    assert running.wait() == 1, running.stderr
    assert one.net.verdicts()["op1:output:0"] == "fail"


def custom(one):
    """A metric of the user's own."""
    folder = os.path.join(one.net.folder, "mine", "algorithm")
    os.makedirs(folder)
    with open(os.path.join(folder, "alg_Bias.py"), "w") as stream:
        stream.write(
            "def compare(my_output, ground_truth, args):\n    return str(float((my_output - "
            "ground_truth).mean())), ''\n"
        )
    return "--custom", os.path.dirname(folder)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_workers_for_users_metrics_are_not_taken_for_the_programs_children(
    setup, run, jobs
) -> None:
    one = setup()
    running = run(one.command("0", *custom(one), "--jobs", jobs))
    assert running.wait() == 0, running.stderr
    assert (
        "what it started still runs" not in running.stderr and "left running" not in running.stderr
    )
    assert one.net.count("user_metrics LIKE '%Bias%'") == 8


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_only_processes_of_the_program_are_named_as_still_running(setup, run, jobs) -> None:
    one = setup()
    running = run(one.command("child", *custom(one), "--jobs", jobs))
    running.until_said("what it started still runs")
    (pid,) = alive_in_group_of(one.program)
    open(os.path.join(one.net.folder, "go"), "w").close()
    assert running.wait() == 1, running.stderr
    (said,) = [line for line in running.stderr.splitlines() if "what it started still runs" in line]
    assert said.count("(pid ") == 1 and said.endswith("(pid %d)" % pid)


def test_an_idle_child_of_the_program_is_left_running(setup, run) -> None:
    one = setup()
    open(os.path.join(one.net.folder, "go"), "w").close()
    running = run(one.command("child-stays", "--until-idle", "1"))
    assert running.wait() == 1, running.stderr
    (pid,) = alive_in_group_of(one.program)
    assert "left running: " in running.stderr and "(pid %d)" % pid in running.stderr
    log = os.path.join(one.net.out, "program.log")
    size = os.path.getsize(log)
    one.net.until(lambda: os.path.getsize(log) > size)
    open(os.path.join(one.net.folder, "stop"), "w").close()
    one.net.until(lambda: not alive_in_group_of(one.program))


def test_idle_time_counts_from_the_first_dump(net, turn, at_end) -> None:
    net.write_golden()
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path)
    with Watch(options, WatchOptions(until_idle_s=1e-9)) as watch:
        turns = watch.turns()
        for _ in range(3):
            next(turns)
            assert not at_end(watch)
        net.put(net.files())
        for _ in turns:
            pass
        assert watch.finish().exit_code == 0
    assert net.count("verdict = 'pass'") == 8
