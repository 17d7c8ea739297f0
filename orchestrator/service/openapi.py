"""The API as an OpenAPI 3.1 document."""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import __version__
from ..dumps.place import Place
from ..metrics.row import VERDICTS
from ..schemas.documents import schema_of
from .info import FINISHED, RUNNING, STOPPED
from .job_request import COMMANDS
from .listing import ORDERS, SORTS
from .queue import STATES
from .tokens import ROLES

_TEXT, _NUMBER, _COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
_TIME = {"type": ["string", "null"], "format": "date-time"}

_OPTIONS = (
    "The command's long options without dashes, as schemas/job.schema.json has them; paths below "
    "the ROOTs."
)


def _or_null(schema: Dict[str, Any]) -> Dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _ref(name: str) -> Dict[str, Any]:
    return {"$ref": "#/components/schemas/" + name}


def _list_of(schema: Dict[str, Any]) -> Dict[str, Any]:
    return {"type": "array", "items": schema}


def _object(**properties: Any) -> Dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_RUN = _object(
    id={"type": "string", "pattern": "^[0-9a-f]{16}$", "description": "Stable over restarts."},
    path=_TEXT,
    state={"enum": [RUNNING, FINISHED, STOPPED]},
    verdict={
        "enum": ["pass", "fail", "incomplete", None],
        "description": "null while it runs without failures that are final",
    },
    exit_code={
        "type": ["integer", "null"],
        "description": "The run's own; null until it has finished.",
    },
    model=_or_null(_TEXT),
    devices=_list_of(_TEXT),
    steps=_list_of(_TEXT),
    rows=_COUNT,
    stored={
        **_COUNT,
        "description": "Rows that may be had: of a merge those that did not pass, and all of "
        "one device and "
        "step.",
    },
    last_id={
        **_COUNT,
        "description": "The highest id that was given to a row, 0 where there is none: another "
        "one means "
        "news.",
    },
    void={**_COUNT, "description": "Rows with ids up to this one may have been others before."},
    passed=_COUNT,
    failed=_COUNT,
    provisional={
        **_COUNT,
        "description": "So many of the failed rows may pass once others have come; 0 when the "
        "run has ended.",
    },
    not_compared=_COUNT,
    expected_absent=_COUNT,
    first_divergence={
        **_object(op=_TEXT, tensor=_TEXT),
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
        **_object(come=_COUNT, expected=_COUNT),
        "type": ["object", "null"],
        "description": "Of how many ops a watch has compared the dumps, and of how many they "
        "will come; null "
        "where no model tells.",
    },
    files_done=_COUNT,
    files_expected=_or_null(_COUNT),
    bytes_done=_COUNT,
    bytes_expected=_or_null(_COUNT),
    started=_TIME,
    host=_or_null(_TEXT),
    error={"type": ["string", "null"], "description": "Why the store cannot be read."},
    age_s={
        "type": ["number", "null"],
        "minimum": 0,
        "description": "Seconds since the first start.",
    },
)
for _name in ("ops", "files_done", "files_expected", "bytes_done", "bytes_expected"):
    # Not known of a store that cannot be read.
    _RUN["required"].remove(_name)

_JSON = {"type": ["object", "null"]}
_EVENT = {
    **_object(time=_COUNT, kind=_TEXT, op=_or_null(_TEXT), text=_TEXT),
    "description": "From the store; time in ms since 1970.",
}
_MORE = _object(
    summary=_JSON, sentence=_or_null(_TEXT), inputs=_JSON, limit_texts=_list_of(_TEXT),
    commands=_JSON, limits=_JSON,
    events=_list_of(_EVENT),
)  # fmt: skip
_FINAL = {
    "type": "boolean",
    "description": "Nothing that comes later may change its verdict, but for another dump of "
    "its op.",
}

_SCHEMAS: Dict[str, Any] = {
    "Error": _object(error=_object(kind=_TEXT, message=_TEXT, hint=_or_null(_TEXT))),
    "Run": _RUN,
    "RunInFull": {"allOf": [_ref("Run"), _MORE]},
    "Row": {
        **_object(
            id=_COUNT,
            final=_FINAL,
            op=_TEXT,
            tensor=_TEXT,
            verdict={"enum": list(VERDICTS)},
            metrics={"type": "object"},
        ),
        "description": "A row of result.json (schemas/result.schema.json) with the id that "
        "the store gave it.",
    },
    "Job": _object(
        id=_TEXT,
        command={"enum": list(COMMANDS)},
        args=_list_of(_TEXT),
        options={"type": "object"},
        run={
            "type": ["string", "null"],
            "description": "The id of the run whose folder it writes to.",
        },
        state={"enum": list(STATES)},
        exit_code={"type": ["integer", "null"]},
        submitted=_TIME,
        submitted_by={**_or_null(_TEXT), "description": "The name of the token that sent it."},
        started=_TIME,
        ended=_TIME,
    ),
}


def _job_schemas() -> Dict[str, Any]:
    """Return schemas/job.schema.json as components: ``JobRequest``, and the options of each
    command.
    """
    text = json.dumps(schema_of("job")).replace('"#/definitions/', '"#/components/schemas/options.')
    schema = json.loads(text)
    options = schema.pop("definitions")
    found = {
        "options." + name: {**about, "description": _OPTIONS} for name, about in options.items()
    }
    return {
        "JobRequest": {
            name: value for name, value in schema.items() if name not in ("$schema", "$id")
        },
        **found,
    }


_SCHEMAS.update(_job_schemas())


class Operation(NamedTuple):
    """One method of one path.

    Attributes
    ----------
    query
        (name, schema, description) of what may stand in the query.
    answer
        The schema of a JSON answer, or the media type of another.
    body
        The schema of what is sent, or None.
    status
        Of the answer when all is well.
    headers
        (name, description) of what else may be sent.
    """

    method: str
    path: str
    summary: str
    answer: Any
    query: Tuple[Tuple[str, Dict[str, Any], str], ...] = ()
    body: Optional[Dict[str, Any]] = None
    status: int = 200
    open: bool = False
    headers: Tuple[Tuple[str, str], ...] = ()


_VALUE = {"type": ["number", "string"], "description": "A number that is not finite is a text."}
_STEP = _object(
    step=_TEXT,
    model=_TEXT,
    op=_TEXT,
    tensor=_TEXT,
    metric=_TEXT,
    count=_COUNT,
    worst=_VALUE,
    mean=_VALUE,
)
_LACKING = _object(
    **dict.fromkeys(Place._fields, _or_null(_TEXT)), failed=_COUNT, passed=_COUNT, rows=_COUNT
)
_CELLS = _list_of(_list_of({"type": ["number", "string", "null"]}))
_DRAWN = _object(
    model=_or_null(_TEXT), steps=_list_of(_or_null(_TEXT)), ops=_list_of(_TEXT), worst=_CELLS
)
_PAGE = (
    (
        "limit",
        _COUNT,
        "How many at most; of runs 100 and never more than 1,000, of rows 1,000 and never "
        "more than 10,000.",
    ),
)
READING: List[Operation] = [
    Operation("get", "/healthz", "Whether the service lives; needs no token.",
    _object(status=_TEXT, version=_TEXT), open=True),
    Operation("get", "/metrics", "Counts of all runs in Prometheus' text form.", "text/plain"),
    Operation("get", "/api/v1/openapi.json", "This document.", {"type": "object"}),
    Operation(
        "get", "/api/v1/session", "Whose token it is: null where none is needed.",
        _object(name=_or_null(_TEXT), role={"enum": [*ROLES, None]}, read_only={"type": "boolean"}),
    ),
    Operation(
        "get", "/api/v1/runs", "The runs, newest first.",
        _object(runs=_list_of(_ref("Run")), total=_COUNT),
        (("q", _TEXT, "Words that the path, model, host, state, verdict, first op outside its "
            "limits or id "
            "contain."),
         ("verdict", {"enum": ["pass", "fail", "incomplete", "none"]},
         "Only runs of this verdict."),
         ("sort", {"enum": list(SORTS)}, "By what they are sorted; newest first unless said "
             "otherwise."),
         ("order", {"enum": list(ORDERS)}, "Of `sort`; asc unless said otherwise."),
         *_PAGE, ("offset", _COUNT, "How many to pass over.")),
    ),
    Operation("get", "/api/v1/runs/{run}", "One run, with result.json's "
        "summary (once it has "
        "finished) and limits.", _ref("RunInFull")),
    Operation(
        "get", "/api/v1/runs/{run}/rows", "Rows in the order of their arrival.",
        _object(rows=_list_of(_ref("Row")), last_id=_COUNT),
        (("after", _COUNT, "Only rows with a higher id."), *_PAGE),
    ),
    Operation(
        "get", "/api/v1/runs/{run}/steps", "Of a merge what a metric is in each step over all "
            "devices, and what it does not "
            "store.",
        _object(steps=_list_of(_STEP), metrics=_list_of(_TEXT), unstored=_list_of(_LACKING)),
        (("metric", _TEXT, "RelativeEuclideanDistance unless said otherwise."), *_PAGE),
    ),
    Operation(
        "get", "/api/v1/runs/{run}/overview", "Of a merge what each op is at worst in each "
            "step over all devices, as pages draw it.",
        _object(metric=_or_null(_TEXT), models=_list_of(_DRAWN)),
    ),
    Operation(
        "get", "/api/v1/runs/{run}/events",
        "Server-sent events: row, provisional, progress, divergence, reset, end. Resumed by "
            "Last-Event-ID, which goes before `after`.",
        "text/event-stream",
        (("after", _COUNT, "Only rows with a higher id."),
        ("void", _COUNT, "`void` of the run or the last "
            "reset when the client began.")),
        headers=(("Last-Event-ID", "The id of the last row that the client saw."),),
    ),
    Operation(
        "get", "/api/v1/runs/{run}/graphs", "The networks around the first suspect or the "
            "first op outside its limits, as pages "
            "draw them.",
        _object(graphs=_list_of(_object(model=_TEXT, count=_COUNT, focus=_TEXT,
        near={"type": "object"}))),
    ),
    Operation(
        "get", "/api/v1/runs/{run}/files", "The files of a run.",
        _object(files=_list_of(_object(name=_TEXT, size=_or_null(_COUNT)))),
    ),
    Operation("get", "/api/v1/runs/{run}/files/{name}", "A file: result.json and the "
        "CSVs as they are; reports are "
        "made.", "*/*"),
]  # fmt: skip
_JOB_PATH = "/api/v1/jobs/{job}"
JOBS: List[Operation] = [
    Operation(
        "get",
        "/api/v1/jobs",
        "The jobs, newest first: those that wait or run, and as many of the others as are kept.",
        _object(
            jobs=_list_of(_ref("Job")),
            total=_COUNT,
            states=_object(**dict.fromkeys(STATES, _COUNT)),
            kept=_COUNT,
        ),
        (
            ("state", {"enum": list(STATES)}, "Only jobs of this state; may be repeated."),
            ("run", _TEXT, "Only those of this run's id."),
            (
                "limit",
                _COUNT,
                "How many at most; 100 unless said otherwise, and never more than 1,000.",
            ),
            ("offset", _COUNT, "How many to pass over."),
        ),
    ),
    Operation("get", _JOB_PATH, "One job.", _ref("Job")),
    Operation(
        "get", _JOB_PATH + "/log", "The end of what the job's command printed.", "text/plain"
    ),
]
_BY_COOKIE = (("X-Goldwatch", "Anything; needed by who is known by the cookie."),)
SENDING: List[Operation] = [
    Operation(
        "post", "/api/v1/runs", "Put a command into the queue.",
        _ref("Job"), body=_ref("JobRequest"), status=202, headers=_BY_COOKIE,
    ),
    Operation(
        "post", _JOB_PATH + "/cancel", "End a job, or have it not begin; one that has ended "
            "stays as it is.",
        _ref("Job"), status=202, headers=_BY_COOKIE,
    ),
]  # fmt: skip
LOGIN = [
    Operation(
        "post",
        "/login",
        "A cookie for browsers that stands for the token.",
        _object(status=_TEXT),
        body=_object(token=_TEXT),
        open=True,
    ),
    Operation(
        "post",
        "/logout",
        "The cookie stands for nothing any more.",
        _object(status=_TEXT),
        headers=_BY_COOKIE,
        open=True,
    ),
]


def openapi_document(
    url: str, read_only: bool = False, cookie: str = "goldwatch-8470"
) -> Dict[str, Any]:
    """Return the document of a service at a URL; a read-only one has nothing to send to, but for
    the token of a browser.

    Parameters
    ----------
    cookie
        Its name (:attr:`goldwatch.service.access.Access.cookie`).
    """
    paths: Dict[str, Any] = {}
    for operation in [*READING, *JOBS, *(() if read_only else SENDING), *LOGIN]:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
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


def _described(operation: Operation) -> Dict[str, Any]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
    parameters += [
        {"name": name, "in": "query", "schema": schema, "description": text}
        for name, schema, text in operation.query
    ]
    parameters += [
        {"name": name, "in": "header", "schema": _TEXT, "description": text}
        for name, text in operation.headers
    ]
    answer = operation.answer
    content = (
        {answer: {"schema": _TEXT}}
        if isinstance(answer, str)
        else {"application/json": {"schema": answer}}
    )
    error = {"description": "Refused.", "content": {"application/json": {"schema": _ref("Error")}}}
    name = "".join(
        part.strip("{}").replace(".", "_").capitalize() for part in operation.path.split("/")
    )
    found: Dict[str, Any] = {
        "operationId": operation.method + name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): {"description": "Done.", "content": content},
            "default": error,
        },
    }
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": operation.body}},
        }
    if operation.open:
        found["security"] = []
    return found
