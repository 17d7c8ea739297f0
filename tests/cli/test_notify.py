"""``--notify``: the first final divergence and the end of a watch or run are sent to a URL, which
may be slow, wrong or unreachable.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import jsonschema
import pytest
from hook_server import hook_server
from in_process import run_here

from goldwatch.base import url_notifier
from goldwatch.schemas import load_text

FAILING = "MaxAbsoluteError<1e-30"


@pytest.fixture
def lab(tmp_path):
    """A folder with a network of three ops, its golden data and its dump."""
    for words in (["make", "net", "--ops", "3"], ["serve", "net", "dump"]):
        assert (
            run_here([sys.executable, "-m", "goldwatch.testing", *words], tmp_path).returncode == 0
        )
    return tmp_path


def watch(lab, url, *words, out="out"):
    ends = ["--until-idle", "0.2", "--notify", url]
    return run_here(
        [
            "goldwatch",
            "watch",
            "dump",
            "net/golden",
            "-f",
            "net/model.json",
            "-o",
            out,
            *ends,
            *words,
        ],
        lab,
    )


def checked(document):
    jsonschema.validate(document, json.loads(load_text("notification.schema.json")))
    return document


def test_notify_sends_the_first_divergence_and_the_end(lab):
    with hook_server() as hook:
        done = watch(lab, hook.url, "--limit", FAILING)
    first, last = map(checked, hook.documents)
    assert done.returncode == 1 and "notified" not in done.stderr, done.stderr
    path, headers, _ = hook.asked[0]
    assert path == "/hooks/a-secret?key=1" and headers["Content-Type"] == "application/json"
    assert (first["event"], first["verdict"], first["exit_code"], first["summary"]) == (
        "divergence",
        "fail",
        None,
        None,
    )
    assert (last["event"], last["verdict"], last["exit_code"], last["row"]) == (
        "end",
        "fail",
        1,
        None,
    )
    assert first["id"].partition("-")[0] == last["id"].partition("-")[0]
    with open(str(lab / "out" / "result.json")) as stream:
        result = json.load(stream)
    assert last["summary"] == result["summary"] and first["out"] == last["out"] == str(lab / "out")
    assert (
        first["row"].pop("final") is True
        and first["row"] in result["rows"]
        and first["row"]["verdict"] == "fail"
    )
    assert (
        first["row"]["tensor"] in first["text"]
        and result["summary"]["first_divergence"]["op"] in last["text"]
    )


def test_a_passing_watch_notifies_once(lab):
    with hook_server() as hook:
        assert watch(lab, hook.url).returncode == 0
    (last,) = map(checked, hook.documents)
    assert (last["event"], last["verdict"], last["exit_code"]) == ("end", "pass", 0)


def test_a_repeated_watch_does_not_notify_its_divergence_again(lab):
    with hook_server() as hook:
        for _ in range(2):
            assert watch(lab, hook.url, "--limit", FAILING).returncode == 1
    assert [document["event"] for document in hook.documents] == ["divergence", "end", "end"]


def test_a_notification_is_repeated_until_it_is_accepted(lab, monkeypatch):
    monkeypatch.setattr(url_notifier, "_FIRST_DELAY_S", 0.01)
    with hook_server([500, 503, 429]) as hook:
        done = watch(lab, hook.url)
    assert done.returncode == 0 and "notified" not in done.stderr
    assert len(hook.asked) == 4 and len({document["id"] for document in hook.documents}) == 1


@pytest.mark.parametrize("answer", [404, 302])
def test_a_refused_notification_is_reported_without_the_urls_secret(lab, answer):
    with hook_server([answer] * 9) as hook:
        done = watch(lab, hook.url)
    assert done.returncode == 0 and len(hook.asked) == 1 and hook.asked[0][0].startswith("/hooks/")
    said = "warning: %s was not notified of the end: it answers %d" % (
        hook.url.partition("/hooks")[0],
        answer,
    )
    assert said in done.stderr and "a-secret" not in done.stderr


def test_an_unreachable_or_silent_hook_is_reported(lab, monkeypatch):
    monkeypatch.setattr(url_notifier, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(url_notifier.Notifier.close, "__defaults__", (1.0,))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d/hook" % silent.getsockname()[1]
        done = watch(lab, url, "--limit", FAILING)
        assert (
            done.returncode == 1
            and "was not notified of the first divergence: it does not answer" in done.stderr
        ), done.stderr
        assert "was not notified of the end: it does not answer" in done.stderr
        silent.listen(8)
        done = watch(lab, url, out="other")
    assert (
        done.returncode == 0 and "was not notified of the end: it does not answer" in done.stderr
    ), done.stderr


def test_an_end_without_verdict_is_notified(lab):
    with hook_server() as hook:
        os.mkdir(str(lab / "empty"))
        words = [
            "goldwatch",
            "watch",
            "nowhere",
            "net/golden",
            "-f",
            "net/model.json",
            "-o",
            "out",
            "--until-idle",
            "0.1",
        ]
        done = run_here([*words, "--notify", hook.url, "--pid", "4194300"], lab)
    (last,) = map(checked, hook.documents)
    assert done.returncode == 4 and (last["event"], last["verdict"], last["exit_code"]) == (
        "end",
        None,
        4,
    )


def test_the_end_of_a_run_program_is_notified(lab):
    program = [sys.executable, "-m", "goldwatch.testing", "serve", "net", "dumped"]
    plan = {
        "dump": {"dump_list": [{"model_name": "net"}], "dump_path": "dumped", "dump_mode": "all"}
    }
    (lab / "acl.json").write_text(json.dumps(plan))
    with hook_server() as hook:
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            "run",
            "--acl",
            "acl.json",
            "--golden",
            "net/golden",
            "-f",
            "net/model.json",
        ]
        # The program writes to the outputs of the process itself.
        words += ["-o", "ran", "--notify", hook.url, "--", *program]
        done = subprocess.run(words, cwd=str(lab), stderr=subprocess.PIPE, universal_newlines=True)
    last = checked(hook.documents[-1])
    assert (
        (last["command"], last["event"], last["exit_code"])
        == ("run", "end", done.returncode)
        == ("run", "end", 0)
    ), done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "hooks.example.org",
        "ftp://a.example/x",
        "https://user:word@a.example/x",
        "https://a.example/x#y",
        "http://",
    ],
)
def test_a_wrong_notify_url_is_refused_before_anything_starts(lab, url):
    done = watch(lab, url)
    assert (
        done.returncode == 2
        and "expected a URL of http or https to notify" in done.stderr
        and "word" not in done.stderr
    )
    assert not os.path.exists(str(lab / "out"))
