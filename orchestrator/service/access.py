"""Access control: the names that the server answers to, the tokens, and the cookies that stand for
them.
"""

from __future__ import annotations

import collections
import ipaddress
import re
import socket
import time
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union
from urllib.parse import SplitResult, urlsplit

from ..base.errors import UsageError
from ..base.system import is_loopback
from .tokens import Token, Tokens, cookie_value, holds_cookie

_TRIES, _TRIES_S, _ASKING = 10, 60.0, 1024
_LOGGED_OUT = 65536
_SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*\Z", re.A)
OWN_PATHS = ("api", "diff", "healthz", "jobs", "login", "logout", "metrics", "runs", "static")
"""First parts of the service's own paths: a path before them that begins so could not be told from
them.
"""

BEARER = "bearer "
UNIX = "unix"
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Address(NamedTuple):
    """The address that the server listens on."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """``host:port`` as in a URL."""
        return "%s:%d" % ("[%s]" % self.host if ":" in self.host else self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether it can be reached from this machine only."""
        return is_loopback(self.host)


def parse_address(text: str) -> Address:
    """Return the address of ``host:port``, ``[IPv6]:port`` or ``:port`` (loopback); port 0 takes a
    free one.

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
    if (
        not colon
        or not port.isascii()
        or not port.isdigit()
        or int(port) > 65535
        or not re.match(r"[0-9A-Za-z.:%_-]+\Z", host)
    ):
        raise UsageError("%s: expected an address and a port" % text, hint="such as 127.0.0.1:8470")
    return Address(host, int(port))


def parse_public_url(text: str) -> SplitResult:
    """Return the parts of the URL that browsers use for the service, its path without a trailing
    slash.

    Raises
    ------
    UsageError
        It is not a URL, or the token would be sent unencrypted.
    """
    wrong = UsageError(
        "%s: expected a URL" % text,
        hint="such as https://host.example.org or https://host.example.org/goldwatch",
    )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise wrong from None
    known = (
        parts.scheme in ("http", "https") and re.match(r"[0-9A-Za-z.:_-]+\Z", host) and port != 0
    )
    if (
        not known
        or not text.isascii()
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or text.endswith(("?", "#"))
    ):
        raise wrong
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(
            "the public URL is http: the token would travel readable",
            hint="let the proxy speak TLS: https://…",
        )
    path = parts.path.rstrip("/")
    segments = path.split("/")[1:]
    if not all(_SEGMENT.match(segment) for segment in segments):
        raise UsageError(
            "%s: the path may hold letters, digits, - _ . ~ and single slashes" % text,
            hint="such as https://host/goldwatch",
        )
    if segments and segments[0] in OWN_PATHS:
        raise UsageError(
            "%s: /%s is a path of the service itself" % (text, segments[0]),
            hint="choose another, such as /goldwatch",
        )
    return parts._replace(path=path)


def parse_proxies(texts: Sequence[str]) -> Tuple[Tuple[Network, ...], bool]:
    """Return the networks of the trusted proxies, and whether connections by the Unix socket are
    trusted.

    Raises
    ------
    UsageError
        One is neither an address, nor a network, nor ``unix``.
    """
    networks: List[Network] = []
    for text in texts:
        if text == UNIX:
            continue
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            raise UsageError(
                "trusted proxy %s: expected an address or a network" % text,
                hint="such as 10.0.0.5, 10.0.0.0/24 or unix",
            ) from None
    return tuple(networks), UNIX in texts


class Access:
    """The rules of one server.

    Parameters
    ----------
    address
        Where it listens, with the actual port; None: at a Unix socket.
    tokens
        None: everybody who can connect may read, nobody may submit.
    tls
        Whether the server speaks TLS itself.
    public_url
        The URL of the proxy in front of it; None without one.
    trusted_proxies
        Addresses and networks of proxies whose ``X-Forwarded-For`` is trusted; ``unix``: everybody
        who connects by the Unix socket.

    Attributes
    ----------
    url
        The URL that browsers use, without a trailing slash.
    prefix
        The path of ``url``: empty, or such as ``/goldwatch``.
    """

    def __init__(
        self,
        address: Optional[Address],
        tokens: Optional[Tokens],
        tls: bool = False,
        public_url: Optional[str] = None,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        self.address = address
        self.tokens = tokens
        self.origins: Set[str] = set()
        self.hosts: Set[str] = set()
        self.prefix = ""
        self._any_ip: Optional[int] = None
        self.secure = tls
        scheme, port = ("https" if tls else "http"), 80 if address is None else address.port
        if public_url is not None:
            parts = parse_public_url(public_url)
            scheme, self.prefix = parts.scheme, parts.path
            self.secure = scheme == "https"
            self._add(scheme, parts.hostname or "", parts.port)
            port = parts.port or (443 if self.secure else 80)
            self.url = "%s://%s%s" % (scheme, parts.netloc.lower(), self.prefix)
        elif address is None:
            self._add(scheme, "localhost", None)
            self.url = "http://localhost"
        else:
            names = [address.host]
            if address.is_loopback:
                names += ["localhost", "127.0.0.1" if ":" not in address.host else "::1"]
            elif address.host in ("0.0.0.0", "::"):
                # Rebinding needs a name, so an address is as good as another; of names only the
                # machine's own.
                names = ["localhost", socket.gethostname(), socket.getfqdn()]
                self._any_ip = port
            for name in names:
                self._add(scheme, name, port)
            self.url = "%s://%s" % (scheme, address.shown)
        self.cookie = "goldwatch-%d" % port
        self._server = "%s %s" % (socket.gethostname(), self.url)
        self._scheme = scheme
        self._networks, self._unix = parse_proxies(trusted_proxies)
        self._failures: Dict[str, Deque[float]] = {}
        self._logged_out: "collections.OrderedDict[str, None]" = collections.OrderedDict()

    def _add(self, scheme: str, host: str, port: Optional[int]) -> None:
        host = "[%s]" % host.lower() if ":" in host else host.lower()
        usual = 443 if scheme == "https" else 80
        for written in (
            {host, "%s:%d" % (host, usual)}
            if port in (None, usual)
            else {"%s:%d" % (host, port or 0)}
        ):
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
        """Tell whether an Origin header names a page of this server, which was requested as
        ``host``.
        """
        return origin.lower() in self.origins or (
            self._is_own_ip(host) and origin.lower() == "%s://%s" % (self._scheme, host.lower())
        )

    def below_prefix(self, path: str) -> str:
        """Return a path without the prefix, which a proxy may pass on or strip."""
        return (
            path[len(self.prefix) :] if self.prefix and path.startswith(self.prefix + "/") else path
        )

    def client(self, peer: Optional[str], forwarded: Sequence[str]) -> str:
        """Return the address of the client.

        Parameters
        ----------
        peer
            The address of the connection's other end; None for a Unix socket, or when it is gone.
        forwarded
            The values of the ``X-Forwarded-For`` headers, which are trusted as far as trusted
            proxies have written them.
        """
        if peer is None:
            client, trusted = (UNIX, self._unix) if self.address is None else ("-", False)
        else:
            client, trusted = peer, self._is_proxy(peer)
        for text in reversed(",".join(forwarded).split(",")):
            address = _address(text) if trusted else None
            if address is None:
                break
            client, trusted = address, self._is_proxy(address)
        return client

    def _is_proxy(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def by_header(self, authorization: str) -> Optional[Token]:
        """Return the token in an Authorization header."""
        scheme, secret = authorization[: len(BEARER)], authorization[len(BEARER) :]
        return self.find(secret.strip()) if scheme.lower() == BEARER else None

    def find(self, secret: str) -> Optional[Token]:
        """Return the token with this secret."""
        return None if self.tokens is None else self.tokens.find(secret)

    def by_cookie(self, header: str) -> Optional[Token]:
        """Return the token of the first valid cookie in a Cookie header."""
        values = [value for value in _cookies(header, self.cookie) if value not in self._logged_out]
        tokens = () if self.tokens is None else self.tokens.current
        return next(
            (
                token
                for value in values
                for token in tokens
                if holds_cookie(value, token, self._server)
            ),
            None,
        )

    def new_cookie(self, token: Token) -> str:
        """Return the value of a cookie for a token, valid at this server only."""
        return cookie_value(token, self._server)

    def log_out(self, header: str) -> None:
        """Invalidate the cookies of a Cookie header."""
        if self.by_cookie(header) is not None:
            for value in _cookies(header, self.cookie):
                self._logged_out[value] = None
            while len(self._logged_out) > _LOGGED_OUT:
                self._logged_out.popitem(last=False)

    def holds(self, token: Optional[Token]) -> bool:
        """Tell whether a token is still valid; None is, where none is needed."""
        return token is None or (self.tokens is not None and token in self.tokens.current)

    def may_try(self, client: str) -> bool:
        """Tell whether a client may try a token: not after ten wrong ones within a minute."""
        failures = self._failures.get(_network(client))
        while failures and time.monotonic() - failures[0] > _TRIES_S:
            failures.popleft()
        return not failures or len(failures) < _TRIES

    def note_failure(self, client: str) -> None:
        """Count a wrong token of a client."""
        if len(self._failures) >= _ASKING:
            self._failures.pop(next(iter(self._failures)))
        self._failures.setdefault(_network(client), collections.deque(maxlen=_TRIES)).append(
            time.monotonic()
        )


def _network(client: str) -> str:
    """Return the network whose guesses are counted together: an address; for IPv6 its /64, which
    one machine may own.
    """
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return (
        client
        if address.version == 4
        else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    )


def _address(text: str) -> Optional[str]:
    """Return the address in an entry of X-Forwarded-For, without a port."""
    text = text.strip()
    match = re.match(r"\[([^\]]*)\](?::\d+)?\Z|([0-9.]+):\d+\Z", text, re.A)
    try:
        return str(ipaddress.ip_address((match.group(1) or match.group(2)) if match else text))
    except ValueError:
        return None


def _cookies(header: str, name: str) -> List[str]:
    pairs = [pair.partition("=") for pair in header.split(";")]
    return [value.strip() for key, _, value in pairs if key.strip() == name]


class Exposed(UsageError):
    """Others than this machine could reach the server without protection (exit code 2).

    Parameters
    ----------
    kind
        ``needs_token`` or ``open_token``.
    """

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


def check_exposure(
    address: Optional[Address], has_token: bool, tls: bool, behind_proxy: bool
) -> None:
    """Raise UsageError where others than this machine could reach the server without protection."""
    is_local = address is None or address.is_loopback
    where = "the socket" if address is None else address.shown
    if not has_token and (behind_proxy or not is_local):
        message = "%s can be reached by others than this machine: a token is needed"
        raise Exposed("needs_token", message % where, "name a file that holds one")
    if not is_local and not tls and not behind_proxy:
        message = "%s can be reached by others than this machine: the token would travel readable"
        hint = "give a certificate and its key, or set the server behind a proxy that speaks TLS"
        raise Exposed("open_token", message % where, hint)
