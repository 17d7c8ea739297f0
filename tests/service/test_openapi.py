"""The API description is valid OpenAPI 3.1, and the routes answer as described."""

from __future__ import annotations

import json

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from goldwatch.service.access import OWN_PATHS, Access, Address
from goldwatch.service.application import make_service
from goldwatch.service.endpoint import OPEN, SUBMIT
from goldwatch.service.openapi import openapi_document
from goldwatch.service.root_folders import Roots


def test_the_api_description_is_valid_openapi(serving, tmp_path):
    (tmp_path / "lab").mkdir()
    document = serving(tmp_path / "lab").json("/api/v1/openapi.json")
    assert document["openapi"].startswith("3.1.")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_routes_need_a_token_as_the_description_says(tmp_path, read_only):
    access = Access(Address("127.0.0.1", 1), "token", False, None)
    roots = Roots([str(tmp_path)], str(tmp_path / "state"))
    endpoints = make_service(roots, access, read_only=read_only).endpoints
    described = openapi_document(endpoints, "http://a", access.cookie)["paths"]
    for one in endpoints:
        # What is sent needs a role, and nothing else does: the guard goes by the method.
        assert one.role == OPEN or (one.role == SUBMIT) == (one.method == "post")
        if one.summary:
            open_to_all = described[one.path][one.method].get("security") == []
            assert open_to_all == (one.role == OPEN)
    pages = {"/", "/jobs", "/runs/{run}", "/static/{name}", "/diff/{before}/{after}"}
    assert {one.path for one in endpoints} - set(described) == pages
    assert ("post" in described["/api/v1/runs"]) != read_only
    # What a public URL's path may not begin with.
    assert {one.path.split("/")[1] for one in endpoints} - {""} == set(OWN_PATHS)


@pytest.fixture
def asked(serving, live, row, tmp_path):
    """(server, values of the paths' names) with a run that goes on, one that cannot be read, one
    that finished, and a job.
    """
    store = live("out")
    store.put_all([row(1), row(2, verdict="fail")])
    store.set("graphs", [{"model": "net", "graphs": ["net"], "ops": []}])
    (tmp_path / "lab" / "damaged").mkdir()
    (tmp_path / "lab" / "damaged" / "run.sqlite").write_bytes(b"nothing")
    server = serving(tmp_path / "lab")
    job = server.json(
        "/api/v1/runs",
        202,
        method="POST",
        body={"command": "compare", "args": ["a", "b"], "options": {"out": "new"}},
    )
    run = next(run["id"] for run in server.runs() if run["path"].endswith("out"))
    return server, {"run": run, "job": job["id"], "name": "report.md"}


def checked(document, operation, status, value):
    answers = operation["responses"]
    schema = answers.get(str(status), answers["default"])["content"]["application/json"]["schema"]
    jsonschema.validate(
        value, {**schema, "components": document["components"]}, jsonschema.Draft202012Validator
    )


def test_get_answers_follow_the_description(asked):
    server, names = asked
    document = server.json("/api/v1/openapi.json")
    seen = set()
    for path, methods in document["paths"].items():
        operation = methods.get("get")
        if operation is None or path.endswith("/events"):
            continue
        for given in (names, dict.fromkeys(names, "nothing")):
            status, headers, body = server.ask(path.format(**given))
            kind = headers["Content-Type"].partition(";")[0]
            assert status == 200 if given is names else status in (200, 404)
            if status == 200 and kind != "application/json":
                assert {kind, "*/*"} & set(operation["responses"]["200"]["content"])
            else:
                checked(document, operation, status, json.loads(body))
                seen.add((path, status))
        checked(
            document, operation, 401, server.json(path, 401, token=False)
        ) if "security" not in operation else None
    assert ("/api/v1/runs/{run}/graphs", 200) in seen and ("/api/v1/jobs/{job}", 404) in seen


def test_post_answers_follow_the_description(asked):
    server, names = asked
    document = server.json("/api/v1/openapi.json")
    post = document["paths"]["/api/v1/runs"]["post"]
    for body, status in (
        ({"command": "diff", "args": ["a", "b"]}, 202),
        ({"command": "sh", "args": ["a", "b"]}, 400),
        ({"command": "compare", "args": ["/etc", "b"], "options": {"out": "x"}}, 403),
    ):
        checked(
            document, post, status, server.json("/api/v1/runs", status, method="POST", body=body)
        )
    cancel = document["paths"]["/api/v1/jobs/{job}/cancel"]["post"]
    for job, status in ((names["job"], 202), ("nothing", 404)):
        checked(
            document,
            cancel,
            status,
            server.json("/api/v1/jobs/%s/cancel" % job, status, method="POST"),
        )
    login = document["paths"]["/login"]["post"]
    for token, status in ((server.token, 200), ("wrong", 401)):
        checked(
            document,
            login,
            status,
            server.json("/login", status, method="POST", body={"token": token}, token=False),
        )
