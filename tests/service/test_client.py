"""``goldwatch submit`` and ``status`` exit with the run's code, and with 2 or 4 when they cannot
ask.
"""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
from in_process import run_here
from service_client import WATCH, post_job, wait_for_end, wait_until_running

import goldwatch


def client(server, *words):
    token = os.path.join(server.folder, "token")
    return run_here(
        ["goldwatch", words[0], "--server", server.url, "--token-file", token, *words[1:]]
    )


def test_submit_and_status_exit_with_the_runs_code(serving, lab, until):
    server = serving(lab)
    done = client(
        server, "submit", "--", "compare", "dump", "net/golden", "-f", "net/model.json", "-o", "out"
    )
    assert done.returncode == 0 and "pass: " in done.stdout, done.stderr
    (run,) = server.runs()
    failing = (
        "compare",
        "dump",
        "net/golden",
        "-f",
        "net/model.json",
        "-o",
        "bad",
        "--limit",
        "MaxAbsoluteError<1e-30",
    )
    done = client(server, "submit", "--format", "json", "--", *failing)
    job = json.loads(done.stdout)
    assert (done.returncode, job["exit_code"], job["options"]["limit"]) == (
        1,
        1,
        ["MaxAbsoluteError<1e-30"],
    )
    assert client(server, "status", run["id"]).returncode == 0
    assert client(server, "status", job["run"]).returncode == 1
    assert client(server, "status", job["id"]).returncode == 1
    assert client(server, "status", str(lab / "bad")).returncode == 1
    done = client(server, "status", "bad", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "fail")
    done = client(server, "status", "--format", "json")
    assert done.returncode == 0 and {found["id"] for found in json.loads(done.stdout)["runs"]} == {
        run["id"],
        job["run"],
    }
    assert client(server, "status", "nowhere").returncode == 4
    # Its own code, also where another job wrote into its folder, or a later run of somebody else's.
    done = client(server, "submit", "--", "diff", "bad", "bad")
    assert done.returncode == 0, done.stderr
    assert client(server, "status", "bad").returncode == 1
    failing = [
        "dump",
        "net/golden",
        "-f",
        "net/model.json",
        "-o",
        "out",
        "--force",
        "--limit",
        "MaxAbsoluteError<1e-30",
    ]
    assert run_here(["goldwatch", "compare", *failing], lab).returncode == 1
    assert until(lambda: client(server, "status", "out").returncode == 1)


def test_requests_to_this_machine_use_no_proxy(serving, lab, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert client(serving(lab), "status").returncode == 0


def test_the_status_of_an_unfinished_run_exits_with_3(serving, lab, until):
    server = serving(lab)
    done = client(
        server,
        "submit",
        "--detach",
        "--",
        "watch",
        "dump",
        "net/golden",
        "-f",
        "net/model.json",
        "-o",
        "watched",
    )
    assert done.returncode == 0
    name = done.stdout.strip()
    assert client(server, "status", name).returncode == 3
    until(lambda: server.runs())
    assert client(server, "status", "watched").returncode == 3
    server.json("/api/v1/jobs/%s/cancel" % name, 202, method="POST")
    wait_for_end(server, {"id": name}, until)
    done = client(server, "status", name)
    assert done.returncode == 130 and "job %s: cancelled" % name in done.stdout


def test_status_and_open_result_give_the_same_verdict_of_an_unfinished_run(
    serving, live, row, tmp_path, until
):
    """A row that fails may be found anew and pass."""
    store = live("out")
    store.put(row(1, verdict="fail"))
    server = serving(tmp_path / "lab")
    until(lambda: server.runs())
    for end in (lambda: None, store.close):
        end()
        opened = goldwatch.open_result(tmp_path / "lab" / "out")
        assert (
            opened.summary.verdict,
            opened.exit_code,
            client(server, "status", "out").returncode,
        ) == ("fail", 3, 3)


def test_the_status_of_a_waiting_job_is_found_by_each_of_its_names(serving, lab, until):
    """By all its names, before there is a run: it is not finished."""
    server = serving(lab)
    files = ("dump", "net/golden", "-f", "net/model.json", "-o")
    watched = client(server, "submit", "--detach", "--", "watch", *files, "watched").stdout.strip()
    done = client(
        server, "submit", "--detach", "--format", "json", "--", "compare", *files, "to/out"
    )
    job = json.loads(done.stdout)
    for name in (job["id"], job["run"], "to/out", "out", str(lab / "to" / "out")):
        done = client(server, "status", name)
        assert (name, done.returncode, done.stdout) == (name, 3, "job %s: queued\n" % job["id"])
    server.json("/api/v1/jobs/%s/cancel" % job["id"], 202, method="POST")
    wait_for_end(server, job, until)
    assert client(server, "status", "out").returncode == 130
    server.json("/api/v1/jobs/%s/cancel" % watched, 202, method="POST")
    wait_for_end(server, {"id": watched}, until)


def test_the_status_of_a_killed_run_is_unfinished(serving, lab, until):
    """Its run is not finished."""
    server = serving(lab)
    job = post_job(server, WATCH)
    wait_until_running(server, job, until)
    until(lambda: server.runs())
    os.killpg(
        int(server.read(str(lab / ".goldwatch-serve" / "jobs" / (job["id"] + ".pid"))).split()[0]),
        signal.SIGKILL,
    )
    wait_for_end(server, job, until)
    for name in (job["id"], job["run"]):
        assert client(server, "status", name).returncode == 3


def test_submit_refuses_wrong_jobs_with_exit_code_4_or_2(serving, lab, tmp_path):
    server = serving(lab)
    for words, code in (
        (("compare", "/etc", "net/golden", "-o", "out"), 4),
        (("compare", "dump", "net/golden", "-o", "out", "--custom", "x"), 4),
        (("run", "dump"), 2),
        (("compare", "dump"), 2),
    ):
        done = client(server, "submit", "--", *words)
        assert (words, done.returncode, "Traceback" in done.stderr) == (words, code, False)
    server.end()
    done = client(
        server, "submit", "--format", "json", "--", "compare", "dump", "net/golden", "-o", "out"
    )
    assert done.returncode == 4 and json.loads(done.stdout)["error"]["kind"] == "unreachable"
    done = run_here(["goldwatch", "status", "--server", "ftp://a"])
    assert done.returncode == 2


@pytest.mark.parametrize(
    "answer",
    [b"[]", b"{}", b'{"runs": 5, "jobs": []}', b'{"runs": [{"id": 1}], "jobs": [{}]}',
    b'{"id": "a", "jobs": []}', b"[" * 200000,
     b"<html>", b"null", b"1"],
)  # fmt: skip
def test_an_answer_of_another_program_exits_with_4_and_no_verdict(answer, tmp_path):
    """Any program may listen at the port; its answer is 4 and no verdict."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = "http://127.0.0.1:%d" % other.server_port
        for words in (
            ["status"],
            ["status", "a"],
            ["submit", "--", "compare", "a", "b", "-o", "c"],
        ):
            done = run_here(["goldwatch", words[0], "--server", url, *words[1:]])
            assert (done.returncode, "as a goldwatch service" in done.stderr) == (
                4,
                True,
            ), done.stderr
        other.shutdown()


@pytest.mark.parametrize("url", ["http://[::1", "http://a:b", "http://", "a", "http://a:99999"])
def test_a_wrong_server_url_exits_with_2(url):
    assert run_here(["goldwatch", "status", "--server", url]).returncode == 2
