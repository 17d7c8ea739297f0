"""The bodies of requests."""

from __future__ import annotations

from typing import Any

from starlette.requests import ClientDisconnect, Request

from ..schemas.jsontext import JsonProblem, parse_json
from .answers import Problem


async def read_json(request: Request) -> Any:
    """Return the JSON of a request's body.

    Raises
    ------
    Problem
        Another media type, incomplete or invalid JSON, or an object with a repeated key.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "expected Content-Type: application/json")
    try:
        text = parse_json(await request.body())
    except ClientDisconnect:
        raise Problem(400, "the body was cut off", headers={"Connection": "close"}) from None
    except JsonProblem as error:
        message = error.message.replace("the file", "the body")
        raise Problem(
            400,
            "line %d, column %d: %s" % (error.line, error.column, message),
            "send a document in JSON, in UTF-8",
        ) from None
    for path, place in text.duplicates()[:1]:
        raise Problem(
            400,
            "line %d, column %d: the key %r is there twice" % (*place, path[-1]),
            "keep one of them",
        )
    return text.value
