"""Files of a run: as they lie in its folder, or made on demand; nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import xml.etree.ElementTree

import pytest
from in_process import run_here

from goldwatch.service import file_and_diff_routes
from goldwatch.service.file_and_diff_routes import Reports
from goldwatch.service.runs import Run


@pytest.fixture
def run(serving, tmp_path):
    """(server, id, OUT) of a finished run."""
    lab = tmp_path / "lab"
    lab.mkdir()
    for words in (["make", "net", "--ops", "3"], ["serve", "net", "dump"]):
        assert run_here([sys.executable, "-m", "goldwatch.testing", *words], lab).returncode == 0
    assert (
        run_here(
            ["goldwatch", "compare", "dump", "net/golden", "-f", "net/model.json", "-o", "out"], lab
        ).returncode
        == 0
    )
    server = serving(lab)
    return server, server.runs()[0]["id"], lab / "out"


def test_files_of_a_run_are_served_byte_for_byte(run):
    server, name, out = run
    files = [file["name"] for file in server.json("/api/v1/runs/%s/files" % name)["files"]]
    tables = [path.name for path in out.glob("*.csv")]
    assert (
        set(files) == {"result.json", *tables, "report.html", "junit.xml", "report.md"}
        and len(tables) == 1
    )
    for file in ("result.json", *tables):
        status, headers, body = server.ask("/api/v1/runs/%s/files/%s" % (name, file))
        assert (
            status == 200
            and body == (out / file).read_bytes()
            and headers["Content-Disposition"].startswith("attachment")
        )


def test_reports_are_made_on_demand(run):
    server, name, out = run
    before = sorted(os.listdir(str(out)))
    html = server.ask("/api/v1/runs/%s/files/report.html" % name)
    assert (
        html[0] == 200
        and html[2].startswith(b"<!DOCTYPE html>")
        and html[1]["Content-Type"].startswith("text/html")
    )
    assert (
        xml.etree.ElementTree.fromstring(
            server.ask("/api/v1/runs/%s/files/junit.xml" % name)[2]
        ).tag
        == "testsuites"
    )
    assert b"pass" in server.ask("/api/v1/runs/%s/files/report.md" % name)[2]
    assert sorted(os.listdir(str(out))) == before


def test_other_files_and_links_in_the_run_folder_are_not_served(run):
    server, name, out = run
    (out / "secret.txt").write_text("secret")
    os.symlink("/etc/passwd", str(out / "diff.html"))
    (out / "diff.md").write_text("of goldwatch diff")
    os.mkfifo(str(out / "diff.json"))
    files = [file["name"] for file in server.json("/api/v1/runs/%s/files" % name)["files"]]
    assert "diff.md" in files and not {"secret.txt", "diff.html", "diff.json", "run.sqlite"} & set(
        files
    )
    assert server.ask("/api/v1/runs/%s/files/diff.md" % name)[2] == b"of goldwatch diff"
    outside = ("..", "%2e%2e%2fnet%2fmodel.json", "..%2f..%2f..%2fetc%2fpasswd", "%00", "")
    for file in ("secret.txt", "diff.html", "diff.json", "run.sqlite", *outside):
        assert (file, server.ask("/api/v1/runs/%s/files/%s" % (name, file))[0]) == (file, 404)
    # What is no file of the run is made of its store.
    as_written = (out / "result.json").read_bytes()
    os.unlink(str(out / "result.json"))
    os.symlink("/etc/passwd", str(out / "result.json"))
    assert server.ask("/api/v1/runs/%s/files/result.json" % name)[2] == as_written


def test_reports_of_an_unfinished_run_say_so(serving, live, row, tmp_path):
    store = live("out")
    store.put_all([row(1), row(2, verdict="fail")])
    server = serving(tmp_path / "lab")
    (found,) = server.runs()
    status, _, body = server.ask("/api/v1/runs/%s/files/report.md" % found["id"])
    assert status == 200 and b"op2" in body
    result = server.json("/api/v1/runs/%s/files/result.json" % found["id"])
    assert [row["op"] for row in result["rows"]] == ["op1", "op2"]
    assert json.dumps(server.json("/api/v1/runs/%s/files" % found["id"])).count("name") == 4


def test_a_served_report_equals_what_the_command_writes(run, tmp_path):
    server, name, out = run
    for file, option in (
        ("report.html", "--html"),
        ("junit.xml", "--junit"),
        ("report.md", "--markdown"),
    ):
        assert run_here(["goldwatch", "report", out, option, tmp_path / file]).returncode == 0
        assert (
            server.ask("/api/v1/runs/%s/files/%s" % (name, file))[2]
            == (tmp_path / file).read_bytes()
        )


def test_a_report_of_a_damaged_run_is_refused(serving, tmp_path):
    (tmp_path / "lab" / "out").mkdir(parents=True)
    (tmp_path / "lab" / "out" / "run.sqlite").write_bytes(b"nothing")
    server = serving(tmp_path / "lab")
    (found,) = server.runs()
    error = server.json("/api/v1/runs/%s/files/report.md" % found["id"], 409)["error"]
    assert "SQLite" in error["message"] and error["kind"] == "conflict"


def test_a_server_ends_while_reports_are_being_made(serving, live, row, tmp_path, until):
    """Whoever waits for one is told so; no process stays behind, and the log has no mistake."""
    live("out").put_all([row(number) for number in range(3000)])
    server = serving(tmp_path / "lab")
    (found,) = server.runs()
    answers = []
    path = "/api/v1/runs/%s/files/report.html" % found["id"]
    threads = [
        threading.Thread(target=lambda: answers.append(server.ask(path)[0])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    children = "/proc/%d/task/%d/children" % (server.process.pid, server.process.pid)
    (child,) = until(lambda: server.read(children).split())
    assert server.end() == 0
    for thread in threads:
        thread.join(60)
    assert set(answers) <= {200, 503} and len(answers) == 3
    until(lambda: not os.path.exists("/proc/" + child))
    assert "Traceback" not in server.read(server.err) and "ERROR" not in server.read(server.err)


def test_simultaneous_requests_for_a_report_make_it_once(live, row, tmp_path, monkeypatch):
    """Five at once: it is made once. Once the store has changed it is made anew, for all who came
    since.
    """
    store = live("out")
    store.put(row(1))
    run = Run("id", str(tmp_path / "lab" / "out"))
    made, gone = [], []

    async def ask_for_it():
        may_end, reports = asyncio.Event(), Reports()

        async def make(run, name):
            made.append(name)
            await may_end.wait()
            path = tmp_path / ("%d" % len(made))
            path.write_bytes(b"%d" % len(made))
            return open(str(path), "rb")

        async def ask(name):
            with await reports.ask(run, name) as stream:
                return os.pread(stream.fileno(), 9, 0)

        monkeypatch.setattr(file_and_diff_routes, "make_report", make)
        first = [asyncio.ensure_future(ask("report.html")) for _ in range(5)]
        while not made or reports.pending[0].waiting < 5:
            await asyncio.sleep(0)
        store.put(row(2))
        later = [asyncio.ensure_future(ask("report.html")) for _ in range(3)]
        one = asyncio.ensure_future(ask("report.md"))
        while [report.waiting for report in reports.pending] != [3, 1]:
            await asyncio.sleep(0)
        may_end.set()
        found = [await asyncio.gather(*first), await asyncio.gather(*later), await one]
        gone.extend(reports.pending)
        return found

    found = asyncio.run(ask_for_it())
    assert sorted(made) == ["report.html", "report.html", "report.md"] and not gone
    assert (
        found[0] == [b"1"] * 5
        and len(set(found[1])) == 1
        and {found[1][0], found[2]} == {b"2", b"3"}
    )
