"""Jobs: what may be requested, how it runs, and that neither a kill nor a restart of the server
loses one.
"""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from in_process import run_here
from service_client import COMPARE, WATCH, post_job, wait_for_end, wait_until_running

from goldwatch.base.system import start_time

FULL = """
from goldwatch.service import job_queue

def limited(path, connect=job_queue.connect_writer):
    connection = connect(path)
    connection.executescript(job_queue._TABLE)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute("PRAGMA max_page_count = %d" % pages)
    return connection

job_queue.connect_writer = limited
"""


def test_a_compare_job_runs_and_ends_done(serving, lab, until):
    server = serving(lab)
    job = post_job(server, COMPARE)
    assert set(job) == {
        "id",
        "command",
        "args",
        "options",
        "state",
        "exit_code",
        "run",
        "submitted",
        "submitted_by",
        "started",
        "ended",
    }
    assert (job["command"], job["args"], job["options"]) == (
        "compare",
        COMPARE["args"],
        COMPARE["options"],
    )
    done = wait_for_end(server, job, until)
    assert (done["state"], done["exit_code"]) == ("done", 0) and done["submitted"] <= done[
        "started"
    ] <= done["ended"]
    (run,) = server.runs()
    assert (run["id"], run["state"], run["verdict"], run["path"]) == (
        job["run"],
        "finished",
        "pass",
        str(lab / "out"),
    )
    status, headers, log = server.ask("/api/v1/jobs/%s/log" % job["id"])
    assert status == 200 and headers["Content-Type"].startswith("text/plain") and b"pass: " in log
    assert [found["id"] for found in server.json("/api/v1/jobs")["jobs"]] == [job["id"]]
    assert 'goldwatch_queue_jobs{state="done"} 1' in server.ask("/metrics")[2].decode()


def test_a_failing_job_keeps_its_exit_code(serving, lab, until):
    server = serving(lab)
    strict = dict(COMPARE, options=dict(COMPARE["options"], limit=["MaxAbsoluteError<1e-30"]))
    done = wait_for_end(server, post_job(server, strict), until)
    assert (done["state"], done["exit_code"]) == ("done", 1)
    done = wait_for_end(
        server, post_job(server, dict(COMPARE, args=["nowhere", "net/golden"])), until
    )
    assert (done["state"], done["exit_code"]) == ("failed", 4)


def test_the_output_of_a_diff_job_is_a_file_of_the_second_run(serving, lab, until):
    server = serving(lab)
    for out in ("out", "again"):
        job = post_job(server, dict(COMPARE, options=dict(COMPARE["options"], out=out)))
        assert wait_for_end(server, job, until)["exit_code"] == 0
    done = wait_for_end(
        server, post_job(server, {"command": "diff", "args": ["out", "again"]}), until
    )
    assert (done["state"], done["exit_code"], done["run"]) == ("done", 0, job["run"])
    files = {file["name"] for file in server.json("/api/v1/runs/%s/files" % done["run"])["files"]}
    assert {"diff.html", "diff.md"} <= files
    assert server.ask("/api/v1/runs/%s/files/diff.html" % done["run"])[2].startswith(
        b"<!DOCTYPE html>"
    )


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"command": "run"}, 400),
        ({"command": "sh"}, 400),
        ({"args": ["dump"]}, 400),
        ({"args": "dump"}, 400),
        ({"args": ["dump", "\0"]}, 403),
        ({"args": ["../lab/../outside", "net/golden"]}, 403),
        ({"args": ["/etc", "net/golden"]}, 403),
        ({"args": ["dump", "linked"]}, 403),
        ({"args": [".goldwatch-serve", "net/golden"]}, 403),
        ({"options": {"model": "/etc/passwd", "out": "out"}}, 403),
        ({"options": {"out": "/tmp/elsewhere"}}, 403),
        ({"options": {"out": "linked/new"}}, 403),
        ({"options": {"out": ".goldwatch-serve/jobs"}}, 403),
        ({"options": {"out": "out", "html": "../page.html"}}, 403),
        ({"options": {"out": "out", "html": "page.html"}}, 403),
        ({"options": {"out": "out", "html": "other/report.html"}}, 403),
        ({"options": {"out": "out", "csv": "out/run.sqlite"}}, 403),
        ({"options": {"out": "out", "json": "out/model.json"}}, 403),
        ({"options": {"out": "out", "csv": "out/more/report.csv"}}, 403),
        ({"args": ["dump", "holey"]}, 403),
        ({"args": ["round", "net/golden"]}, 403),
        ({"options": {"model": "holey", "out": "out"}}, 403),
        ({"options": {"out": "out", "limits": "../limits.json"}}, 403),
        ({"options": {"out": "out", "on-divergence": "touch x"}}, 403),
        ({"options": {"out": "out", "outputs": ["fc=/etc/passwd:uint8:8"]}}, 403),
        ({"options": {"out": "out", "custom": "net"}}, 403),
        ({"options": {"out": "out", "cluster": "local"}}, 403),
        ({"options": {}}, 400),
        ({"options": {"out": "out", "stritc": True}}, 400),
        ({"options": {"out": "out", "strict": "yes"}}, 400),
        ({"options": {"out": "out", "limit": "a"}}, 400),
        ({"options": {"out": 5}}, 400),
        ({"options": {"out": "out", "time": "a\0"}}, 400),
        ({"more": 1}, 400),
        ({"options": []}, 400),
    ],
)
def test_jobs_that_may_not_run_are_refused(tmp_path, change, status):
    from goldwatch.base.errors import GoldwatchError
    from goldwatch.service.answers import Problem, problem_of
    from goldwatch.service.job_request import job_request
    from goldwatch.service.root_folders import Roots

    for name in ("lab", "outside"):
        (tmp_path / name).mkdir()
    os.symlink(str(tmp_path / "outside"), str(tmp_path / "lab" / "linked"))
    # Links inside of what is read: one that leads outside, and one that leads to it.
    (tmp_path / "lab" / "holey" / "deep").mkdir(parents=True)
    os.symlink(str(tmp_path / "outside"), str(tmp_path / "lab" / "holey" / "deep" / "link"))
    (tmp_path / "lab" / "round").mkdir()
    os.symlink("../holey", str(tmp_path / "lab" / "round" / "link"))
    roots = Roots([str(tmp_path / "lab")], str(tmp_path / "lab" / ".goldwatch-serve"))
    with pytest.raises((Problem, GoldwatchError)) as raised:
        job_request({**COMPARE, **change}, roots)
    problem = raised.value if isinstance(raised.value, Problem) else problem_of(raised.value)
    assert problem.status_code == status and problem.detail


@pytest.mark.parametrize(
    "again", [', "args": ["a", "b"]}', ', "options": {"out": "o", "strict": true, "out": "p"}}']
)
def test_a_job_with_a_repeated_json_key_is_refused(serving, tmp_path, again):
    (tmp_path / "lab").mkdir()
    server = serving(tmp_path / "lab")
    body = ('{"command": "compare", "args": ["dump", "golden"]' + again).encode()
    error = server.json(
        "/api/v1/runs",
        status=400,
        method="POST",
        body=body,
        headers={"Content-Type": "application/json"},
    )["error"]
    key = "args" if "args" in again else "out"
    assert "line 1, column" in error["message"] and "%r is there twice" % key in error["message"]
    assert server.json("/api/v1/jobs")["jobs"] == []


def test_options_cannot_be_injected_into_a_jobs_command(tmp_path):
    from goldwatch.service.job_request import job_request
    from goldwatch.service.root_folders import Roots

    (tmp_path / "lab").mkdir()
    roots = Roots([str(tmp_path / "lab")], str(tmp_path / "state"))
    options = {
        "out": "--force",
        "time": "--custom=x",
        "limit": ["--on-divergence=x"],
        "strict": True,
        "overflow": False,
    }
    words = job_request(
        {"command": "compare", "args": ["--custom", "-x"], "options": options}, roots
    ).words
    folder = str(tmp_path / "lab")
    assert words == [
        "compare", "--out=%s/--force" % folder, "--time=--custom=x", "--limit=--on-divergence=x",
        "--strict", "--",
        folder + "/--custom", folder + "/-x",
    ]  # fmt: skip


def test_paths_are_checked_again_when_the_job_starts(serving, lab, tmp_path, until):
    """A folder that became a link while the job waited is not followed."""
    server = serving(lab)
    first = post_job(server, dict(WATCH, options=dict(WATCH["options"])))
    wait_until_running(server, first, until)
    second = post_job(server, COMPARE)
    os.rename(str(lab / "net"), str(tmp_path / "outside"))
    os.symlink(str(tmp_path / "outside"), str(lab / "net"))
    server.json("/api/v1/jobs/%s/cancel" % first["id"], 202, method="POST")
    done = wait_for_end(server, second, until)
    assert (done["state"], done["exit_code"], done["run"]) == ("failed", None, None)
    assert b"below the folders" in server.ask("/api/v1/jobs/%s/log" % second["id"])[2]


def test_waiting_jobs_keep_their_order_and_can_be_cancelled(serving, lab, until):
    server = serving(lab)
    first, second, third = (
        post_job(server, WATCH),
        post_job(server, COMPARE),
        post_job(server, COMPARE),
    )
    wait_until_running(server, first, until)
    assert [server.json("/api/v1/jobs/" + job["id"])["state"] for job in (second, third)] == [
        "queued",
        "queued",
    ]
    server.json("/api/v1/jobs/%s/cancel" % third["id"], 202, method="POST")
    done = wait_for_end(server, third, until)
    assert (done["state"], done["exit_code"], done["started"]) == ("cancelled", 130, None)
    server.json("/api/v1/jobs/%s/cancel" % first["id"], 202, method="POST")
    done = wait_for_end(server, first, until)
    assert (done["state"], done["exit_code"]) == ("cancelled", 130)
    assert wait_for_end(server, second, until)["exit_code"] == 0
    assert (
        server.json("/api/v1/jobs/0000/cancel", 404, method="POST")["error"]["kind"] == "not_found"
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_survives_the_end_of_its_server(serving, lab, until, number):
    """The next server finds the same process, and the queue as it was."""
    server = serving(lab)
    first, second = post_job(server, WATCH), post_job(server, COMPARE)
    wait_until_running(server, first, until)
    path = str(lab / ".goldwatch-serve" / "jobs" / (first["id"] + ".pid"))
    until(lambda: os.path.exists(path))
    server.end(number)
    pid = int(server.read(path).split()[0])
    assert start_time(pid) is not None
    again = serving(lab)
    assert again.json("/api/v1/jobs/" + first["id"])["state"] == "running"
    assert again.json("/api/v1/jobs/" + second["id"])["state"] == "queued"
    until(lambda: any(run["id"] == first["run"] for run in again.runs()))
    again.json("/api/v1/jobs/%s/cancel" % first["id"], 202, method="POST")
    assert wait_for_end(again, first, until)["state"] == "cancelled"
    assert start_time(pid) is None
    assert wait_for_end(again, second, until)["exit_code"] == 0


def test_a_job_that_ended_without_a_server_is_noticed(serving, lab, until):
    server = serving(lab)
    job = post_job(server, dict(WATCH, options=dict(WATCH["options"], **{"until-idle": 1})))
    until(lambda: os.path.exists(str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".pid"))))
    server.end(signal.SIGKILL)
    until(lambda: os.path.exists(str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".exit"))))
    done = wait_for_end(serving(lab), job, until)
    assert (done["state"], done["exit_code"]) == ("done", 0)


def test_a_job_killed_with_its_server_is_restarted(serving, lab, until):
    server = serving(lab)
    job = post_job(server, dict(WATCH, options=dict(WATCH["options"], **{"until-idle": 2})))
    path = str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".pid"))
    until(lambda: os.path.exists(path))
    server.end(signal.SIGKILL)
    os.killpg(int(server.read(path).split()[0]), signal.SIGKILL)
    done = wait_for_end(serving(lab), job, until)
    assert (done["state"], done["exit_code"]) == ("done", 0)


def test_a_job_whose_process_is_killed_has_failed(serving, lab, until):
    server = serving(lab)
    job = post_job(server, WATCH)
    path = str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".pid"))
    until(lambda: os.path.exists(path))
    wait_until_running(server, job, until)
    os.killpg(int(server.read(path).split()[0]), signal.SIGKILL)
    done = wait_for_end(server, job, until)
    assert (done["state"], done["exit_code"]) == ("failed", None)


def test_a_job_imports_no_module_below_the_roots(serving, lab, until):
    (lab / "goldwatch.py").write_text("raise SystemExit(77)\n")
    (lab / "json.py").write_text("raise SystemExit(77)\n")
    server = serving(lab)
    assert wait_for_end(server, post_job(server, COMPARE), until)["exit_code"] == 0


def test_a_second_server_for_one_queue_is_refused(serving, lab):
    server = serving(lab)
    token = os.path.join(server.folder, "token")
    done = run_here(
        ["goldwatch", "serve", str(lab), "--listen", "127.0.0.1:0", "--token-file", token]
    )
    assert done.returncode == 4 and "another goldwatch" in done.stderr


def test_a_state_folder_writable_by_others_is_refused(lab, tmp_path):
    (tmp_path / "token").write_text("a-token-of-the-tests")
    (tmp_path / "real").mkdir()
    os.symlink(str(tmp_path / "real"), str(lab / ".goldwatch-serve"))
    words = [
        "goldwatch",
        "serve",
        str(lab),
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        str(tmp_path / "token"),
    ]
    assert run_here(words).returncode == 4
    os.chmod(str(tmp_path / "real"), 0o777)
    done = run_here([*words, "--state", str(tmp_path / "real")])
    assert done.returncode == 4 and "own" in done.stderr


def test_a_command_ends_when_its_shell_is_killed(serving, lab, until):
    server = serving(lab)
    job = post_job(server, WATCH)
    until(lambda: [run for run in server.runs() if run["state"] == "running"])
    with open(str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".pid"))) as stream:
        os.kill(int(stream.read().split()[0]), signal.SIGKILL)
    assert wait_for_end(server, job, until)["state"] == "failed"
    until(lambda: [run["state"] for run in server.runs()] == ["stopped"])


def test_jobs_are_paged_and_the_oldest_ended_ones_are_dropped(tmp_path):
    """However many have been sent since: what waits or runs is kept."""
    from goldwatch.service.job_queue import STATES, Queue
    from goldwatch.service.job_request import JobRequest

    with contextlib.closing(Queue(str(tmp_path / "state"))) as queue:
        jobs = [queue.add(JobRequest("compare", [], {}, [], None)) for _ in range(7)]
        for job, state in zip(
            jobs, ("running", "done", "queued", "failed", "done", "cancelled", "done")
        ):
            queue.set(job, state=state)
        names = [job.id for job in jobs]
        pages = [queue.page(STATES, None, 3, offset) for offset in (0, 3, 6, 9)]
        assert [[names.index(job.id) for job in page] for page, _ in pages] == [
            [6, 5, 4],
            [3, 2, 1],
            [0],
            [],
        ]
        assert {total for _, total in pages} == {7}
        page, total = queue.page(("done", "queued"), None, 2, 0)
        assert ([names.index(job.id) for job in page], total) == ([6, 4], 4)
        assert queue.drop_oldest(keep=2) == [names[number] for number in (4, 3, 1)]
        assert [names.index(job.id) for job in queue.page(STATES, None, 10, 0)[0]] == [6, 5, 2, 0]


def test_the_log_of_a_dropped_job_is_deleted(serving, lab, until, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "from goldwatch.service import job_queue\n"
        "job_queue.Queue.drop_oldest.__defaults__ = (1,)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = serving(lab)
    first, second = (wait_for_end(server, post_job(server, COMPARE), until) for _ in range(2))
    until(lambda: server.ask("/api/v1/jobs/" + first["id"])[0] == 404)
    assert [job["id"] for job in server.json("/api/v1/jobs")["jobs"]] == [second["id"]]
    names = os.listdir(str(lab / ".goldwatch-serve" / "jobs"))
    assert {name.partition(".")[0] for name in names} == {second["id"]}


def test_a_full_disk_is_answered_507(serving, lab, tmp_path, monkeypatch):
    """SQLite is told that its file may have no more pages than it has: what it says then is what it
    says of a full disk.
    """
    (tmp_path / "sitecustomize.py").write_text(FULL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = serving(lab)
    error = server.json(
        "/api/v1/runs",
        507,
        method="POST",
        body={**COMPARE, "args": ["dump/" + "x" * 4000, "net/golden"]},
    )["error"]
    assert (error["kind"], error["hint"]) == ("disk_full", "free space there, and send it again")
    assert str(tmp_path) not in error["message"]
    assert server.json("/api/v1/jobs")["total"] == 0


def test_a_read_only_server_takes_no_jobs(serving, lab):
    server = serving(lab, "--read-only")
    for token in (True, False):
        status, _, body = server.ask("/api/v1/runs", "POST", COMPARE, token=token)
        assert status == 405 and b"this service is read-only: it takes no jobs" in body
    assert server.json("/api/v1/jobs")["jobs"] == []
    paths = server.json("/api/v1/openapi.json")["paths"]
    assert [path for path, methods in paths.items() if "post" in methods] == ["/login", "/logout"]
    assert not os.path.exists(str(lab / ".goldwatch-serve"))


def test_a_merge_runs_as_a_job(serving, lab, until):
    server = serving(lab)
    for part in ("one", "two"):
        assert (
            wait_for_end(
                server,
                post_job(server, {**COMPARE, "options": {**COMPARE["options"], "out": part}}),
                until,
            )["exit_code"]
            == 0
        )
    merge = {
        "command": "watch",
        "args": ["one", "two"],
        "options": {"merge": True, "out": "all", "until-idle": 0.1},
    }
    job = wait_for_end(server, post_job(server, merge), until)
    assert (job["state"], job["exit_code"]) == ("done", 0)
    runs = {os.path.basename(run["path"]): run for run in server.runs()}
    assert runs["all"]["rows"] == runs["one"]["rows"] + runs["two"]["rows"] > 0
