"""What lies before every route, as middleware of Starlette and a backend of its authentication:
limits of size and time, the log, and who may ask for what.

Starlette's TrustedHostMiddleware does not do the same: it takes a name with any port and answers
400 in plain text, and in 0.40.0 it cuts ``[::1]:8470`` at its first colon. Its ``requires`` says of
a refusal no more than Forbidden, and only where there is a route.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, List, Mapping, MutableMapping, Optional, Tuple
from urllib.parse import quote

from starlette.authentication import AuthCredentials, AuthenticationBackend
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Access
from .answers import Problem
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
_READING = ("GET", "HEAD")
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Exchanges:
    """Middleware: limits each request and its answer, adds headers to the answer, and writes a line
    of the log.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        began = time.monotonic()
        absolute = _ABSOLUTE.match(scope["path"])
        if absolute:
            # The host of a target in absolute form takes precedence over the header's (RFC 9112,
            # 3.2.2).
            scope["path"] = absolute.group(2) or "/"
            scope["raw_path"] = scope["path"].encode("utf-8", "surrogateescape")
            host = (b"host", absolute.group(1).encode("latin-1", "replace"))
            scope["headers"] = [host, *(pair for pair in scope["headers"] if pair[0] != b"host")]
        scope["path"] = self.access.below_prefix(scope["path"])
        peer = scope["client"][0] if scope.get("client") else None
        client = self.access.client(peer, Headers(scope=scope).getlist("x-forwarded-for"))
        scope.setdefault("state", {})["client"] = client
        # For the log one word of ASCII, without the query, whatever the client sent.
        shown = quote(scope["path"], errors="surrogateescape")[:_LOGGED_CHARACTERS]
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except Exception as error:
            # An internal error: it is logged, and not shown to the client.
            log.error("%s %s: %s", scope["method"], shown, type(error).__name__, exc_info=error)
            if exchange.status is None:
                problem = Problem(500, "the service made a mistake", "its log says more")
                await problem.answer()(scope, exchange.receive, exchange.send)
        finally:
            user = scope.get("user")
            log.info(
                "%s %s %s %s %s %d ms",
                client,
                "-" if user is None else user.name,
                scope["method"],
                shown,
                exchange.status or "-",
                1000 * (time.monotonic() - began),
            )
        if exchange.status is not None and not exchange.complete:
            raise ConnectionAbortedError("half an answer is out")


class _Exchange:
    """One request and its answer, limited in size and time."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.status: Optional[int] = None
        self.complete = False
        self._receive = receive
        self._send = send
        self._size = 0
        # Of a request without a body nothing is waited for: whoever asks here wants to know when
        # the client goes, however late.
        headers = Headers(scope=scope)
        self._chunked = "transfer-encoding" in headers
        self._ended = not self._chunked and set(headers.getlist("content-length")) <= {"0"}
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
            if message["status"] >= 400 and b"connection" not in names:
                await self._pass_over_body()
            headers += [pair for pair in SAFE_HEADERS if pair[0] not in names]
            if b"content-security-policy" not in names:
                headers.append((b"content-security-policy", DATA_POLICY.encode()))
            if (self._chunked or not self._ended) and b"connection" not in names:
                # The rest of the body would have to be read before the next request; chunks are
                # not read at all.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        await self._send(message)
        self.complete = message["type"] == "http.response.body" and not message.get(
            "more_body", False
        )

    async def _pass_over_body(self) -> None:
        """Read the body of a request that is refused, as far as its size permits and for a moment
        only.
        """
        self._until = min(self._until, asyncio.get_running_loop().time() + _REFUSED_BODY_S)
        try:
            while not self._ended:
                await self.receive()
        except Problem:
            pass


class Admission:
    """Middleware: refuses requests for other hosts, from pages of other origins, or with a body
    that is none of ours.

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

    def __init__(self, app: ASGIApp, access: Access, rules: Rules, read_only: bool) -> None:
        self.app = app
        self.access = access
        self.rules = rules
        self.read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raise Problem, or pass a request on."""
        if scope["type"] == "http":
            self._check(scope, Headers(scope=scope))
        await self.app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        hosts, is_open = headers.getlist("host"), self.rules.is_open(scope["path"])
        if len(hosts) != 1 or not self.access.knows_host(hosts[0]):
            raise Problem(421, "this server is not called that", "ask for %s" % self.access.url)
        if not is_open or scope["method"] not in _READING:
            # A page of another origin makes requests in a user's browser.
            origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
            if not all(self.access.knows_origin(origin, hosts[0]) for origin in origins) or not all(
                site.lower() in ("same-origin", "none") for site in sites
            ):
                raise Problem(
                    403, "a page of another origin asks", "open %s itself" % self.access.url
                )
        if self.read_only and not is_open and scope["method"] == "POST":
            raise Problem(
                405,
                "this service is read-only: it takes no jobs",
                "compare on this machine, or ask a service that takes jobs",
            )
        lengths = headers.getlist("content-length") or ["0"]
        if len(lengths) != 1 or not re.match(r"[0-9]{1,18}\Z", lengths[0]):
            raise Problem(400, "Content-Length is no number", headers=_CLOSE)
        if int(lengths[0]) > BODY_BYTES:
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
        if int(lengths[0]) and scope["method"] != "POST":
            raise Problem(400, "only what is sent by POST has a body")


class TokenBackend(AuthenticationBackend):
    """Finds whose token a request has: a :class:`goldwatch.service.tokens.Token` is Starlette's
    user, None where no token is needed.
    """

    def __init__(self, access: Access, rules: Rules) -> None:
        self.access = access
        self.rules = rules

    async def authenticate(self, conn: HTTPConnection) -> Any:
        """Return the token; raises Problem where it is wrong, lacks or may not do this."""
        scope, headers = conn.scope, conn.headers
        if self.rules.is_open(scope["path"]):
            return AuthCredentials(), None
        writes = scope["method"] not in _READING
        if self.access.tokens is None:
            if writes:
                why = (
                    "without a token nothing can be sent: any page in a browser here could send it"
                )
                raise Problem(403, why, "start the service with a token file")
            return AuthCredentials(), None
        authorization = headers.getlist("authorization")
        if authorization:
            token = self.access.by_header(authorization[0]) if len(authorization) == 1 else None
            if token is None:
                hint = "send Authorization: Bearer TOKEN with one of its token file"
                raise await wrong_token(
                    self.access, scope, "this is not the service's token", hint, _BEARER
                )
        else:
            cookies = (self.access.by_cookie(cookie) for cookie in headers.getlist("cookie"))
            token = next((candidate for candidate in cookies if candidate is not None), None)
            if token is None:
                hint = "send Authorization: Bearer TOKEN, or log in on the page"
                raise Problem(401, "a token is needed", hint, headers=_BEARER)
        # The log names it also where its role does not allow this.
        scope["user"] = token
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
        return AuthCredentials([token.role]), token


async def wrong_token(
    access: Access,
    scope: Scope,
    message: str,
    hint: str,
    headers: Optional[Mapping[str, str]] = None,
) -> Problem:
    """Count a wrong token, and return its refusal: 429, after a delay, for a client with many of
    them.

    A right one is never refused here: behind one proxy many clients may have one address.
    """
    client = scope["state"]["client"]
    if access.may_try(client):
        access.note_failure(client)
        return Problem(401, message, hint, headers=headers)
    await asyncio.sleep(_WRONG_S)
    return Problem(429, "too many wrong tokens", "wait a minute", headers={"Retry-After": "60"})
