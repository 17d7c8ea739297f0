"""The API as an OpenAPI 3.1 document."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable

from .. import __version__
from ..metrics.row import VERDICTS
from ..schemas.documents import schema_of
from .endpoint import OPEN, Endpoint
from .job_queue import STATES
from .job_request import COMMANDS
from .run_fields import FINISHED, RUNNING, STOPPED

TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
TIME = {"type": ["string", "null"], "format": "date-time"}

_OPTIONS = (
    "The command's long options without dashes, as schemas/job.schema.json has them; paths below "
    "the ROOTs."
)


def or_null(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return a schema that also accepts null."""
    return {**schema, "type": [schema["type"], "null"]}


def ref_to(name: str) -> Dict[str, Any]:
    """Return a reference to a schema among the document's components."""
    return {"$ref": "#/components/schemas/" + name}


def list_of(schema: Dict[str, Any]) -> Dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def object_of(**properties: Any) -> Dict[str, Any]:
    """Return the schema of an object in which all these fields are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


_RUN = object_of(
    id={"type": "string", "pattern": "^[0-9a-f]{16}$", "description": "Stable over restarts."},
    path=TEXT,
    state={"enum": [RUNNING, FINISHED, STOPPED]},
    verdict={
        "enum": ["pass", "fail", "incomplete", None],
        "description": "null while it runs without failures that are final",
    },
    exit_code={
        "type": ["integer", "null"],
        "description": "The run's own; null until it has finished.",
    },
    model=or_null(TEXT),
    devices=list_of(TEXT),
    steps=list_of(TEXT),
    rows=COUNT,
    stored={
        **COUNT,
        "description": "Rows that may be had: of a merge those that did not pass, and all of "
        "one device and "
        "step.",
    },
    last_id={
        **COUNT,
        "description": "The highest id that was given to a row, 0 where there is none: another "
        "one means "
        "news.",
    },
    void={**COUNT, "description": "Rows with ids up to this one may have been others before."},
    passed=COUNT,
    failed=COUNT,
    provisional={
        **COUNT,
        "description": "So many of the failed rows may pass once others have come; 0 when the "
        "run has ended.",
    },
    not_compared=COUNT,
    expected_absent=COUNT,
    first_divergence={
        **object_of(op=TEXT, tensor=TEXT),
        "type": ["object", "null"],
        "description": "The first operator outside its limits; of a run that goes on of its "
        "rows so far.",
    },
    progress={
        "type": ["number", "null"],
        "minimum": 0,
        "maximum": 1,
        "description": "null where the whole is not known",
    },
    ops={
        **object_of(come=COUNT, expected=COUNT),
        "type": ["object", "null"],
        "description": "Of how many ops a watch has compared the dumps, and of how many they "
        "will come; null "
        "where no model tells.",
    },
    files_done=COUNT,
    files_expected=or_null(COUNT),
    bytes_done=COUNT,
    bytes_expected=or_null(COUNT),
    started=TIME,
    host=or_null(TEXT),
    error={"type": ["string", "null"], "description": "Why the store cannot be read."},
    age_s={
        "type": ["number", "null"],
        "minimum": 0,
        "description": "Seconds since the first start.",
    },
)
for _name in ("ops", "files_done", "files_expected", "bytes_done", "bytes_expected"):
    # Unknown for a store that cannot be read.
    _RUN["required"].remove(_name)

_JSON = {"type": ["object", "null"]}
_EVENT = {
    **object_of(time=COUNT, kind=TEXT, op=or_null(TEXT), text=TEXT),
    "description": "From the store; time in ms since 1970.",
}
_MORE = object_of(
    summary=_JSON, sentence=or_null(TEXT), inputs=_JSON, limit_texts=list_of(TEXT),
    commands=_JSON, limits=_JSON,
    events=list_of(_EVENT),
)  # fmt: skip
_FINAL = {
    "type": "boolean",
    "description": "Nothing that comes later may change its verdict, but for another dump of "
    "its op.",
}

_SCHEMAS: Dict[str, Any] = {
    "Error": object_of(error=object_of(kind=TEXT, message=TEXT, hint=or_null(TEXT))),
    "Run": _RUN,
    "RunInFull": {"allOf": [ref_to("Run"), _MORE]},
    "Row": {
        **object_of(
            id=COUNT,
            final=_FINAL,
            op=TEXT,
            tensor=TEXT,
            verdict={"enum": list(VERDICTS)},
            metrics={"type": "object"},
        ),
        "description": "A row of result.json (schemas/result.schema.json) with the id that "
        "the store gave it.",
    },
    "Job": object_of(
        id=TEXT,
        command={"enum": list(COMMANDS)},
        args=list_of(TEXT),
        options={"type": "object"},
        run={
            "type": ["string", "null"],
            "description": "The id of the run whose folder it writes to.",
        },
        state={"enum": list(STATES)},
        exit_code={"type": ["integer", "null"]},
        submitted=TIME,
        submitted_by={**or_null(TEXT), "description": "The name of the token that sent it."},
        started=TIME,
        ended=TIME,
    ),
}


def _job_schemas() -> Dict[str, Any]:
    """Return schemas/job.schema.json as components: ``JobRequest``, and the options of each
    command.
    """
    text = json.dumps(schema_of("job")).replace('"#/definitions/', '"#/components/schemas/options.')
    schema = json.loads(text)
    options = schema.pop("definitions")
    option_schemas = {
        "options." + name: {**about, "description": _OPTIONS} for name, about in options.items()
    }
    return {
        "JobRequest": {
            name: value for name, value in schema.items() if name not in ("$schema", "$id")
        },
        **option_schemas,
    }


_SCHEMAS.update(_job_schemas())


def openapi_document(endpoints: Iterable[Endpoint], url: str, cookie: str) -> Dict[str, Any]:
    """Return the OpenAPI document of a service at a URL, with those endpoints that have a summary.

    Parameters
    ----------
    cookie
        The name of the cookie (:attr:`goldwatch.service.access.Access.cookie`).
    """
    paths: Dict[str, Any] = {}
    for endpoint in endpoints:
        if endpoint.summary:
            names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": TEXT} for name in names
            ]
            parameters += [
                {"name": name, "in": "query", "schema": schema, "description": text}
                for name, schema, text in endpoint.query
            ]
            parameters += [
                {"name": name, "in": "header", "schema": TEXT, "description": text}
                for name, text in endpoint.headers
            ]
            answer = endpoint.answer
            content = (
                {answer: {"schema": TEXT}}
                if isinstance(answer, str)
                else {"application/json": {"schema": answer}}
            )
            error = {
                "description": "Refused.",
                "content": {"application/json": {"schema": ref_to("Error")}},
            }
            name = "".join(
                part.strip("{}").replace(".", "_").capitalize() for part in endpoint.path.split("/")
            )
            operation: Dict[str, Any] = {
                "operationId": endpoint.method + name,
                "summary": endpoint.summary,
                "responses": {
                    str(endpoint.status): {"description": "Done.", "content": content},
                    "default": error,
                },
            }
            if parameters:
                operation["parameters"] = parameters
            if endpoint.body is not None:
                operation["requestBody"] = {
                    "required": True,
                    "content": {"application/json": {"schema": endpoint.body}},
                }
            if endpoint.role == OPEN:
                operation["security"] = []
            paths.setdefault(endpoint.path, {})[endpoint.method] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "goldwatch",
            "version": __version__,
            "summary": "Runs that compare tensor dumps with golden data.",
        },
        "servers": [{"url": url}],
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": cookie},
            },
        },
    }
