"""The server's process: its socket, its connections and their limits, its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import stat
import threading
from types import FrameType
from typing import Any, Callable, Iterator, List, Optional, Set

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..base.errors import EnvironmentProblem
from .access import Address
from .answers import Problem
from .application import Service
from .guard import SAFE_HEADERS

_GRACE_S = 1
_END_S = 1.7
"""So long after the first signal the process is ended, whatever it still waits for: all that it
keeps outlives a kill.
"""

_KEEP_ALIVE_S = 5
_BACKLOG = 256
_SOCKET_MODE = 0o660
_TRIAL_S = 5.0
_MOST_PATH_BYTES = 107
_HINT = "choose another path, in a folder that this user may write to"

HEADERS_S = 10.0
SEND_S = 30.0
"""A client that takes nothing for so long is given up."""

MOST = 1024
"""Connections at once; another one takes the place of that which is idle, or still sends,
longest.
"""

HEADER_BYTES = 32 * 1024


class BoundedProtocol(H11Protocol):
    """A connection on which the headers of a request must arrive within some seconds.

    uvicorn itself waits for ever for the first request, and for the rest of any request's headers.
    """

    open: Set[BoundedProtocol] = set()
    _deadline: Optional[asyncio.TimerHandle] = None
    _stuck: Optional[asyncio.TimerHandle] = None
    _since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Accept a connection; the timer starts."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.open) >= MOST:
            idle = [one for one in self.open if one.is_idle or one.is_sending]
            victim = min(idle, key=lambda one: one._since) if idle else self
            victim._end()
            if victim is self:
                return
        self.open.add(self)
        self._wind()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Forget a connection."""
        self.open.discard(self)
        self._stop()
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes of a request."""
        idle = self.is_idle
        super().data_received(data)
        if not self.is_idle:
            self._stop()
        elif self._deadline is None and idle and not self.transport.is_closing():
            # The first bytes of a later request on a kept-alive connection.
            self._wind()

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request, such as one with no or two Host headers, in the form of every
        other error.
        """
        if not self.is_idle:
            # An answer is being sent already.
            self._end()
            return
        answer = Problem(400, "this is no HTTP request", "HTTP/1.1 with one Host header").answer()
        headers = [*answer.raw_headers, *SAFE_HEADERS, (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def pause_writing(self) -> None:
        """Start a timer while the client does not read the answer."""
        super().pause_writing()
        self._stuck = self.loop.call_later(SEND_S, self._end)

    def resume_writing(self) -> None:
        """Stop that timer: the client has read most of it."""
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    @classmethod
    def end_stuck(cls) -> None:
        """Disconnect the clients that are not reading their answers."""
        for one in [one for one in cls.open if one._stuck is not None]:
            one._end()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_sending(self) -> bool:
        """Whether the body of a request is still arriving."""
        return self.cycle is not None and not self.cycle.response_started and self.cycle.more_body

    def _wind(self) -> None:
        self._deadline = self.loop.call_later(HEADERS_S, self._late)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self.is_idle:
            self._end()

    def _end(self) -> None:
        self.open.discard(self)
        self._stop()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address; port 0 becomes a free one.

    Raises
    ------
    EnvironmentProblem
        The address does not belong to this machine, or is in use.
    """
    try:
        names = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, name = names[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise EnvironmentProblem(
            "%s: %s" % (address.shown, error.strerror or error),
            hint="choose an address of this machine",
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return listener
    except OSError as error:
        listener.close()
        hint = "another program listens there; choose another port, or 0 for a free one"
        raise EnvironmentProblem(
            "%s: cannot listen: %s" % (address.shown, error.strerror or error), hint=hint
        ) from None


def listen_at_socket(path: str) -> socket.socket:
    """Return a Unix socket that listens at a path, for its owner and group; one left by another
    server is replaced.

    Raises
    ------
    EnvironmentProblem
        It cannot be created there, or another server listens.
    """
    if len(os.fsencode(path)) > _MOST_PATH_BYTES:
        raise EnvironmentProblem(
            "%s: cannot listen: the path of a socket has at most %d bytes"
            % (path, _MOST_PATH_BYTES),
            hint=_HINT,
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made = os.path.join(os.path.dirname(path), ".%d" % os.getpid())
    try:
        if os.path.lexists(path):
            _require_left(path)
        # Under another name first: nobody can connect before its mode is right.
        listener.bind(made)
        os.chmod(made, _SOCKET_MODE)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        os.rename(made, path)
        return listener
    except OSError as error:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise EnvironmentProblem(
            "%s: cannot listen: %s" % (path, error.strerror or error), hint=_HINT
        ) from None
    except EnvironmentProblem:
        listener.close()
        raise


@contextlib.contextmanager
def unlinked_at_the_end(path: Optional[str]) -> Iterator[None]:
    """Remove a socket of :func:`listen_at_socket` afterwards, unless another server has put its own
    there; None: there is no such socket.
    """
    made = None if path is None else os.lstat(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path is not None and made is not None and os.path.samestat(made, os.lstat(path)):
                os.unlink(path)


def _require_left(path: str) -> None:
    """Check that the file at a path is a socket on which nobody listens."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise EnvironmentProblem("%s is there and is no socket" % path, hint="choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(_TRIAL_S)
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            return
        except OSError:
            pass
    raise EnvironmentProblem(
        "%s: another program listens there" % path, hint="choose another path, or end it"
    )


def tls_context(certificate: str, key: Optional[str]) -> ssl.SSLContext:
    """Return the TLS context with a certificate and its key.

    Raises
    ------
    EnvironmentProblem
        They cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An empty password, so that no prompt appears on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        message = "%s and its key cannot be used for TLS: %s" % (certificate, error)
        raise EnvironmentProblem(message, hint="both in PEM, the key without a password") from None
    return context


def serve(
    service: Service,
    listener: socket.socket,
    tls: Optional[ssl.SSLContext],
    ready: Callable[[], None],
) -> None:
    """Serve until SIGINT or SIGTERM, which end this process soon, even while it waits for a disk
    that does not respond.

    Parameters
    ----------
    listener
        The socket of :func:`listen`.
    ready
        Called when requests can be answered.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        service.app,
        loop="asyncio",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    server = _Server(config, service, tls, ready)
    server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server of uvicorn that ends streams first, and limits the time of a TLS handshake."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        tls: Optional[ssl.SSLContext],
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._service = service
        self._tls = tls
        self._ready = ready

    async def startup(self, sockets: Optional[List[socket.socket]] = None) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()

        def protocol() -> Any:
            return BoundedProtocol(
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )

        handshake: Any = (
            {} if self._tls is None else {"ssl": self._tls, "ssl_handshake_timeout": HEADERS_S}
        )
        self.servers = [
            await _serving(loop, protocol, listener, handshake) for listener in sockets or []
        ]
        self.started = True
        self._ready()

    def handle_exit(self, sig: int, frame: Optional[FrameType]) -> None:
        """Start the shutdown at a signal."""
        if not self.should_exit:
            end = threading.Timer(_END_S, os._exit, (0,))
            end.daemon = True
            end.start()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: Optional[List[socket.socket]] = None) -> None:
        """End the streams, then the connections."""
        self._service.tails.stop()
        # Streams end in the next iterations of the loop; uvicorn would only wait for them: more
        # than 15 s with 20 open, against 0.9 to 2.0 s with 50 that were ended first.
        await asyncio.sleep(0.05)
        BoundedProtocol.end_stuck()
        await super().shutdown(sockets)
        # uvicorn would raise the signal that ended it again, but this end is no failure.
        self._captured_signals.clear()


async def _serving(
    loop: asyncio.AbstractEventLoop,
    protocol: Callable[[], Any],
    listener: socket.socket,
    handshake: Any,
) -> asyncio.Server:
    if listener.family == socket.AF_UNIX:
        return await loop.create_unix_server(protocol, sock=listener, backlog=_BACKLOG)
    return await loop.create_server(protocol, sock=listener, backlog=_BACKLOG, **handshake)
