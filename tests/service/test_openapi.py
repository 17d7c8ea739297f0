"""The API's own description: valid OpenAPI 3.1, and of exactly the routes that there are."""

from __future__ import annotations

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from goldwatch.service.access import Access, Address
from goldwatch.service.application import make_service
from goldwatch.service.openapi import openapi_document
from goldwatch.service.roots import Roots


def test_the_document_is_valid_openapi(serving, tmp_path):
    (tmp_path / "lab").mkdir()
    document = serving(tmp_path / "lab").json("/api/openapi.json")
    assert document["openapi"].startswith("3.1.")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_it_describes_the_routes_that_there_are(tmp_path):
    service = make_service(Roots([str(tmp_path)], str(tmp_path / "state")), Access(Address("127.0.0.1", 1), "token", False, None))
    there = {(method.lower(), route.path) for route in service.routes for method in route.methods - {"HEAD"}}
    told = {(method, path) for path, methods in openapi_document("http://a")["paths"].items() for method in methods}
    pages = {("get", "/"), ("get", "/runs/{run}"), ("get", "/static/{name}")}
    assert there - pages == told


@pytest.mark.parametrize("path", ["/api/runs", "/healthz"])
def test_answers_are_as_it_says(serving, live, row, tmp_path, path):
    live("out").put(row(1))
    server = serving(tmp_path / "lab")
    document = server.json("/api/openapi.json")
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(server.json(path), {**schema, "components": document["components"]}, jsonschema.Draft202012Validator)
