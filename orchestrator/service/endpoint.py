"""The type of an endpoint: one method of one path."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Iterable, NamedTuple, Optional, Tuple, Union

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import Scope

OPEN, VIEW, SUBMIT = "open", "view", "submit"
"""Who may ask: everybody, who has a token, who has one that may submit."""


class Endpoint(NamedTuple):
    """One method of one path: its route, the guard's rules and what OpenAPI says derive from it.

    Attributes
    ----------
    handler
        The function that answers; one that is no coroutine is called in a thread.
    summary
        For the description of the API; empty for pages, which are not part of it.
    answer
        The schema of a JSON answer, or the media type of another.
    query
        (name, schema, description) of each query parameter.
    body
        The schema of the request's body, or None.
    status
        The status of a successful answer.
    headers
        (name, description) of optional request headers.
    opened
        Browsers open it, too: from a link that somebody sent, whose refusals are then pages.
    """

    method: str
    path: str
    handler: Callable[[Request], Union[Response, Awaitable[Response]]]
    summary: str = ""
    answer: Any = "text/html"
    query: Tuple[Tuple[str, Dict[str, Any], str], ...] = ()
    body: Optional[Dict[str, Any]] = None
    status: int = 200
    role: str = VIEW
    headers: Tuple[Tuple[str, str], ...] = ()
    opened: bool = False

    def route(self) -> Route:
        """Return the route for Starlette."""
        return Route(self.path, self.handler, methods=[self.method.upper()])


class Rules:
    """What the guard needs to know of the endpoints before a request reaches one."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        endpoints = list(endpoints)
        self._open = {one.path.split("/")[1] for one in endpoints if one.role == OPEN}
        self._opened = [compile_path(one.path)[0] for one in endpoints if one.opened]

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token: its first part is that of an open endpoint, whether
        the rest exists or not.
        """
        return (path.split("/")[1] if path.startswith("/") else path) in self._open

    def is_opened(self, scope: Scope) -> bool:
        """Return whether a browser opens this request as a page and shows the answer."""
        headers: Dict[bytes, bytes] = {name.lower(): value for name, value in scope["headers"]}
        return (
            scope["method"] == "GET"
            and b"text/html" in headers.get(b"accept", b"")
            and b"authorization" not in headers
            and any(path.match(scope["path"]) for path in self._opened)
        )
