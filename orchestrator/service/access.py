"""Who may ask what: the names that the server answers to, the token, and the cookie that stands for it."""

from __future__ import annotations

import collections
import hashlib
import hmac
import ipaddress
import os
import re
import socket
import time
from http.cookies import CookieError, SimpleCookie
from typing import Deque, Dict, List, NamedTuple, Optional, Set
from urllib.parse import urlsplit

from ..errors import FormatError, UsageError
from ..filesystem.inputs import read_input
from ..loopback import is_loopback

_TOKEN_BYTES = 4096
_TOKEN = re.compile(r"[!-~]{1,1024}\Z")
_TRIES, _TRIES_S, _ASKING = 10, 60.0, 1024
BEARER = "bearer "


class Address(NamedTuple):
    """Where the server listens."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """``host:port`` as in a URL."""
        return "%s:%d" % ("[%s]" % self.host if ":" in self.host else self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


def parse_address(text: str) -> Address:
    """Return the address of ``host:port``, ``[IPv6]:port`` or ``:port``, which is loopback's; port 0 takes a free one.

    Raises
    ------
    UsageError
        It is none.
    """
    host, colon, port = text.rpartition(":")
    host = host or "127.0.0.1"
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError("%s: an IPv6 address stands in brackets" % text, hint="such as [::1]:8470")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or not re.match(r"[0-9A-Za-z.:%_-]+\Z", host):
        raise UsageError("%s: expected an address and a port" % text, hint="such as 127.0.0.1:8470")
    return Address(host, int(port))


def read_token(path: str) -> str:
    """Return the token of a file: its only line.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """
    data = read_input(path, _TOKEN_BYTES)
    text = data.decode("utf-8", "replace").strip()
    if not _TOKEN.match(text):
        hint = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        raise FormatError("expected one line of printable ASCII without blanks, the token", path, hint)
    return text


class Access:
    """The rules of one server.

    Parameters
    ----------
    address
        Where it listens; the port is the real one.
    token
        None: everybody who reaches the server may read, nobody may send.
    tls
        Whether the server speaks TLS itself.
    public_url
        Of the proxy before it; None without one.
    """

    def __init__(self, address: Address, token: Optional[str], tls: bool, public_url: Optional[str]) -> None:
        self.address = address
        self.token = token
        self.origins: Set[str] = set()
        self.hosts: Set[str] = set()
        self._any_ip: Optional[int] = None
        self.secure = tls
        scheme, port = ("https" if tls else "http"), address.port
        if public_url is not None:
            parts = urlsplit(public_url)
            self.secure = parts.scheme == "https"
            self._add(parts.scheme, parts.hostname or "", parts.port)
            port = parts.port or (443 if self.secure else 80)
        else:
            names = [address.host]
            if address.is_loopback:
                names += ["localhost", "127.0.0.1" if ":" not in address.host else "::1"]
            elif address.host in ("0.0.0.0", "::"):
                # Rebinding needs a name, so an address is as good as another; of names only the machine's own.
                names = ["localhost", socket.gethostname(), socket.getfqdn()]
                self._any_ip = port
            for name in names:
                self._add(scheme, name, port)
        self.url = public_url.rstrip("/") if public_url is not None else "%s://%s" % (scheme, address.shown)
        self.cookie = "goldwatch-%d" % port
        self._scheme = scheme
        self._failures: Dict[str, Deque[float]] = {}

    def _add(self, scheme: str, host: str, port: Optional[int]) -> None:
        host = "[%s]" % host.lower() if ":" in host else host.lower()
        usual = 443 if scheme == "https" else 80
        for written in {host, "%s:%d" % (host, usual)} if port in (None, usual) else {"%s:%d" % (host, port or 0)}:
            self.hosts.add(written)
            self.origins.add("%s://%s" % (scheme, written))

    def knows_host(self, host: str) -> bool:
        """Tell whether a Host header names this server."""
        return host.lower() in self.hosts or self._is_own_ip(host)

    def _is_own_ip(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if self._any_ip is None or not colon or port != str(self._any_ip):
            return False
        try:
            ipaddress.ip_address(name[1:-1] if name.startswith("[") else name)
            return True
        except ValueError:
            return False

    def knows_origin(self, origin: str, host: str) -> bool:
        """Tell whether an Origin header names a page of this server, which was asked for as ``host``."""
        return origin.lower() in self.origins or (self._is_own_ip(host) and origin.lower() == "%s://%s" % (self._scheme, host.lower()))

    @property
    def cookie_value(self) -> str:
        """What the cookie holds: a code of the token, so that the token itself is in no browser's store."""
        return hmac.new((self.token or "").encode(), b"goldwatch cookie", hashlib.sha256).hexdigest()

    def by_header(self, authorization: str) -> bool:
        """Tell whether an Authorization header holds the token."""
        scheme, given = authorization[: len(BEARER)], authorization[len(BEARER) :]
        return scheme.lower() == BEARER and self.is_token(given.strip())

    def by_cookie(self, header: str) -> bool:
        """Tell whether a Cookie header holds the code of the token."""
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return self.token is not None and found is not None and _same(found.value, self.cookie_value)

    def is_token(self, text: str) -> bool:
        """Tell whether a text is the token."""
        return self.token is not None and _same(text, self.token)

    def may_try(self, client: str) -> bool:
        """Tell whether a client may give a token: not after ten wrong ones within a minute."""
        failures = self._failures.get(client)
        while failures and time.monotonic() - failures[0] > _TRIES_S:
            failures.popleft()
        return not failures or len(failures) < _TRIES

    def note_failure(self, client: str) -> None:
        """Remember that a client gave a wrong token."""
        if len(self._failures) >= _ASKING:
            self._failures.pop(next(iter(self._failures)))
        self._failures.setdefault(client, collections.deque(maxlen=_TRIES)).append(time.monotonic())


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8"))


class Exposed(UsageError):
    """Others than this machine would reach the server without what protects it (exit code 2).

    Parameters
    ----------
    kind
        ``needs_token``, ``open_token`` or ``needs_public_url``.
    """

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


def check_exposure(address: Address, token: Optional[str], tls: bool, public_url: Optional[str], behind_proxy: bool) -> None:
    """Raise UsageError where others than this machine would reach the server without what protects it."""
    if behind_proxy != (public_url is not None):
        said = "a server behind a proxy needs the proxy's public URL" if behind_proxy else "only a server behind a proxy has a public URL"
        raise Exposed("needs_public_url", said, "name the URL that browsers know the service by, and that it stands behind a proxy")
    if public_url is not None:
        parts = urlsplit(public_url)
        if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
            if parts.scheme == "http":
                raise UsageError("the public URL is http: the token would travel readable", hint="let the proxy speak TLS: https://…")
            raise UsageError("%s: expected a URL such as https://goldwatch.example.org, without a path" % public_url)
    if token is None and (behind_proxy or not address.is_loopback):
        said = "%s can be reached by others than this machine: a token is needed"
        raise Exposed("needs_token", said % address.shown, "name a file that holds one")
    if not address.is_loopback and not tls and not behind_proxy:
        said = "%s can be reached by others than this machine: the token would travel readable"
        hint = "give a certificate and its key, or set the server behind a proxy that speaks TLS"
        raise Exposed("open_token", said % address.shown, hint)


def token_warnings(path: str, token: str) -> List[str]:
    """Return what should be better about a token and its file."""
    found = []
    if len(token) < 16:
        found.append("warning: the token has %d characters only, it can be guessed" % len(token))
    mode = os.stat(path).st_mode
    if mode & 0o077:
        found.append("warning: others than its owner may read %s (mode %03o): chmod 600" % (path, mode & 0o777))
    return found
