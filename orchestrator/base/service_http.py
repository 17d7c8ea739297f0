"""Client of a comparison service, using only the standard library."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, List, Optional

from .errors import EnvironmentProblem, FormatError, InputError, UsageError
from .safe_reading import read_input
from .system import is_loopback

API = "/api/v1"
TIMEOUT_S = 30.0
_TOKEN_BYTES = 4096
_UNAUTHORISED = 401
_UNIX = "unix:"
_MOST_BYTES = 64 << 20

_TEXT, _NUMBER = (str, type(None)), (int, type(None))
JOB = {"id": str, "command": str, "options": dict, "state": str, "exit_code": _NUMBER, "run": _TEXT}
RUN = {
    "id": str,
    "path": str,
    "state": str,
    "verdict": _TEXT,
    "exit_code": _NUMBER,
    "rows": int,
    "passed": int,
    "failed": int,
}
"""Fields of a job and a run of the service's API that are used, with their types."""


class Unreachable(EnvironmentProblem):
    """The service does not answer (exit code 4)."""

    kind = "unreachable"


class Refused(InputError):
    """The service refuses a request (exit code 4).

    Parameters
    ----------
    status
        The HTTP status.
    """

    kind = "refused"

    def __init__(self, message: str, hint: Optional[str], status: int) -> None:
        super().__init__(message, hint)
        self.status = status
        if status == _UNAUTHORISED:
            self.kind, self.hint = "unauthorised", "name the file with the service's token"


def _read_token(path: str) -> str:
    """Return the only word of a file; raises FormatError where there are more, InputError where it
    cannot be read.
    """
    words = read_input(path, _TOKEN_BYTES).decode("utf-8", "replace").split()
    if len(words) != 1 or not words[0].isprintable() or not words[0].isascii():
        hint = (
            "a line of the service's own file holds a name, a role and then the token"
            if len(words) > 1
            else None
        )
        raise FormatError("expected one line of printable ASCII, the token alone", path, hint)
    return words[0]


def _advice(url: str, why: object) -> str:
    if url.startswith(_UNIX):
        return "check the path, that the service runs, and that this user may write to its socket"
    if isinstance(why, ssl.SSLCertVerificationError):
        return "where its certificate is your own, name it: SSL_CERT_FILE=cert.pem goldwatch …"
    if isinstance(why, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(why):
        return "if it speaks http, write http:// in its address"
    if isinstance(why, http.client.RemoteDisconnected) and url.startswith("http:"):
        return "if it speaks https, write https:// in its address"
    return "check the address, and that the service runs"


def _has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            name in value and _has_shape(value[name], part) for name, part in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(one, shape[0]) for one in value)
    return isinstance(value, shape)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes to the named server and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a service that listens at a Unix socket."""

    def __init__(self, path: str, timeout: Any) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _UnixHandler(urllib.request.HTTPHandler):
    """Asks over one Unix socket, whatever the URL says."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Ask."""
        connect: Any = lambda host, timeout, **_: _UnixConnection(self._path, timeout)  # noqa: E731
        return self.do_open(connect, req)


class Client:
    """A service and the token for it.

    Parameters
    ----------
    url
        Such as ``https://goldwatch.example.org`` or ``unix:/run/goldwatch.sock``.

    Attributes
    ----------
    pages
        Where a browser finds the service; None: nowhere, it listens at a Unix socket.
    token_file
        Holds the token on one line; None: none is given.

    Raises
    ------
    UsageError
        The URL is none of a service.
    InputError
        The file cannot be read.
    """

    def __init__(self, url: str, token_file: Optional[str]) -> None:
        self.url = url.rstrip("/")
        self._token = None if token_file is None else _read_token(token_file)
        handlers: List[Any] = [
            _NoRedirect,
            urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        ]
        self.pages: Optional[str] = None
        if url.startswith(_UNIX) and len(url) > len(_UNIX):
            self._base = "http://localhost"
            self._opener = urllib.request.build_opener(
                *handlers, _UnixHandler(url[len(_UNIX) :]), urllib.request.ProxyHandler({})
            )
            return
        try:
            parts = urllib.parse.urlsplit(url)
            known = bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if (
            not known
            or parts.scheme not in ("http", "https")
            or parts.query
            or parts.fragment
            or parts.username
        ):
            shown = "a URL with a name or a password in it" if "@" in url else url
            raise UsageError(
                "%s is no service's URL" % shown,
                hint="such as https://goldwatch.example.org or http://127.0.0.1:8470",
            )
        self._base = self.pages = self.url
        if is_loopback(str(parts.hostname)):
            # No proxy for this machine.
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, shape: Any) -> Any:
        """Return the JSON that a path answers; raises Unreachable, also where it has another shape,
        or Refused.

        Parameters
        ----------
        shape
            A type or several; a dictionary of the names that must be there; a list with what each
            of its items is.
        """
        return self._json(self._ask("GET", path, None), shape)

    def post(self, path: str, document: Any, shape: Any) -> Any:
        """Send a JSON document; return the answer's, as :meth:`get`."""
        return self._json(self._ask("POST", path, json.dumps(document).encode("ascii")), shape)

    def text(self, path: str) -> str:
        """Return the text that a path answers; raises Unreachable or Refused."""
        return self._ask("GET", path, None).decode("utf-8", "backslashreplace")

    def _ask(self, method: str, path: str, body: Optional[bytes]) -> bytes:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = "Bearer " + self._token
        request = urllib.request.Request(self._base + path, body, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return bytes(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(
                "%s does not answer: %s" % (self.url, why), hint=_advice(self.url, why)
            ) from None

    def _refused(self, error: urllib.error.HTTPError) -> Refused:
        try:
            with error:
                error_document = json.loads(error.read(1 << 16).decode("utf-8", "replace"))["error"]
            return Refused(
                "%s: %s" % (self.url, error_document["message"]),
                error_document.get("hint"),
                error.code,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Refused(
                "%s answers %d %s" % (self.url, error.code, error.reason),
                "is that a goldwatch service?",
                error.code,
            )

    def _json(self, data: bytes, shape: Any) -> Any:
        try:
            document = json.loads(data.decode("utf-8"))
            if not _has_shape(document, shape):
                raise ValueError
            return document
        except (ValueError, RecursionError):
            raise Unreachable(
                "%s does not answer as a goldwatch service" % self.url, hint="check the address"
            ) from None
