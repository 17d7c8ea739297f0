"""The limits of the connections that uvicorn serves: silent clients are disconnected, and only so
many are accepted.
"""

from __future__ import annotations

import asyncio
from typing import Any, Optional, Set

from uvicorn.protocols.http.h11_impl import H11Protocol

from .answers import Problem
from .guard import SAFE_HEADERS

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
