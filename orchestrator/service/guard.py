"""The guard before every route: access, origin, size and speed of requests; headers of every
answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, Dict, List, MutableMapping, Optional, Tuple
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..pages.service import opening_page
from .access import Access
from .answers import PAGE_HEADERS, Problem
from .endpoint import Rules

log = logging.getLogger("goldwatch.service")

BODY_BYTES = 64 * 1024
BODY_S = 10.0
_REFUSED_BODY_S = 1.0
"""So long the rest of a body is awaited of a request that is refused: who is still sending does not
read the answer.
"""

_WRONG_S = 1.0
_BEARER = {"WWW-Authenticate": "Bearer"}
_CLOSE = {"Connection": "close"}
_LOGGED_CHARACTERS = 200
_ABSOLUTE = re.compile(r"https?://([^/]*)(/.*)?\Z", re.I | re.S)
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    """The outermost layer of the application.

    Parameters
    ----------
    app
        The application that answers admitted requests.
    access
        The rules of access.
    rules
        Which of its endpoints are open.
    read_only
        Whether only a login is accepted, and nothing else can be submitted.
    """

    def __init__(self, app: ASGIApp, access: Access, rules: Rules, read_only: bool = False) -> None:
        self.app = app
        self.access = access
        self.rules = rules
        self.read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        began = time.monotonic()
        _relative(scope)
        headers = _headers(scope)
        scope["path"] = self.access.below_prefix(scope["path"])
        peer = scope["client"][0] if scope.get("client") else None
        client = self.access.client(peer, headers.get("x-forwarded-for", []))
        state: Dict[str, Any] = scope.setdefault("state", {})
        opened = self.rules.is_opened(scope)
        state.update(token=None, client=client, opened=opened, prefix=self.access.prefix)
        try:
            await self._check(scope, headers)
            if self.access.prefix and scope["path"] == self.access.prefix:
                await exchange.redirect(self.access.prefix + "/")
            else:
                await self.app(scope, exchange.receive, exchange.send)
        except Problem as problem:
            if problem.status in (401, 403) and opened:
                # The page asks for the token, or repeats the request from this origin.
                answer = Response(
                    opening_page(self.access.prefix),
                    problem.status,
                    {**PAGE_HEADERS, **problem.headers},
                )
                await answer(scope, exchange.receive, exchange.send)
            else:
                await exchange.refuse(problem)
        except Exception as error:
            # An internal error: it is logged, and not shown to the client.
            log.error(
                "%s %s: %s", scope["method"], _shown(scope), type(error).__name__, exc_info=error
            )
            exchange.given_up = not exchange.complete
        finally:
            name = state["token"].name if state["token"] else "-"
            took_ms = 1000 * (time.monotonic() - began)
            log.info(
                "%s %s %s %s %s %d ms",
                client,
                name,
                scope["method"],
                _shown(scope),
                exchange.status or "-",
                took_ms,
            )
        if exchange.given_up:
            raise ConnectionAbortedError("half an answer is out")

    async def _check(self, scope: Scope, headers: Dict[str, List[str]]) -> None:
        path: str = scope["path"]
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self.access.knows_host(hosts[0]):
            raise Problem(421, "this server is not called that", "ask for %s" % self.access.url)
        is_open = self.rules.is_open(path) or path == self.access.prefix
        if not is_open or scope["method"] not in ("GET", "HEAD"):
            self._check_origin(headers, hosts[0])
        if self.read_only and not is_open and scope["method"] == "POST":
            raise Problem(
                405,
                "this service is read-only: it takes no jobs",
                "compare on this machine, or ask a service that takes jobs",
            )
        if not is_open:
            await self._check_token(scope, headers)
        length = headers.get("content-length", ["0"])
        if (
            len(length) != 1
            or not length[0].isdigit()
            or not length[0].isascii()
            or len(length[0]) > 18
        ):
            raise Problem(400, "Content-Length is no number", headers=_CLOSE)
        if int(length[0]) > BODY_BYTES:
            raise Problem(413, "the body is larger than %d bytes" % BODY_BYTES, headers=_CLOSE)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy might see another end of such a request (RFC 9112, 6.1).
            raise Problem(
                400,
                "a request has a Content-Length or a Transfer-Encoding, not both",
                headers=_CLOSE,
            )
        if "transfer-encoding" in headers:
            raise Problem(411, "a body needs its Content-Length")
        if int(length[0]) and scope["method"] != "POST":
            raise Problem(400, "only what is sent by POST has a body")

    def _check_origin(self, headers: Dict[str, List[str]], host: str) -> None:
        """Refuse requests that a page of another origin makes in a user's browser."""
        foreign = any(
            not self.access.knows_origin(origin, host) for origin in headers.get("origin", [])
        )
        if foreign or any(
            site.lower() not in ("same-origin", "none")
            for site in headers.get("sec-fetch-site", [])
        ):
            raise Problem(403, "a page of another origin asks", "open %s itself" % self.access.url)

    async def _check_token(self, scope: Scope, headers: Dict[str, List[str]]) -> None:
        writes = scope["method"] not in ("GET", "HEAD")
        if self.access.tokens is None:
            if writes:
                why = (
                    "without a token nothing can be sent: any page in a browser here could send it"
                )
                raise Problem(403, why, "start the service with a token file")
            return
        authorization = headers.get("authorization", [])
        if authorization:
            await self.require_patience(scope)
            token = self.access.by_header(authorization[0]) if len(authorization) == 1 else None
        else:
            cookies = (self.access.by_cookie(cookie) for cookie in headers.get("cookie", []))
            token = next((candidate for candidate in cookies if candidate is not None), None)
        scope["state"]["token"] = token
        if token is None and authorization:
            self.note_failure(scope)
            hint = "send Authorization: Bearer TOKEN with one of its token file"
            raise Problem(401, "this is not the service's token", hint, headers=_BEARER)
        if token is None:
            hint = "send Authorization: Bearer TOKEN, or log in on the page"
            raise Problem(401, "a token is needed", hint, headers=_BEARER)
        if writes and not authorization and "x-goldwatch" not in headers:
            raise Problem(
                403,
                "what is sent with a cookie needs the header X-Goldwatch",
                "send X-Goldwatch: 1",
            )
        if writes and not token.may_submit:
            raise Problem(
                403, "the token %s may only view" % token.name, "ask for one whose role is submit"
            )

    async def require_patience(self, scope: Scope) -> None:
        """Raise 429, after a delay, for a client with many wrong tokens, before another is checked,
        however many requests it makes at once.
        """
        if not self.access.may_try(scope["state"]["client"]):
            await asyncio.sleep(_WRONG_S)
            raise Problem(
                429, "too many wrong tokens", "wait a minute", headers={"Retry-After": "60"}
            )

    def note_failure(self, scope: Scope) -> None:
        """Count a wrong token of a client."""
        self.access.note_failure(scope["state"]["client"])


class _Exchange:
    """One request and its answer, limited in size and time."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.status: Optional[int] = None
        self.given_up = False
        self.complete = False
        self._scope = scope
        self._receive = receive
        self._send = send
        self._size = 0
        # Of a request without a body nothing is waited for: whoever asks here wants to know when
        # the client goes, however late.
        lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        self._chunked = any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
        self._ended = not self._chunked and all(value == b"0" for value in lengths)
        self._until = asyncio.get_running_loop().time() + BODY_S

    async def receive(self) -> Message:
        if self._ended:
            return await self._receive()
        try:
            message = await asyncio.wait_for(
                self._receive(), max(0.0, self._until - asyncio.get_running_loop().time())
            )
        except asyncio.TimeoutError:
            raise Problem(
                408, "the body did not come in time", "within %d seconds" % BODY_S, headers=_CLOSE
            ) from None
        self._size += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._size > BODY_BYTES:
            raise Problem(413, "the body is larger than %d bytes" % BODY_BYTES, headers=_CLOSE)
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: List[Tuple[bytes, bytes]] = list(message.get("headers", []))
            names = {name.lower() for name, _ in headers}
            policy = DATA_POLICY if b"content-security-policy" not in names else None
            headers += [pair for pair in SAFE_HEADERS if pair[0] not in names]
            if policy is not None:
                headers.append((b"content-security-policy", policy.encode()))
            if (self._chunked or not self._ended) and b"connection" not in names:
                # The rest of the body would have to be read before the next request; chunks are
                # not read at all.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        await self._send(message)
        self.complete = message["type"] == "http.response.body" and not message.get(
            "more_body", False
        )

    async def refuse(self, problem: Problem) -> None:
        """Answer a refusal after the body has been read, as far as its size permits and for a
        moment only.
        """
        self._until = min(self._until, asyncio.get_running_loop().time() + _REFUSED_BODY_S)
        try:
            while not self._ended and "Connection" not in problem.headers:
                await self.receive()
        except Problem as worse:
            problem = worse if worse.status == 413 else problem
        await problem.answer()(self._scope, self.receive, self.send)

    async def redirect(self, path: str) -> None:
        """Redirect to another path of this server."""
        await Response(status_code=308, headers={"Location": path})(
            self._scope, self.receive, self.send
        )


def _headers(scope: Scope) -> Dict[str, List[str]]:
    values: Dict[str, List[str]] = {}
    for name, value in scope["headers"]:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return values


def _relative(scope: Scope) -> None:
    """Take a target in absolute form (RFC 9112, 3.2.2) as its path; its host takes precedence over
    the header's.
    """
    match = _ABSOLUTE.match(scope["path"])
    if match:
        scope["path"] = match.group(2) or "/"
        scope["raw_path"] = scope["path"].encode("utf-8", "surrogateescape")
        host = (b"host", match.group(1).encode("latin-1", "replace"))
        scope["headers"] = [host, *(pair for pair in scope["headers"] if pair[0] != b"host")]


def _shown(scope: Scope) -> str:
    """Return the path of a request for the log, without the query: one word of ASCII, whatever the
    client sent.
    """
    return quote(scope["path"], errors="surrogateescape")[:_LOGGED_CHARACTERS]
