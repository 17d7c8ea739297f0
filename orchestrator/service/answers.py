"""The answers of the service: JSON documents, and errors as ``{"error": {"kind", "message",
"hint"}}``; and the JSON of requests.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ..base.errors import DiskFull, GoldwatchError, MissingPath, UsageError
from ..schemas.jsontext import JsonProblem, parse_json
from .root_folders import OutsideRoots

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": PAGE_POLICY,
}

KINDS = {
    400: "usage",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method",
    408: "too_slow",
    409: "conflict",
    411: "length",
    413: "too_large",
    415: "media_type",
    421: "misdirected",
    429: "too_many",
    500: "internal",
    503: "ending",
    507: "disk_full",
}


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
        text = parse_json(await request.body(), "body")
    except ClientDisconnect:
        raise Problem(400, "the body was cut off", headers={"Connection": "close"}) from None
    except JsonProblem as error:
        raise Problem(
            400,
            "line %d, column %d: %s" % (error.line, error.column, error.message),
            "send a document in JSON, in UTF-8",
        ) from None
    for path, place in text.duplicates()[:1]:
        raise Problem(
            400,
            "line %d, column %d: the key %r is there twice" % (*place, path[-1]),
            "keep one of them",
        )
    return text.value


class Problem(HTTPException):
    """A refused request.

    Parameters
    ----------
    status
        The HTTP status.
    message, hint
        What is wrong, and what to do.
    kind
        A stable word for programs; by default that of the status.
    headers
        Additional headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: Optional[str] = None,
        kind: str = "",
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.hint = hint
        self.kind = kind or KINDS.get(status, "error")

    def answer(self) -> Response:
        """Return the HTTP answer."""
        error = {"kind": self.kind, "message": self.detail, "hint": self.hint}
        return json_answer({"error": error}, self.status_code, self.headers)


def problem_of(error: GoldwatchError) -> Problem:
    """Return the refusal for one of goldwatch's errors: a missing path, a path outside the ROOTs,
    wrong options, a damaged store.
    """
    kinds = ((DiskFull, 507), (OutsideRoots, 403), (MissingPath, 404), (UsageError, 400))
    status = next((status for kind, status in kinds if isinstance(error, kind)), 409)
    return Problem(status, error.message, error.hint, error.kind)


def disk_full() -> Problem:
    """Return the refusal of a request that needs more disk space than there is."""
    return Problem(
        507, "a disk of the service's machine is full", "free space there, and ask again"
    )


def json_answer(
    document: Any, status: int = 200, headers: Optional[Mapping[str, str]] = None
) -> Response:
    """Return a JSON document in pure ASCII; numbers that are not finite must already be strings."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return json_text(text, status, headers)


def json_text(
    text: str, status: int = 200, headers: Optional[Mapping[str, str]] = None
) -> Response:
    """Return the answer for a text that is JSON already."""
    return Response(text + "\n", status, dict(headers or {}), media_type="application/json")


def number_of(text: Optional[str], name: str, default: int, most: int = 2**62) -> int:
    """Return a number in a request's query; larger ones are taken as ``most``.

    Raises
    ------
    Problem
        It is not a number.
    """
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Problem(400, "%s: expected a whole number from 0 on, of at most 18 digits" % name)
    return min(int(text), most)
