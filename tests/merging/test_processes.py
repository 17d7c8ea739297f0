"""Real watches on two hosts and a real merge: signals, kills, options, and all commands on the
result.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

import pytest
from in_process import run_here
from merged_hosts import read_merge, slow_rows, slow_step_ops, step_ops

import goldwatch
from goldwatch.schemas.documents import check_document
from goldwatch.testing import Training, as_statistics
from goldwatch.testing.training import Wrong

STEPS = (1, 2, 3)


def joined_lines(text):
    """What a command printed, broken shell lines joined again."""
    return text.replace("\\\n    ", "").replace("\\\n", "")


class Process:
    """A goldwatch that runs."""

    def __init__(self, words) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this)
        words = [sys.executable, "-m", "goldwatch", *words]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=self._log, universal_newlines=True
        )

    @property
    def stderr(self) -> str:
        return os.pread(self._log.fileno(), 1 << 24, 0).decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def wait(self) -> int:
        self.stdout, _ = self.process.communicate(timeout=120)
        assert "Traceback" not in self.stderr, self.stderr
        return self.process.returncode


class Lab:
    """Two hosts with two devices each, of which one computes an op wrong from step 2 on."""

    def __init__(self, folder, until) -> None:
        self.folder, self.until = folder, until
        self.out = str(folder / "merged")
        self.started = []
        self.trainings = {}
        for name, wrong in (("left", ()), ("right", (Wrong("part1/Mul", 1, 2),))):
            self.trainings[name] = Training(steps=STEPS, wrong=wrong)
            self.trainings[name].write_golden(str(folder / name / "golden"))
            self.trainings[name].write_graphs(str(folder / name / "graphs"))

    def dump(self, host, *steps):
        self.trainings[host].write_tree(str(self.folder / host / "dump"), steps=steps)

    def out_of(self, host):
        return str(self.folder / host / "out")

    def start(self, *words):
        self.started.append(Process(words))
        return self.started[-1]

    def watch_words(self, host, idle="1"):
        below = self.folder / host
        words = [
            "watch",
            str(below / "dump"),
            str(below / "golden"),
            "-f",
            str(below / "graphs"),
            "-o",
            self.out_of(host),
            "--jobs",
            "1",
        ]
        return [*words, *(["--until-idle", idle] if idle else [])]

    def merge_words(self, *options, hosts=("left", "right")):
        return ["watch", "--merge", *map(self.out_of, hosts), "-o", self.out, *options]

    def count(self, where="1", table="row", out=None):
        """Return how many lines a store has; 0 while it is not there."""
        try:
            return read_merge(out or self.out, "SELECT count(*) FROM %s WHERE %s" % (table, where))[
                0
            ][0]
        except sqlite3.OperationalError:
            return 0

    def rows(self, host):
        """Return how many tensors of a host have been compared."""
        return self.count("verdict IN ('pass', 'fail')", out=self.out_of(host))

    def judge(self):
        """Compare what was merged with what both hosts found."""
        hosts = {name: self.out_of(name) for name in ("left", "right")}
        assert step_ops(self.out) == slow_step_ops(hosts.values())
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as stream:
            document = json.load(stream)
        check_document(document, "result", "result.json")
        rows = [
            row
            for row in document["rows"]
            if row["verdict"] != "pass" and row["verdict"] != "expected_absent"
        ]
        assert sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)) == slow_rows(
            hosts.items()
        )
        return document


@pytest.fixture
def lab(tmp_path, until):
    found = Lab(tmp_path, until)
    yield found
    for one in found.started:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def done(lab):
    """A lab whose hosts have finished."""
    for host in ("left", "right"):
        lab.dump(host, *STEPS)
        assert run_here(["goldwatch", *lab.watch_words(host, "0.1"), "-q"]).returncode == (
            host == "right"
        )
    return lab


def test_two_live_watches_are_merged(lab):
    lab.dump("left", 1)
    watches = [lab.start(*lab.watch_words("left", ""))]
    lab.until(lambda: os.path.exists(os.path.join(lab.out_of("left"), "run.sqlite")))
    merge = lab.start(
        *lab.merge_words("--until-idle", "1", "--html", str(lab.folder / "page.html"))
    )
    lab.until(lambda: "merging the runs of 2 hosts" in merge.stderr)
    watches.append(lab.start(*lab.watch_words("right", "")))
    lab.until(lambda: lab.count(table="step_op") > 0)
    lab.dump("right", 1, 2)
    lab.until(lambda: lab.count("host = 'right' AND verdict = 'fail'") > 0)
    # The row is there while both hosts go on.
    assert watches[1].process.poll() is None and merge.process.poll() is None
    lab.dump("left", 2, 3)
    lab.dump("right", 3)
    lab.until(lambda: all(lab.rows(host) == 84 for host in ("left", "right")))
    for watch in watches:
        watch.process.send_signal(signal.SIGINT)
    assert [watch.wait() for watch in watches] == [0, 1]
    assert merge.wait() == 1
    document = lab.judge()
    first = document["summary"]["first_divergence"]
    assert (first["host"], first["device"], first["step"], first["op"], first["inputs"]) == (
        "right",
        "1",
        "2",
        "part1/Mul",
        "good",
    )
    assert "of host right" in merge.stdout and "host left: pass" in merge.stdout
    assert "right" in (lab.folder / "page.html").read_text()


def test_kills_of_watches_and_merge_lose_and_double_no_row(lab):
    """Whatever is killed, the same command goes on; nothing is lost or doubled."""
    lab.dump("left", *STEPS)
    lab.dump("right", 1, 2)
    for number in range(3):
        watch = lab.start(*lab.watch_words("right", ""))
        merge = lab.start(*lab.merge_words())
        lab.until(lambda: lab.count("host = 'right' AND verdict = 'fail'") > 0)
        (merge if number % 2 else watch).kill()
        (watch if number % 2 else merge).kill()
    lab.dump("right", 3)
    for host in ("left", "right"):
        run_here(["goldwatch", *lab.watch_words(host, "0.1"), "-q"])
    merge = lab.start(*lab.merge_words("--until-idle", "0.5"))
    assert merge.wait() == 1
    assert lab.judge()["summary"]["hosts"][0]["rows"] == lab.judge()["summary"]["hosts"][1]["rows"]


def test_ctrl_c_gives_the_verdict_of_what_was_merged(lab):
    lab.dump("left", *STEPS)
    assert run_here(["goldwatch", *lab.watch_words("left", "0.1"), "-q"]).returncode == 0
    merge = lab.start(*lab.merge_words())
    lab.until(lambda: "host left: finished" in merge.stderr)
    merge.process.send_signal(signal.SIGINT)
    assert merge.wait() == 3
    assert (
        "what has come is judged now" in merge.stderr
        and "host right has not finished" in merge.stdout.replace("\n", " ")
    )
    lab.dump("right", *STEPS)
    assert run_here(["goldwatch", *lab.watch_words("right", "0.1"), "-q"]).returncode == 1
    assert run_here(["goldwatch", *lab.merge_words("--until-idle", "0.1")]).returncode == 1
    lab.judge()


def test_every_report_and_command_names_the_host(done, tmp_path):
    files = {
        name: str(tmp_path / ("report." + name))
        for name in ("html", "junit", "markdown", "csv", "json")
    }
    words = [word for name, path in files.items() for word in ("--" + name, path)]
    found = run_here(["goldwatch", *done.merge_words("--until-idle", "0.1", *words)])
    assert found.returncode == 1, found.stderr
    done.judge()
    for path in files.values():
        with open(path, encoding="utf-8") as stream:
            assert "right" in stream.read(), path
    with open(files["csv"], encoding="utf-8") as stream:
        assert stream.readline().startswith("Host,Time,Device,Model,ModelId,Step,")
    with open(files["json"], encoding="utf-8") as one, open(
        os.path.join(done.out, "result.json"), encoding="utf-8"
    ) as other:
        assert json.load(one) == json.load(other)
    result = goldwatch.open_result(done.out)
    assert (
        result.exit_code == 1
        and result.first_divergence.place.host == "right"
        and result.sentence in found.stdout.replace("\n", " ")
    )
    assert {row.host for row in result.rows()} == {"right"}
    again = run_here(["goldwatch", "report", done.out, "--markdown", str(tmp_path / "later.md")])
    assert again.returncode in (0, 1), again.stderr
    assert (tmp_path / "later.md").read_text() == (tmp_path / "report.markdown").read_text()


def test_two_merges_are_compared_by_diff(done, tmp_path):
    assert run_here(["goldwatch", *done.merge_words("--until-idle", "0.1", "-q")]).returncode == 1
    before = str(tmp_path / "before")
    os.rename(done.out, before)
    done.trainings["right"] = Training(steps=STEPS, wrong=(Wrong("part1/Mul", 0, 3),))
    shutil.rmtree(str(done.folder / "right" / "dump"))
    done.dump("right", *STEPS)
    run_here(["goldwatch", *done.watch_words("right", "0.1"), "-q"])
    assert run_here(["goldwatch", *done.merge_words("--until-idle", "0.1", "-q")]).returncode == 1
    found = run_here(["goldwatch", "diff", before, done.out, "--format", "json"])
    document = json.loads(found.stdout)
    check_document(document, "diff", "the diff")
    assert "right" in found.stdout


def test_a_merge_is_compared_with_the_run_of_one_of_its_hosts(done, tmp_path):
    """Both hosts have the same devices: the folder tells which host a run is."""
    assert run_here(["goldwatch", *done.merge_words("--until-idle", "0.1", "-q")]).returncode == 1
    copy = str(tmp_path / "copy")
    shutil.copytree(done.out_of("right"), copy)
    for words in ([done.out, done.out_of("right")], [done.out_of("right"), done.out]):
        found = run_here(["goldwatch", "diff", *words])
        assert found.returncode == 0 and "host right of the merge" in found.stderr
        assert "0 worse, 0 better, 0 appeared, 0 vanished;" in found.stdout
    found = run_here(["goldwatch", "diff", done.out, copy])
    assert found.returncode == 3 and "compare the results of one host alone" in found.stdout
    folders = ["%s (host %s)" % (done.out_of(host), host) for host in ("left", "right")]
    assert all(folder in found.stderr for folder in folders)


def test_after_statistics_the_next_command_is_that_of_the_host_that_diverges(done):
    """The paths of the hosts differ: the first host's would dump to a folder of no use."""
    for host in ("left", "right"):
        below = done.folder / host
        as_statistics(str(below / "dump"), str(below / "stats"), "default")
        words = ["watch", str(below / "stats"), *done.watch_words(host, "0.1")[2:], "--force"]
        found = run_here(["goldwatch", *words, "-q"])
    own = joined_lines(found.stdout).partition("next: ")[2]
    merged = run_here(["goldwatch", *done.merge_words("--until-idle", "0.1", "-q")])
    head, _, words = joined_lines(merged.stdout).rpartition("next on host right: ")
    assert head and words == own and str(done.folder / "right" / "stats_tensors") in words
    configured = run_here(shlex.split(words))
    assert configured.returncode == 0 and "part1/Mul" in configured.stderr, configured.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--merge", "A", "A", "-o", "out"], "same folder"),
        (["--merge", "A", "B", "-o", "A"], "OUT itself"),
        (["--merge", "-o", "out"], "no folder is named"),
        (["--merge", "A", "B", "-o", "out", "-f", "x.json"], "--model does not go with --merge"),
        (
            ["--merge", "A", "B", "-o", "out", "--limit", "CosineSimilarity>0.5"],
            "--limit does not go with --merge",
        ),
        (["--merge", "A", "B", "-o", "out", "--keep", "failed"], "--keep does not go with --merge"),
        (["--merge", "A", "B", "-o", "out", "--jobs", "2"], "--jobs does not go with --merge"),
        (
            ["--merge", "A", "B", "-o", "out", "--allow-missing"],
            "--allow-missing does not go with --merge",
        ),
        (["--merge", "A", "B", "-o", "out", "--until-idle", "0"], "--until-idle 0"),
        (["A", "B", "C", "-o", "out"], "unexpected extra argument"),
        (["A", "-o", "out"], "watch: GOLDEN is missing"),
        (["A", "B", "-o", "out", "--max-rows", "3"], "needs --merge"),
    ],
)
def test_senseless_merge_options_are_refused(tmp_path, words, said):
    found = run_here(["goldwatch", "watch", *words], tmp_path)
    assert found.returncode == 2 and said in found.stderr and os.listdir(str(tmp_path)) == []


def test_stop_on_divergence_ends_the_merge_and_runs_the_command(done, tmp_path):
    taken = str(tmp_path / "row.json")
    merge = done.start(
        *done.merge_words("--stop-on-divergence", "--on-divergence", "cat > '%s'" % taken)
    )
    assert merge.wait() == 1, merge.stderr
    with open(taken, encoding="utf-8") as stream:
        assert json.load(stream)["host"] == "right"
