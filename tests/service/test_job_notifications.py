"""``serve --notify``: the outcome of jobs is posted to a URL, also after a restart."""

from __future__ import annotations

import json
import signal

import jsonschema
from hook_server import hook_server
from service_client import COMPARE, WATCH, post_job, wait_for_end

from goldwatch.schemas import load_text

FAILING = dict(
    COMPARE, options=dict(COMPARE["options"], limit=["MaxAbsoluteError<1e-30"], out="bad")
)


def checked(document):
    jsonschema.validate(document, json.loads(load_text("notification.schema.json")))
    return document


def test_jobs_are_notified_to_the_url(serving, lab, until):
    with hook_server() as hook:
        server = serving(lab, "--notify=" + hook.url)
        job = wait_for_end(server, post_job(server, FAILING), until)
        until(lambda: len(hook.documents) == 2)
        first, last = map(checked, hook.documents)
        assert (first["event"], first["id"], first["verdict"]) == (
            "divergence",
            job["id"] + "-divergence",
            "fail",
        )
        assert first["row"]["verdict"] == "fail" and first["summary"] is None
        assert (last["event"], last["job"], last["run"], last["exit_code"]) == (
            "end",
            job["id"],
            job["run"],
            1,
        )
        assert last["url"] == "%s/runs/%s" % (server.url, job["run"]) and last["out"] == str(
            lab / "bad"
        )
        assert last["summary"]["verdict"] == last["verdict"] == "fail" and last["text"].startswith(
            "bad: fail: "
        )
        missing = wait_for_end(
            server, post_job(server, dict(COMPARE, args=["nowhere", "net/golden"])), until
        )
        until(lambda: len(hook.documents) == 3)
        last = checked(hook.documents[-1])
        assert (last["job"], last["verdict"], last["exit_code"], last["out"]) == (
            missing["id"],
            None,
            4,
            None,
        )
        assert last["url"] == "%s/jobs#job-%s" % (server.url, missing["id"])
        error = server.json(
            "/api/v1/runs",
            403,
            method="POST",
            body=dict(WATCH, options={**WATCH["options"], "notify": hook.url}),
        )["error"]
        assert "reaches out" in error["message"]


def test_a_divergence_is_notified_while_the_run_goes_on(serving, lab, until):
    with hook_server() as hook:
        server = serving(lab, "--notify=" + hook.url)
        options = dict(WATCH["options"], limit=["MaxAbsoluteError<1e-30"])
        job = post_job(server, dict(WATCH, options=options))
        until(lambda: hook.documents)
        first = checked(hook.documents[0])
        assert (first["event"], first["job"]) == ("divergence", job["id"])
        assert server.json("/api/v1/jobs/" + job["id"])["state"] == "running"
        server.json("/api/v1/jobs/%s/cancel" % job["id"], 202, method="POST")
        until(lambda: len(hook.documents) == 2)
        last = checked(hook.documents[1])
        assert (last["event"], last["verdict"], last["exit_code"]) == ("end", None, 130)


def test_notifications_of_a_killed_server_are_sent_by_the_next(serving, lab, until):
    with hook_server([500] * 3) as hook:
        server = serving(lab, "--notify=" + hook.url)
        job = wait_for_end(server, post_job(server, COMPARE), until)
        until(lambda: hook.documents)
        server.end(signal.SIGKILL)
        again = serving(lab, "--notify=" + hook.url)
        until(lambda: len(hook.documents) >= 4)
        assert {document["id"] for document in hook.documents} == {job["id"] + "-end"}
        assert again.end() == 0
        # It was taken: nobody tells it again; and jobs that nobody was to be told of are none of a
        # later server's.
        count = len(hook.documents)
        silent = serving(lab)
        wait_for_end(
            silent,
            post_job(silent, dict(COMPARE, options=dict(COMPARE["options"], out="second"))),
            until,
        )
        assert silent.end() == 0
        last = serving(lab, "--notify=" + hook.url)
        third = wait_for_end(
            last,
            post_job(last, dict(COMPARE, options=dict(COMPARE["options"], out="third"))),
            until,
        )
        until(lambda: len(hook.documents) > count)
        assert [document["job"] for document in hook.documents[count:]] == [third["id"]]
